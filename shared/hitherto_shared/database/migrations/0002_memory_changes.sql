-- What happened to memories and profiles, told to those who wait for it: the outbox. A row is written
-- by the statement that records the change in the history, and so in the transaction of the change.
-- It holds ids and no contents.
CREATE TABLE memory_changes (
    tenant_id text NOT NULL,
    user_id text NOT NULL,
    -- The changes of one user are numbered in their order, because their writers hold the user's row.
    change_no bigint GENERATED ALWAYS AS IDENTITY,
    -- The place in the stream. Numbers of `change_no` are committed in any order, so that a reader who
    -- has seen one could miss a smaller one. One transaction at a time gives committed changes their
    -- positions, so a reader who has seen one has seen all before it.
    position bigint CHECK (position > 0),
    -- NULL: the profile changed.
    memory_id uuid,
    action text NOT NULL,
    version integer NOT NULL,
    -- NULL: the change did not affect it.
    old_status text,
    new_status text,
    related_memory_id uuid,
    job_id uuid,
    recorded_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, user_id, change_no)
);

CREATE INDEX memory_changes_by_position ON memory_changes (tenant_id, position);
CREATE INDEX memory_changes_without_position ON memory_changes (change_no)
    WHERE position IS NULL;
CREATE INDEX memory_changes_by_age ON memory_changes (recorded_at);

-- The one row: the last position that was given, and the last that was deleted for its age.
CREATE TABLE change_positions (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    given bigint NOT NULL DEFAULT 0,
    deleted bigint NOT NULL DEFAULT 0 CHECK (deleted <= given)
);

INSERT INTO change_positions DEFAULT VALUES;

-- Where changes are sent. `user_id` is '' for changes of everybody.
CREATE TABLE webhooks (
    tenant_id text NOT NULL,
    user_id text NOT NULL,
    webhook_id uuid NOT NULL,
    url text NOT NULL CHECK (char_length(url) BETWEEN 1 AND 2048),
    -- Sealed with the secret of the deployment, bound to tenant and webhook.
    secret_token text NOT NULL,
    actions text[] NOT NULL DEFAULT '{}',
    include_content boolean NOT NULL DEFAULT false,
    created_at timestamptz NOT NULL DEFAULT now(),
    -- Failed attempts since the last success, and dead deliveries since then.
    failures integer NOT NULL DEFAULT 0 CHECK (failures >= 0),
    dead integer NOT NULL DEFAULT 0 CHECK (dead >= 0),
    failing_since timestamptz,
    -- Until then nothing is sent, so that a receiver that is down is not called for every change.
    paused_until timestamptz,
    disabled_at timestamptz,
    disabled_reason text NOT NULL DEFAULT '',
    PRIMARY KEY (tenant_id, user_id, webhook_id),
    UNIQUE (webhook_id),
    CHECK ((disabled_at IS NULL) = (disabled_reason = ''))
);

-- A change on its way to a webhook. No reference to `webhooks`, whose user differs for webhooks of
-- everybody; the deletion of a webhook deletes its deliveries.
CREATE TABLE webhook_deliveries (
    tenant_id text NOT NULL,
    user_id text NOT NULL,
    delivery_id uuid NOT NULL,
    webhook_id uuid NOT NULL,
    change_no bigint NOT NULL,
    state text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'delivered', 'dead')),
    attempts integer NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    -- Of a delivery that is being sent, the end of the lease.
    next_attempt_at timestamptz DEFAULT now(),
    last_status integer NOT NULL DEFAULT 0,
    last_error text NOT NULL DEFAULT '',
    created_at timestamptz NOT NULL DEFAULT now(),
    finished_at timestamptz,
    PRIMARY KEY (tenant_id, user_id, delivery_id),
    -- A delivery goes with its change, also one that is added while the user is being erased.
    FOREIGN KEY (tenant_id, user_id, change_no) REFERENCES memory_changes ON DELETE CASCADE,
    CHECK ((state = 'pending') = (finished_at IS NULL)),
    CHECK ((state = 'pending') = (next_attempt_at IS NOT NULL))
);

CREATE INDEX webhook_deliveries_due ON webhook_deliveries (tenant_id, webhook_id, next_attempt_at)
    WHERE state = 'pending';
CREATE INDEX webhook_deliveries_of_change ON webhook_deliveries (tenant_id, user_id, change_no);
CREATE INDEX webhook_deliveries_of_webhook ON webhook_deliveries (tenant_id, webhook_id, delivery_id);
CREATE INDEX webhook_deliveries_newest ON webhook_deliveries (tenant_id, delivery_id);

ALTER TABLE memory_changes ENABLE ROW LEVEL SECURITY;
CREATE POLICY one_tenant ON memory_changes
    TO hitherto_read, hitherto_write, hitherto_removal
    USING (tenant_id = current_setting('hitherto.tenant_id', true))
    WITH CHECK (tenant_id = current_setting('hitherto.tenant_id', true));
CREATE POLICY across_tenants ON memory_changes TO hitherto_maintenance
    USING (true) WITH CHECK (true);
ALTER TABLE webhooks ENABLE ROW LEVEL SECURITY;
CREATE POLICY one_tenant ON webhooks
    TO hitherto_read, hitherto_write, hitherto_removal
    USING (tenant_id = current_setting('hitherto.tenant_id', true))
    WITH CHECK (tenant_id = current_setting('hitherto.tenant_id', true));
CREATE POLICY across_tenants ON webhooks TO hitherto_maintenance
    USING (true) WITH CHECK (true);
ALTER TABLE webhook_deliveries ENABLE ROW LEVEL SECURITY;
CREATE POLICY one_tenant ON webhook_deliveries
    TO hitherto_read, hitherto_write, hitherto_removal
    USING (tenant_id = current_setting('hitherto.tenant_id', true))
    WITH CHECK (tenant_id = current_setting('hitherto.tenant_id', true));
CREATE POLICY across_tenants ON webhook_deliveries TO hitherto_maintenance
    USING (true) WITH CHECK (true);

-- Readers wait for changes and know nothing of webhooks.
GRANT SELECT ON memory_changes, change_positions TO hitherto_read;
-- Every writer of the history tells. An export lists what is stored of a user.
GRANT SELECT, INSERT ON memory_changes TO hitherto_write, hitherto_maintenance, hitherto_removal;
GRANT DELETE ON memory_changes TO hitherto_maintenance, hitherto_removal;
GRANT UPDATE (position) ON memory_changes TO hitherto_maintenance;
GRANT SELECT, UPDATE ON change_positions TO hitherto_maintenance;
-- Webhooks are kept by callers; the loop that sends marks what happened.
GRANT SELECT, INSERT ON webhooks TO hitherto_write;
GRANT SELECT, DELETE ON webhooks, webhook_deliveries TO hitherto_removal;
GRANT SELECT ON webhooks TO hitherto_maintenance;
GRANT UPDATE (failures, dead, failing_since, paused_until, disabled_at, disabled_reason)
    ON webhooks TO hitherto_maintenance, hitherto_write;
GRANT SELECT, UPDATE ON webhook_deliveries TO hitherto_write;
GRANT SELECT, INSERT, UPDATE, DELETE ON webhook_deliveries TO hitherto_maintenance;
