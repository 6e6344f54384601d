-- What a job is about beside messages: the tag to merge, the documents to read, the model to move
-- to, the memory to check for contradictions. Ids and settings, never a user's text.
ALTER TABLE jobs ADD COLUMN params jsonb NOT NULL DEFAULT '{}'
    CHECK (jsonb_typeof(params) = 'object');

-- A memory that was saved by hand is checked for contradictions by an extraction that reads no
-- conversation: such a job names the memory in `params`.
ALTER TABLE jobs DROP CONSTRAINT jobs_check3;
ALTER TABLE jobs ADD CONSTRAINT jobs_extraction_reads CHECK (kind <> 'memory-extraction'
    OR (user_id IS NOT NULL AND (conversation_id IS NOT NULL OR params ? 'memory_id')));

-- Which schedule set the job off, and for which tick of it.
ALTER TABLE jobs ADD COLUMN schedule text;
ALTER TABLE jobs ADD COLUMN slot timestamptz;

-- One job per tenant and tick, whatever the number of replicas that tick.
CREATE UNIQUE INDEX jobs_one_per_slot ON jobs (tenant_id, schedule, slot)
    WHERE schedule IS NOT NULL;

-- Jobs of a whole tenant wait in a line of their own, so that they hold up no user.
CREATE INDEX jobs_tenant_wide ON jobs (sequence_no)
    WHERE user_id IS NULL AND state IN ('queued', 'failed', 'running');

-- Ticks that were taken, also of schedules that make no job; the oldest are dropped in time.
CREATE TABLE schedule_runs (
    schedule text NOT NULL,
    slot timestamptz NOT NULL,
    taken_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (schedule, slot)
);

-- The answers of a model that nothing could be made of, for whoever has to find out why. Sealed
-- with the installation's secret, cut to 64 KiB, dropped after a week or with the job's user.
CREATE TABLE unusable_replies (
    tenant_id text NOT NULL,
    user_id text NOT NULL,
    job_id uuid NOT NULL,
    claim_no bigint NOT NULL,
    sealed_reply text NOT NULL,
    recorded_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, user_id, job_id, claim_no),
    FOREIGN KEY (tenant_id, user_id) REFERENCES users
);

-- What a tenant spent on a day is asked before every call of a model.
CREATE INDEX usage_ledger_by_day ON usage_ledger (tenant_id, day) INCLUDE (cost_usd);

GRANT SELECT, INSERT, UPDATE, DELETE ON schedule_runs TO hitherto_maintenance;
GRANT SELECT ON schedule_runs TO hitherto_write;
GRANT SELECT, INSERT, UPDATE ON unusable_replies TO hitherto_write;
CREATE INDEX unusable_replies_age ON unusable_replies (recorded_at);
GRANT SELECT, DELETE ON unusable_replies TO hitherto_maintenance;
