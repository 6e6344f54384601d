-- What several statements read alike, so that it has one home. As with the functions of `filters`,
-- Postgres puts each body into the statement that uses it and plans both as one.

-- Messages of users and assistants with what rankings add up. Vectors come from their narrow table.
CREATE FUNCTION compared_messages(
    of_tenant text, of_user text, of_model text, question halfvec, with_words boolean)
RETURNS TABLE (lexical_no integer, conversation_id text, message_no integer, said_at timestamptz,
               accepted_at timestamptz, name text, role text, cosine double precision, words text)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT coalesce(m.lexical_no, 0), m.conversation_id, m.message_no, m.said_at, m.accepted_at,
           m.name, m.role, -(e.embedding <#> question),
           CASE WHEN with_words THEN m.content ELSE '' END
    FROM messages AS m
    LEFT JOIN message_embeddings AS e ON e.tenant_id = of_tenant AND e.user_id = of_user
         AND e.conversation_id = m.conversation_id AND e.message_no = m.message_no
         AND e.model = of_model
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
           s.created_at, -(e.embedding <#> question),
           CASE WHEN with_words THEN concat_ws(E'\n', s.title, nullif(s.summary, '')) ELSE '' END
    FROM conversation_summaries AS s
    JOIN conversations AS c ON c.tenant_id = of_tenant AND c.user_id = of_user
         AND c.conversation_id = s.conversation_id
    LEFT JOIN summary_embeddings AS e ON e.tenant_id = of_tenant AND e.user_id = of_user
         AND e.conversation_id = s.conversation_id AND e.model = of_model
         AND e.text_version = s.text_version
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
    WHERE c.tenant_id = of_tenant AND c.user_id = of_user;
END;

-- The memories that were learnt from messages. The memories of the conversations are read once, and
-- sources that are not among the messages are dropped by a look-up: a join by ids compares each
-- message with all memories of its conversation.
CREATE FUNCTION learnt_from_messages(
    of_tenant text, of_user text, in_conversations text[], numbers integer[])
RETURNS TABLE (conversation_id text, message_no integer, memory_id uuid, status text,
               expires_at timestamptz, lexical_no integer, text_version integer)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT k.conversation_id, m.message_no, f.memory_id, f.status, f.expires_at, f.lexical_no,
           f.text_version
    FROM (SELECT g.conversation_id, array_agg(g.message_no) AS message_nos
          FROM unnest(in_conversations, numbers) AS g (conversation_id, message_no)
          GROUP BY g.conversation_id) AS k
    JOIN messages AS m ON m.tenant_id = of_tenant AND m.user_id = of_user
         AND m.conversation_id = k.conversation_id AND m.message_no = ANY(k.message_nos)
    JOIN memory_sources AS s ON s.tenant_id = of_tenant AND s.user_id = of_user
         AND md5(s.conversation_id) = md5(m.conversation_id)
         AND s.conversation_id = m.conversation_id AND s.message_id = m.message_id
    JOIN memories AS f ON f.tenant_id = of_tenant AND f.user_id = of_user
         AND f.memory_id = s.memory_id;
END;

-- The place of a memory in one of the four orders of a list (`usefulness` is importance, then
-- recency of use), as text that sorts like its value, so that one cursor works for every order.
CREATE FUNCTION sort_key_of_memory(
    order_by text, importance double precision, created_at timestamptz, used_at timestamptz)
RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
RETURN (CASE order_by
            WHEN 'importance' THEN to_char(importance, 'FM0.0000000000')
            WHEN 'usefulness' THEN to_char(importance, 'FM0.0000000000') || to_char(
                 coalesce(used_at, created_at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US')
            WHEN 'last_accessed_at' THEN to_char(
                 coalesce(used_at, created_at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US')
            ELSE to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US')
        END) COLLATE "C";

-- Conversations in short, in the order of the fields of `Summary`. Until one has a summary, its
-- title is the beginning of the user's first message.
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
       s.updated_at AS summarised_at
FROM conversations AS c
LEFT JOIN conversation_summaries AS s ON s.tenant_id = c.tenant_id AND s.user_id = c.user_id
     AND s.conversation_id = c.conversation_id;

-- Users with what their retention depends on beside its days.
CREATE VIEW retained_users WITH (security_invoker = true) AS
SELECT u.tenant_id, u.user_id, u.retention_days, u.message_retention_days,
       (SELECT max(c.updated_at) FROM conversations AS c
        WHERE c.tenant_id = u.tenant_id AND c.user_id = u.user_id) AS spoke_at
FROM users AS u
WHERE u.erased_at IS NULL;

-- The time before which something has exceeded its retention. A user's own number of days takes
-- precedence over the installation's; for ever (0 days) is NULL.
CREATE FUNCTION retained_since(own_days integer, days integer, most_days integer)
RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE
RETURN now() - make_interval(days => nullif(least(coalesce(own_days, days), most_days), 0));

GRANT SELECT ON short_conversations TO hitherto_read, hitherto_write;
GRANT SELECT ON retained_users TO hitherto_write, hitherto_maintenance, hitherto_removal;
