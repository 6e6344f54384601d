-- oldest-program: 0051
--
-- What was learnt from a message is looked up by the message. By the conversation alone, each of a
-- hundred messages read all sources of its conversation, which in one of thousands of messages
-- took most of the time of a context.
CREATE INDEX memory_sources_by_message
    ON memory_sources (tenant_id, user_id, md5(conversation_id), md5(message_id));
DROP INDEX memory_sources_by_conversation;

-- The memories that were learnt from messages. Ids are compared by their digests, which are
-- indexed, and then by themselves.
CREATE OR REPLACE FUNCTION learnt_from_messages(
    of_tenant text, of_user text, in_conversations text[], numbers integer[])
RETURNS TABLE (conversation_id text, message_no integer, memory_id uuid, status text,
               expires_at timestamptz, lexical_no integer, text_version integer)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT m.conversation_id, m.message_no, f.memory_id, f.status, f.expires_at, f.lexical_no,
           f.text_version
    FROM unnest(in_conversations, numbers) AS g (conversation_id, message_no)
    JOIN messages AS m ON m.tenant_id = of_tenant AND m.user_id = of_user
         AND m.conversation_id = g.conversation_id AND m.message_no = g.message_no
    JOIN memory_sources AS s ON s.tenant_id = of_tenant AND s.user_id = of_user
         AND md5(s.conversation_id) = md5(m.conversation_id)
         AND md5(s.message_id) = md5(m.message_id)
         AND s.conversation_id = m.conversation_id AND s.message_id = m.message_id
    JOIN memories AS f ON f.tenant_id = of_tenant AND f.user_id = of_user
         AND f.memory_id = s.memory_id;
END;
