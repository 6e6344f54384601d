-- What a prompt must know of a summary: its conversation may have taught what no longer holds.
-- `withheld`: the beginnings of memories learnt from it that are forgotten or in quarantine, 51 at
-- most, so that a reader sees whether there are more than 50. Sealed ones have no words here.
-- `partly_until`: until when the first of them held that was contradicted after the conversation.
CREATE OR REPLACE VIEW short_conversations WITH (security_invoker = true) AS
SELECT c.tenant_id, c.conversation_id, c.user_id,
       coalesce(s.title, (
           SELECT left(regexp_replace(m.content, '\s+', ' ', 'g'), 80) FROM messages AS m
           WHERE m.tenant_id = c.tenant_id AND m.user_id = c.user_id
             AND m.conversation_id = c.conversation_id AND m.sealed IS NULL
           ORDER BY m.role = 'user' DESC, m.message_no LIMIT 1), '') AS title,
       coalesce(s.summary, '') AS summary, coalesce(s.outcome, 'ongoing') AS outcome,
       (SELECT count(*) FROM messages AS m
        WHERE m.tenant_id = c.tenant_id AND m.user_id = c.user_id
          AND m.conversation_id = c.conversation_id) AS message_count,
       coalesce(s.created_at, c.created_at) AS created_at,
       coalesce(s.updated_at, c.updated_at) AS updated_at,
       coalesce(s.key_topics, '{}') AS key_topics,
       coalesce(s.technical_topics, '{}') AS technical_topics,
       coalesce(s.followup_suggestions, '{}') AS followup_suggestions, c.last_said_at,
       sealed_at(s.sealed, s.sealed_version) AS sealed_words, s.sealed IS NOT NULL AS is_sealed,
       s.updated_at AS summarised_at,
       ARRAY(SELECT DISTINCT left(f.content, 300)
             FROM memory_sources AS t
             JOIN memories AS f ON f.tenant_id = t.tenant_id AND f.user_id = t.user_id
                  AND f.memory_id = t.memory_id
             WHERE t.tenant_id = c.tenant_id AND t.user_id = c.user_id
               AND md5(t.conversation_id) = md5(c.conversation_id)
               AND t.conversation_id = c.conversation_id
               AND f.status IN ('forgotten', 'quarantined')
             ORDER BY left(f.content, 300)
             LIMIT 51) AS withheld,
       (SELECT min(f.valid_to)
        FROM memory_sources AS t
        JOIN memories AS f ON f.tenant_id = t.tenant_id AND f.user_id = t.user_id
             AND f.memory_id = t.memory_id
        WHERE t.tenant_id = c.tenant_id AND t.user_id = c.user_id
          AND md5(t.conversation_id) = md5(c.conversation_id)
          AND t.conversation_id = c.conversation_id AND f.status = 'contradicted'
          AND f.valid_to > c.last_said_at) AS partly_until
FROM conversations AS c
LEFT JOIN conversation_summaries AS s ON s.tenant_id = c.tenant_id AND s.user_id = c.user_id
     AND s.conversation_id = c.conversation_id;
