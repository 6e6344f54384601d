-- Who was erased, by a keyed hash: the id itself is not kept, and the key does not lie in the database.
-- A row is made before anything is removed, so that an erasure that was cut off is found again, and
-- stays as the receipt. While `reinstated_at` is NULL nothing may be written about the user.
CREATE TABLE erased_users (
    tenant_id text NOT NULL CHECK (char_length(tenant_id) BETWEEN 1 AND 128),
    receipt_id uuid NOT NULL,
    user_hash text NOT NULL CHECK (user_hash ~ '^[0-9a-f]{64}$'),
    -- Tells which key made the hash: under another key nobody would be recognised.
    hash_key_id text NOT NULL CHECK (hash_key_id ~ '^[0-9a-f]{16}$'),
    began_at timestamptz NOT NULL DEFAULT clock_timestamp(),
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

-- An erase and an export look through the keys of the tenant, which are those of 48 hours: an index
-- over an array would not be used behind row-level security, whose policies go before any condition
-- that is not leakproof.

GRANT SELECT ON erased_users TO hitherto_write, hitherto_maintenance;
GRANT SELECT, INSERT, UPDATE ON erased_users TO hitherto_removal;
-- EraseUser removes from every table that holds a user.
GRANT DELETE ON users, jobs, history, profiles, profile_versions, api_keys, idempotency_keys
    TO hitherto_removal;
GRANT UPDATE (actor) ON profile_versions TO hitherto_removal;
GRANT UPDATE (user_ids, resource_ids) ON idempotency_keys TO hitherto_removal;
-- What a user cost stays on the bill of the tenant, without the user.
GRANT INSERT, UPDATE, DELETE ON usage_ledger TO hitherto_removal;
