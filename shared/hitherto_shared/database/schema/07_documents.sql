-- Emails, files, tasks and events that a backend hands over as knowledge.

-- Unique by user, source and the source's id; handing one over again replaces it under its id.
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
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    -- When reads stop returning it, by this database's clock; the sweep deletes it after that.
    expires_at timestamptz,
    PRIMARY KEY (tenant_id, user_id, document_id),
    FOREIGN KEY (tenant_id, user_id) REFERENCES users
);

-- By digest: ids of the source may be longer than an index row holds.
CREATE UNIQUE INDEX documents_by_source
    ON documents (tenant_id, user_id, source_type, md5(source_id));
CREATE INDEX documents_newest
    ON documents (tenant_id, user_id, source_created_at DESC, document_id DESC);
-- The first for the sweep across users, the second for the searches of one.
CREATE INDEX documents_by_end ON documents (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX documents_of_user_by_end ON documents (tenant_id, user_id, expires_at)
    WHERE expires_at IS NOT NULL;

CREATE TABLE document_chunks (
    tenant_id text NOT NULL,
    user_id text NOT NULL,
    document_id uuid NOT NULL,
    chunk_id uuid NOT NULL,
    position integer NOT NULL CHECK (position >= 0),
    content text NOT NULL CHECK (content <> ''),
    -- The number under which the corpus 'documents' of the keyword index knows the chunk, and its
    -- length in terms.
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

-- The back-fill reads it across users.
CREATE INDEX document_chunks_without_vector
    ON document_chunks (chunk_id) WHERE embedding_state = 'pending';

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
