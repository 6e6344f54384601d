-- What texts mean, as unit vectors: one per text and model, in a table for each kind of text.

-- Models whose vectors we hold. Vectors of different models are never compared. During a change of
-- model the target is back-filled while the active one answers; the previous one stays complete, so
-- that going back is one step too.
CREATE TABLE embedding_models (
    model text PRIMARY KEY CHECK (char_length(model) BETWEEN 1 AND 256),
    dimensions integer NOT NULL CHECK (dimensions BETWEEN 8 AND 4000),
    active boolean NOT NULL DEFAULT false,
    created_at timestamptz NOT NULL DEFAULT now(),
    target boolean NOT NULL DEFAULT false,
    previous boolean NOT NULL DEFAULT false,
    -- Since when it has been the active one: what was embedded just before may lack its vector.
    activated_at timestamptz,
    UNIQUE (model, dimensions),
    CONSTRAINT embedding_models_one_part CHECK (active::int + target::int + previous::int <= 1)
);

-- At most one model plays each part.
CREATE UNIQUE INDEX embedding_models_active ON embedding_models (active) WHERE active;
CREATE UNIQUE INDEX embedding_models_target ON embedding_models (target) WHERE target;
CREATE UNIQUE INDEX embedding_models_previous ON embedding_models (previous) WHERE previous;

-- Of a memory's content. Here as in the tables below:
--
-- * Vectors lie inline (STORAGE PLAIN, a tuple may fill a page): an exact scan of one user's texts
--   reads plain pages instead of one TOAST look-up per vector.
-- * A zero vector is refused. It has no direction: its cosine is NaN, and NaN > 0.85 is true in
--   Postgres.
-- * `text_version` names the wording that the vector was made of.
CREATE TABLE memory_embeddings (
    tenant_id text NOT NULL,
    user_id text NOT NULL,
    memory_id uuid NOT NULL,
    model text NOT NULL,
    dimensions integer NOT NULL,
    -- Copy of memories.status, kept in step by the writer, so that the scan needs no join.
    status text NOT NULL,
    embedding halfvec NOT NULL,
    text_version integer NOT NULL DEFAULT 1,
    -- The signs of the numbers, one bit each. The nearest by these bits, ranked again by the
    -- vectors themselves, are the nearest by cosine, and reading them costs a sixteenth: worth it
    -- for users with more than about a thousand memories.
    code bit varying NOT NULL GENERATED ALWAYS AS (binary_quantize(embedding)) STORED,
    PRIMARY KEY (tenant_id, user_id, memory_id, model),
    FOREIGN KEY (tenant_id, user_id, memory_id) REFERENCES memories,
    FOREIGN KEY (model, dimensions) REFERENCES embedding_models (model, dimensions),
    CHECK (vector_dims(embedding) = dimensions),
    CHECK (l2_norm(embedding) BETWEEN 0.98 AND 1.02)
) WITH (toast_tuple_target = 8160);

ALTER TABLE memory_embeddings ALTER COLUMN embedding SET STORAGE PLAIN;

-- It holds all that the first look needs.
CREATE INDEX memory_embeddings_codes
    ON memory_embeddings (tenant_id, user_id, model) INCLUDE (status, memory_id, code);

-- Of the words that a memory came from.
CREATE TABLE memory_source_embeddings (
    tenant_id text NOT NULL,
    user_id text NOT NULL,
    memory_id uuid NOT NULL,
    model text NOT NULL,
    dimensions integer NOT NULL,
    embedding halfvec NOT NULL,
    PRIMARY KEY (tenant_id, user_id, memory_id, model),
    FOREIGN KEY (tenant_id, user_id, memory_id) REFERENCES memories,
    FOREIGN KEY (model, dimensions) REFERENCES embedding_models (model, dimensions),
    CHECK (vector_dims(embedding) = dimensions),
    CHECK (l2_norm(embedding) BETWEEN 0.98 AND 1.02)
) WITH (toast_tuple_target = 8160);

ALTER TABLE memory_source_embeddings ALTER COLUMN embedding SET STORAGE PLAIN;

-- The vector of a sealed memory, which would tell nearly as much as its words. A search reads
-- thousands of them, and there is nothing in them to compress.
CREATE TABLE sealed_embeddings (
    tenant_id text NOT NULL,
    user_id text NOT NULL,
    memory_id uuid NOT NULL,
    model text NOT NULL,
    dimensions integer NOT NULL,
    text_version integer NOT NULL DEFAULT 1,
    sealed bytea NOT NULL,
    PRIMARY KEY (tenant_id, user_id, memory_id, model),
    FOREIGN KEY (tenant_id, user_id, memory_id) REFERENCES memories,
    FOREIGN KEY (model, dimensions) REFERENCES embedding_models (model, dimensions)
) WITH (toast_tuple_target = 8160);

ALTER TABLE sealed_embeddings ALTER COLUMN sealed SET STORAGE PLAIN;

CREATE TABLE message_embeddings (
    tenant_id text NOT NULL,
    user_id text NOT NULL,
    conversation_id text NOT NULL,
    message_no integer NOT NULL,
    model text NOT NULL,
    dimensions integer NOT NULL,
    embedding halfvec NOT NULL,
    PRIMARY KEY (tenant_id, user_id, conversation_id, message_no, model),
    FOREIGN KEY (tenant_id, user_id, conversation_id, message_no) REFERENCES messages,
    FOREIGN KEY (model, dimensions) REFERENCES embedding_models (model, dimensions),
    CHECK (vector_dims(embedding) = dimensions),
    CHECK (l2_norm(embedding) BETWEEN 0.98 AND 1.02)
) WITH (toast_tuple_target = 8160);

ALTER TABLE message_embeddings ALTER COLUMN embedding SET STORAGE PLAIN;

CREATE TABLE summary_embeddings (
    tenant_id text NOT NULL,
    user_id text NOT NULL,
    conversation_id text NOT NULL,
    model text NOT NULL,
    dimensions integer NOT NULL,
    text_version integer NOT NULL,
    embedding halfvec NOT NULL,
    PRIMARY KEY (tenant_id, user_id, conversation_id, model),
    FOREIGN KEY (tenant_id, user_id, conversation_id) REFERENCES conversation_summaries,
    FOREIGN KEY (model, dimensions) REFERENCES embedding_models (model, dimensions),
    CHECK (vector_dims(embedding) = dimensions),
    CHECK (l2_norm(embedding) BETWEEN 0.98 AND 1.02)
) WITH (toast_tuple_target = 8160);

ALTER TABLE summary_embeddings ALTER COLUMN embedding SET STORAGE PLAIN;

CREATE TABLE document_chunk_embeddings (
    tenant_id text NOT NULL,
    user_id text NOT NULL,
    chunk_id uuid NOT NULL,
    model text NOT NULL,
    dimensions integer NOT NULL,
    embedding halfvec NOT NULL,
    PRIMARY KEY (tenant_id, user_id, chunk_id, model),
    FOREIGN KEY (tenant_id, user_id, chunk_id) REFERENCES document_chunks,
    FOREIGN KEY (model, dimensions) REFERENCES embedding_models (model, dimensions),
    CHECK (vector_dims(embedding) = dimensions),
    CHECK (l2_norm(embedding) BETWEEN 0.98 AND 1.02)
) WITH (toast_tuple_target = 8160);

ALTER TABLE document_chunk_embeddings ALTER COLUMN embedding SET STORAGE PLAIN;
