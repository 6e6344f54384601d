-- What was said. Accepting messages locks the conversation's row and numbers them from its
-- counter, so that the order of numbers is the order of commits.
CREATE TABLE conversations (
    tenant_id text NOT NULL,
    user_id text NOT NULL,
    conversation_id text NOT NULL CHECK (char_length(conversation_id) BETWEEN 1 AND 256),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at timestamptz,
    time_zone text NOT NULL DEFAULT 'UTC',
    last_message_no integer NOT NULL DEFAULT 0 CHECK (last_message_no >= 0),
    -- End of the last range of messages that was handed to a job.
    watermark integer NOT NULL DEFAULT 0 CHECK (watermark BETWEEN 0 AND last_message_no),
    -- When the newest message was said (event time), for lists ordered by activity.
    last_said_at timestamptz,
    PRIMARY KEY (tenant_id, user_id, conversation_id),
    FOREIGN KEY (tenant_id, user_id) REFERENCES users
);

CREATE INDEX conversations_by_activity
    ON conversations (tenant_id, user_id, last_said_at DESC NULLS LAST);

-- Conversations with messages that no job owns yet; the idle sweep reads it across users.
CREATE INDEX conversations_pending
    ON conversations (updated_at) WHERE watermark < last_message_no;

CREATE TABLE messages (
    tenant_id text NOT NULL,
    user_id text NOT NULL,
    conversation_id text NOT NULL,
    message_no integer NOT NULL CHECK (message_no > 0),
    message_id text NOT NULL CHECK (char_length(message_id) BETWEEN 1 AND 256),
    role text NOT NULL CHECK (role IN ('user', 'assistant', 'system', 'tool')),
    name text NOT NULL DEFAULT '' CHECK (char_length(name) <= 256),
    content text NOT NULL CHECK (octet_length(content) <= 65536),
    -- Event time: as the caller sent it, else the moment of acceptance.
    said_at timestamptz NOT NULL,
    accepted_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    context_items jsonb NOT NULL DEFAULT '[]' CHECK (jsonb_typeof(context_items) = 'array'),
    pending_action_ids text[] NOT NULL DEFAULT '{}',
    metadata jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(metadata) = 'object'),
    PRIMARY KEY (tenant_id, user_id, conversation_id, message_no),
    FOREIGN KEY (tenant_id, user_id, conversation_id) REFERENCES conversations
);

-- Ids are unique within a conversation. Their digest stands in the index, because three ids of 256
-- characters of four bytes are more than an index row holds.
CREATE UNIQUE INDEX messages_by_id
    ON messages (tenant_id, user_id, conversation_id, md5(message_id));

CREATE TABLE conversation_summaries (
    tenant_id text NOT NULL,
    user_id text NOT NULL,
    conversation_id text NOT NULL,
    title text NOT NULL CHECK (char_length(title) BETWEEN 1 AND 255),
    summary text NOT NULL DEFAULT '',
    key_topics text[] NOT NULL DEFAULT '{}',
    technical_topics text[] NOT NULL DEFAULT '{}',
    outcome text NOT NULL DEFAULT 'ongoing'
        CHECK (outcome IN ('resolved', 'ongoing', 'needs_followup')),
    followup_suggestions text[] NOT NULL DEFAULT '{}',
    -- Highest message the summary answers for.
    covers_to integer NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, user_id, conversation_id),
    FOREIGN KEY (tenant_id, user_id, conversation_id) REFERENCES conversations
);
