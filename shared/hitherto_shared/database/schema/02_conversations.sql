-- What was said, what each conversation was about, and the working memory of sessions.

-- Accepting messages locks the conversation's row and numbers them from its counter, so that the
-- order of numbers is the order of commits.
CREATE TABLE conversations (
    tenant_id text NOT NULL,
    user_id text NOT NULL,
    conversation_id text NOT NULL CHECK (char_length(conversation_id) BETWEEN 1 AND 256),
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
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
    accepted_at timestamptz NOT NULL DEFAULT now(),
    context_items jsonb NOT NULL DEFAULT '[]' CHECK (jsonb_typeof(context_items) = 'array'),
    pending_action_ids text[] NOT NULL DEFAULT '{}',
    metadata jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(metadata) = 'object'),
    -- The number under which the corpus 'messages' of the keyword index knows the message, and its
    -- length in terms. Without a number it is not indexed: it still waits for its job, or its role
    -- is one that never is.
    lexical_no integer,
    lexical_length integer NOT NULL DEFAULT 0
        CONSTRAINT messages_lexical_length CHECK (lexical_length >= 0),
    -- 'none': it is to have no vector, being not indexed, too short, or indexed by its words only.
    embedding_state text NOT NULL DEFAULT 'none'
        CONSTRAINT messages_embedding_state
        CHECK (embedding_state IN ('none', 'pending', 'stored', 'refused')),
    -- Content, name, context items and metadata. A sealed message is in no index.
    sealed bytea,
    PRIMARY KEY (tenant_id, user_id, conversation_id, message_no),
    FOREIGN KEY (tenant_id, user_id, conversation_id) REFERENCES conversations,
    CONSTRAINT messages_sealed CHECK (sealed IS NULL
        OR (content = '' AND name = '' AND context_items = '[]' AND metadata = '{}'
            AND lexical_no IS NULL AND lexical_length = 0 AND embedding_state = 'none'))
);

-- Ids are unique within a conversation. Their digest stands in the index, because three ids of 256
-- characters of four bytes are more than an index row holds.
CREATE UNIQUE INDEX messages_by_id
    ON messages (tenant_id, user_id, conversation_id, md5(message_id));
CREATE UNIQUE INDEX messages_by_lexical_no ON messages (tenant_id, user_id, lexical_no)
    WHERE lexical_no IS NOT NULL;
-- What no job has indexed in time, and what lacks its vector; the back-fill reads both across
-- users.
CREATE INDEX messages_not_indexed ON messages (accepted_at)
    WHERE lexical_no IS NULL AND role IN ('user', 'assistant') AND sealed IS NULL;
CREATE INDEX messages_without_vector ON messages (accepted_at)
    WHERE embedding_state = 'pending';

-- A summary is indexed anew whenever its title, summary or topics change, under a new number of
-- the corpus 'summaries'; the words it had before leave the index.
CREATE TABLE conversation_summaries (
    tenant_id text NOT NULL,
    user_id text NOT NULL,
    conversation_id text NOT NULL,
    title text NOT NULL,
    summary text NOT NULL DEFAULT '',
    key_topics text[] NOT NULL DEFAULT '{}',
    technical_topics text[] NOT NULL DEFAULT '{}',
    outcome text NOT NULL DEFAULT 'ongoing'
        CHECK (outcome IN ('resolved', 'ongoing', 'needs_followup')),
    followup_suggestions text[] NOT NULL DEFAULT '{}',
    -- Highest message the summary answers for.
    covers_to integer NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    -- As in messages.
    lexical_no integer,
    lexical_length integer NOT NULL DEFAULT 0
        CONSTRAINT conversation_summaries_lexical_length CHECK (lexical_length >= 0),
    embedding_state text NOT NULL DEFAULT 'none'
        CONSTRAINT conversation_summaries_embedding_state
        CHECK (embedding_state IN ('none', 'pending', 'stored', 'refused')),
    -- Tells which wording a vector was made of: one of an earlier wording is of no use.
    text_version integer NOT NULL DEFAULT 1
        CONSTRAINT conversation_summaries_text_version CHECK (text_version >= 1),
    -- Title, summary, topics and suggestions, and the number of the sealing. A sealed summary is in
    -- no index.
    sealed bytea,
    sealed_version integer NOT NULL DEFAULT 1
        CONSTRAINT conversation_summaries_sealed_version CHECK (sealed_version > 0),
    PRIMARY KEY (tenant_id, user_id, conversation_id),
    FOREIGN KEY (tenant_id, user_id, conversation_id) REFERENCES conversations,
    CONSTRAINT conversation_summaries_title
        CHECK (char_length(title) <= 255 AND (title <> '' OR sealed IS NOT NULL)),
    CONSTRAINT conversation_summaries_sealed CHECK (sealed IS NULL
        OR (title = '' AND summary = '' AND key_topics = '{}' AND technical_topics = '{}'
            AND followup_suggestions = '{}' AND lexical_no IS NULL AND lexical_length = 0
            AND embedding_state = 'none'))
);

CREATE UNIQUE INDEX conversation_summaries_by_lexical_no
    ON conversation_summaries (tenant_id, user_id, lexical_no) WHERE lexical_no IS NOT NULL;
-- As for messages.
CREATE INDEX conversation_summaries_not_indexed ON conversation_summaries (updated_at)
    WHERE lexical_no IS NULL AND sealed IS NULL;
CREATE INDEX conversation_summaries_without_vector ON conversation_summaries (updated_at)
    WHERE embedding_state = 'pending';

-- Working memory: what matters for minutes or hours. Rows past `expires_at`, by this database's
-- clock, read as absent; the extraction service deletes them later, since none of this is history.
-- Each of the three tables has an index by that time, for the sweep across users.
CREATE TABLE session_contexts (
    tenant_id text NOT NULL,
    user_id text NOT NULL,
    -- By custom the conversation's id; the session's own conversation need not exist.
    session_id text NOT NULL CHECK (char_length(session_id) BETWEEN 1 AND 256),
    context jsonb NOT NULL CHECK (jsonb_typeof(context) = 'object'),
    updated_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, user_id, session_id),
    FOREIGN KEY (tenant_id, user_id) REFERENCES users
);

CREATE INDEX session_contexts_by_end ON session_contexts (expires_at);

-- What the assistant used last for a user, in whatever session.
CREATE TABLE recent_items (
    tenant_id text NOT NULL,
    user_id text NOT NULL,
    items jsonb NOT NULL CHECK (jsonb_typeof(items) = 'array'),
    updated_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, user_id),
    FOREIGN KEY (tenant_id, user_id) REFERENCES users
);

CREATE INDEX recent_items_by_end ON recent_items (expires_at);

-- What an assistant proposed to do. EXPIRED is no state of a row: one that is not final and is past
-- `expires_at` reads so.
CREATE TABLE pending_actions (
    tenant_id text NOT NULL,
    user_id text NOT NULL,
    action_id text NOT NULL CHECK (action_id ~ '^act_[0-9a-f]{8}$'),
    session_id text NOT NULL CHECK (char_length(session_id) BETWEEN 1 AND 256),
    type text NOT NULL CHECK (char_length(type) BETWEEN 1 AND 64),
    params jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(params) = 'object'),
    description text NOT NULL DEFAULT '' CHECK (octet_length(description) <= 16384),
    state text NOT NULL DEFAULT 'pending_confirmation'
        CHECK (state IN ('pending_confirmation', 'confirmed', 'completed', 'rejected')),
    -- NULL until somebody reports one.
    result jsonb CHECK (jsonb_typeof(result) = 'object'),
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, user_id, action_id),
    FOREIGN KEY (tenant_id, user_id) REFERENCES users
);

CREATE INDEX pending_actions_of_session ON pending_actions (tenant_id, user_id, session_id);
CREATE INDEX pending_actions_by_end ON pending_actions (expires_at);

-- Users with what their retention depends on beside its days.
CREATE VIEW retained_users WITH (security_invoker = true) AS
SELECT u.tenant_id, u.user_id, u.retention_days, u.message_retention_days,
       (SELECT max(c.updated_at) FROM conversations AS c
        WHERE c.tenant_id = u.tenant_id AND c.user_id = u.user_id) AS spoke_at
FROM users AS u
WHERE u.erased_at IS NULL;

-- The time before which something has exceeded its retention. A user's own number of days takes
-- precedence over the installation's; for ever (0 days) is NULL.
CREATE FUNCTION retained_since(own_days integer, days integer, most_days integer)
RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE
RETURN now() - make_interval(days => nullif(least(coalesce(own_days, days), most_days), 0));
