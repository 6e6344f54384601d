-- Every change of a memory or profile, append-only by grants. Holds contents, so it is erased
-- with the user.
CREATE TABLE history (
    tenant_id text NOT NULL,
    user_id text NOT NULL,
    event_id uuid NOT NULL,
    recorded_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    subject text NOT NULL CHECK (subject IN ('memory', 'profile')),
    memory_id uuid,
    action text NOT NULL CHECK (action IN ('created', 'updated', 'merged', 'contradicted',
        'superseded', 'achieved', 'archived', 'quarantined', 'forgotten', 'restored')),
    version integer NOT NULL,
    -- Who: `extraction`, or the name of a credential.
    actor text NOT NULL,
    reason text NOT NULL DEFAULT '',
    job_id uuid,
    before jsonb,
    after jsonb,
    PRIMARY KEY (tenant_id, user_id, event_id),
    FOREIGN KEY (tenant_id, user_id) REFERENCES users,
    CHECK ((subject = 'memory') = (memory_id IS NOT NULL))
);

CREATE INDEX history_of_memory ON history (tenant_id, user_id, memory_id, recorded_at);

-- What models cost: one row per job, stage and model.
CREATE TABLE usage_ledger (
    tenant_id text NOT NULL,
    user_id text NOT NULL,
    day date NOT NULL,
    job_id uuid NOT NULL,
    stage text NOT NULL CHECK (stage IN ('extraction', 'embedding', 'consolidation')),
    model text NOT NULL,
    kind text NOT NULL,
    calls bigint NOT NULL DEFAULT 0 CHECK (calls >= 0),
    input_tokens bigint NOT NULL DEFAULT 0 CHECK (input_tokens >= 0),
    output_tokens bigint NOT NULL DEFAULT 0 CHECK (output_tokens >= 0),
    cost_usd numeric(14, 8) NOT NULL DEFAULT 0 CHECK (cost_usd >= 0),
    PRIMARY KEY (tenant_id, user_id, day, job_id, stage, model)
);
