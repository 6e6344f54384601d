-- What the embedding of questions has used and nobody has charged yet. The retrieval service counts,
-- in batches and off the path of an answer; the extraction service, which knows the prices, moves
-- the counts to usage_ledger.
CREATE TABLE query_usage (
    tenant_id text NOT NULL,
    model text NOT NULL,
    calls bigint NOT NULL DEFAULT 0 CHECK (calls >= 0),
    tokens bigint NOT NULL DEFAULT 0 CHECK (tokens >= 0),
    PRIMARY KEY (tenant_id, model)
);

ALTER TABLE query_usage ENABLE ROW LEVEL SECURITY;
CREATE POLICY one_tenant ON query_usage
    TO hitherto_read, hitherto_write, hitherto_removal
    USING (tenant_id = current_setting('hitherto.tenant_id', true))
    WITH CHECK (tenant_id = current_setting('hitherto.tenant_id', true));
CREATE POLICY across_tenants ON query_usage TO hitherto_maintenance
    USING (true) WITH CHECK (true);

GRANT SELECT, INSERT, UPDATE ON query_usage TO hitherto_read;
GRANT SELECT, DELETE ON query_usage TO hitherto_maintenance;
