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
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at timestamptz,
    revoked_at timestamptz
);

CREATE INDEX api_keys_of_tenant ON api_keys (tenant_id, created_at);
