-- The one role that may delete what is a user's, for what only a person or an opt-in asks for:
-- DeleteConversation, DeleteDocument, RollbackSource, retention. It plays no part in learning and upkeep.
GRANT USAGE ON SCHEMA hitherto TO hitherto_removal;
GRANT SELECT ON ALL TABLES IN SCHEMA hitherto TO hitherto_removal;
GRANT INSERT, UPDATE, DELETE ON
    conversations, messages, conversation_summaries, memories, memory_versions, memory_sources,
    memory_access, memory_embeddings, memory_source_embeddings, postings, entities,
    entity_mentions, documents, document_chunks, document_chunk_embeddings, document_mentions,
    passage_postings, passage_statistics, unusable_replies, consolidation_groups
    TO hitherto_removal;
GRANT UPDATE ON users, jobs, history TO hitherto_removal;
GRANT INSERT ON users, history, idempotency_keys TO hitherto_removal;
GRANT INSERT, UPDATE ON profiles TO hitherto_removal;
GRANT INSERT ON profile_versions TO hitherto_removal;
