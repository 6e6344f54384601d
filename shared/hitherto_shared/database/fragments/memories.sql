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
SELECT m.tenant_id, m.memory_id, m.user_id, m.type, m.content, m.importance, m.confidence, m.source,
       m.origin, m.status, m.valid_from, m.created_at, m.updated_at, m.detail, m.tags, m.keywords,
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
       m.last_confirmed_at,
       ARRAY(SELECT ARRAY[s.conversation_id, s.message_id, s.quote]
             FROM memory_sources AS s
             WHERE s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s
               AND s.memory_id = m.memory_id AND s.quote IS NOT NULL
             ORDER BY s.conversation_id, s.message_id) AS evidence
FROM memories AS m
LEFT JOIN memory_access AS a ON a.tenant_id = %(tenant_id)s AND a.user_id = %(user_id)s
     AND a.memory_id = m.memory_id
WHERE m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s;

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
       m.importance, m.created_at, m.valid_from, m.conversation_id, m.sealed
FROM memories AS m
WHERE m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s AND @passes_filters(m);

-- @learnt_from_message(conversation, number): the memories that were learnt from a message. Ids are
-- compared by their digests, which are indexed, and then by themselves.
SELECT f.memory_id, f.status, f.expires_at, f.lexical_no, f.text_version
FROM messages AS m
JOIN memory_sources AS s ON s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s
     AND md5(s.conversation_id) = md5(m.conversation_id)
     AND md5(s.message_id) = md5(m.message_id)
     AND s.conversation_id = m.conversation_id AND s.message_id = m.message_id
JOIN memories AS f ON f.tenant_id = %(tenant_id)s AND f.user_id = %(user_id)s
     AND f.memory_id = s.memory_id
WHERE m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s
  AND m.conversation_id = :conversation AND m.message_no = :number;
