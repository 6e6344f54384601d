-- Who did what, and who read of whom. It grows and never changes: ids and keyed hashes only, so that
-- it can outlive the erasure of everybody in it.
CREATE TABLE audit_events (
    tenant_id text NOT NULL,
    event_id uuid NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    actor text NOT NULL CHECK (char_length(actor) BETWEEN 1 AND 512),
    method text NOT NULL CHECK (method ~ '^[A-Za-z0-9/._-]{1,200}$'),
    -- Of `user_hash.py`; empty if it was about no user.
    user_hash text NOT NULL CHECK (user_hash ~ '^([0-9a-f]{64})?$'),
    -- A uuid can hold nothing that a person wrote.
    resource_ids uuid[] NOT NULL,
    count bigint NOT NULL CHECK (count >= 1),
    PRIMARY KEY (tenant_id, event_id)
);

CREATE INDEX audit_events_by_time ON audit_events (tenant_id, created_at, event_id);
CREATE INDEX audit_events_by_user ON audit_events (tenant_id, user_hash, created_at, event_id);

-- Reads by services within the hour that is not over. Then each row becomes an entry, under the
-- same id and time.
CREATE TABLE audit_read_counts (
    tenant_id text NOT NULL,
    hour timestamptz NOT NULL,
    actor text NOT NULL CHECK (char_length(actor) BETWEEN 1 AND 512),
    method text NOT NULL CHECK (method ~ '^[A-Za-z0-9/._-]{1,200}$'),
    user_hash text NOT NULL CHECK (user_hash ~ '^([0-9a-f]{64})?$'),
    event_id uuid NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    count bigint NOT NULL CHECK (count >= 1),
    PRIMARY KEY (tenant_id, hour, actor, method, user_hash)
);

CREATE INDEX audit_read_counts_by_hour ON audit_read_counts (hour);

-- The signed root of a day (UTC) that is over.
CREATE TABLE audit_digests (
    tenant_id text NOT NULL,
    day date NOT NULL,
    count bigint NOT NULL CHECK (count >= 1),
    root bytea NOT NULL CHECK (octet_length(root) = 32),
    signature bytea NOT NULL CHECK (octet_length(signature) = 64),
    key_id text NOT NULL CHECK (key_id ~ '^[0-9a-f]{16}$'),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, day)
);

CREATE FUNCTION refuse_change_of_audit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the audit log is append-only: % of % is refused', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'insufficient_privilege';
END
$$;

-- Of statements and not of rows, so that one that would touch nothing is refused too.
CREATE TRIGGER audit_events_only_grow BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_events
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change_of_audit();
CREATE TRIGGER audit_digests_only_grow BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_digests
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change_of_audit();
-- Also for a session that plays a replica, where triggers are silent otherwise.
ALTER TABLE audit_events ENABLE ALWAYS TRIGGER audit_events_only_grow;
ALTER TABLE audit_digests ENABLE ALWAYS TRIGGER audit_digests_only_grow;

-- Reading writes here what it read, and may not look into it. Of its own counts it must, to add.
GRANT INSERT ON audit_events TO hitherto_read;
GRANT SELECT, INSERT, UPDATE ON audit_read_counts TO hitherto_read, hitherto_write;
GRANT SELECT, INSERT ON audit_events TO
    hitherto_write, hitherto_maintenance, hitherto_removal;
GRANT SELECT ON audit_read_counts TO hitherto_removal;
-- Hours that are over move from there to the log.
GRANT SELECT, DELETE ON audit_read_counts TO hitherto_maintenance;
GRANT SELECT, INSERT ON audit_digests TO hitherto_maintenance;
GRANT SELECT ON audit_digests TO hitherto_write, hitherto_removal;
