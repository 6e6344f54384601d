-- The current version of every memory. Rows are never deleted by the system: they change status.
CREATE TABLE memories (
    tenant_id text NOT NULL,
    user_id text NOT NULL,
    memory_id uuid NOT NULL,
    version integer NOT NULL DEFAULT 1 CHECK (version >= 1),
    type text NOT NULL CHECK (type IN ('preference', 'goal', 'fact', 'decision', 'context',
        'feedback', 'personal', 'question', 'problem', 'learning')),
    content text NOT NULL CHECK (content <> '' AND octet_length(content) <= 8192),
    detail text NOT NULL DEFAULT '' CHECK (octet_length(detail) <= 8192),
    importance double precision NOT NULL DEFAULT 0.5 CHECK (importance BETWEEN 0 AND 1),
    confidence text NOT NULL CHECK (confidence IN ('low', 'medium', 'high')),
    source text NOT NULL CHECK (source IN
        ('conversation', 'explicit', 'inference', 'action', 'system', 'consolidation')),
    -- Who said it. Bound when the memory is written, never taken from text.
    origin text NOT NULL CHECK (origin IN ('user', 'assistant', 'tool', 'document', 'operator')),
    status text NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'superseded',
        'contradicted', 'archived', 'achieved', 'quarantined', 'forgotten')),
    tags text[] NOT NULL DEFAULT '{}',
    keywords text[] NOT NULL DEFAULT '{}',
    context jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(context) = 'object'),
    metadata jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(metadata) = 'object'),
    sensitive boolean NOT NULL DEFAULT false,
    conversation_id text,
    -- Truth in time: when it began to hold, and when it ceased to.
    valid_from timestamptz NOT NULL,
    valid_to timestamptz CHECK (valid_to >= valid_from),
    -- Event time of the newest evidence behind the current wording: older evidence that arrives
    -- late never overwrites it.
    said_at timestamptz NOT NULL,
    expires_at timestamptz,
    superseded_by uuid,
    supersedes uuid[] NOT NULL DEFAULT '{}',
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- When this version was written: knowledge in time, with memory_versions.
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    job_id uuid,
    -- The number under which the keyword index knows the current text, and its length in terms.
    lexical_no integer NOT NULL,
    lexical_length integer NOT NULL CHECK (lexical_length >= 0),
    embedding_state text NOT NULL DEFAULT 'pending'
        CHECK (embedding_state IN ('pending', 'stored', 'refused')),
    PRIMARY KEY (tenant_id, user_id, memory_id),
    UNIQUE (tenant_id, user_id, lexical_no),
    FOREIGN KEY (tenant_id, user_id) REFERENCES users,
    CHECK (superseded_by <> memory_id),
    -- A memory that was replaced says so; one that is current names no successor.
    CHECK (status <> 'superseded' OR superseded_by IS NOT NULL),
    CHECK (status NOT IN ('active', 'quarantined', 'forgotten') OR superseded_by IS NULL)
);

-- The top list of a user (D1) without touching the wide rows of other statuses.
CREATE INDEX memories_top
    ON memories (tenant_id, user_id, status, importance DESC, created_at DESC);

CREATE INDEX memories_newest ON memories (tenant_id, user_id, created_at DESC, memory_id DESC);

-- Memories that wait for their vector; the back-fill reads it across users.
CREATE INDEX memories_without_vector
    ON memories (created_at) WHERE embedding_state = 'pending';

-- Earlier versions, complete, with the time for which each was what we knew.
CREATE TABLE memory_versions (
    tenant_id text NOT NULL,
    user_id text NOT NULL,
    memory_id uuid NOT NULL,
    version integer NOT NULL CHECK (version >= 1),
    type text NOT NULL,
    content text NOT NULL,
    detail text NOT NULL,
    importance double precision NOT NULL,
    confidence text NOT NULL,
    origin text NOT NULL,
    status text NOT NULL,
    tags text[] NOT NULL,
    keywords text[] NOT NULL,
    context jsonb NOT NULL,
    metadata jsonb NOT NULL,
    valid_from timestamptz NOT NULL,
    valid_to timestamptz,
    expires_at timestamptz,
    superseded_by uuid,
    known_from timestamptz NOT NULL,
    known_to timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, user_id, memory_id, version),
    FOREIGN KEY (tenant_id, user_id, memory_id) REFERENCES memories,
    CHECK (known_to >= known_from)
);

-- Provenance: the messages a memory came from. No foreign key to messages: what was learnt may
-- outlive the words (message retention, DeleteConversation).
CREATE TABLE memory_sources (
    tenant_id text NOT NULL,
    user_id text NOT NULL,
    memory_id uuid NOT NULL,
    conversation_id text NOT NULL,
    message_id text NOT NULL,
    -- Stands for the two ids above, which may be longer than an index row.
    source_key text NOT NULL
        GENERATED ALWAYS AS (md5(md5(conversation_id) || md5(message_id))) STORED,
    PRIMARY KEY (tenant_id, user_id, memory_id, source_key),
    FOREIGN KEY (tenant_id, user_id, memory_id) REFERENCES memories
);

-- How often a memory was told, apart from the wide rows so that reading rewrites nothing wide.
CREATE TABLE memory_access (
    tenant_id text NOT NULL,
    user_id text NOT NULL,
    memory_id uuid NOT NULL,
    access_count bigint NOT NULL DEFAULT 0,
    last_accessed_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, user_id, memory_id),
    FOREIGN KEY (tenant_id, user_id, memory_id) REFERENCES memories
) WITH (fillfactor = 70);
