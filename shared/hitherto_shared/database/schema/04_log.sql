-- What was done to memories and profiles, and what each source said of them.
--
-- Both tables are read in the order of `recorded_at`. Its default is the time of the row and not,
-- as in other tables, of the transaction (now()): whoever waited for the user's row writes after
-- whoever held it, though its transaction may have begun earlier.

-- Every change of a memory or profile, append-only by grants. It holds contents, so it is erased
-- with the user.
CREATE TABLE history (
    tenant_id text NOT NULL,
    user_id text NOT NULL,
    event_id uuid NOT NULL,
    recorded_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    subject text NOT NULL CHECK (subject IN ('memory', 'profile')),
    memory_id uuid,
    action text NOT NULL CHECK (action IN ('created', 'updated', 'merged', 'contradicted',
        'superseded', 'achieved', 'archived', 'quarantined', 'forgotten', 'restored', 'approved',
        'rejected', 'rolled_back', 'expired')),
    version integer NOT NULL,
    -- Who: `extraction`, or the name of a credential.
    actor text NOT NULL,
    reason text NOT NULL DEFAULT '',
    job_id uuid,
    before jsonb,
    after jsonb,
    -- The other memory of a contradiction, a merge or an achieved goal.
    related_memory_id uuid,
    PRIMARY KEY (tenant_id, user_id, event_id),
    FOREIGN KEY (tenant_id, user_id) REFERENCES users,
    CHECK ((subject = 'memory') = (memory_id IS NOT NULL))
);

CREATE INDEX history_of_memory ON history (tenant_id, user_id, memory_id, recorded_at);
-- For RollbackSource.
CREATE INDEX history_by_job ON history (tenant_id, user_id, job_id) WHERE job_id IS NOT NULL;
-- What jobs made of a user's memories by the word of a model, newest last: the daily cap on such
-- changes counts the last 24 hours in the transaction of every reply.
CREATE INDEX history_changes_by_models ON history (tenant_id, user_id, recorded_at)
    WHERE actor IN ('extraction', 'reconciliation') AND subject = 'memory'
    AND action IN ('contradicted', 'achieved', 'updated', 'superseded');

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
    -- Without quotes: these go with their messages, and stand in memory_sources and profiles.
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

-- By subject, and by each kind of source that can be taken back.
CREATE INDEX statements_by_memory ON statements (tenant_id, user_id, memory_id);
CREATE INDEX statements_by_job ON statements (tenant_id, user_id, job_id) WHERE job_id IS NOT NULL;
CREATE INDEX statements_by_conversation ON statements (tenant_id, user_id, md5(conversation_id))
    WHERE conversation_id IS NOT NULL;
CREATE INDEX statements_by_document ON statements (tenant_id, user_id, document_id)
    WHERE document_id IS NOT NULL;
