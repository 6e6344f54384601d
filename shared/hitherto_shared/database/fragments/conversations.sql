-- Parts of statements about the conversations of one user.

-- @short_conversations: conversations in short, in the order of the fields of `Summary`. Until one
-- has a summary, its title is the beginning of the user's first message: of the whole column,
-- Postgres made one of every message before it chose, and of up to 64 KiB.
--
-- A conversation counts as active at most until something of it last arrived (`active_at`): a message
-- dated in the future would put it before all others for as long as its date is ahead.
-- `last_said_at` is the date as it was sent.
--
-- A prompt must also know what no longer holds of what a conversation taught. `withheld`: the
-- beginnings of memories learnt from it that are forgotten or in quarantine, 51 at most, so that a
-- reader sees whether there are more than 50. Sealed ones have no words here. `partly_until`: until
-- when the first of them held that was contradicted after the conversation.
SELECT c.tenant_id, c.conversation_id, c.user_id,
       coalesce(s.title, (
           SELECT left(regexp_replace(left(f.content, 2000), '\s+', ' ', 'g'), 80)
           FROM (SELECT m.content FROM messages AS m
                 WHERE m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s
                   AND m.conversation_id = c.conversation_id AND m.sealed IS NULL
                 ORDER BY m.role = 'user' DESC, m.message_no LIMIT 1) AS f), '') AS title,
       coalesce(s.summary, '') AS summary, coalesce(s.outcome, 'ongoing') AS outcome,
       (SELECT count(*) FROM messages AS m
        WHERE m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s
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
             JOIN memories AS f ON f.tenant_id = %(tenant_id)s AND f.user_id = %(user_id)s
                  AND f.memory_id = t.memory_id
             WHERE t.tenant_id = %(tenant_id)s AND t.user_id = %(user_id)s
               AND md5(t.conversation_id) = md5(c.conversation_id)
               AND t.conversation_id = c.conversation_id
               AND f.status IN ('forgotten', 'quarantined')
             ORDER BY left(f.content, 300)
             LIMIT 51) AS withheld,
       (SELECT min(f.valid_to)
        FROM memory_sources AS t
        JOIN memories AS f ON f.tenant_id = %(tenant_id)s AND f.user_id = %(user_id)s
             AND f.memory_id = t.memory_id
        WHERE t.tenant_id = %(tenant_id)s AND t.user_id = %(user_id)s
          AND md5(t.conversation_id) = md5(c.conversation_id)
          AND t.conversation_id = c.conversation_id AND f.status = 'contradicted'
          AND f.valid_to > least(c.last_said_at, c.updated_at)) AS partly_until,
       least(c.last_said_at, c.updated_at) AS active_at, c.updated_at AS arrived_at
FROM conversations AS c
LEFT JOIN conversation_summaries AS s ON s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s
     AND s.conversation_id = c.conversation_id
WHERE c.tenant_id = %(tenant_id)s AND c.user_id = %(user_id)s;
