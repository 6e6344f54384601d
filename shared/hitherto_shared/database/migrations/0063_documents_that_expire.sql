-- oldest-program: 0051
--
-- When reads stop returning a document, by this database's clock; the sweep deletes it after that.
ALTER TABLE documents ADD COLUMN expires_at timestamptz;

CREATE INDEX documents_by_end ON documents (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX documents_of_user_by_end ON documents (tenant_id, user_id, expires_at)
    WHERE expires_at IS NOT NULL;

-- The chunks of expired documents, which no leg of a search may count.
CREATE FUNCTION expired_chunks(of_tenant text, of_user text)
RETURNS TABLE (chunk_id uuid, lexical_no integer)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT c.chunk_id, c.lexical_no
    FROM documents AS d
    JOIN document_chunks AS c ON c.tenant_id = of_tenant AND c.user_id = of_user
         AND c.document_id = d.document_id
    WHERE d.tenant_id = of_tenant AND d.user_id = of_user AND d.expires_at <= now();
END;

-- As before, without expired documents, and with the new column.
DROP FUNCTION filtered_documents;

CREATE FUNCTION filtered_documents(
    of_tenant text, of_user text, in_conversation text, from_time timestamptz, to_time timestamptz,
    stored_until timestamptz, about text[], with_metadata jsonb, of_sources text[],
    of_contents text[])
RETURNS TABLE (tenant_id text, user_id text, document_id uuid, source_type text, source_id text,
               content_type text, title text, summary text, author text,
               source_created_at timestamptz, metadata jsonb, updated_at timestamptz,
               expires_at timestamptz)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT d.tenant_id, d.user_id, d.document_id, d.source_type, d.source_id, d.content_type,
           d.title, d.summary, d.author, d.source_created_at, d.metadata, d.updated_at,
           d.expires_at
    FROM documents AS d
    WHERE d.tenant_id = of_tenant AND d.user_id = of_user
      AND in_conversation IS NULL
      AND (d.expires_at IS NULL OR d.expires_at > now())
      AND (of_sources IS NULL OR d.source_type = ANY(of_sources))
      AND (of_contents IS NULL OR d.content_type = ANY(of_contents))
      AND (from_time IS NULL OR d.source_created_at >= from_time)
      AND (to_time IS NULL OR d.source_created_at < to_time)
      AND (stored_until IS NULL OR d.updated_at <= stored_until)
      AND (with_metadata IS NULL OR d.metadata || with_metadata = d.metadata)
      AND (about IS NULL OR d.document_id IN (
            SELECT dm.document_id
            FROM entities AS en
            JOIN document_mentions AS dm ON dm.tenant_id = en.tenant_id
                 AND dm.user_id = en.user_id AND dm.entity_id = en.entity_id
            WHERE en.tenant_id = of_tenant AND en.user_id = of_user
              AND en.called && about));
END;

-- As before, without the chunks of expired documents.
CREATE OR REPLACE FUNCTION compared_chunks(
    of_tenant text, of_user text, of_model text, question halfvec, named uuid[], wanted_words text)
RETURNS TABLE (lexical_no integer, chunk_id uuid, document_id uuid, source_type text,
               source_created_at timestamptz, created_at timestamptz, cosine double precision,
               entities bigint, text_rank real)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT c.lexical_no, c.chunk_id, c.document_id, d.source_type, d.source_created_at,
           d.created_at, -(e.embedding <#> question),
           (SELECT count(*) FROM document_mentions AS dm
            WHERE dm.tenant_id = of_tenant AND dm.user_id = of_user
              AND dm.document_id = c.document_id AND dm.entity_id = ANY(named)),
           CASE WHEN wanted_words IS NULL THEN 0
                ELSE ts_rank(to_tsvector('simple', d.ingested_heading || ' ' || c.content),
                             (SELECT websearch_to_tsquery('simple', wanted_words))) END
    FROM document_chunks AS c
    JOIN documents AS d ON d.tenant_id = of_tenant AND d.user_id = of_user
         AND d.document_id = c.document_id
    LEFT JOIN document_chunk_embeddings AS e ON e.tenant_id = of_tenant AND e.user_id = of_user
         AND e.chunk_id = c.chunk_id AND e.model = of_model
    WHERE c.tenant_id = of_tenant AND c.user_id = of_user
      AND (d.expires_at IS NULL OR d.expires_at > now());
END;
