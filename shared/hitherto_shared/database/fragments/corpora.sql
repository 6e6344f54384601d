-- Parts of statements about the texts that have vectors, of any user.

-- @memory_has_vector(m): whether a memory has a vector of its present words by `model`.
EXISTS (
    SELECT FROM memory_embeddings AS e
    WHERE e.tenant_id = :m.tenant_id AND e.user_id = :m.user_id AND e.memory_id = :m.memory_id
      AND e.model = %(model)s AND e.text_version = :m.text_version);

-- @chunk_has_vector(c): the same of a chunk, whose words never change.
EXISTS (
    SELECT FROM document_chunk_embeddings AS e
    WHERE e.tenant_id = :c.tenant_id AND e.user_id = :c.user_id AND e.chunk_id = :c.chunk_id
      AND e.model = %(model)s);

-- @message_has_vector(g): the same of a message, whose words never change.
EXISTS (
    SELECT FROM message_embeddings AS e
    WHERE e.tenant_id = :g.tenant_id AND e.user_id = :g.user_id
      AND e.conversation_id = :g.conversation_id AND e.message_no = :g.message_no
      AND e.model = %(model)s);

-- @summary_has_vector(s): the same of a summary.
EXISTS (
    SELECT FROM summary_embeddings AS e
    WHERE e.tenant_id = :s.tenant_id AND e.user_id = :s.user_id
      AND e.conversation_id = :s.conversation_id AND e.text_version = :s.text_version
      AND e.model = %(model)s);

-- @said_behind(m, tenant, user): the words that a memory came from; empty if it came from none.
coalesce((SELECT w.said FROM source_words AS w
          WHERE w.tenant_id = :tenant AND w.user_id = :user AND w.memory_id = :m.memory_id), '');
