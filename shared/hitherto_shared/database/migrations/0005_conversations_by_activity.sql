-- A conversation counts as active at most until something of it last arrived (`active_at`): a message
-- dated in the future put its conversation before all others for as long as its date was ahead, and
-- hid that something it taught held no longer. `last_said_at` stays the date as it was sent.
--
-- The title of a conversation without a summary is made of the beginning of one message: of the whole
-- column, Postgres made one of every message before it chose, and of up to 64 KiB.
CREATE OR REPLACE VIEW short_conversations WITH (security_invoker = true) AS
SELECT c.tenant_id, c.conversation_id, c.user_id,
       coalesce(s.title, (
           SELECT left(regexp_replace(left(f.content, 2000), '\s+', ' ', 'g'), 80)
           FROM (SELECT m.content FROM messages AS m
                 WHERE m.tenant_id = c.tenant_id AND m.user_id = c.user_id
                   AND m.conversation_id = c.conversation_id AND m.sealed IS NULL
                 ORDER BY m.role = 'user' DESC, m.message_no LIMIT 1) AS f), '') AS title,
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
          AND f.valid_to > least(c.last_said_at, c.updated_at)) AS partly_until,
       least(c.last_said_at, c.updated_at) AS active_at
FROM conversations AS c
LEFT JOIN conversation_summaries AS s ON s.tenant_id = c.tenant_id AND s.user_id = c.user_id
     AND s.conversation_id = c.conversation_id;

-- As before, by that time.
CREATE OR REPLACE FUNCTION filtered_summaries(
    of_tenant text, of_user text, in_conversation text, from_time timestamptz, to_time timestamptz,
    stored_until timestamptz, about text[], with_metadata jsonb)
RETURNS TABLE (tenant_id text, user_id text, conversation_id text, text_version integer,
               lexical_no integer, happened_at timestamptz, last_said_at timestamptz,
               created_at timestamptz, sealed bytea, sealed_version integer)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT s.tenant_id, s.user_id, s.conversation_id, s.text_version, s.lexical_no,
           least(coalesce(c.last_said_at, s.created_at), c.updated_at), c.last_said_at,
           s.created_at, s.sealed, s.sealed_version
    FROM conversation_summaries AS s
    JOIN conversations AS c ON c.tenant_id = s.tenant_id AND c.user_id = s.user_id
         AND c.conversation_id = s.conversation_id
    WHERE s.tenant_id = of_tenant AND s.user_id = of_user
      AND (in_conversation IS NULL OR s.conversation_id = in_conversation)
      AND (from_time IS NULL
           OR least(coalesce(c.last_said_at, s.created_at), c.updated_at) >= from_time)
      AND (to_time IS NULL
           OR least(coalesce(c.last_said_at, s.created_at), c.updated_at) < to_time)
      AND (stored_until IS NULL OR s.updated_at <= stored_until)
      AND with_metadata IS NULL
      AND (about IS NULL OR s.conversation_id IN (
            SELECT said.conversation_id FROM said_of_entities AS said
            WHERE said.tenant_id = of_tenant AND said.user_id = of_user
              AND said.called && about));
END;

CREATE OR REPLACE FUNCTION compared_summaries(
    of_tenant text, of_user text, of_model text, question halfvec, with_words boolean)
RETURNS TABLE (lexical_no integer, conversation_id text, happened_at timestamptz,
               created_at timestamptz, cosine double precision, words text)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT coalesce(s.lexical_no, 0), s.conversation_id,
           least(coalesce(c.last_said_at, s.created_at), c.updated_at), s.created_at,
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
