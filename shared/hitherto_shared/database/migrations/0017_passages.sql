-- What was said, and what conversations were about, is searched like memories and documents: by
-- words and by vector. Texts of the system and of tools are not.
ALTER TABLE passage_postings DROP CONSTRAINT passage_postings_corpus_check;
ALTER TABLE passage_postings ADD CONSTRAINT passage_postings_corpora
    CHECK (corpus IN ('documents', 'messages', 'summaries'));
ALTER TABLE passage_statistics DROP CONSTRAINT passage_statistics_corpus_check;
ALTER TABLE passage_statistics ADD CONSTRAINT passage_statistics_corpora
    CHECK (corpus IN ('documents', 'messages', 'summaries'));

-- The number under which the corpus 'messages' knows the message, and its length in terms. Without
-- a number it is not indexed: it still waits for its job, or its role is one that never is.
ALTER TABLE messages ADD COLUMN lexical_no integer;
ALTER TABLE messages ADD COLUMN lexical_length integer NOT NULL DEFAULT 0
    CONSTRAINT messages_lexical_length CHECK (lexical_length >= 0);
-- 'none': it is to have no vector, being not indexed, too short, or indexed by its words only.
ALTER TABLE messages ADD COLUMN embedding_state text NOT NULL DEFAULT 'none'
    CONSTRAINT messages_embedding_state
    CHECK (embedding_state IN ('none', 'pending', 'stored', 'refused'));

CREATE UNIQUE INDEX messages_by_lexical_no ON messages (tenant_id, user_id, lexical_no)
    WHERE lexical_no IS NOT NULL;
-- What no job has indexed in time, also from before there was an index; read across users.
CREATE INDEX messages_not_indexed ON messages (accepted_at)
    WHERE lexical_no IS NULL AND role IN ('user', 'assistant');
CREATE INDEX messages_without_vector ON messages (accepted_at)
    WHERE embedding_state = 'pending';

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
);

ALTER TABLE message_embeddings ALTER COLUMN embedding SET STORAGE PLAIN;
ALTER TABLE message_embeddings SET (toast_tuple_target = 8160);

-- A summary is indexed anew whenever its title, summary or topics change, under a new number of
-- the corpus 'summaries'; the words it had before leave the index. `text_version` tells which
-- wording a vector was made of: one of an earlier wording is of no use.
ALTER TABLE conversation_summaries ADD COLUMN lexical_no integer;
ALTER TABLE conversation_summaries ADD COLUMN lexical_length integer NOT NULL DEFAULT 0
    CONSTRAINT conversation_summaries_lexical_length CHECK (lexical_length >= 0);
ALTER TABLE conversation_summaries ADD COLUMN embedding_state text NOT NULL DEFAULT 'none'
    CONSTRAINT conversation_summaries_embedding_state
    CHECK (embedding_state IN ('none', 'pending', 'stored', 'refused'));
ALTER TABLE conversation_summaries ADD COLUMN text_version integer NOT NULL DEFAULT 1
    CONSTRAINT conversation_summaries_text_version CHECK (text_version >= 1);

CREATE UNIQUE INDEX conversation_summaries_by_lexical_no
    ON conversation_summaries (tenant_id, user_id, lexical_no) WHERE lexical_no IS NOT NULL;
CREATE INDEX conversation_summaries_not_indexed ON conversation_summaries (updated_at)
    WHERE lexical_no IS NULL;
CREATE INDEX conversation_summaries_without_vector ON conversation_summaries (updated_at)
    WHERE embedding_state = 'pending';

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
);

ALTER TABLE summary_embeddings ALTER COLUMN embedding SET STORAGE PLAIN;
ALTER TABLE summary_embeddings SET (toast_tuple_target = 8160);

GRANT SELECT ON message_embeddings, summary_embeddings TO hitherto_read;
GRANT SELECT, INSERT, UPDATE ON message_embeddings, summary_embeddings TO hitherto_write;
GRANT SELECT, INSERT, UPDATE ON message_embeddings, summary_embeddings TO hitherto_maintenance;
-- The back-fill indexes what no job has, and says that a vector has come.
GRANT UPDATE (lexical_no, lexical_length, embedding_state) ON messages, conversation_summaries
    TO hitherto_maintenance;
GRANT INSERT, UPDATE ON passage_postings, passage_statistics TO hitherto_maintenance;
GRANT SELECT, INSERT, UPDATE, DELETE ON message_embeddings, summary_embeddings
    TO hitherto_removal;
