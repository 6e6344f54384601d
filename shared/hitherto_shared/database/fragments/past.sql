-- Parts of statements about the memories of one user, as they stood at another time.

-- @memories_at(among): the memories of a user as they stood at another time. `known_at` chooses for
-- each memory the version that was the current one then; NULL is what is known by now. `as_of` asks,
-- of what is known, what was true then; NULL looks at everything known, whenever it held. `among`
-- asks about these memories only. What is forgotten now is left out of every past, with all that it
-- stands for, merged into it or joined to it: a user who takes something back means all of it.
--
-- `known` are the versions that were known, narrow. `worded` are the versions whose wording held then
-- of what was brought up to date later; only their words, labels and expiry count. An update holds
-- since it was said. One within a day since the words before it were first said corrects them, and
-- so does a correction by hand: both hold of every time. Words that are sealed cannot be compared: any
-- change by hand may have changed them. So does the present wording of what was forgotten in between, or
-- whose earlier words were taken back since. `judged` adds what earlier versions and successors tell
-- about how things stood; a merge that was undone says nothing of any time: its parts do, which it no
-- longer names. `expires_at` says no more than whether a memory had expired: '-infinity', or NULL;
-- what it was is `expiry`. `wording` is the version that the words are of.
WITH RECURSIVE unsaid AS (
    SELECT memory_id FROM memories
    WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND status = 'forgotten'
    UNION
    SELECT m.memory_id
    FROM unsaid AS u
    JOIN memories AS m ON m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s
         AND m.superseded_by = u.memory_id AND m.status = 'superseded'
), known AS MATERIALIZED (
    SELECT m.memory_id, m.version, m.text_version, m.lexical_no, m.type, m.importance,
           m.confidence, m.source, m.status, m.tags, m.metadata, m.conversation_id,
           m.valid_from, m.valid_to,
           m.expires_at, m.superseded_by, m.supersedes, m.created_at, m.sealed, m.doubt
    FROM memories AS m
    WHERE m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s
      AND (:among IS NULL OR m.memory_id = ANY(:among))
      AND m.status <> 'forgotten' AND m.memory_id NOT IN (SELECT memory_id FROM unsaid)
      AND (%(known_at)s::timestamptz IS NULL OR m.updated_at <= %(known_at)s)
    UNION ALL
    SELECT v.memory_id, v.version, m.text_version, m.lexical_no, v.type, v.importance,
           v.confidence, m.source, v.status, v.tags, v.metadata, m.conversation_id,
           v.valid_from, v.valid_to,
           v.expires_at, v.superseded_by, v.supersedes, m.created_at, v.sealed, v.doubt
    FROM memories AS m
    JOIN memory_versions AS v ON v.tenant_id = %(tenant_id)s AND v.user_id = %(user_id)s
         AND v.memory_id = m.memory_id
    WHERE %(known_at)s::timestamptz IS NOT NULL
      AND m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s
      AND (:among IS NULL OR m.memory_id = ANY(:among))
      AND m.status <> 'forgotten' AND m.memory_id NOT IN (SELECT memory_id FROM unsaid)
      AND m.updated_at > %(known_at)s AND m.created_at <= %(known_at)s
      AND v.known_from <= %(known_at)s AND v.known_to > %(known_at)s
), worded AS MATERIALIZED (
    SELECT DISTINCT ON (n.memory_id) n.memory_id, v.version, v.confidence, v.tags, v.expires_at,
           v.sealed
    FROM known AS n
    JOIN statements AS s ON s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s
         AND s.memory_id = n.memory_id AND s.version <= n.version
         AND s.action = 'updated' AND s.made_version
         AND (s.taken_back_at IS NULL OR s.taken_back_at > %(known_at)s::timestamptz)
    JOIN memory_versions AS v ON v.tenant_id = %(tenant_id)s AND v.user_id = %(user_id)s
         AND v.memory_id = n.memory_id AND v.version = s.version - 1
         AND v.status IN ('active', 'achieved')
    WHERE s.said_at > %(as_of)s::timestamptz
      AND s.said_at >= interval '1 day' + coalesce((
          SELECT coalesce(min(e.said_at), min(f.said_at))
          FROM memory_versions AS f
          LEFT JOIN statements AS e ON e.tenant_id = %(tenant_id)s AND e.user_id = %(user_id)s
               AND e.memory_id = n.memory_id AND e.version = f.version AND e.made_version
               AND e.action IN ('said', 'updated')
          WHERE f.tenant_id = %(tenant_id)s AND f.user_id = %(user_id)s
            AND f.memory_id = n.memory_id AND f.version <= v.version
            AND f.content = v.content AND f.detail = v.detail AND v.sealed IS NULL
          GROUP BY f.version
          ORDER BY f.version
          LIMIT 1), v.said_at)
      AND (n.valid_to IS NULL OR n.valid_to > %(as_of)s)
      AND NOT EXISTS (
          SELECT FROM history AS h
          WHERE h.tenant_id = %(tenant_id)s AND h.user_id = %(user_id)s
            AND h.memory_id = n.memory_id AND h.version > s.version AND h.version <= n.version
            AND (h.action IN ('forgotten', 'rejected')
                 OR (h.action IN ('updated', 'quarantined') AND h.job_id IS NULL
                     AND NOT EXISTS (
                         SELECT FROM memory_versions AS o
                         JOIN (
                             SELECT c.version, c.content, c.detail FROM memory_versions AS c
                             WHERE c.tenant_id = %(tenant_id)s AND c.user_id = %(user_id)s
                               AND c.memory_id = n.memory_id
                             UNION ALL
                             SELECT c.version, c.content, c.detail FROM memories AS c
                             WHERE c.tenant_id = %(tenant_id)s AND c.user_id = %(user_id)s
                               AND c.memory_id = n.memory_id) AS next
                           ON next.version = h.version
                          AND next.content = o.content AND next.detail = o.detail
                         WHERE o.tenant_id = %(tenant_id)s AND o.user_id = %(user_id)s
                           AND o.memory_id = n.memory_id AND o.version = h.version - 1
                           AND o.sealed IS NULL))))
      AND NOT EXISTS (
          SELECT FROM statements AS t
          WHERE t.tenant_id = %(tenant_id)s AND t.user_id = %(user_id)s
            AND t.memory_id = n.memory_id AND t.version < s.version
            AND t.made_version AND t.taken_back_at > v.known_from
            AND (%(known_at)s::timestamptz IS NULL OR t.taken_back_at <= %(known_at)s))
    ORDER BY n.memory_id, v.version
), judged AS MATERIALIZED (
    SELECT n.*, lapsed.archived_at, lapsed.status AS status_before,
           lapsed.expires_at AS expires_before,
           CASE WHEN n.status = 'superseded' THEN coalesce(
               (SELECT s.valid_from FROM memories AS s
                WHERE s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s
                  AND s.memory_id = n.superseded_by
                  AND (%(known_at)s::timestamptz IS NULL OR s.updated_at <= %(known_at)s)),
               (SELECT s.valid_from FROM memory_versions AS s
                WHERE s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s
                  AND s.memory_id = n.superseded_by
                  AND s.known_from <= %(known_at)s AND s.known_to > %(known_at)s))
           END AS merged_from,
           CASE WHEN n.type = 'goal' AND n.status IN ('achieved', 'archived')
                     AND n.valid_to > %(as_of)s
                THEN (SELECT v.importance FROM memory_versions AS v
                      WHERE v.tenant_id = %(tenant_id)s AND v.user_id = %(user_id)s
                        AND v.memory_id = n.memory_id AND v.version < n.version
                        AND v.status = 'active'
                      ORDER BY v.version DESC LIMIT 1)
           END AS importance_before
    FROM known AS n
    LEFT JOIN LATERAL (
        SELECT v.status, v.expires_at, v.known_to AS archived_at
        FROM memory_versions AS v
        WHERE n.status = 'archived' AND (n.source <> 'consolidation' OR n.supersedes <> '{}')
          AND v.tenant_id = %(tenant_id)s AND v.user_id = %(user_id)s
          AND v.memory_id = n.memory_id AND v.version < n.version AND v.status <> 'archived'
        ORDER BY v.version DESC
        LIMIT 1
    ) AS lapsed ON true
    WHERE %(as_of)s::timestamptz IS NOT NULL AND n.valid_from <= %(as_of)s
    UNION ALL
    SELECT n.*, NULL, NULL, NULL, NULL, NULL
    FROM known AS n
    WHERE %(as_of)s::timestamptz IS NULL
), stood AS (
    SELECT j.*, CASE WHEN archived_at > %(as_of)s THEN status_before ELSE status END AS stated,
           CASE WHEN w.version IS NOT NULL THEN w.expires_at
                WHEN archived_at > %(as_of)s THEN expires_before ELSE j.expires_at END AS expiry,
           coalesce(w.version, j.version) AS wording,
           coalesce(w.confidence, j.confidence) AS stated_confidence,
           coalesce(w.tags, j.tags) AS stated_tags,
           CASE WHEN w.version IS NULL THEN j.sealed ELSE w.sealed END AS stated_sealed
    FROM judged AS j
    LEFT JOIN worded AS w USING (memory_id)
)
SELECT %(tenant_id)s::text AS tenant_id, %(user_id)s::text AS user_id,
       memory_id, version, wording, text_version, lexical_no, type,
       stated_confidence AS confidence, source,
       coalesce(importance_before, importance) AS importance,
       CASE WHEN stated IN ('contradicted', 'achieved') AND valid_to > %(as_of)s THEN 'active'
            WHEN stated = 'superseded' AND merged_from > %(as_of)s THEN 'active'
            ELSE stated END AS status,
       stated_tags AS tags, metadata, conversation_id, valid_from, created_at, expiry,
       stated_sealed AS sealed, doubt,
       CASE WHEN expiry <= coalesce(%(as_of)s, %(known_at)s, now())
            THEN '-infinity'::timestamptz END AS expires_at
FROM stood
WHERE %(as_of)s::timestamptz IS NULL OR valid_to IS NULL OR valid_to > %(as_of)s
   OR stated IN ('contradicted', 'achieved');

-- @filtered_memories_at: those of them that pass the filters of a search or a list.
SELECT m.tenant_id, m.user_id, m.memory_id, m.wording AS version, m.text_version, m.lexical_no,
       m.importance, m.created_at, NULL::timestamptz AS updated_at, m.valid_from,
       m.conversation_id, m.sealed
FROM @memories_at(NULL::uuid[]) AS m
WHERE @passes_filters(m);

-- @in_doubt_at: the memories that were in doubt at another time. `known_at` chooses the doubts that
-- stood then, also those that were lifted later; NULL is those that stand now. `as_of` leaves out
-- what became doubtful only after that time. Versions keep the doubt of their time.
SELECT m.memory_id
FROM memories AS m
WHERE m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s AND m.doubt IS NOT NULL
  AND (%(known_at)s::timestamptz IS NULL OR m.updated_at <= %(known_at)s)
  AND (%(as_of)s::timestamptz IS NULL OR (m.doubt ->> 'since')::timestamptz <= %(as_of)s)
UNION ALL
SELECT v.memory_id
FROM memory_versions AS v
WHERE v.tenant_id = %(tenant_id)s AND v.user_id = %(user_id)s AND v.doubt IS NOT NULL
  AND v.known_from <= %(known_at)s AND v.known_to > %(known_at)s
  AND (%(as_of)s::timestamptz IS NULL OR (v.doubt ->> 'since')::timestamptz <= %(as_of)s);
