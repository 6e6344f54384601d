-- People whose memories are kept. The row is created with the first write about a person and is
-- the fence of everything else: each writer of a user's memories or profile locks it
-- (FOR NO KEY UPDATE) in its short last transaction, and an erase locks it before it removes
-- anything, so that no late worker can bring a person back.
CREATE TABLE users (
    tenant_id text NOT NULL CHECK (char_length(tenant_id) BETWEEN 1 AND 128),
    user_id text NOT NULL CHECK (char_length(user_id) BETWEEN 1 AND 256),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    erased_at timestamptz,
    -- Key of the keyed hashes that stand for this person in the audit log; destroyed by an erase.
    audit_key bytea CHECK (octet_length(audit_key) = 32),
    -- Settings; NULL means the service's default.
    memory_enabled boolean,
    learning_enabled boolean,
    retention_days integer CHECK (retention_days >= 0),
    message_retention_days integer CHECK (message_retention_days >= 0),
    encrypt_sensitive boolean,
    time_zone text,
    -- Statistics of the keyword index (BM25): texts indexed so far, their number and total length.
    last_lexical_no integer NOT NULL DEFAULT 0 CHECK (last_lexical_no >= 0),
    lexical_documents integer NOT NULL DEFAULT 0 CHECK (lexical_documents >= 0),
    lexical_terms bigint NOT NULL DEFAULT 0 CHECK (lexical_terms >= 0),
    PRIMARY KEY (tenant_id, user_id)
);
