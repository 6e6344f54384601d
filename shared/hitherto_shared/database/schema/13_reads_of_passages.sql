-- What several statements read of messages, summaries and documents, in the manner of the reads of
-- memories.

CREATE FUNCTION sealed_at(sealed bytea, at_version integer) RETURNS bytea
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN sealed IS NULL THEN NULL
            WHEN sealed_version(sealed) = at_version THEN sealed
            WHEN sealed_version(sealed) = 0 AND at_version = 1 THEN sealed
            ELSE '\x00'::bytea END;

COMMENT ON FUNCTION sealed_at IS
    'What a row holds sealed that is sealed anew with every version, or a value that opens nowhere: '
    'if it was sealed under another version. One without a version counts as the first.';

-- Conversations in short, in the order of the fields of `Summary`. Until one has a summary, its
-- title is the beginning of the user's first message.
--
-- A prompt must also know what no longer holds of what a conversation taught. `withheld`: the
-- beginnings of memories learnt from it that are forgotten or in quarantine, 51 at most, so that a
-- reader sees whether there are more than 50. Sealed ones have no words here. `partly_until`: until
-- when the first of them held that was contradicted after the conversation.
CREATE VIEW short_conversations WITH (security_invoker = true) AS
SELECT c.tenant_id, c.conversation_id, c.user_id,
       coalesce(s.title, (
           SELECT left(regexp_replace(m.content, '\s+', ' ', 'g'), 80) FROM messages AS m
           WHERE m.tenant_id = c.tenant_id AND m.user_id = c.user_id
             AND m.conversation_id = c.conversation_id AND m.sealed IS NULL
           ORDER BY m.role = 'user' DESC, m.message_no LIMIT 1), '') AS title,
       coalesce(s.summary, '') AS summary, coalesce(s.outcome, 'ongoing') AS outcome,
       (SELECT count(*) FROM messages AS m
        WHERE m.tenant_id = c.tenant_id AND m.user_id = c.user_id
          AND m.conversation_id = c.conversation_id) AS message_count,
       coalesce(s.created_at, c.created_at) AS created_at,
       coalesce(s.updated_at, c.updated_at) AS updated_at,
       coalesce(s.key_topics, '{}') AS key_topics,
       coalesce(s.technical_topics, '{}') AS technical_topics,
       coalesce(s.followup_suggestions, '{}') AS followup_suggestions, c.last_said_at,
       sealed_at(s.sealed, s.sealed_version) AS sealed_words, s.sealed IS NOT NULL AS is_sealed,
       s.updated_at AS summarised_at,
       ARRAY(SELECT DISTINCT left(f.content, 300)
             FROM memory_sources AS t
             JOIN memories AS f ON f.tenant_id = t.tenant_id AND f.user_id = t.user_id
                  AND f.memory_id = t.memory_id
             WHERE t.tenant_id = c.tenant_id AND t.user_id = c.user_id
               AND md5(t.conversation_id) = md5(c.conversation_id)
               AND t.conversation_id = c.conversation_id
               AND f.status IN ('forgotten', 'quarantined')
             ORDER BY left(f.content, 300)
             LIMIT 51) AS withheld,
       (SELECT min(f.valid_to)
        FROM memory_sources AS t
        JOIN memories AS f ON f.tenant_id = t.tenant_id AND f.user_id = t.user_id
             AND f.memory_id = t.memory_id
        WHERE t.tenant_id = c.tenant_id AND t.user_id = c.user_id
          AND md5(t.conversation_id) = md5(c.conversation_id)
          AND t.conversation_id = c.conversation_id AND f.status = 'contradicted'
          AND f.valid_to > c.last_said_at) AS partly_until
FROM conversations AS c
LEFT JOIN conversation_summaries AS s ON s.tenant_id = c.tenant_id AND s.user_id = c.user_id
     AND s.conversation_id = c.conversation_id;

-- Messages that a memory came from, with what the entities that it mentions are called.
CREATE VIEW said_of_entities WITH (security_invoker = true) AS
SELECT en.tenant_id, en.user_id, en.called, ms.conversation_id, ms.message_id
FROM entities AS en
JOIN entity_mentions AS em ON em.tenant_id = en.tenant_id AND em.user_id = en.user_id
     AND em.entity_id = en.entity_id
JOIN memory_sources AS ms ON ms.tenant_id = em.tenant_id AND ms.user_id = em.user_id
     AND ms.memory_id = em.memory_id;

-- Messages of users and assistants that pass the filters: nothing else is ever found.
CREATE FUNCTION filtered_messages(
    of_tenant text, of_user text, in_conversation text, from_time timestamptz, to_time timestamptz,
    stored_until timestamptz, about text[], with_metadata jsonb)
RETURNS TABLE (tenant_id text, user_id text, conversation_id text, message_no integer,
               message_id text, role text, said_at timestamptz, accepted_at timestamptz,
               lexical_no integer, sealed bytea)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT m.tenant_id, m.user_id, m.conversation_id, m.message_no, m.message_id, m.role, m.said_at,
           m.accepted_at, m.lexical_no, m.sealed
    FROM messages AS m
    WHERE m.tenant_id = of_tenant AND m.user_id = of_user
      AND m.role IN ('user', 'assistant')
      AND (in_conversation IS NULL OR m.conversation_id = in_conversation)
      AND (from_time IS NULL OR m.said_at >= from_time)
      AND (to_time IS NULL OR m.said_at < to_time)
      AND (stored_until IS NULL OR m.accepted_at <= stored_until)
      AND (with_metadata IS NULL OR m.metadata || with_metadata = m.metadata)
      AND (about IS NULL OR (m.conversation_id, m.message_id) IN (
            SELECT said.conversation_id, said.message_id FROM said_of_entities AS said
            WHERE said.tenant_id = of_tenant AND said.user_id = of_user
              AND said.called && about));
END;

-- Summaries, by when their conversations were last active. A summary has no metadata.
CREATE FUNCTION filtered_summaries(
    of_tenant text, of_user text, in_conversation text, from_time timestamptz, to_time timestamptz,
    stored_until timestamptz, about text[], with_metadata jsonb)
RETURNS TABLE (tenant_id text, user_id text, conversation_id text, text_version integer,
               lexical_no integer, happened_at timestamptz, last_said_at timestamptz,
               created_at timestamptz, sealed bytea, sealed_version integer)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT s.tenant_id, s.user_id, s.conversation_id, s.text_version, s.lexical_no,
           coalesce(c.last_said_at, s.created_at), c.last_said_at, s.created_at, s.sealed,
           s.sealed_version
    FROM conversation_summaries AS s
    JOIN conversations AS c ON c.tenant_id = s.tenant_id AND c.user_id = s.user_id
         AND c.conversation_id = s.conversation_id
    WHERE s.tenant_id = of_tenant AND s.user_id = of_user
      AND (in_conversation IS NULL OR s.conversation_id = in_conversation)
      AND (from_time IS NULL OR coalesce(c.last_said_at, s.created_at) >= from_time)
      AND (to_time IS NULL OR coalesce(c.last_said_at, s.created_at) < to_time)
      AND (stored_until IS NULL OR s.updated_at <= stored_until)
      AND with_metadata IS NULL
      AND (about IS NULL OR s.conversation_id IN (
            SELECT said.conversation_id FROM said_of_entities AS said
            WHERE said.tenant_id = of_tenant AND said.user_id = of_user
              AND said.called && about));
END;

-- Documents that have not expired; one belongs to no conversation.
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

-- Messages of users and assistants with what rankings add up. Cosines of messages and summaries are
-- looked up by the whole key of each. As a join, a plan without statistics, such as right after an
-- import, read all vectors of the user for each candidate: of 680 messages in 80 ms in place of 6,
-- and of thousands in seconds.
CREATE FUNCTION compared_messages(
    of_tenant text, of_user text, of_model text, question halfvec, with_words boolean)
RETURNS TABLE (lexical_no integer, conversation_id text, message_no integer, said_at timestamptz,
               accepted_at timestamptz, name text, role text, cosine double precision, words text)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT coalesce(m.lexical_no, 0), m.conversation_id, m.message_no, m.said_at, m.accepted_at,
           m.name, m.role,
           (SELECT -(e.embedding <#> question)
            FROM message_embeddings AS e
            WHERE e.tenant_id = of_tenant AND e.user_id = of_user
              AND e.conversation_id = m.conversation_id AND e.message_no = m.message_no
              AND e.model = of_model),
           CASE WHEN with_words THEN m.content ELSE '' END
    FROM messages AS m
    WHERE m.tenant_id = of_tenant AND m.user_id = of_user AND m.role IN ('user', 'assistant');
END;

-- Summaries with the same; a vector of an earlier wording does not count.
CREATE FUNCTION compared_summaries(
    of_tenant text, of_user text, of_model text, question halfvec, with_words boolean)
RETURNS TABLE (lexical_no integer, conversation_id text, happened_at timestamptz,
               created_at timestamptz, cosine double precision, words text)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT coalesce(s.lexical_no, 0), s.conversation_id, coalesce(c.last_said_at, s.created_at),
           s.created_at,
           (SELECT -(e.embedding <#> question)
            FROM summary_embeddings AS e
            WHERE e.tenant_id = of_tenant AND e.user_id = of_user
              AND e.conversation_id = s.conversation_id AND e.model = of_model
              AND e.text_version = s.text_version),
           CASE WHEN with_words THEN concat_ws(E'\n', s.title, nullif(s.summary, '')) ELSE '' END
    FROM conversation_summaries AS s
    JOIN conversations AS c ON c.tenant_id = of_tenant AND c.user_id = of_user
         AND c.conversation_id = s.conversation_id
    WHERE s.tenant_id = of_tenant AND s.user_id = of_user;
END;

-- Document chunks with the same, and how many of the named entities their document mentions.
CREATE FUNCTION compared_chunks(
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
