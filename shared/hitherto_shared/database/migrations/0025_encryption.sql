-- What is sealed with the key of its user, which does not lie in the database: `sealed` holds the
-- true values, and the columns they belong in are empty. Place and key decide what opens; see
-- hitherto_shared/encryption.

-- Counts what is left for the sweep to seal, and is set back by the sweep that has found all of it:
-- the setting was turned on, or a memory was sealed whose earlier wording left words behind.
ALTER TABLE users ADD COLUMN to_seal integer NOT NULL DEFAULT 0
    CONSTRAINT users_to_seal CHECK (to_seal >= 0);
-- The key with which encryption was last turned on. Whoever still has one of before an erase in hand
-- seals nothing with it.
ALTER TABLE users ADD COLUMN key_id text;
-- Read across users.
CREATE INDEX users_with_something_to_seal ON users (tenant_id, user_id) WHERE to_seal > 0;

-- Content, detail, tags, keywords, context and metadata. A sealed memory has a number of the keyword
-- index like any other and no word in it.
ALTER TABLE memories ADD COLUMN sealed bytea;
ALTER TABLE memories DROP CONSTRAINT memories_content_check;
ALTER TABLE memories ADD CONSTRAINT memories_content
    CHECK ((content <> '' OR sealed IS NOT NULL) AND octet_length(content) <= 8192);
ALTER TABLE memories DROP CONSTRAINT memories_embedding_state_check;
ALTER TABLE memories ADD CONSTRAINT memories_embedding_state
    CHECK (embedding_state IN ('pending', 'stored', 'refused', 'sealed'));
ALTER TABLE memories ADD CONSTRAINT memories_sealed CHECK (sealed IS NULL
    OR (sensitive AND content = '' AND detail = '' AND tags = '{}' AND keywords = '{}'
        AND context = '{}' AND metadata = '{}' AND lexical_length = 0));
-- 'sealed': it has no vector in clear. Whether it has a sealed one, sealed_embeddings tells.
ALTER TABLE memories ADD CONSTRAINT memories_sealed_state
    CHECK ((embedding_state = 'sealed') = (sealed IS NOT NULL));

-- Memories about the person are sensitive by their type, also those that were learnt.
UPDATE memories SET sensitive = true WHERE type = 'personal' AND NOT sensitive;

-- The newest sealed memories of a user, which a search opens and compares one by one.
CREATE INDEX memories_sealed_newest ON memories (tenant_id, user_id, created_at DESC, memory_id DESC)
    WHERE sealed IS NOT NULL;

-- A version may be sealed that was not sensitive yet: the memory is now.
ALTER TABLE memory_versions ADD COLUMN sealed bytea;
ALTER TABLE memory_versions ADD CONSTRAINT memory_versions_content
    CHECK (content <> '' OR sealed IS NOT NULL);
ALTER TABLE memory_versions ADD CONSTRAINT memory_versions_sealed CHECK (sealed IS NULL
    OR (content = '' AND detail = '' AND tags = '{}' AND keywords = '{}' AND context = '{}'
        AND metadata = '{}'));

-- The vector of a sealed memory, which would tell nearly as much as its words.
CREATE TABLE sealed_embeddings (
    tenant_id text NOT NULL,
    user_id text NOT NULL,
    memory_id uuid NOT NULL,
    model text NOT NULL,
    dimensions integer NOT NULL,
    -- As in memory_embeddings: a vector of an earlier wording is of no use.
    text_version integer NOT NULL DEFAULT 1,
    sealed bytea NOT NULL,
    PRIMARY KEY (tenant_id, user_id, memory_id, model),
    FOREIGN KEY (tenant_id, user_id, memory_id) REFERENCES memories,
    FOREIGN KEY (model, dimensions) REFERENCES embedding_models (model, dimensions)
);

-- Inline, as vectors in clear lie: a search reads thousands of them, and there is nothing in them to
-- compress.
ALTER TABLE sealed_embeddings ALTER COLUMN sealed SET STORAGE PLAIN;
ALTER TABLE sealed_embeddings SET (toast_tuple_target = 8160);

-- Content, name, context items and metadata. A sealed message is in no index.
ALTER TABLE messages ADD COLUMN sealed bytea;
ALTER TABLE messages ADD CONSTRAINT messages_sealed CHECK (sealed IS NULL
    OR (content = '' AND name = '' AND context_items = '[]' AND metadata = '{}'
        AND lexical_no IS NULL AND lexical_length = 0 AND embedding_state = 'none'));
DROP INDEX messages_not_indexed;
CREATE INDEX messages_not_indexed ON messages (accepted_at)
    WHERE lexical_no IS NULL AND role IN ('user', 'assistant') AND sealed IS NULL;

-- Title, summary, topics and suggestions. A sealed summary is in no index.
ALTER TABLE conversation_summaries ADD COLUMN sealed bytea;
ALTER TABLE conversation_summaries DROP CONSTRAINT conversation_summaries_title_check;
ALTER TABLE conversation_summaries ADD CONSTRAINT conversation_summaries_title
    CHECK (char_length(title) <= 255 AND (title <> '' OR sealed IS NOT NULL));
ALTER TABLE conversation_summaries ADD CONSTRAINT conversation_summaries_sealed
    CHECK (sealed IS NULL
        OR (title = '' AND summary = '' AND key_topics = '{}' AND technical_topics = '{}'
            AND followup_suggestions = '{}' AND lexical_no IS NULL AND lexical_length = 0
            AND embedding_state = 'none'));
DROP INDEX conversation_summaries_not_indexed;
CREATE INDEX conversation_summaries_not_indexed ON conversation_summaries (updated_at)
    WHERE lexical_no IS NULL AND sealed IS NULL;

-- What was learnt. Department and access level stay clear: they decide who may read.
ALTER TABLE profiles ADD COLUMN sealed bytea;
ALTER TABLE profiles ADD CONSTRAINT profiles_sealed CHECK (sealed IS NULL
    OR (summary = '' AND current_projects = '{}' AND preferences = '{}' AND frequent_intents = '{}'
        AND facts = '{}' AND metadata = '{}' AND said_at = '{}'));
ALTER TABLE profile_versions ADD COLUMN sealed bytea;
ALTER TABLE profile_versions ADD CONSTRAINT profile_versions_sealed
    CHECK (sealed IS NULL OR profile = '{}');

-- Which key a reply was sealed with: the user's, else the installation's.
ALTER TABLE unusable_replies ADD COLUMN of_user_key boolean NOT NULL DEFAULT false;

ALTER TABLE sealed_embeddings ENABLE ROW LEVEL SECURITY;
CREATE POLICY one_tenant ON sealed_embeddings
    TO hitherto_read, hitherto_write, hitherto_removal
    USING (tenant_id = current_setting('hitherto.tenant_id', true))
    WITH CHECK (tenant_id = current_setting('hitherto.tenant_id', true));
CREATE POLICY across_tenants ON sealed_embeddings TO hitherto_maintenance
    USING (true) WITH CHECK (true);

GRANT SELECT ON sealed_embeddings TO hitherto_read, hitherto_maintenance;
GRANT SELECT, INSERT, UPDATE ON sealed_embeddings TO hitherto_write;
GRANT SELECT, INSERT, UPDATE, DELETE ON sealed_embeddings TO hitherto_removal;
-- A change of model leaves the vectors of sealed memories to the sweep.
GRANT UPDATE (to_seal) ON users TO hitherto_maintenance;
-- The sweep seals what stood before, on the role that may also remove its vectors and words.
GRANT UPDATE (profile, sealed) ON profile_versions TO hitherto_removal;
