-- What callers and upkeep do to memories beside learning: correct, forget, restore, review, merge,
-- archive, expire, take back.
ALTER TABLE history DROP CONSTRAINT history_action_check;
ALTER TABLE history ADD CONSTRAINT history_action_check CHECK (action IN ('created', 'updated',
    'merged', 'contradicted', 'superseded', 'achieved', 'archived', 'quarantined', 'forgotten',
    'restored', 'approved', 'rejected', 'rolled_back', 'expired'));

-- The other memory of a contradiction, a merge or an achieved goal.
ALTER TABLE history ADD COLUMN related_memory_id uuid;

-- A quarantined memory names what it would contradict: approval carries that out.
ALTER TABLE memories ADD COLUMN challenges uuid[] NOT NULL DEFAULT '{}';

-- Versions keep what a change by hand can change too.
ALTER TABLE memory_versions ADD COLUMN sensitive boolean NOT NULL DEFAULT false;
ALTER TABLE memory_versions ADD COLUMN said_at timestamptz;
ALTER TABLE memory_versions ADD COLUMN supersedes uuid[] NOT NULL DEFAULT '{}';
ALTER TABLE memory_versions ADD COLUMN job_id uuid;

-- Which memories a job created or changed, and which a message stands behind: for RollbackSource.
CREATE INDEX memories_by_job ON memories (tenant_id, user_id, job_id) WHERE job_id IS NOT NULL;
CREATE INDEX history_by_job ON history (tenant_id, user_id, job_id) WHERE job_id IS NOT NULL;
CREATE INDEX memory_sources_by_conversation
    ON memory_sources (tenant_id, user_id, md5(conversation_id));
CREATE INDEX memories_by_conversation
    ON memories (tenant_id, user_id, conversation_id) WHERE conversation_id IS NOT NULL;
CREATE INDEX memories_by_superseded_by
    ON memories (tenant_id, user_id, superseded_by) WHERE superseded_by IS NOT NULL;

-- Groups of memories of one tag that consolidation has looked at: the same group is not paid for
-- twice. The fingerprint is of the ids and contents that were left in it, `members` their number,
-- `job_id` the run that looked (none: a merge was undone by hand).
CREATE TABLE consolidation_groups (
    tenant_id text NOT NULL,
    user_id text NOT NULL,
    tag text NOT NULL,
    fingerprint bytea NOT NULL CHECK (octet_length(fingerprint) = 32),
    members integer NOT NULL CHECK (members >= 0),
    job_id uuid,
    examined_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, user_id, tag),
    FOREIGN KEY (tenant_id, user_id) REFERENCES users
);

-- Ways of a user that were learnt from behaviour (F5) and feedback (F6), each with how sure it is.
CREATE TABLE preferences (
    tenant_id text NOT NULL,
    user_id text NOT NULL,
    type text NOT NULL CHECK (char_length(type) BETWEEN 1 AND 64),
    key text NOT NULL CHECK (char_length(key) BETWEEN 1 AND 64),
    value jsonb NOT NULL,
    confidence double precision NOT NULL CHECK (confidence BETWEEN 0 AND 1),
    observations integer NOT NULL DEFAULT 1 CHECK (observations >= 1),
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, user_id, type, key),
    FOREIGN KEY (tenant_id, user_id) REFERENCES users
);

-- What users made of answers; a rating or an edit.
CREATE TABLE feedback (
    tenant_id text NOT NULL,
    user_id text NOT NULL,
    feedback_id uuid NOT NULL,
    conversation_id text NOT NULL,
    message_id text NOT NULL,
    rating smallint CHECK (rating BETWEEN 1 AND 5),
    original text CHECK (octet_length(original) <= 65536),
    edited text CHECK (octet_length(edited) <= 65536),
    memory_ids uuid[] NOT NULL DEFAULT '{}',
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, user_id, feedback_id),
    FOREIGN KEY (tenant_id, user_id) REFERENCES users,
    CHECK ((rating IS NULL) = (original IS NOT NULL AND edited IS NOT NULL))
);

GRANT SELECT, INSERT, UPDATE ON consolidation_groups, preferences TO hitherto_write;
GRANT SELECT, INSERT ON feedback TO hitherto_write;
-- A corrected memory may mention other names than before.
GRANT DELETE ON entity_mentions TO hitherto_write;
GRANT SELECT ON preferences, feedback TO hitherto_read;
GRANT SELECT ON consolidation_groups, preferences, feedback TO hitherto_maintenance;

-- Upkeep across users (decay, caps): changes of status with their versions and history.
GRANT UPDATE (status, version, expires_at, updated_at, job_id) ON memories
    TO hitherto_maintenance;
GRANT INSERT ON memory_versions, history TO hitherto_maintenance;
