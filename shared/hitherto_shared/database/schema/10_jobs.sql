-- Work that waits, what it cost, and calls that must not run twice.

-- The queue. A local table (it is never distributed): a job is claimed with SKIP LOCKED, leased,
-- renewed by heartbeat, and finished in the transaction of its effects.
CREATE TABLE jobs (
    job_id uuid PRIMARY KEY,
    -- First in, first out per user.
    sequence_no bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
    tenant_id text NOT NULL,
    user_id text,
    kind text NOT NULL CHECK (kind IN ('memory-extraction', 'document-ingestion', 'consolidation',
        'reconciliation', 'decay', 'retention', 'reembedding')),
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
    -- What it is about beside messages: the tag to merge, the documents to read, the model to move
    -- to, the memory to check for contradictions. Ids and settings, never a user's text.
    params jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(params) = 'object'),
    -- Which schedule set the job off, and for which tick of it.
    schedule text,
    slot timestamptz,
    -- The span in which it was queued, in the form of W3C Trace Context, if that was traced: the
    -- spans of its attempts are linked to it.
    trace_parent text,
    CHECK ((state = 'running') = (lease_until IS NOT NULL)),
    CHECK ((state IN ('succeeded', 'dead', 'cancelled')) = (finished_at IS NOT NULL)),
    -- A memory that was saved by hand is checked for contradictions by an extraction that reads no
    -- conversation: such a job names the memory in `params`.
    CONSTRAINT jobs_extraction_reads CHECK (kind <> 'memory-extraction'
        OR (user_id IS NOT NULL AND (conversation_id IS NOT NULL OR params ? 'memory_id')))
);

-- One running job per user.
CREATE UNIQUE INDEX jobs_one_running ON jobs (tenant_id, user_id) WHERE state = 'running';
-- At most one job per conversation has yet to take the messages appended to it. One that runs and
-- has not taken them counts too: it may be handed back.
CREATE UNIQUE INDEX jobs_one_open ON jobs (tenant_id, user_id, conversation_id)
    WHERE state IN ('queued', 'failed', 'running') AND range_to IS NULL
      AND kind = 'memory-extraction';
-- One job per tenant and tick, whatever the number of replicas that tick.
CREATE UNIQUE INDEX jobs_one_per_slot ON jobs (tenant_id, schedule, slot)
    WHERE schedule IS NOT NULL;
-- What waits, in the order in which each user's jobs must run, and in the order of all.
CREATE INDEX jobs_waiting ON jobs (tenant_id, user_id, sequence_no)
    WHERE state IN ('queued', 'failed', 'running');
CREATE INDEX jobs_unfinished ON jobs (sequence_no) WHERE state IN ('queued', 'failed', 'running');
-- Jobs of a whole tenant wait in a line of their own, so that they hold up no user.
CREATE INDEX jobs_tenant_wide ON jobs (sequence_no)
    WHERE user_id IS NULL AND state IN ('queued', 'failed', 'running');
CREATE INDEX jobs_by_conversation ON jobs (tenant_id, user_id, conversation_id, range_from);
CREATE INDEX jobs_newest ON jobs (tenant_id, sequence_no DESC);
-- Metrics count dead jobs every few seconds, however many jobs have succeeded.
CREATE INDEX jobs_dead ON jobs (kind, created_at) WHERE state = 'dead';

-- Ticks that were taken, also of schedules that make no job; the oldest are dropped in time.
CREATE TABLE schedule_runs (
    schedule text NOT NULL,
    slot timestamptz NOT NULL,
    taken_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (schedule, slot)
);

-- The answers of a model that nothing could be made of, for whoever has to find out why. Cut to 64
-- KiB, sealed, dropped after a week or with the job's user.
CREATE TABLE unusable_replies (
    tenant_id text NOT NULL,
    user_id text NOT NULL,
    job_id uuid NOT NULL,
    claim_no bigint NOT NULL,
    sealed_reply text NOT NULL,
    recorded_at timestamptz NOT NULL DEFAULT now(),
    -- Which key it was sealed with: the user's, else the installation's.
    of_user_key boolean NOT NULL DEFAULT false,
    PRIMARY KEY (tenant_id, user_id, job_id, claim_no),
    FOREIGN KEY (tenant_id, user_id) REFERENCES users
);

CREATE INDEX unusable_replies_age ON unusable_replies (recorded_at);

-- How many conversations were checked for quality since an extractor first used a prompt version.
-- Numbers of the installation: nothing here belongs to a tenant or a user.
CREATE TABLE quality_samples (
    extractor text NOT NULL,
    prompt_version text NOT NULL,
    conversations integer NOT NULL CHECK (conversations > 0),
    PRIMARY KEY (extractor, prompt_version)
);

-- What models cost: one row per job, stage and model.
CREATE TABLE usage_ledger (
    tenant_id text NOT NULL,
    user_id text NOT NULL,
    day date NOT NULL,
    job_id uuid NOT NULL,
    stage text NOT NULL
        CHECK (stage IN ('extraction', 'embedding', 'consolidation', 'reconciliation')),
    model text NOT NULL,
    kind text NOT NULL,
    calls bigint NOT NULL DEFAULT 0 CHECK (calls >= 0),
    input_tokens bigint NOT NULL DEFAULT 0 CHECK (input_tokens >= 0),
    output_tokens bigint NOT NULL DEFAULT 0 CHECK (output_tokens >= 0),
    cost_usd numeric(14, 8) NOT NULL DEFAULT 0 CHECK (cost_usd >= 0),
    PRIMARY KEY (tenant_id, user_id, day, job_id, stage, model)
);

-- What a tenant spent on a day is asked before every call of a model.
CREATE INDEX usage_ledger_by_day ON usage_ledger (tenant_id, day) INCLUDE (cost_usd);

-- What the embedding of questions has used and nobody has charged yet. The retrieval service
-- counts, in batches and off the path of an answer; the extraction service, which knows the prices,
-- moves the counts to usage_ledger.
CREATE TABLE query_usage (
    tenant_id text NOT NULL,
    model text NOT NULL,
    calls bigint NOT NULL DEFAULT 0 CHECK (calls >= 0),
    tokens bigint NOT NULL DEFAULT 0 CHECK (tokens >= 0),
    PRIMARY KEY (tenant_id, model)
);

-- First answers of mutating calls, by the caller's key: ids only, never contents.
CREATE TABLE idempotency_keys (
    tenant_id text NOT NULL,
    rpc text NOT NULL,
    key text NOT NULL CHECK (char_length(key) BETWEEN 1 AND 128),
    -- No index: an erase and an export look through the keys of the tenant, which are those of 48
    -- hours. One over an array would not be used behind row-level security, whose policies go
    -- before any condition that is not leakproof.
    user_ids text[] NOT NULL,
    body_hash bytea NOT NULL CHECK (octet_length(body_hash) = 32),
    resource_ids text[] NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    -- The credential that the key belongs to: another one of the tenant has keys of its own, and is
    -- told nothing of these. A keyed hash, since a person may be known by its name.
    subject text NOT NULL CHECK (subject ~ '^([0-9a-f]{64})?$'),
    PRIMARY KEY (tenant_id, subject, rpc, key)
);

CREATE INDEX idempotency_keys_age ON idempotency_keys (created_at);

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
