-- What each source said of a memory, of the profile or in a summary, one row per statement, so that
-- RollbackSource can rebuild what the remaining sources alone say. Rows are never changed but for
-- `taken_back_at`, for sealing, and for the name of a conversation that was deleted.
CREATE TABLE statements (
    tenant_id text NOT NULL,
    user_id text NOT NULL,
    statement_id uuid NOT NULL,
    subject text NOT NULL CHECK (subject IN ('memory', 'profile', 'summary')),
    memory_id uuid,
    -- Where it was said. A job may be cleaned away; its id stays as a name.
    conversation_id text,
    document_id uuid,
    job_id uuid,
    -- `taken` stands for a version that no statement explains and that was taken back.
    action text NOT NULL CHECK (action IN
        ('said', 'updated', 'closed', 'challenged', 'joined', 'patched', 'concluded', 'taken')),
    -- The version of its subject once it was said, and whether it made that version. Of a summary:
    -- the last message that it answers for.
    version integer NOT NULL CHECK (version >= 0),
    made_version boolean NOT NULL,
    origin text NOT NULL,
    said_at timestamptz NOT NULL,
    said jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(said) = 'object'),
    sealed bytea,
    recorded_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    taken_back_at timestamptz,
    PRIMARY KEY (tenant_id, user_id, statement_id),
    FOREIGN KEY (tenant_id, user_id) REFERENCES users,
    FOREIGN KEY (tenant_id, user_id, memory_id) REFERENCES memories,
    CHECK ((subject = 'memory') = (memory_id IS NOT NULL)),
    CHECK (sealed IS NULL OR said = '{}')
);

CREATE INDEX statements_by_memory ON statements (tenant_id, user_id, memory_id);
CREATE INDEX statements_by_job ON statements (tenant_id, user_id, job_id) WHERE job_id IS NOT NULL;
CREATE INDEX statements_by_conversation ON statements (tenant_id, user_id, md5(conversation_id))
    WHERE conversation_id IS NOT NULL;
CREATE INDEX statements_by_document ON statements (tenant_id, user_id, document_id)
    WHERE document_id IS NOT NULL;

ALTER TABLE statements ENABLE ROW LEVEL SECURITY;
CREATE POLICY one_tenant ON statements
    TO hitherto_read, hitherto_write, hitherto_removal
    USING (tenant_id = current_setting('hitherto.tenant_id', true))
    WITH CHECK (tenant_id = current_setting('hitherto.tenant_id', true));
CREATE POLICY across_tenants ON statements TO hitherto_maintenance
    USING (true) WITH CHECK (true);

GRANT SELECT, INSERT ON statements TO hitherto_write;
GRANT SELECT ON statements TO hitherto_maintenance;
GRANT SELECT, INSERT, UPDATE, DELETE ON statements TO hitherto_removal;
