-- Working memory: what matters for minutes or hours. Rows past `expires_at`, by this database's clock,
-- read as absent; the extraction service deletes them later, since none of this is history.
CREATE TABLE session_contexts (
    tenant_id text NOT NULL,
    user_id text NOT NULL,
    -- By custom the conversation's id; the session's own conversation need not exist.
    session_id text NOT NULL CHECK (char_length(session_id) BETWEEN 1 AND 256),
    context jsonb NOT NULL CHECK (jsonb_typeof(context) = 'object'),
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
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
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
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
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, user_id, action_id),
    FOREIGN KEY (tenant_id, user_id) REFERENCES users
);

CREATE INDEX pending_actions_of_session ON pending_actions (tenant_id, user_id, session_id);
CREATE INDEX pending_actions_by_end ON pending_actions (expires_at);

GRANT SELECT ON session_contexts, recent_items, pending_actions TO hitherto_read;
GRANT SELECT, INSERT, UPDATE ON session_contexts, recent_items, pending_actions TO hitherto_write;
-- Dropping what is over, across users.
GRANT SELECT, DELETE ON session_contexts, recent_items, pending_actions TO hitherto_maintenance;
-- A deleted conversation takes the session of its name along.
GRANT SELECT, UPDATE, DELETE ON session_contexts, recent_items, pending_actions
    TO hitherto_removal;
