-- Cosines are looked up by the whole key of each message and summary. As a join, a plan without
-- statistics, such as right after an import, read all vectors of the user for each candidate: of 680
-- messages in 80 ms in place of 6, and of thousands in seconds.
CREATE OR REPLACE FUNCTION compared_messages(
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

CREATE OR REPLACE FUNCTION compared_summaries(
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
