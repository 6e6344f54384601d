-- What was learnt: the current version of every memory, the versions before it, where it comes
-- from, and how often it was told.
--
-- A column `sealed` holds the true values of a row, encrypted with the key of its user, which does
-- not lie in the database; the columns they belong in are then empty. Place and key decide what
-- opens; see hitherto_shared/encryption.

-- Rows are never deleted by the system: they change status.
CREATE TABLE memories (
    tenant_id text NOT NULL,
    user_id text NOT NULL,
    memory_id uuid NOT NULL,
    version integer NOT NULL DEFAULT 1 CHECK (version >= 1),
    type text NOT NULL CHECK (type IN ('preference', 'goal', 'fact', 'decision', 'context',
        'feedback', 'personal', 'question', 'problem', 'learning')),
    content text NOT NULL,
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
    created_at timestamptz NOT NULL DEFAULT now(),
    -- When this version was written: knowledge in time, with memory_versions.
    updated_at timestamptz NOT NULL DEFAULT now(),
    job_id uuid,
    -- The number under which the keyword index knows the current text, and its length in terms. A
    -- sealed memory has a number like any other and no word in the index.
    lexical_no integer NOT NULL,
    lexical_length integer NOT NULL CHECK (lexical_length >= 0),
    -- 'sealed': it has no vector in clear. Whether it has a sealed one, sealed_embeddings tells.
    embedding_state text NOT NULL DEFAULT 'pending'
        CONSTRAINT memories_embedding_state
        CHECK (embedding_state IN ('pending', 'stored', 'refused', 'sealed')),
    -- A quarantined memory names what it would contradict: approval carries that out.
    challenges uuid[] NOT NULL DEFAULT '{}',
    -- The version at which the content last changed. A vector of an earlier wording is of no use.
    text_version integer NOT NULL DEFAULT 1,
    -- Content, detail, tags, keywords, context and metadata.
    sealed bytea,
    -- Questions that the memory answers, as the model worded them: indexed with its words, shown to
    -- nobody. They belong to the wording, not to its versions.
    questions text[] NOT NULL DEFAULT '{}',
    -- Older memories that this one probably replaces, until somebody settles the pair.
    may_replace uuid[] NOT NULL DEFAULT '{}',
    -- When its statement was last said again.
    last_confirmed_at timestamptz,
    -- {"because": memory id, "reason": text, "since": time} if something else has changed since
    -- which it may no longer hold. The reason of a sealed memory is empty.
    doubt jsonb CHECK (jsonb_typeof(doubt) = 'object'),
    PRIMARY KEY (tenant_id, user_id, memory_id),
    UNIQUE (tenant_id, user_id, lexical_no),
    FOREIGN KEY (tenant_id, user_id) REFERENCES users,
    CHECK (superseded_by <> memory_id),
    -- A memory that was replaced says so; one that is current names no successor.
    CHECK (status <> 'superseded' OR superseded_by IS NOT NULL),
    CHECK (status NOT IN ('active', 'quarantined', 'forgotten') OR superseded_by IS NULL),
    CONSTRAINT memories_content
        CHECK ((content <> '' OR sealed IS NOT NULL) AND octet_length(content) <= 8192),
    CONSTRAINT memories_sealed CHECK (sealed IS NULL
        OR (sensitive AND content = '' AND detail = '' AND tags = '{}' AND keywords = '{}'
            AND context = '{}' AND metadata = '{}' AND lexical_length = 0)),
    CONSTRAINT memories_sealed_state CHECK ((embedding_state = 'sealed') = (sealed IS NOT NULL)),
    CONSTRAINT memories_sealed_without_questions CHECK (sealed IS NULL OR questions = '{}')
);

-- The top list of a user (D1) without touching the wide rows of other statuses.
CREATE INDEX memories_top
    ON memories (tenant_id, user_id, status, importance DESC, created_at DESC);
CREATE INDEX memories_newest ON memories (tenant_id, user_id, created_at DESC, memory_id DESC);
-- The newest sealed memories of a user, which a search opens and compares one by one.
CREATE INDEX memories_sealed_newest
    ON memories (tenant_id, user_id, created_at DESC, memory_id DESC) WHERE sealed IS NOT NULL;
-- Memories that wait for their vector; the back-fill reads it across users.
CREATE INDEX memories_without_vector
    ON memories (created_at) WHERE embedding_state = 'pending';
-- What decay may have to look at: current memories of little importance, and context. A decay run
-- reads this index from end to end and nothing else of the table.
CREATE INDEX memories_fading ON memories (tenant_id, user_id, memory_id)
    WHERE status IN ('active', 'achieved') AND type <> 'decision'
      AND (importance < 0.3 OR type = 'context');
-- The few memories that are in doubt, and those that may replace others.
CREATE INDEX memories_in_doubt ON memories (tenant_id, user_id) WHERE doubt IS NOT NULL;
CREATE INDEX memories_unsettled ON memories (tenant_id, user_id) WHERE may_replace <> '{}';
-- For RollbackSource: what a job wrote, what was learnt in a conversation, and which memories
-- another one took the place of.
CREATE INDEX memories_by_job ON memories (tenant_id, user_id, job_id) WHERE job_id IS NOT NULL;
CREATE INDEX memories_by_conversation
    ON memories (tenant_id, user_id, conversation_id) WHERE conversation_id IS NOT NULL;
CREATE INDEX memories_by_superseded_by
    ON memories (tenant_id, user_id, superseded_by) WHERE superseded_by IS NOT NULL;

-- A sealed value says under which version of its row it was sealed, and opens under no other
-- number: the first byte is 2, the next four are the version. Upkeep raises versions without a key,
-- so a row may hold a value of an earlier version, and never one of a later version.
CREATE FUNCTION sealed_version(sealed bytea) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN octet_length(sealed) > 4 AND get_byte(sealed, 0) = 2
            THEN (get_byte(sealed, 1) << 24) | (get_byte(sealed, 2) << 16)
                 | (get_byte(sealed, 3) << 8) | get_byte(sealed, 4)
            ELSE 0 END;

COMMENT ON FUNCTION sealed_version IS
    'The version that a sealed value names; 0: it was sealed before values named one.';

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
    sensitive boolean NOT NULL DEFAULT false,
    said_at timestamptz,
    supersedes uuid[] NOT NULL DEFAULT '{}',
    job_id uuid,
    -- A version may be sealed that was not sensitive yet: the memory is now.
    sealed bytea,
    -- Read together with the present row, without reading what is sealed.
    sealed_version integer NOT NULL GENERATED ALWAYS AS (sealed_version(sealed)) STORED,
    -- What was uncertain about it, so that a roll-back finds it again.
    may_replace uuid[] NOT NULL DEFAULT '{}',
    doubt jsonb CHECK (jsonb_typeof(doubt) = 'object'),
    PRIMARY KEY (tenant_id, user_id, memory_id, version),
    FOREIGN KEY (tenant_id, user_id, memory_id) REFERENCES memories,
    CHECK (known_to >= known_from),
    CONSTRAINT memory_versions_content CHECK (content <> '' OR sealed IS NOT NULL),
    CONSTRAINT memory_versions_sealed CHECK (sealed IS NULL
        OR (content = '' AND detail = '' AND tags = '{}' AND keywords = '{}' AND context = '{}'
            AND metadata = '{}'))
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
    -- The words of the message that state the memory, or changed it, as a model copied them. None
    -- where the user's messages are sealed.
    quote text,
    -- The memory that the source was taken over from when the two were joined.
    joined_from uuid,
    PRIMARY KEY (tenant_id, user_id, memory_id, source_key),
    FOREIGN KEY (tenant_id, user_id, memory_id) REFERENCES memories
);

-- What was learnt from a message is looked up by the message. By the conversation alone, each of a
-- hundred messages would read all sources of its conversation.
CREATE INDEX memory_sources_by_message
    ON memory_sources (tenant_id, user_id, md5(conversation_id), md5(message_id));

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
    examined_at timestamptz NOT NULL DEFAULT now(),
    -- Digests of the groups of the tag that a model has looked at.
    answered bytea[] NOT NULL DEFAULT '{}',
    PRIMARY KEY (tenant_id, user_id, tag),
    FOREIGN KEY (tenant_id, user_id) REFERENCES users
);
