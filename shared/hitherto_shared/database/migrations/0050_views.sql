-- What several statements have in common, so that each of them can stand whole where it is used. A
-- view reads with the rights, and under the row security, of whoever asks it.

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
-- anyone but upkeep.
CREATE VIEW memory_ages WITH (security_invoker = true) AS
SELECT m.tenant_id, m.user_id, m.memory_id, m.type, m.status, m.importance, m.created_at,
       m.expires_at, coalesce(a.last_accessed_at, m.created_at) AS used_at,
       (SELECT max(h.recorded_at) FROM history AS h
        WHERE h.tenant_id = m.tenant_id AND h.user_id = m.user_id AND h.memory_id = m.memory_id
          AND h.actor NOT IN ('consolidation', 'decay', 'retention')) AS changed_at,
       CASE WHEN m.type = 'context' THEN m.updated_at + interval '90 days' END AS context_ends_at,
       CASE WHEN m.importance < 0.3 THEN interval '30 days' + greatest(
            a.last_accessed_at, m.created_at,
            (SELECT max(h.recorded_at) FROM history AS h
             WHERE h.tenant_id = m.tenant_id AND h.user_id = m.user_id
               AND h.memory_id = m.memory_id AND h.action = 'restored')) END AS fades_at
FROM memories AS m
LEFT JOIN memory_access AS a ON a.tenant_id = m.tenant_id AND a.user_id = m.user_id
     AND a.memory_id = m.memory_id;

-- Messages, and whether each was read by every job that is to read it.
CREATE VIEW message_readings WITH (security_invoker = true) AS
SELECT g.tenant_id, g.user_id, g.conversation_id, g.message_no, g.message_id, g.said_at,
       g.accepted_at,
       g.message_no <= (
           SELECT c.watermark FROM conversations AS c
           WHERE c.tenant_id = g.tenant_id AND c.user_id = g.user_id
             AND c.conversation_id = g.conversation_id)
       AND NOT EXISTS (
           SELECT FROM jobs AS j
           WHERE j.tenant_id = g.tenant_id AND j.user_id = g.user_id
             AND j.conversation_id = g.conversation_id
             AND j.state NOT IN ('succeeded', 'cancelled')
             AND g.message_no BETWEEN j.range_from AND j.range_to) AS is_read
FROM messages AS g;

GRANT SELECT ON source_words, memory_ages, message_readings
    TO hitherto_write, hitherto_maintenance, hitherto_removal;
