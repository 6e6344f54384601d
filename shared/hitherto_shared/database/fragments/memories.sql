-- Parts of statements about the memories of one user, as they stand.

-- @sealed_of_memory(memory, version, words_since, sealed): what a version of a memory holds sealed,
-- or a value that opens nowhere: if it was sealed under a later version, under an earlier one than a
-- version before it, or than its present wording.
SELECT CASE
    WHEN :sealed IS NULL THEN NULL
    WHEN sealed_version(:sealed) = 0 AND kept.newest = 0 THEN :sealed
    WHEN sealed_version(:sealed) BETWEEN greatest(kept.newest, :words_since, 1) AND :version
    THEN :sealed
    ELSE '\x00'::bytea END
FROM (SELECT coalesce(max(before.sealed_version), 0) AS newest
      FROM memory_versions AS before
      WHERE before.tenant_id = %(tenant_id)s AND before.user_id = %(user_id)s
        AND before.memory_id = :memory AND before.version < :version) AS kept;

-- @whole_memories: memories with all that is told of them, in the order of the fields of `Memory`:
-- how they were used, what is sealed of them, where they were said, what they mention, what makes
-- them uncertain, the words that they rest on, and those that they may replace as long as these
-- stand.
SELECT m.memory_id, m.user_id, m.type, m.content, m.importance, m.confidence, m.source, m.origin,
       m.status, m.valid_from, m.created_at, m.updated_at, m.detail, m.tags, m.keywords,
       m.context, m.metadata, m.sensitive, m.conversation_id, m.valid_to, m.expires_at,
       m.superseded_by, m.supersedes, m.version, m.job_id,
       coalesce(a.access_count, 0) AS access_count, a.last_accessed_at,
       CASE WHEN m.sealed IS NOT NULL
            THEN @sealed_of_memory(m.memory_id, m.version, m.text_version, m.sealed)
            END AS sealed_words,
       ARRAY(SELECT ARRAY[s.conversation_id, s.message_id]
             FROM memory_sources AS s
             WHERE s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s
               AND s.memory_id = m.memory_id
             ORDER BY s.conversation_id, s.message_id) AS sources,
       ARRAY(SELECT e.name
             FROM entity_mentions AS em
             JOIN entities AS e ON e.tenant_id = %(tenant_id)s AND e.user_id = %(user_id)s
                  AND e.entity_id = em.entity_id
             WHERE em.tenant_id = %(tenant_id)s AND em.user_id = %(user_id)s
               AND em.memory_id = m.memory_id
             ORDER BY e.name) AS entity_names,
       m.doubt,
       CASE WHEN m.may_replace = '{}' THEN m.may_replace
            ELSE ARRAY(SELECT o.memory_id FROM memories AS o
                       WHERE o.tenant_id = %(tenant_id)s AND o.user_id = %(user_id)s
                         AND o.memory_id = ANY(m.may_replace)
                         AND o.status IN ('active', 'achieved')
                       ORDER BY o.memory_id) END AS may_replace,
       m.last_confirmed_at, m.text_version AS worded_in,
       ARRAY(SELECT ARRAY[s.conversation_id, s.message_id, s.quote]
             FROM memory_sources AS s
             WHERE s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s
               AND s.memory_id = m.memory_id AND s.quote IS NOT NULL
             ORDER BY s.conversation_id, s.message_id) AS evidence
FROM memories AS m
LEFT JOIN memory_access AS a ON a.tenant_id = %(tenant_id)s AND a.user_id = %(user_id)s
     AND a.memory_id = m.memory_id
WHERE m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s;

-- @untold(memory_ids): those of these memories that are told to nobody: what is forgotten, and what
-- something forgotten stands for, directly or indirectly.
WITH RECURSIVE followed (memory_id, status, superseded_by, steps) AS (
    SELECT m.memory_id, m.status, m.superseded_by, 0
    FROM memories AS m
    WHERE m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s
      AND m.memory_id = ANY(:memory_ids)
    UNION ALL
    SELECT f.memory_id, m.status, m.superseded_by, f.steps + 1
    FROM followed AS f
    JOIN memories AS m ON m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s
         AND m.memory_id = f.superseded_by
    WHERE f.status = 'superseded' AND f.steps < 64
)
SELECT memory_id FROM followed WHERE status = 'forgotten';

-- @passes_filters(m): whether a memory passes the filters of a search or a list; NULL lets everything
-- through. Tags and metadata of a sealed memory cannot be seen here: `sealed_ids` names the sealed
-- ones that have them, or may be read at all. What other tables say is asked once for the user and
-- looked up by hash, not row by row.
:m.status = ANY(%(statuses)s)
AND (:m.expires_at IS NULL OR :m.expires_at > now() OR NOT %(only_current)s::boolean)
AND (%(types)s::text[] IS NULL OR :m.type = ANY(%(types)s))
AND (%(sealed_ids)s::uuid[] IS NULL OR :m.sealed IS NULL OR :m.memory_id = ANY(%(sealed_ids)s))
AND (%(tags)s::text[] IS NULL OR :m.tags && %(tags)s OR :m.memory_id = ANY(%(sealed_ids)s))
AND (%(sources)s::text[] IS NULL OR :m.source = ANY(%(sources)s))
AND (%(confidences)s::text[] IS NULL OR :m.confidence = ANY(%(confidences)s))
AND (%(created_after)s::timestamptz IS NULL OR :m.created_at >= %(created_after)s)
AND (%(created_before)s::timestamptz IS NULL OR :m.created_at < %(created_before)s)
AND (%(conversation_id)s::text IS NULL OR :m.conversation_id = %(conversation_id)s
   OR :m.memory_id IN (SELECT ms.memory_id FROM memory_sources AS ms
                      WHERE ms.tenant_id = %(tenant_id)s AND ms.user_id = %(user_id)s
                        AND ms.conversation_id = %(conversation_id)s))
AND (%(metadata)s::jsonb IS NULL OR :m.memory_id = ANY(%(sealed_ids)s)
   OR :m.metadata || %(metadata)s = :m.metadata)
AND (%(entity_names)s::text[] IS NULL OR :m.memory_id IN (
    SELECT em.memory_id FROM entity_mentions AS em
    JOIN entities AS en ON en.tenant_id = %(tenant_id)s AND en.user_id = %(user_id)s
         AND en.entity_id = em.entity_id
    WHERE em.tenant_id = %(tenant_id)s AND em.user_id = %(user_id)s
      AND en.called && %(entity_names)s));

-- @filtered_memories: the memories that pass.
SELECT m.tenant_id, m.user_id, m.memory_id, m.version, m.text_version, m.lexical_no,
       m.importance, m.created_at, m.updated_at, m.valid_from, m.conversation_id, m.sealed
FROM memories AS m
WHERE m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s AND @passes_filters(m);

-- @learnt_from_message(conversation, number): the memories that were learnt from a message. Ids are
-- compared by their digests, which are indexed, and then by themselves.
SELECT f.memory_id, f.status, f.expires_at, f.lexical_no, f.text_version
FROM unnest(ARRAY[:conversation], ARRAY[:number]) AS g (conversation_id, message_no)
JOIN messages AS m ON m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s
     AND m.conversation_id = g.conversation_id AND m.message_no = g.message_no
JOIN memory_sources AS s ON s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s
     AND md5(s.conversation_id) = md5(m.conversation_id)
     AND md5(s.message_id) = md5(m.message_id)
     AND s.conversation_id = m.conversation_id AND s.message_id = m.message_id
JOIN memories AS f ON f.tenant_id = %(tenant_id)s AND f.user_id = %(user_id)s
     AND f.memory_id = s.memory_id;

-- @may_be_merged(m): whether a memory may be merged with others. Nothing about it is open: it is not
-- in doubt, and neither may replace another nor be replaced.
:m.status = 'active'
AND NOT :m.sensitive AND :m.expires_at IS NULL AND :m.valid_to IS NULL
AND :m.doubt IS NULL AND :m.may_replace = '{}' AND :m.memory_id NOT IN (
    SELECT unnest(n.may_replace) FROM memories AS n
    WHERE n.tenant_id = %(tenant_id)s AND n.user_id = %(user_id)s AND n.status = 'active'
      AND n.may_replace <> '{}');

-- @crowded_tags: tags that many memories share, with the record of their last consolidation; only
-- some of them, if `tags` names these.
SELECT shared.tag, shared.members, g.members AS processed, g.fingerprint, g.job_id, g.answered
FROM (
    SELECT tag, count(DISTINCT m.memory_id) AS members
    FROM memories AS m CROSS JOIN LATERAL unnest(m.tags) AS tag
    WHERE m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s AND @may_be_merged(m)
      AND (%(tags)s::text[] IS NULL OR (m.tags && %(tags)s AND tag = ANY(%(tags)s)))
    GROUP BY tag
    HAVING count(DISTINCT m.memory_id) > %(above)s
) AS shared
LEFT JOIN consolidation_groups AS g ON g.tenant_id = %(tenant_id)s AND g.user_id = %(user_id)s
     AND g.tag = shared.tag;

-- @last_said(m): when a memory was last said, also by what it stands for, directly or indirectly, and
-- what is trusted as much.
SELECT greatest(:m.said_at, (
    WITH RECURSIVE saying (memory_id, origin, said_at) AS (
        SELECT o.memory_id, o.origin, o.said_at
        FROM memories AS o
        WHERE o.tenant_id = %(tenant_id)s AND o.user_id = %(user_id)s
          AND o.status = 'superseded' AND o.superseded_by = :m.memory_id
        UNION
        SELECT o.memory_id, o.origin, o.said_at
        FROM saying
        JOIN memories AS o ON o.tenant_id = %(tenant_id)s AND o.user_id = %(user_id)s
             AND o.status = 'superseded' AND o.superseded_by = saying.memory_id
    )
    SELECT max(said_at) FROM saying
    WHERE origin IN ('user', 'operator') OR :m.origin NOT IN ('user', 'operator')));

-- @known_memories: memories as learning compares with them.
SELECT m.memory_id, m.version, m.type, m.content, m.importance, m.confidence, m.origin,
       m.status, m.tags, m.keywords, m.valid_from, m.valid_to, m.updated_at, m.lexical_no,
       m.lexical_length, @last_said(m) AS said_at, m.detail, m.sensitive,
       m.questions, m.doubt IS NOT NULL AS is_doubtful, m.expires_at,
       CASE WHEN m.sealed IS NOT NULL
            THEN @sealed_of_memory(m.memory_id, m.version, m.text_version, m.sealed)
            END AS sealed_words
FROM memories AS m
WHERE m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s;

-- @kept_versions(versions): keeps these versions, which the statement replaces, with the period in
-- which they were current.
INSERT INTO memory_versions (tenant_id, user_id, memory_id, version, type, content, detail,
    importance, confidence, origin, status, tags, keywords, context, metadata, valid_from, valid_to,
    expires_at, superseded_by, sensitive, said_at, supersedes, job_id, sealed, may_replace, doubt,
    known_from, known_to)
SELECT tenant_id, user_id, memory_id, version, type, content, detail, importance, confidence,
       origin, status, tags, keywords, context, metadata, valid_from, valid_to, expires_at,
       superseded_by, sensitive, said_at, supersedes, job_id, sealed, may_replace, doubt,
       updated_at, greatest(updated_at, %(at)s)
FROM :versions AS replaced;

-- @last_told(m): the last version of a memory, before the present one, that was not forgotten; 0: none.
SELECT coalesce(max(v.version), 0)
FROM memory_versions AS v
WHERE v.tenant_id = %(tenant_id)s AND v.user_id = %(user_id)s
  AND v.memory_id = :m.memory_id AND v.status <> 'forgotten';

-- @is_forgotten_by_hand(m): whether somebody forgot a memory by hand since it was last told, also by
-- rejecting it in a review.
EXISTS (
    SELECT FROM history AS h
    WHERE h.tenant_id = %(tenant_id)s AND h.user_id = %(user_id)s
      AND h.memory_id = :m.memory_id AND h.subject = 'memory'
      AND h.action IN ('forgotten', 'rejected') AND h.job_id IS NULL
      AND h.version > @last_told(:m));

-- @restored_at(m): when somebody last restored a memory by hand. Who says it again, also by saving it,
-- makes a statement, which can be taken back.
SELECT coalesce(max(h.recorded_at), '-infinity')
FROM history AS h
WHERE h.tenant_id = %(tenant_id)s AND h.user_id = %(user_id)s
  AND h.memory_id = :m.memory_id AND h.action = 'restored' AND h.related_memory_id IS NULL
  AND NOT EXISTS (
      SELECT FROM statements AS t
      WHERE t.tenant_id = %(tenant_id)s AND t.user_id = %(user_id)s
        AND t.memory_id = :m.memory_id AND t.version = h.version AND t.made_version);

-- @is_said_here(s): whether a source of a memory is one of the messages that are taken back. A job
-- owns a range of its conversation's; without one (NULL) the whole conversation is meant.
md5(:s.conversation_id) = md5(%(conversation_id)s)
AND :s.conversation_id = %(conversation_id)s
AND (%(range_from)s::int IS NULL OR EXISTS (
    SELECT FROM messages AS g
    WHERE g.tenant_id = %(tenant_id)s AND g.user_id = %(user_id)s
      AND g.conversation_id = :s.conversation_id
      AND md5(g.message_id) = md5(:s.message_id) AND g.message_id = :s.message_id
      AND g.message_no BETWEEN %(range_from)s AND %(range_to)s));

-- @learnt_from_messages: the memories that name one of these messages as a source.
SELECT s.memory_id
FROM unnest(%(conversations)s::text[], %(message_ids)s::text[]) AS told (conversation_id, message_id)
JOIN memory_sources AS s ON s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s
     AND md5(s.conversation_id) = md5(told.conversation_id)
     AND s.conversation_id = told.conversation_id AND s.message_id = told.message_id;

-- @page_of_listed: a page of `listed`, a list of memories with `sort_key` and `changed_at`; `after` is
-- the last row of the previous page. What was changed since the first page (`since`) and has its place
-- on pages that were read comes at the end, in the order of its changes.
SELECT memory_id, sort_key, (SELECT count(*) FROM listed) AS total, changed_at::text,
       now()::text AS read_at,
       row_number() OVER (ORDER BY t.changed_at NULLS FIRST,
                                   CASE WHEN t.changed_at IS NULL THEN sort_key END DESC,
                                   CASE WHEN t.changed_at IS NULL THEN memory_id END DESC,
                                   memory_id) AS place
FROM (
    SELECT memory_id, sort_key, NULL::timestamptz AS changed_at
    FROM listed
    WHERE %(after_change)s::timestamptz IS NULL
      AND (%(after_key)s::text IS NULL
           OR (sort_key, memory_id) < (%(after_key)s, %(after_id)s::uuid))
    UNION ALL
    SELECT memory_id, sort_key, changed_at
    FROM listed
    WHERE changed_at > %(since)s::timestamptz
      AND CASE WHEN %(after_change)s::timestamptz IS NULL
               THEN (sort_key, memory_id) >= (%(after_key)s, %(after_id)s::uuid)
               ELSE (changed_at, memory_id) > (%(after_change)s, %(after_id)s::uuid) END
) AS t
ORDER BY place
LIMIT %(limit)s;
