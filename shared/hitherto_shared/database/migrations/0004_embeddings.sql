-- Models whose vectors we hold. Vectors of different models are never compared.
CREATE TABLE embedding_models (
    model text PRIMARY KEY CHECK (char_length(model) BETWEEN 1 AND 256),
    dimensions integer NOT NULL CHECK (dimensions BETWEEN 8 AND 4000),
    active boolean NOT NULL DEFAULT false,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (model, dimensions)
);

-- At most one model answers searches at a time.
CREATE UNIQUE INDEX embedding_models_active ON embedding_models (active) WHERE active;

-- One unit vector per memory and model: of its content here, of the words it came from below.
-- Vectors lie inline (STORAGE PLAIN, a tuple may fill a page): an exact scan of one user's
-- memories then reads plain pages instead of one TOAST look-up per vector.
CREATE TABLE memory_embeddings (
    tenant_id text NOT NULL,
    user_id text NOT NULL,
    memory_id uuid NOT NULL,
    model text NOT NULL,
    dimensions integer NOT NULL,
    -- Copy of memories.status, kept in step by the writer, so that the scan needs no join.
    status text NOT NULL,
    embedding halfvec NOT NULL,
    PRIMARY KEY (tenant_id, user_id, memory_id, model),
    FOREIGN KEY (tenant_id, user_id, memory_id) REFERENCES memories,
    FOREIGN KEY (model, dimensions) REFERENCES embedding_models (model, dimensions),
    CHECK (vector_dims(embedding) = dimensions),
    -- A zero vector has no direction: its cosine is NaN, and NaN > 0.85 is true in Postgres.
    CHECK (l2_norm(embedding) BETWEEN 0.98 AND 1.02)
);

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
);

ALTER TABLE memory_embeddings ALTER COLUMN embedding SET STORAGE PLAIN;
ALTER TABLE memory_embeddings SET (toast_tuple_target = 8160);
ALTER TABLE memory_source_embeddings ALTER COLUMN embedding SET STORAGE PLAIN;
ALTER TABLE memory_source_embeddings SET (toast_tuple_target = 8160);
