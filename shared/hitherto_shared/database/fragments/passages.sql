-- Parts of statements about messages, summaries and documents of one user.

-- @said_of_entities: the messages that those memories came from which mention what is called so.
SELECT ms.conversation_id, ms.message_id
FROM entities AS en
JOIN entity_mentions AS em ON em.tenant_id = %(tenant_id)s AND em.user_id = %(user_id)s
     AND em.entity_id = en.entity_id
JOIN memory_sources AS ms ON ms.tenant_id = %(tenant_id)s AND ms.user_id = %(user_id)s
     AND ms.memory_id = em.memory_id
WHERE en.tenant_id = %(tenant_id)s AND en.user_id = %(user_id)s
  AND en.called && %(entity_names)s;

-- @filtered_messages: messages of users and assistants that pass the filters: nothing else is ever
-- found.
SELECT m.tenant_id, m.user_id, m.conversation_id, m.message_no, m.message_id, m.role, m.said_at,
       m.accepted_at, m.lexical_no, m.sealed
FROM messages AS m
WHERE m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s
  AND m.role IN ('user', 'assistant')
  AND (%(conversation_id)s::text IS NULL OR m.conversation_id = %(conversation_id)s)
  AND (%(created_after)s::timestamptz IS NULL OR m.said_at >= %(created_after)s)
  AND (%(created_before)s::timestamptz IS NULL OR m.said_at < %(created_before)s)
  AND (%(stored_by)s::timestamptz IS NULL OR m.accepted_at <= %(stored_by)s)
  AND (%(metadata)s::jsonb IS NULL OR m.metadata || %(metadata)s = m.metadata)
  AND (%(entity_names)s::text[] IS NULL OR (m.conversation_id, m.message_id) IN (
        SELECT said.conversation_id, said.message_id FROM @said_of_entities AS said));

-- @filtered_summaries: summaries, by when their conversations were last active. A summary has no
-- metadata.
SELECT s.tenant_id, s.user_id, s.conversation_id, s.text_version, s.lexical_no,
       least(coalesce(c.last_said_at, s.created_at), c.updated_at) AS happened_at,
       c.last_said_at,
       s.created_at, s.sealed, s.sealed_version
FROM conversation_summaries AS s
JOIN conversations AS c ON c.tenant_id = %(tenant_id)s AND c.user_id = %(user_id)s
     AND c.conversation_id = s.conversation_id
WHERE s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s
  AND (%(conversation_id)s::text IS NULL OR s.conversation_id = %(conversation_id)s)
  AND (%(created_after)s::timestamptz IS NULL
       OR least(coalesce(c.last_said_at, s.created_at), c.updated_at) >= %(created_after)s)
  AND (%(created_before)s::timestamptz IS NULL
       OR least(coalesce(c.last_said_at, s.created_at), c.updated_at) < %(created_before)s)
  AND (%(stored_by)s::timestamptz IS NULL OR s.updated_at <= %(stored_by)s)
  AND %(metadata)s::jsonb IS NULL
  AND (%(entity_names)s::text[] IS NULL OR s.conversation_id IN (
        SELECT said.conversation_id FROM @said_of_entities AS said));

-- @filtered_documents: documents that have not expired; one belongs to no conversation.
SELECT d.tenant_id, d.user_id, d.document_id, d.source_type, d.source_id, d.content_type,
       d.title, d.summary, d.author, d.source_created_at, d.metadata, d.updated_at,
       d.expires_at
FROM documents AS d
WHERE d.tenant_id = %(tenant_id)s AND d.user_id = %(user_id)s
  AND %(conversation_id)s::text IS NULL
  AND (d.expires_at IS NULL OR d.expires_at > now())
  AND (%(source_types)s::text[] IS NULL OR d.source_type = ANY(%(source_types)s))
  AND (%(content_types)s::text[] IS NULL OR d.content_type = ANY(%(content_types)s))
  AND (%(created_after)s::timestamptz IS NULL OR d.source_created_at >= %(created_after)s)
  AND (%(created_before)s::timestamptz IS NULL OR d.source_created_at < %(created_before)s)
  AND (%(stored_by)s::timestamptz IS NULL OR d.updated_at <= %(stored_by)s)
  AND (%(metadata)s::jsonb IS NULL OR d.metadata || %(metadata)s = d.metadata)
  AND (%(entity_names)s::text[] IS NULL OR d.document_id IN (
        SELECT dm.document_id
        FROM entities AS en
        JOIN document_mentions AS dm ON dm.tenant_id = %(tenant_id)s
             AND dm.user_id = %(user_id)s AND dm.entity_id = en.entity_id
        WHERE en.tenant_id = %(tenant_id)s AND en.user_id = %(user_id)s
          AND en.called && %(entity_names)s));

-- @expired_chunks: the chunks of expired documents, which no leg of a search may count.
SELECT c.chunk_id, c.lexical_no
FROM documents AS d
JOIN document_chunks AS c ON c.tenant_id = %(tenant_id)s AND c.user_id = %(user_id)s
     AND c.document_id = d.document_id
WHERE d.tenant_id = %(tenant_id)s AND d.user_id = %(user_id)s AND d.expires_at <= now();

-- @compared_messages: messages of users and assistants with what rankings add up. Cosines of messages
-- and summaries are looked up by the whole key of each. As a join, a plan without statistics, such as
-- right after an import, read all vectors of the user for each candidate: of 680 messages in 80 ms in
-- place of 6, and of thousands in seconds.
SELECT coalesce(m.lexical_no, 0) AS lexical_no, m.conversation_id, m.message_no, m.said_at, m.accepted_at,
       m.name, m.role,
       (SELECT -(e.embedding <#> %(vector)s::halfvec)
        FROM message_embeddings AS e
        WHERE e.tenant_id = %(tenant_id)s AND e.user_id = %(user_id)s
          AND e.conversation_id = m.conversation_id AND e.message_no = m.message_no
          AND e.model = %(model)s) AS cosine,
       CASE WHEN %(with_words)s::boolean THEN m.content ELSE '' END AS words
FROM messages AS m
WHERE m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s AND m.role IN ('user', 'assistant');

-- @compared_summaries: summaries with the same; a vector of an earlier wording does not count.
SELECT coalesce(s.lexical_no, 0) AS lexical_no, s.conversation_id,
       least(coalesce(c.last_said_at, s.created_at), c.updated_at) AS happened_at,
       s.created_at,
       (SELECT -(e.embedding <#> %(vector)s::halfvec)
        FROM summary_embeddings AS e
        WHERE e.tenant_id = %(tenant_id)s AND e.user_id = %(user_id)s
          AND e.conversation_id = s.conversation_id AND e.model = %(model)s
          AND e.text_version = s.text_version) AS cosine,
       CASE WHEN %(with_words)s::boolean THEN concat_ws(E'\n', s.title, nullif(s.summary, ''))
            ELSE '' END AS words
FROM conversation_summaries AS s
JOIN conversations AS c ON c.tenant_id = %(tenant_id)s AND c.user_id = %(user_id)s
     AND c.conversation_id = s.conversation_id
WHERE s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s;

-- @compared_chunks(vector): chunks of documents with the same, and how many of the named entities
-- their document mentions.
SELECT c.lexical_no, c.chunk_id, c.document_id, d.source_type, d.source_created_at,
       d.created_at, -(e.embedding <#> :vector) AS cosine,
       (SELECT count(*) FROM document_mentions AS dm
        WHERE dm.tenant_id = %(tenant_id)s AND dm.user_id = %(user_id)s
          AND dm.document_id = c.document_id AND dm.entity_id = ANY(%(entity_ids)s::uuid[])) AS entities,
       CASE WHEN %(text_query)s::text IS NULL THEN 0
            ELSE ts_rank(to_tsvector('simple', d.ingested_heading || ' ' || c.content),
                         (SELECT websearch_to_tsquery('simple', %(text_query)s))) END AS text_rank
FROM document_chunks AS c
JOIN documents AS d ON d.tenant_id = %(tenant_id)s AND d.user_id = %(user_id)s
     AND d.document_id = c.document_id
LEFT JOIN document_chunk_embeddings AS e ON e.tenant_id = %(tenant_id)s AND e.user_id = %(user_id)s
     AND e.chunk_id = c.chunk_id AND e.model = %(model)s
WHERE c.tenant_id = %(tenant_id)s AND c.user_id = %(user_id)s
  AND (d.expires_at IS NULL OR d.expires_at > now());
