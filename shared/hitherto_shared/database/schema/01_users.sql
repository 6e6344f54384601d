-- The people whose memories are kept. A row is created with the first write about its person.
--
-- It is the fence of everything else: each writer of a user's memories or profile locks it
-- (FOR NO KEY UPDATE) in its short last transaction. An erase locks it before it removes anything,
-- so that no late worker can bring a person back.

CREATE TABLE users (
    tenant_id text NOT NULL CHECK (char_length(tenant_id) BETWEEN 1 AND 128),
    user_id text NOT NULL CHECK (char_length(user_id) BETWEEN 1 AND 256),
    created_at timestamptz NOT NULL DEFAULT now(),
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
    -- Statistics of the keyword index of memories (BM25): the newest number of a text, how many
    -- texts are indexed, and their total length in terms.
    last_lexical_no integer NOT NULL DEFAULT 0 CHECK (last_lexical_no >= 0),
    lexical_documents integer NOT NULL DEFAULT 0 CHECK (lexical_documents >= 0),
    lexical_terms bigint NOT NULL DEFAULT 0 CHECK (lexical_terms >= 0),
    -- Counts the reasons for the sweep to seal what stands in clear: encryption was turned on, or a
    -- memory was sealed whose earlier wording left words behind. The sweep that has found
    -- everything sets it back.
    to_seal integer NOT NULL DEFAULT 0 CONSTRAINT users_to_seal CHECK (to_seal >= 0),
    -- The key with which encryption was last turned on. Whoever still holds a key of before an
    -- erase seals nothing with it.
    key_id text,
    -- The number of the state that reads of a person see. Every transaction that changes what may
    -- be held of a person in the memory of a retrieval process raises it, in the statement that
    -- locks the row or right behind it; access counts do not. It grows by a random step: two
    -- histories of one person (before and after an erase, or of a backup and of what came after it)
    -- never give one number to two states.
    revision bigint NOT NULL DEFAULT 0 CHECK (revision >= 0),
    -- Whether the keyword index of memories still has words of deleted messages. Whoever deletes
    -- many conversations sweeps once, at the end; the service sweeps for a call that is
    -- interrupted.
    words_to_sweep boolean NOT NULL DEFAULT false,
    PRIMARY KEY (tenant_id, user_id)
);

-- The sweeps read these two across users.
CREATE INDEX users_with_something_to_seal ON users (tenant_id, user_id) WHERE to_seal > 0;
CREATE INDEX users_with_words_to_sweep ON users (tenant_id, user_id) WHERE words_to_sweep;
