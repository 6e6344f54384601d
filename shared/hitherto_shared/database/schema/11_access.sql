-- Who may call, who was erased, and who did what.

-- Credentials of services. Only the SHA-256 of the secret is kept: it has 256 random bits, so a
-- slow hash would protect nothing.
CREATE TABLE api_keys (
    key_id text PRIMARY KEY CHECK (key_id ~ '^[a-z0-9]{12}$'),
    tenant_id text NOT NULL CHECK (char_length(tenant_id) BETWEEN 1 AND 128),
    name text NOT NULL CHECK (char_length(name) BETWEEN 1 AND 128),
    secret_hash bytea NOT NULL CHECK (octet_length(secret_hash) = 32),
    scopes text[] NOT NULL CHECK (cardinality(scopes) >= 1
        AND scopes <@ ARRAY['read', 'write', 'maintenance', 'admin']),
    -- NULL: any user of the tenant; else this one only.
    user_id text,
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz,
    revoked_at timestamptz,
    -- NULL: none, so that a service may act for every user and a person for nobody else.
    departments text[] CHECK (
        cardinality(departments) <= 100
        AND array_position(departments, NULL) IS NULL AND '' <> ALL (departments)),
    -- Rights that are named one by one.
    capabilities text[] NOT NULL DEFAULT '{}'
        CHECK (capabilities <@ ARRAY['profiles.manage']),
    -- The users that a service's key is bound to; NULL: no list. An erasure takes people out; a
    -- list without anybody belongs to a revoked key. With a list, departments are set too, empty
    -- for none: whoever looks at them alone takes the key for one that may act for nobody, and
    -- never for everybody.
    user_ids text[],
    CONSTRAINT api_keys_user_ids CHECK (
        cardinality(user_ids) <= 100
        AND (cardinality(user_ids) > 0 OR revoked_at IS NOT NULL)
        AND array_position(user_ids, NULL) IS NULL AND '' <> ALL (user_ids)),
    CONSTRAINT api_keys_one_binding CHECK (user_id IS NULL OR user_ids IS NULL),
    CONSTRAINT api_keys_list_is_bound CHECK (user_ids IS NULL OR departments IS NOT NULL)
);

CREATE INDEX api_keys_of_tenant ON api_keys (tenant_id, created_at);

-- What all processes of an installation must have in common and cannot see of each other. Nothing
-- secret: of the hash key only what tells it from another one.
CREATE TABLE installation (
    fact text PRIMARY KEY CHECK (fact IN ('hash_key_id')),
    value text NOT NULL,
    stated_at timestamptz NOT NULL DEFAULT now()
);

-- Who was erased, by a keyed hash: the id itself is not kept, and the key does not lie in the
-- database. A row is made before anything is removed, so that an erasure that was cut off is found
-- again, and stays as the receipt. While `reinstated_at` is NULL nothing may be written about the
-- user.
CREATE TABLE erased_users (
    tenant_id text NOT NULL CHECK (char_length(tenant_id) BETWEEN 1 AND 128),
    receipt_id uuid NOT NULL,
    user_hash text NOT NULL CHECK (user_hash ~ '^[0-9a-f]{64}$'),
    -- Tells which key made the hash: under another key nobody would be recognised.
    hash_key_id text NOT NULL CHECK (hash_key_id ~ '^[0-9a-f]{16}$'),
    began_at timestamptz NOT NULL DEFAULT now(),
    -- NULL as long as something is left to remove.
    erased_at timestamptz,
    -- Rows removed so far, by table.
    counts jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(counts) = 'object'),
    signed_payload text,
    signature bytea,
    key_id text,
    reinstated_at timestamptz,
    PRIMARY KEY (tenant_id, receipt_id),
    CHECK ((erased_at IS NULL) = (signed_payload IS NULL)),
    CHECK ((erased_at IS NULL) = (signature IS NULL)),
    CHECK ((erased_at IS NULL) = (key_id IS NULL)),
    CHECK (reinstated_at IS NULL OR erased_at IS NOT NULL)
);

CREATE UNIQUE INDEX erased_users_now ON erased_users (tenant_id, user_hash)
    WHERE reinstated_at IS NULL;
CREATE INDEX erased_users_by_key ON erased_users (tenant_id, hash_key_id)
    WHERE reinstated_at IS NULL;

-- Who did what, and who read of whom. It grows and never changes: ids and keyed hashes only, so
-- that it can outlive the erasure of everybody in it.
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
    created_at timestamptz NOT NULL DEFAULT now(),
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
