-- The queue. A local table (it is never distributed): a job is claimed with SKIP LOCKED, leased,
-- renewed by heartbeat, and finished in the transaction of its effects.
CREATE TABLE jobs (
    job_id uuid PRIMARY KEY,
    -- First in, first out per user.
    sequence_no bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
    tenant_id text NOT NULL,
    user_id text,
    kind text NOT NULL CHECK (kind IN ('memory-extraction', 'document-ingestion',
        'consolidation', 'decay', 'retention', 'reembedding')),
    state text NOT NULL DEFAULT 'queued'
        CHECK (state IN ('queued', 'running', 'succeeded', 'failed', 'dead', 'cancelled')),
    conversation_id text,
    -- The messages the job owns. `range_to` is NULL until the first claim of a job for appended
    -- messages; `done_to` is how far the effects of earlier model calls are committed.
    range_from integer,
    range_to integer CHECK (range_to >= range_from - 1),
    done_to integer,
    attempt integer NOT NULL DEFAULT 0 CHECK (attempt >= 0),
    max_attempts integer NOT NULL CHECK (max_attempts >= 1),
    -- Grows at every claim and fences every write of a worker.
    claim_no bigint NOT NULL DEFAULT 0,
    worker text,
    lease_until timestamptz,
    run_after timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- Since when the model has been out of reach; outages do not use up attempts for a day.
    outage_since timestamptz,
    error text NOT NULL DEFAULT '',
    error_reason text NOT NULL DEFAULT '',
    result jsonb NOT NULL DEFAULT '{}',
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    started_at timestamptz,
    finished_at timestamptz,
    CHECK ((state = 'running') = (lease_until IS NOT NULL)),
    CHECK ((state IN ('succeeded', 'dead', 'cancelled')) = (finished_at IS NOT NULL)),
    CHECK (kind <> 'memory-extraction'
        OR (user_id IS NOT NULL AND conversation_id IS NOT NULL))
);

-- One running job per user.
CREATE UNIQUE INDEX jobs_one_running ON jobs (tenant_id, user_id) WHERE state = 'running';

-- What waits, in the order in which each user's jobs must run.
CREATE INDEX jobs_waiting ON jobs (tenant_id, user_id, sequence_no)
    WHERE state IN ('queued', 'failed', 'running');
CREATE INDEX jobs_unfinished ON jobs (sequence_no) WHERE state IN ('queued', 'failed', 'running');
CREATE INDEX jobs_by_conversation ON jobs (tenant_id, user_id, conversation_id, range_from);
CREATE INDEX jobs_newest ON jobs (tenant_id, sequence_no DESC);

-- At most one job per conversation has yet to take the messages appended to it. One that runs and
-- has not taken them counts too: it may be handed back.
CREATE UNIQUE INDEX jobs_one_open ON jobs (tenant_id, user_id, conversation_id)
    WHERE state IN ('queued', 'failed', 'running') AND range_to IS NULL
      AND kind = 'memory-extraction';

-- First answers of mutating calls, by the caller's key: ids only, never contents.
CREATE TABLE idempotency_keys (
    tenant_id text NOT NULL,
    rpc text NOT NULL,
    key text NOT NULL CHECK (char_length(key) BETWEEN 1 AND 128),
    user_ids text[] NOT NULL,
    body_hash bytea NOT NULL CHECK (octet_length(body_hash) = 32),
    resource_ids text[] NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, rpc, key)
);

CREATE INDEX idempotency_keys_age ON idempotency_keys (created_at);
