-- Emails, files, tasks and events that a backend hands over as knowledge. Unique by user, source
-- and the source's id; handing one over again replaces it under its id.
CREATE TABLE documents (
    tenant_id text NOT NULL,
    user_id text NOT NULL,
    document_id uuid NOT NULL,
    source_type text NOT NULL CHECK (char_length(source_type) BETWEEN 1 AND 64),
    source_id text NOT NULL CHECK (char_length(source_id) BETWEEN 1 AND 1024),
    content_type text NOT NULL DEFAULT '' CHECK (char_length(content_type) <= 64),
    title text NOT NULL DEFAULT '',
    summary text NOT NULL DEFAULT '',
    content text NOT NULL DEFAULT '',
    author text NOT NULL DEFAULT '',
    metadata jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(metadata) = 'object'),
    -- When it was made at the source, as the caller said, else when it first came.
    source_created_at timestamptz NOT NULL,
    -- Of all of the above: an unchanged document costs nothing.
    content_hash bytea NOT NULL CHECK (octet_length(content_hash) = 32),
    -- The content that chunks and vectors were made of; they lag until the job has run.
    ingested_hash bytea CHECK (octet_length(ingested_hash) = 32),
    -- Title and summary as they stand before every chunk in the indexes.
    ingested_heading text NOT NULL DEFAULT '',
    -- The job that is to read the present content, or has read it.
    job_id uuid,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, user_id, document_id),
    FOREIGN KEY (tenant_id, user_id) REFERENCES users
);

-- By digest: ids of the source may be longer than an index row holds.
CREATE UNIQUE INDEX documents_by_source
    ON documents (tenant_id, user_id, source_type, md5(source_id));
CREATE INDEX documents_newest
    ON documents (tenant_id, user_id, source_created_at DESC, document_id DESC);

CREATE TABLE document_chunks (
    tenant_id text NOT NULL,
    user_id text NOT NULL,
    document_id uuid NOT NULL,
    chunk_id uuid NOT NULL,
    position integer NOT NULL CHECK (position >= 0),
    content text NOT NULL CHECK (content <> ''),
    lexical_no integer NOT NULL,
    lexical_length integer NOT NULL CHECK (lexical_length >= 0),
    embedding_state text NOT NULL DEFAULT 'pending'
        CHECK (embedding_state IN ('pending', 'stored', 'refused')),
    PRIMARY KEY (tenant_id, user_id, chunk_id),
    -- Checked at the end of a statement: chunks that stay may change places.
    UNIQUE (tenant_id, user_id, document_id, position) DEFERRABLE INITIALLY IMMEDIATE,
    UNIQUE (tenant_id, user_id, lexical_no),
    FOREIGN KEY (tenant_id, user_id, document_id) REFERENCES documents
);

CREATE INDEX document_chunks_without_vector
    ON document_chunks (chunk_id) WHERE embedding_state = 'pending';

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
);

ALTER TABLE document_chunk_embeddings ALTER COLUMN embedding SET STORAGE PLAIN;
ALTER TABLE document_chunk_embeddings SET (toast_tuple_target = 8160);

CREATE TABLE document_mentions (
    tenant_id text NOT NULL,
    user_id text NOT NULL,
    entity_id uuid NOT NULL,
    document_id uuid NOT NULL,
    -- The names and addresses that the document gives it. Those that no other document gives leave
    -- the entity with the document.
    names text[] NOT NULL DEFAULT '{}',
    PRIMARY KEY (tenant_id, user_id, entity_id, document_id),
    FOREIGN KEY (tenant_id, user_id, entity_id) REFERENCES entities,
    FOREIGN KEY (tenant_id, user_id, document_id) REFERENCES documents
);

CREATE INDEX document_mentions_by_document
    ON document_mentions (tenant_id, user_id, document_id);

-- The keyword index of texts that are no memories; the same shape as `postings`, in a table of its
-- own, so that words of documents neither slow nor outweigh those of memories.
CREATE TABLE passage_postings (
    tenant_id text NOT NULL,
    user_id text NOT NULL,
    corpus text NOT NULL CHECK (corpus IN ('documents', 'messages')),
    term text NOT NULL CHECK (char_length(term) BETWEEN 1 AND 64),
    segment integer NOT NULL CHECK (segment >= 0),
    lexical_nos integer[] NOT NULL,
    frequencies smallint[] NOT NULL,
    lengths smallint[] NOT NULL,
    PRIMARY KEY (tenant_id, user_id, corpus, term, segment),
    FOREIGN KEY (tenant_id, user_id) REFERENCES users,
    CHECK (cardinality(lexical_nos) BETWEEN 1 AND 256),
    CHECK (cardinality(frequencies) = cardinality(lexical_nos)),
    CHECK (cardinality(lengths) = cardinality(lexical_nos))
);

CREATE TABLE passage_statistics (
    tenant_id text NOT NULL,
    user_id text NOT NULL,
    corpus text NOT NULL CHECK (corpus IN ('documents', 'messages')),
    last_lexical_no integer NOT NULL DEFAULT 0 CHECK (last_lexical_no >= 0),
    texts integer NOT NULL DEFAULT 0 CHECK (texts >= 0),
    terms bigint NOT NULL DEFAULT 0 CHECK (terms >= 0),
    PRIMARY KEY (tenant_id, user_id, corpus),
    FOREIGN KEY (tenant_id, user_id) REFERENCES users
);

GRANT SELECT ON documents, document_chunks, document_chunk_embeddings, document_mentions,
    passage_postings, passage_statistics TO hitherto_read;
GRANT SELECT, INSERT, UPDATE ON documents, document_chunks, document_chunk_embeddings,
    passage_postings, passage_statistics TO hitherto_write;
GRANT SELECT, INSERT ON document_mentions TO hitherto_write;
-- What is made of a document is made anew when the document changes, and an entity that nothing
-- mentions any more goes. The documents themselves this role cannot delete.
GRANT DELETE ON document_chunks, document_chunk_embeddings, document_mentions, passage_postings,
    entities TO hitherto_write;
GRANT SELECT ON documents, document_chunks, document_chunk_embeddings, document_mentions,
    passage_postings, passage_statistics TO hitherto_maintenance;
GRANT INSERT, UPDATE ON document_chunk_embeddings TO hitherto_maintenance;
GRANT UPDATE (embedding_state) ON document_chunks TO hitherto_maintenance;
