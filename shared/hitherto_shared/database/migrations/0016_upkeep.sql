-- What decay may have to look at: current memories of little importance, and context. A decay run
-- reads this index from end to end and nothing else of the table.
CREATE INDEX memories_fading ON memories (tenant_id, user_id, memory_id)
    WHERE status IN ('active', 'achieved') AND type <> 'decision'
      AND (importance < 0.3 OR type = 'context');

-- Upkeep is one of the writers of a user's memories, and so takes the user's row like the others.
-- Postgres lets a role lock a row only if it may change some column of it.
GRANT UPDATE (time_zone) ON users TO hitherto_maintenance;

-- Calls that look across users run on this role, with their idempotency keys.
GRANT INSERT ON idempotency_keys TO hitherto_maintenance;

-- An edited answer holds a message's words, and goes with the message.
GRANT DELETE ON feedback TO hitherto_removal;
