-- What several statements read of memories, so that each of them can stand whole where it is used.
--
-- A view reads with the rights, and under the row security, of whoever asks it. A function is a
-- question with parameters, which a view cannot have: Postgres puts its body into the statement
-- that asks it and plans both as one, so that it costs what it would cost written out, and reads
-- with the rights of whoever asks. Where a parameter is a filter, NULL lets everything through.

-- The words that a memory came from, to be embedded: those of its messages that are held in clear.
CREATE VIEW source_words WITH (security_invoker = true) AS
SELECT s.tenant_id, s.user_id, s.memory_id,
       left(string_agg(g.content, E'\n' ORDER BY g.message_no), 4000) AS said
FROM memory_sources AS s
JOIN messages AS g ON g.tenant_id = s.tenant_id AND g.user_id = s.user_id
     AND g.conversation_id = s.conversation_id
     AND md5(g.message_id) = md5(s.message_id) AND g.message_id = s.message_id
     AND g.sealed IS NULL
GROUP BY s.tenant_id, s.user_id, s.memory_id;

-- When each memory was last used, and what follows from that. Decay archives context 90 days after
-- its last change, and what is of little importance 30 days after its last use. Restoring a memory
-- is a use: else the next run would undo what a person wanted. `changed_at` is the last change by
-- anyone but upkeep and reconciliation.
CREATE VIEW memory_ages WITH (security_invoker = true) AS
SELECT m.tenant_id, m.user_id, m.memory_id, m.type, m.status, m.importance, m.created_at,
       m.expires_at, coalesce(a.last_accessed_at, m.created_at) AS used_at,
       (SELECT max(h.recorded_at) FROM history AS h
        WHERE h.tenant_id = m.tenant_id AND h.user_id = m.user_id AND h.memory_id = m.memory_id
          AND h.actor NOT IN ('consolidation', 'reconciliation', 'decay', 'retention'))
           AS changed_at,
       CASE WHEN m.type = 'context' THEN m.updated_at + interval '90 days' END AS context_ends_at,
       CASE WHEN m.importance < 0.3 THEN interval '30 days' + greatest(
            a.last_accessed_at, m.created_at,
            (SELECT max(h.recorded_at) FROM history AS h
             WHERE h.tenant_id = m.tenant_id AND h.user_id = m.user_id
               AND h.memory_id = m.memory_id AND h.action = 'restored')) END AS fades_at
FROM memories AS m
LEFT JOIN memory_access AS a ON a.tenant_id = m.tenant_id AND a.user_id = m.user_id
     AND a.memory_id = m.memory_id;

CREATE FUNCTION sealed_of_memory(of_tenant text, of_user text, of_memory uuid, at_version integer,
                                 words_since integer, sealed bytea) RETURNS bytea
LANGUAGE sql STABLE PARALLEL SAFE
RETURN (
    SELECT CASE
        WHEN sealed IS NULL THEN NULL
        WHEN sealed_version(sealed) = 0 AND kept.newest = 0 THEN sealed
        WHEN sealed_version(sealed) BETWEEN greatest(kept.newest, words_since, 1) AND at_version
        THEN sealed
        ELSE '\x00'::bytea END
    FROM (SELECT coalesce(max(v.sealed_version), 0) AS newest
          FROM memory_versions AS v
          WHERE v.tenant_id = of_tenant AND v.user_id = of_user AND v.memory_id = of_memory
            AND v.version < at_version) AS kept
);

COMMENT ON FUNCTION sealed_of_memory IS
    'What a version of a memory holds sealed, or a value that opens nowhere: if it was sealed under '
    'a later version, under an earlier one than a version before it, or than its present wording.';

-- Memories with all that is told of them, in the order of the fields of `Memory`: how they were
-- used, what is sealed of them, where they were said, what they mention, what makes them uncertain,
-- the words that they rest on, and those that they may replace as long as these stand.
CREATE VIEW whole_memories WITH (security_invoker = true) AS
SELECT m.tenant_id, m.memory_id, m.user_id, m.type, m.content, m.importance, m.confidence, m.source,
       m.origin, m.status, m.valid_from, m.created_at, m.updated_at, m.detail, m.tags, m.keywords,
       m.context, m.metadata, m.sensitive, m.conversation_id, m.valid_to, m.expires_at,
       m.superseded_by, m.supersedes, m.version, m.job_id,
       coalesce(a.access_count, 0) AS access_count, a.last_accessed_at,
       CASE WHEN m.sealed IS NOT NULL
            THEN sealed_of_memory(m.tenant_id, m.user_id, m.memory_id, m.version, m.text_version,
                                  m.sealed) END AS sealed_words,
       ARRAY(SELECT ARRAY[s.conversation_id, s.message_id]
             FROM memory_sources AS s
             WHERE s.tenant_id = m.tenant_id AND s.user_id = m.user_id
               AND s.memory_id = m.memory_id
             ORDER BY s.conversation_id, s.message_id) AS sources,
       ARRAY(SELECT e.name
             FROM entity_mentions AS em
             JOIN entities AS e ON e.tenant_id = em.tenant_id AND e.user_id = em.user_id
                  AND e.entity_id = em.entity_id
             WHERE em.tenant_id = m.tenant_id AND em.user_id = m.user_id
               AND em.memory_id = m.memory_id
             ORDER BY e.name) AS entity_names,
       m.doubt,
       CASE WHEN m.may_replace = '{}' THEN m.may_replace
            ELSE ARRAY(SELECT o.memory_id FROM memories AS o
                       WHERE o.tenant_id = m.tenant_id AND o.user_id = m.user_id
                         AND o.memory_id = ANY(m.may_replace)
                         AND o.status IN ('active', 'achieved')
                       ORDER BY o.memory_id) END AS may_replace,
       m.last_confirmed_at,
       ARRAY(SELECT ARRAY[s.conversation_id, s.message_id, s.quote]
             FROM memory_sources AS s
             WHERE s.tenant_id = m.tenant_id AND s.user_id = m.user_id
               AND s.memory_id = m.memory_id AND s.quote IS NOT NULL
             ORDER BY s.conversation_id, s.message_id) AS evidence
FROM memories AS m
LEFT JOIN memory_access AS a ON a.tenant_id = m.tenant_id AND a.user_id = m.user_id
     AND a.memory_id = m.memory_id;

-- Memories that pass the filters of a search or a list. Tags and metadata of a sealed memory cannot
-- be seen here: `opened` names the sealed ones that have them, or may be read at all. What other
-- tables say is asked once for the user and looked up by hash, not row by row.
CREATE FUNCTION filtered_memories(
    of_tenant text, of_user text, in_statuses text[], only_current boolean, of_types text[],
    with_tags text[], from_sources text[], of_confidences text[], in_conversation text,
    from_time timestamptz, to_time timestamptz, about text[], with_metadata jsonb, opened uuid[])
RETURNS TABLE (tenant_id text, user_id text, memory_id uuid, version integer, text_version integer,
               lexical_no integer, importance double precision, created_at timestamptz,
               valid_from timestamptz, conversation_id text, sealed bytea)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT m.tenant_id, m.user_id, m.memory_id, m.version, m.text_version, m.lexical_no,
           m.importance, m.created_at, m.valid_from, m.conversation_id, m.sealed
    FROM memories AS m
    WHERE m.tenant_id = of_tenant AND m.user_id = of_user
      AND m.status = ANY(in_statuses)
      AND (m.expires_at IS NULL OR m.expires_at > now() OR NOT only_current)
      AND (of_types IS NULL OR m.type = ANY(of_types))
      AND (opened IS NULL OR m.sealed IS NULL OR m.memory_id = ANY(opened))
      AND (with_tags IS NULL OR m.tags && with_tags OR m.memory_id = ANY(opened))
      AND (from_sources IS NULL OR m.source = ANY(from_sources))
      AND (of_confidences IS NULL OR m.confidence = ANY(of_confidences))
      AND (from_time IS NULL OR m.created_at >= from_time)
      AND (to_time IS NULL OR m.created_at < to_time)
      AND (in_conversation IS NULL OR m.conversation_id = in_conversation
           OR m.memory_id IN (SELECT ms.memory_id FROM memory_sources AS ms
                              WHERE ms.tenant_id = of_tenant AND ms.user_id = of_user
                                AND ms.conversation_id = in_conversation))
      AND (with_metadata IS NULL OR m.memory_id = ANY(opened)
           OR m.metadata || with_metadata = m.metadata)
      AND (about IS NULL OR m.memory_id IN (
            SELECT em.memory_id FROM entity_mentions AS em
            JOIN entities AS en ON en.tenant_id = em.tenant_id AND en.user_id = em.user_id
                 AND en.entity_id = em.entity_id
            WHERE em.tenant_id = of_tenant AND em.user_id = of_user
              AND en.called && about));
END;

-- The memories of a user as they stood at another time. `known_when` chooses for each memory the
-- version that was the current one then; NULL is what is known by now. `true_when` asks, of what is
-- known, what was true then; NULL looks at everything known, whenever it held. `among` asks about
-- these memories only. What is forgotten now is left out of every past, with the parts that a
-- forgotten memory was merged from: a user who takes something back means all of it.
--
-- `known` are the versions that were known, narrow. `judged` adds what earlier versions and
-- successors tell about how things stood; a merge that was undone says nothing of any time: its
-- parts do, which it no longer names. `expires_at` says no more than whether a memory had expired:
-- '-infinity', or NULL; what it was is `expiry`.
CREATE FUNCTION memories_at(
    of_tenant text, of_user text, known_when timestamptz, true_when timestamptz, among uuid[])
RETURNS TABLE (tenant_id text, user_id text, memory_id uuid, version integer, text_version integer,
               lexical_no integer, type text, confidence text, source text,
               importance double precision, status text, tags text[], metadata jsonb,
               conversation_id text, valid_from timestamptz, created_at timestamptz,
               expiry timestamptz, sealed bytea, expires_at timestamptz)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    WITH RECURSIVE unsaid AS (
        SELECT memory_id FROM memories
        WHERE tenant_id = of_tenant AND user_id = of_user
          AND status = 'forgotten' AND source = 'consolidation'
        UNION
        SELECT m.memory_id
        FROM unsaid AS u
        JOIN memories AS m ON m.tenant_id = of_tenant AND m.user_id = of_user
             AND m.superseded_by = u.memory_id AND m.status = 'superseded'
    ), known AS MATERIALIZED (
        SELECT m.memory_id, m.version, m.text_version, m.lexical_no, m.type, m.importance,
               m.confidence, m.source, m.status, m.tags, m.metadata, m.conversation_id,
               m.valid_from, m.valid_to,
               m.expires_at, m.superseded_by, m.supersedes, m.created_at, m.sealed
        FROM memories AS m
        WHERE m.tenant_id = of_tenant AND m.user_id = of_user
          AND (among IS NULL OR m.memory_id = ANY(among))
          AND m.status <> 'forgotten' AND m.memory_id NOT IN (SELECT memory_id FROM unsaid)
          AND (known_when IS NULL OR m.updated_at <= known_when)
        UNION ALL
        SELECT v.memory_id, v.version, m.text_version, m.lexical_no, v.type, v.importance,
               v.confidence, m.source, v.status, v.tags, v.metadata, m.conversation_id,
               v.valid_from, v.valid_to,
               v.expires_at, v.superseded_by, v.supersedes, m.created_at, v.sealed
        FROM memories AS m
        JOIN memory_versions AS v ON v.tenant_id = m.tenant_id AND v.user_id = m.user_id
             AND v.memory_id = m.memory_id
        WHERE known_when IS NOT NULL
          AND m.tenant_id = of_tenant AND m.user_id = of_user
          AND (among IS NULL OR m.memory_id = ANY(among))
          AND m.status <> 'forgotten' AND m.memory_id NOT IN (SELECT memory_id FROM unsaid)
          AND m.updated_at > known_when AND m.created_at <= known_when
          AND v.tenant_id = of_tenant AND v.user_id = of_user
          AND v.known_from <= known_when AND v.known_to > known_when
    ), judged AS MATERIALIZED (
        SELECT n.*, lapsed.archived_at, lapsed.status AS status_before,
               lapsed.expires_at AS expires_before,
               CASE WHEN n.status = 'superseded' THEN coalesce(
                   (SELECT s.valid_from FROM memories AS s
                    WHERE s.tenant_id = of_tenant AND s.user_id = of_user
                      AND s.memory_id = n.superseded_by
                      AND (known_when IS NULL OR s.updated_at <= known_when)),
                   (SELECT s.valid_from FROM memory_versions AS s
                    WHERE s.tenant_id = of_tenant AND s.user_id = of_user
                      AND s.memory_id = n.superseded_by
                      AND s.known_from <= known_when AND s.known_to > known_when))
               END AS merged_from,
               CASE WHEN n.type = 'goal' AND n.status IN ('achieved', 'archived')
                         AND n.valid_to > true_when
                    THEN (SELECT v.importance FROM memory_versions AS v
                          WHERE v.tenant_id = of_tenant AND v.user_id = of_user
                            AND v.memory_id = n.memory_id AND v.version < n.version
                            AND v.status = 'active'
                          ORDER BY v.version DESC LIMIT 1)
               END AS importance_before
        FROM known AS n
        LEFT JOIN LATERAL (
            SELECT v.status, v.expires_at, v.known_to AS archived_at
            FROM memory_versions AS v
            WHERE n.status = 'archived' AND (n.source <> 'consolidation' OR n.supersedes <> '{}')
              AND v.tenant_id = of_tenant AND v.user_id = of_user
              AND v.memory_id = n.memory_id AND v.version < n.version AND v.status <> 'archived'
            ORDER BY v.version DESC
            LIMIT 1
        ) AS lapsed ON true
        WHERE true_when IS NOT NULL AND n.valid_from <= true_when
        UNION ALL
        SELECT n.*, NULL, NULL, NULL, NULL, NULL
        FROM known AS n
        WHERE true_when IS NULL
    ), stood AS (
        SELECT j.*, CASE WHEN archived_at > true_when THEN status_before ELSE status END AS stated,
               CASE WHEN archived_at > true_when THEN expires_before ELSE expires_at END AS expiry
        FROM judged AS j
    )
    SELECT of_tenant AS tenant_id, of_user AS user_id,
           memory_id, version, text_version, lexical_no, type, confidence, source,
           coalesce(importance_before, importance) AS importance,
           CASE WHEN stated IN ('contradicted', 'achieved') AND valid_to > true_when THEN 'active'
                WHEN stated = 'superseded' AND merged_from > true_when THEN 'active'
                ELSE stated END AS status,
           tags, metadata, conversation_id, valid_from, created_at, expiry, sealed,
           CASE WHEN expiry <= coalesce(true_when, known_when, now())
                THEN '-infinity'::timestamptz END AS expires_at
    FROM stood
    WHERE true_when IS NULL OR valid_to IS NULL OR valid_to > true_when
       OR stated IN ('contradicted', 'achieved');
END;

-- What the filters let through of that.
CREATE FUNCTION filtered_memories_at(
    of_tenant text, of_user text, in_statuses text[], only_current boolean, of_types text[],
    with_tags text[], from_sources text[], of_confidences text[], in_conversation text,
    from_time timestamptz, to_time timestamptz, about text[], with_metadata jsonb, opened uuid[],
    known_when timestamptz, true_when timestamptz)
RETURNS TABLE (tenant_id text, user_id text, memory_id uuid, version integer, text_version integer,
               lexical_no integer, importance double precision, created_at timestamptz,
               valid_from timestamptz, conversation_id text, sealed bytea)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT m.tenant_id, m.user_id, m.memory_id, m.version, m.text_version, m.lexical_no,
           m.importance, m.created_at, m.valid_from, m.conversation_id, m.sealed
    FROM memories_at(of_tenant, of_user, known_when, true_when, NULL) AS m
    WHERE m.tenant_id = of_tenant AND m.user_id = of_user
      AND m.status = ANY(in_statuses)
      AND (m.expires_at IS NULL OR m.expires_at > now() OR NOT only_current)
      AND (of_types IS NULL OR m.type = ANY(of_types))
      AND (opened IS NULL OR m.sealed IS NULL OR m.memory_id = ANY(opened))
      AND (with_tags IS NULL OR m.tags && with_tags OR m.memory_id = ANY(opened))
      AND (from_sources IS NULL OR m.source = ANY(from_sources))
      AND (of_confidences IS NULL OR m.confidence = ANY(of_confidences))
      AND (from_time IS NULL OR m.created_at >= from_time)
      AND (to_time IS NULL OR m.created_at < to_time)
      AND (in_conversation IS NULL OR m.conversation_id = in_conversation
           OR m.memory_id IN (SELECT ms.memory_id FROM memory_sources AS ms
                              WHERE ms.tenant_id = of_tenant AND ms.user_id = of_user
                                AND ms.conversation_id = in_conversation))
      AND (with_metadata IS NULL OR m.memory_id = ANY(opened)
           OR m.metadata || with_metadata = m.metadata)
      AND (about IS NULL OR m.memory_id IN (
            SELECT em.memory_id FROM entity_mentions AS em
            JOIN entities AS en ON en.tenant_id = em.tenant_id AND en.user_id = em.user_id
                 AND en.entity_id = em.entity_id
            WHERE em.tenant_id = of_tenant AND em.user_id = of_user
              AND en.called && about));
END;

-- The memories that were in doubt at another time. `known_when` chooses the doubts that stood then,
-- also those that were lifted later; NULL is those that stand now. `true_when` leaves out what
-- became doubtful only after that time. Versions keep the doubt of their time.
CREATE FUNCTION in_doubt_at(
    of_tenant text, of_user text, known_when timestamptz, true_when timestamptz)
RETURNS TABLE (memory_id uuid)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT m.memory_id
    FROM memories AS m
    WHERE m.tenant_id = of_tenant AND m.user_id = of_user AND m.doubt IS NOT NULL
      AND (known_when IS NULL OR m.updated_at <= known_when)
      AND (true_when IS NULL OR (m.doubt ->> 'since')::timestamptz <= true_when)
    UNION ALL
    SELECT v.memory_id
    FROM memory_versions AS v
    WHERE v.tenant_id = of_tenant AND v.user_id = of_user AND v.doubt IS NOT NULL
      AND v.known_from <= known_when AND v.known_to > known_when
      AND (true_when IS NULL OR (v.doubt ->> 'since')::timestamptz <= true_when);
END;

-- The memories that were learnt from messages. Ids are compared by their digests, which are
-- indexed, and then by themselves.
CREATE FUNCTION learnt_from_messages(
    of_tenant text, of_user text, in_conversations text[], numbers integer[])
RETURNS TABLE (conversation_id text, message_no integer, memory_id uuid, status text,
               expires_at timestamptz, lexical_no integer, text_version integer)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT m.conversation_id, m.message_no, f.memory_id, f.status, f.expires_at, f.lexical_no,
           f.text_version
    FROM unnest(in_conversations, numbers) AS g (conversation_id, message_no)
    JOIN messages AS m ON m.tenant_id = of_tenant AND m.user_id = of_user
         AND m.conversation_id = g.conversation_id AND m.message_no = g.message_no
    JOIN memory_sources AS s ON s.tenant_id = of_tenant AND s.user_id = of_user
         AND md5(s.conversation_id) = md5(m.conversation_id)
         AND md5(s.message_id) = md5(m.message_id)
         AND s.conversation_id = m.conversation_id AND s.message_id = m.message_id
    JOIN memories AS f ON f.tenant_id = of_tenant AND f.user_id = of_user
         AND f.memory_id = s.memory_id;
END;

-- The place of a memory in one of the four orders of a list (`usefulness` is importance, then
-- recency of use), as text that sorts like its value, so that one cursor works for every order.
CREATE FUNCTION sort_key_of_memory(
    order_by text, importance double precision, created_at timestamptz, used_at timestamptz)
RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
RETURN (CASE order_by
            WHEN 'importance' THEN to_char(importance, 'FM0.0000000000')
            WHEN 'usefulness' THEN to_char(importance, 'FM0.0000000000') || to_char(
                 coalesce(used_at, created_at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US')
            WHEN 'last_accessed_at' THEN to_char(
                 coalesce(used_at, created_at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US')
            ELSE to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US')
        END) COLLATE "C";
