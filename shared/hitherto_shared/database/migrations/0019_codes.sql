-- The signs of a vector's numbers, one bit each. The nearest by these bits, ranked again by the
-- vectors themselves, are the nearest by cosine, and reading them costs a sixteenth: worth it for
-- users with more than about a thousand memories. The index holds all that the first look needs.
ALTER TABLE memory_embeddings
    ADD COLUMN code bit varying NOT NULL GENERATED ALWAYS AS (binary_quantize(embedding)) STORED;

CREATE INDEX memory_embeddings_codes
    ON memory_embeddings (tenant_id, user_id, model) INCLUDE (status, memory_id, code);
