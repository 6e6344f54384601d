-- A key of a caller is that of its credential: another one of the tenant has keys of its own, and is
-- told nothing of these. What stands for a credential is a keyed hash, since a person may be known by
-- its name.
ALTER TABLE idempotency_keys
    ADD COLUMN subject text NOT NULL DEFAULT '' CHECK (subject ~ '^([0-9a-f]{64})?$'),
    DROP CONSTRAINT idempotency_keys_pkey,
    ADD PRIMARY KEY (tenant_id, subject, rpc, key);
ALTER TABLE idempotency_keys ALTER COLUMN subject DROP DEFAULT;
