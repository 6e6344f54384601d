-- Distributes the schema of an empty database by user; for the coordinator of a Citus cluster.
--
-- Run it once as an administrator, after `hitherto-migrate` and before the first service starts.
-- Every table of a person's data has its rows beside those of the same person in `users`, because
-- all are distributed by `user_id`. All other tables stay on the coordinator: jobs, changes that are
-- told, usage, credentials, idempotency keys, the audit log and what belongs to a tenant or to the
-- installation.
-- `make check-citus` checks what follows from that; docs/scaling.md says what does not work yet.

SET search_path = hitherto, public;

-- Local tables with foreign keys to reference tables stay as they are.
SET citus.enable_local_reference_table_foreign_keys TO off;

-- Functions and views of earlier versions, which Citus cannot distribute and no statement needs.
DROP VIEW IF EXISTS whole_memories, short_conversations, said_of_entities CASCADE;
DROP FUNCTION IF EXISTS filtered_memories, filtered_memories_at, memories_at, in_doubt_at,
    learnt_from_messages, filtered_messages, filtered_summaries, filtered_documents, expired_chunks,
    compared_messages, compared_summaries, compared_chunks, sealed_of_memory CASCADE;

SELECT create_reference_table('embedding_models');

SELECT create_distributed_table('users', 'user_id');

SELECT create_distributed_table('conversations', 'user_id', colocate_with => 'users');
SELECT create_distributed_table('messages', 'user_id', colocate_with => 'users');
SELECT create_distributed_table('message_embeddings', 'user_id', colocate_with => 'users');
SELECT create_distributed_table('conversation_summaries', 'user_id', colocate_with => 'users');
SELECT create_distributed_table('summary_embeddings', 'user_id', colocate_with => 'users');
SELECT create_distributed_table('passage_postings', 'user_id', colocate_with => 'users');
SELECT create_distributed_table('passage_statistics', 'user_id', colocate_with => 'users');

SELECT create_distributed_table('memories', 'user_id', colocate_with => 'users');
SELECT create_distributed_table('memory_access', 'user_id', colocate_with => 'users');
SELECT create_distributed_table('memory_embeddings', 'user_id', colocate_with => 'users');
SELECT create_distributed_table('memory_source_embeddings', 'user_id', colocate_with => 'users');
SELECT create_distributed_table('memory_sources', 'user_id', colocate_with => 'users');
SELECT create_distributed_table('memory_versions', 'user_id', colocate_with => 'users');
SELECT create_distributed_table('sealed_embeddings', 'user_id', colocate_with => 'users');
SELECT create_distributed_table('postings', 'user_id', colocate_with => 'users');
SELECT create_distributed_table('statements', 'user_id', colocate_with => 'users');
SELECT create_distributed_table('feedback', 'user_id', colocate_with => 'users');
SELECT create_distributed_table('history', 'user_id', colocate_with => 'users');

SELECT create_distributed_table('entities', 'user_id', colocate_with => 'users');
SELECT create_distributed_table('entity_mentions', 'user_id', colocate_with => 'users');

SELECT create_distributed_table('documents', 'user_id', colocate_with => 'users');
SELECT create_distributed_table('document_chunks', 'user_id', colocate_with => 'users');
SELECT create_distributed_table('document_chunk_embeddings', 'user_id', colocate_with => 'users');
SELECT create_distributed_table('document_mentions', 'user_id', colocate_with => 'users');

SELECT create_distributed_table('profiles', 'user_id', colocate_with => 'users');
SELECT create_distributed_table('profile_versions', 'user_id', colocate_with => 'users');
SELECT create_distributed_table('preferences', 'user_id', colocate_with => 'users');

SELECT create_distributed_table('consolidation_groups', 'user_id', colocate_with => 'users');
SELECT create_distributed_table('pending_actions', 'user_id', colocate_with => 'users');
SELECT create_distributed_table('recent_items', 'user_id', colocate_with => 'users');
SELECT create_distributed_table('session_contexts', 'user_id', colocate_with => 'users');
SELECT create_distributed_table('unusable_replies', 'user_id', colocate_with => 'users');
