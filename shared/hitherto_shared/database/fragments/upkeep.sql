-- Parts of statements of upkeep, about one user (`%(user_id)s`) or across the users of a tenant: then
-- the argument `user` is the column of the fragment's own table.

-- @memory_ages(user): when each memory was last used, and what follows from that. Decay archives
-- context 90 days after its last change, and what is of little importance 30 days after its last
-- use. Restoring a memory is a use: else the next run would undo what a person wanted. `changed_at`
-- is the last change by anyone but upkeep and reconciliation. Across users: `m.user_id`.
SELECT m.tenant_id, m.user_id, m.memory_id, m.type, m.status, m.importance, m.created_at,
       m.expires_at, coalesce(a.last_accessed_at, m.created_at) AS used_at,
       (SELECT max(h.recorded_at) FROM history AS h
        WHERE h.tenant_id = %(tenant_id)s AND h.user_id = :user AND h.memory_id = m.memory_id
          AND h.actor NOT IN ('consolidation', 'reconciliation', 'decay', 'retention'))
           AS changed_at,
       CASE WHEN m.type = 'context' THEN m.updated_at + interval '90 days' END AS context_ends_at,
       CASE WHEN m.importance < 0.3 THEN interval '30 days' + greatest(
            a.last_accessed_at, m.created_at,
            (SELECT max(h.recorded_at) FROM history AS h
             WHERE h.tenant_id = %(tenant_id)s AND h.user_id = :user
               AND h.memory_id = m.memory_id AND h.action = 'restored')) END AS fades_at
FROM memories AS m
LEFT JOIN memory_access AS a ON a.tenant_id = %(tenant_id)s AND a.user_id = :user
     AND a.memory_id = m.memory_id
WHERE m.tenant_id = %(tenant_id)s AND m.user_id = :user;

-- @tenants_of(table): every tenant with rows in a table, found by one step in its index each.
WITH RECURSIVE found (tenant_id) AS (
    (SELECT tenant_id FROM :table ORDER BY tenant_id LIMIT 1)
    UNION ALL
    SELECT (SELECT t.tenant_id FROM :table AS t
            WHERE t.tenant_id > found.tenant_id ORDER BY t.tenant_id LIMIT 1)
    FROM found WHERE found.tenant_id IS NOT NULL
)
SELECT tenant_id FROM found WHERE tenant_id IS NOT NULL;

-- @ended_by_upkeep: which of these memories of a user a rule archives now, which rule that is, and
-- how long each is kept: by decay, or, with `surplus`, because there are too many.
SELECT m.memory_id, m.status,
       CASE WHEN %(surplus)s THEN 'over_limit' WHEN m.context_ends_at < %(at)s THEN 'context'
            ELSE 'low_importance' END AS rule,
       %(at)s + CASE WHEN NOT %(surplus)s AND m.context_ends_at < %(at)s THEN interval '0'
                     ELSE interval '90 days' END AS ends_at
FROM @memory_ages(%(user_id)s) AS m
WHERE m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s
  AND m.memory_id = ANY(%(memory_ids)s::uuid[])
  AND m.status IN ('active', 'achieved') AND m.type <> 'decision'
  AND (%(surplus)s OR least(m.context_ends_at, m.fades_at) < %(at)s);

-- @retained_users(user): the times before which memories and messages of users have exceeded their
-- retention. A user's own setting takes precedence over the installation's. 0 days keep them for ever:
-- the time is NULL. Across users: `u.user_id`.
SELECT u.tenant_id, u.user_id,
       retained_since(u.retention_days, %(memory_days)s, %(most_days)s) AS memories_before,
       retained_since(u.message_retention_days, %(message_days)s, %(most_days)s) AS messages_before,
       (SELECT max(c.updated_at) FROM conversations AS c
        WHERE c.tenant_id = %(tenant_id)s AND c.user_id = :user) AS spoke_at
FROM users AS u
WHERE u.tenant_id = %(tenant_id)s AND u.user_id = :user AND u.erased_at IS NULL;

-- @is_unused(m, l): whether a memory (`@memory_ages`) has exceeded its retention: the user said
-- nothing, the memory was not recalled, and nobody but upkeep changed it, for that long.
:l.memories_before IS NOT NULL
AND :m.used_at < :l.memories_before AND coalesce(:l.spoke_at < :l.memories_before, true)
AND coalesce(:m.changed_at < :l.memories_before, true);

-- @keeps_untold(m): whether a memory of one user keeps its messages, or the summary of their
-- conversation, from being told.
:m.status IN ('forgotten', 'quarantined') AND EXISTS (
    SELECT FROM memory_sources AS source
    WHERE source.tenant_id = %(tenant_id)s AND source.user_id = %(user_id)s
      AND source.memory_id = :m.memory_id
      AND (EXISTS (SELECT FROM messages AS told
                   WHERE told.tenant_id = %(tenant_id)s AND told.user_id = %(user_id)s
                     AND told.conversation_id = source.conversation_id
                     AND md5(told.message_id) = md5(source.message_id)
                     AND told.message_id = source.message_id)
           OR EXISTS (SELECT FROM conversation_summaries AS told
                      WHERE told.tenant_id = %(tenant_id)s AND told.user_id = %(user_id)s
                        AND told.conversation_id = source.conversation_id)));

-- @is_outlived(g, l, user): whether a message has exceeded its retention, by the time it was said. One
-- that a job has yet to read stays until it has been stored for that long, however old it was when it
-- came. A time that is NULL is tested by itself, because Postgres would otherwise look for the reader
-- of every message.
:l.messages_before IS NOT NULL
AND (:g.accepted_at < :l.messages_before
     OR (:g.said_at < :l.messages_before AND @is_read(:g, :user)));

-- @waiting_jobs(user): the ranges of messages that jobs have yet to read, for `waiting` in `@is_read`.
-- The queue is a local table, which an engine that distributes rows does not join to distributed
-- ones. Dead jobs may be retried. The states are told apart as the partial indexes do: jobs that
-- have succeeded stay for ever. Across users: `j.user_id`.
SELECT j.user_id, j.conversation_id, j.range_from, j.range_to
FROM jobs AS j
WHERE j.tenant_id = %(tenant_id)s AND j.user_id = :user AND j.conversation_id IS NOT NULL
  AND (j.state IN ('queued', 'failed', 'running') OR j.state = 'dead');

-- @is_read(g, user): whether a message was read by every job that is to read it; `waiting` are the
-- ranges of those that have yet to.
:g.message_no <= (
    SELECT c.watermark FROM conversations AS c
    WHERE c.tenant_id = %(tenant_id)s AND c.user_id = :user
      AND c.conversation_id = :g.conversation_id)
AND NOT EXISTS (
    SELECT FROM waiting AS j
    WHERE j.user_id = :user AND j.conversation_id = :g.conversation_id
      AND :g.message_no BETWEEN j.range_from AND j.range_to);
