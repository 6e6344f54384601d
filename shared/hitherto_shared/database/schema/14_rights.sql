-- Which login may do what, and which rows it sees. hitherto_owner owns everything, and nobody logs
-- in as it. Functions are everybody's: they read with the rights of whoever calls them.
--
-- A later migration grants what its tables need to each login by name, and gives a table with a
-- tenant the two policies below.

GRANT USAGE ON SCHEMA hitherto
    TO hitherto_read, hitherto_write, hitherto_maintenance, hitherto_removal;

-- hitherto_read: the retrieval service. It counts what it told and what questions cost, and adds to
-- the audit log, into which it may not look; of its own counts it must see those that it adds to.
GRANT SELECT ON
    users, conversations, messages, conversation_summaries, session_contexts, recent_items,
    pending_actions, memories, memory_versions, memory_sources, memory_access, history, profiles,
    profile_versions, preferences, feedback, entities, entity_mentions, documents, document_chunks,
    document_mentions, embedding_models, memory_embeddings, memory_source_embeddings,
    sealed_embeddings, message_embeddings, summary_embeddings, document_chunk_embeddings, postings,
    passage_postings, passage_statistics, query_usage, api_keys, installation, audit_read_counts,
    schema_migrations, whole_memories, short_conversations, said_of_entities
    TO hitherto_read;
GRANT INSERT, UPDATE ON memory_access, query_usage, audit_read_counts TO hitherto_read;
GRANT INSERT ON audit_events TO hitherto_read;

-- hitherto_write: whatever learns or changes something of one user at a time.
GRANT SELECT ON ALL TABLES IN SCHEMA hitherto TO hitherto_write;
REVOKE SELECT ON query_usage FROM hitherto_write;
GRANT INSERT, UPDATE ON
    users, conversations, messages, conversation_summaries, session_contexts, recent_items,
    pending_actions, memories, consolidation_groups, profiles, preferences, entities, documents,
    document_chunks, memory_embeddings, memory_source_embeddings, sealed_embeddings,
    message_embeddings, summary_embeddings, document_chunk_embeddings, postings, passage_postings,
    passage_statistics, jobs, unusable_replies, quality_samples, usage_ledger, audit_read_counts
    TO hitherto_write;
-- These only grow. A quote may be sealed later.
GRANT INSERT ON
    memory_versions, memory_sources, memory_access, history, statements, profile_versions, feedback,
    entity_mentions, document_mentions, idempotency_keys, audit_events
    TO hitherto_write;
GRANT UPDATE (quote) ON memory_sources TO hitherto_write;
-- What is made of a text is made anew when the text changes, and an entity that nothing mentions
-- any more goes. Memories, messages and documents themselves it cannot delete.
GRANT DELETE ON
    entities, entity_mentions, document_chunks, document_chunk_embeddings, document_mentions,
    passage_postings
    TO hitherto_write;

-- hitherto_maintenance: what looks across users, which is the queue, the back-fills, upkeep and
-- registries.
GRANT SELECT ON ALL TABLES IN SCHEMA hitherto TO hitherto_maintenance;
REVOKE SELECT ON whole_memories, short_conversations, said_of_entities, quality_samples
    FROM hitherto_maintenance;
GRANT INSERT, UPDATE ON jobs, embedding_models, api_keys, usage_ledger TO hitherto_maintenance;
GRANT INSERT, UPDATE, DELETE ON schedule_runs TO hitherto_maintenance;
GRANT INSERT ON installation, audit_events, audit_digests TO hitherto_maintenance;
GRANT INSERT, DELETE ON idempotency_keys TO hitherto_maintenance;
-- A back-fill adds vectors and words, and says so in the row of the text.
GRANT INSERT, UPDATE ON
    memory_embeddings, memory_source_embeddings, message_embeddings, summary_embeddings,
    document_chunk_embeddings, passage_postings, passage_statistics
    TO hitherto_maintenance;
GRANT UPDATE (embedding_state) ON memories, document_chunks TO hitherto_maintenance;
GRANT UPDATE (lexical_no, lexical_length, embedding_state) ON messages, conversation_summaries
    TO hitherto_maintenance;
-- Upkeep changes the status of memories, with versions and history. It takes the user's row like
-- every writer, and Postgres lets a role lock a row only if it may change some column of it.
GRANT UPDATE (status, version, expires_at, updated_at, job_id) ON memories
    TO hitherto_maintenance;
GRANT INSERT ON memory_versions, history TO hitherto_maintenance;
GRANT UPDATE (time_zone, revision, to_seal) ON users TO hitherto_maintenance;
-- What is over: working memory, replies of a week ago, hours of the audit log that became entries,
-- usage that was charged.
GRANT DELETE ON
    session_contexts, recent_items, pending_actions, unusable_replies, audit_read_counts,
    query_usage
    TO hitherto_maintenance;

-- hitherto_removal: the one login that may delete what is a user's, for what only a person or an
-- opt-in asks for: erasure, DeleteConversation, DeleteDocument, RollbackSource, retention, sealing
-- of what stood in clear. It plays no part in learning and upkeep.
GRANT SELECT ON ALL TABLES IN SCHEMA hitherto TO hitherto_removal;
REVOKE SELECT ON
    whole_memories, short_conversations, said_of_entities, quality_samples, query_usage,
    installation
    FROM hitherto_removal;
GRANT INSERT, UPDATE, DELETE ON
    users, conversations, messages, conversation_summaries, memories, memory_versions,
    memory_sources, memory_access, consolidation_groups, history, statements, profiles, entities,
    entity_mentions, documents, document_chunks, document_mentions, memory_embeddings,
    memory_source_embeddings, sealed_embeddings, message_embeddings, summary_embeddings,
    document_chunk_embeddings, postings, passage_postings, passage_statistics, unusable_replies,
    usage_ledger
    TO hitherto_removal;
GRANT UPDATE, DELETE ON jobs, session_contexts, recent_items, pending_actions TO hitherto_removal;
GRANT DELETE ON preferences, feedback TO hitherto_removal;
GRANT INSERT, DELETE ON profile_versions, idempotency_keys TO hitherto_removal;
GRANT UPDATE (profile, sealed, actor) ON profile_versions TO hitherto_removal;
GRANT UPDATE (user_ids, resource_ids) ON idempotency_keys TO hitherto_removal;
-- An erasure takes the person off the lists of keys, and leaves its receipt.
GRANT DELETE ON api_keys TO hitherto_removal;
GRANT UPDATE (user_ids, revoked_at) ON api_keys TO hitherto_removal;
GRANT INSERT, UPDATE ON erased_users TO hitherto_removal;
GRANT INSERT ON audit_events TO hitherto_removal;

-- The second wall between tenants: whoever works for one user sees the rows of one tenant only, the
-- one in the setting hitherto.tenant_id, and without it none. Plain equality, which is leakproof,
-- so that indexes are used as without it. The owner is not held: migrations and an administrator's
-- own statements see everything.
--
-- api_keys stays open: whose tenant a key belongs to is what it is asked for. It holds hashes.
DO $$
DECLARE
    walled text;
BEGIN
    FOR walled IN
        SELECT c.table_name
        FROM information_schema.columns AS c
        JOIN information_schema.tables AS t USING (table_schema, table_name)
        WHERE c.table_schema = 'hitherto' AND c.column_name = 'tenant_id'
          AND t.table_type = 'BASE TABLE' AND c.table_name <> 'api_keys'
        ORDER BY c.table_name
    LOOP
        EXECUTE format('ALTER TABLE hitherto.%I ENABLE ROW LEVEL SECURITY', walled);
        EXECUTE format(
            'CREATE POLICY one_tenant ON hitherto.%I'
            ' TO hitherto_read, hitherto_write, hitherto_removal'
            ' USING (tenant_id = current_setting(''hitherto.tenant_id'', true))'
            ' WITH CHECK (tenant_id = current_setting(''hitherto.tenant_id'', true))', walled);
        EXECUTE format(
            'CREATE POLICY across_tenants ON hitherto.%I TO hitherto_maintenance'
            ' USING (true) WITH CHECK (true)', walled);
    END LOOP;
END
$$;

-- Statistics soon after a table has grown. Autovacuum looks about once a minute, and some
-- installations have it off; until it has looked, Postgres takes every user for one who has a
-- single memory, and reads all of a user's rows where one by its key was meant. Small tables count
-- too: a fresh installation with some hundred messages is searched as much as a large one. A small
-- table is analysed when it has doubled, not for every update of its rows: each analysis has the
-- plans of all connections made anew.
--
-- ANALYZE is the owner's. The function lets the maintenance role have done what is due, and nothing
-- else.
CREATE FUNCTION analyse_grown() RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = hitherto, pg_catalog, pg_temp
AS $$
DECLARE
    grown record;
BEGIN
    FOR grown IN
        SELECT c.oid, c.relname
        FROM pg_class AS c
        WHERE c.relnamespace = 'hitherto'::regnamespace AND c.relkind = 'r'
          AND (pg_stat_get_mod_since_analyze(c.oid) > 1000 + greatest(c.reltuples, 0)
               OR pg_stat_get_live_tuples(c.oid) > 50 + 2 * greatest(c.reltuples, 0))
        ORDER BY pg_stat_get_mod_since_analyze(c.oid) DESC
    LOOP
        BEGIN
            -- Whoever holds the table is analysing it, or changes it; it is looked at again.
            EXECUTE format('LOCK TABLE hitherto.%I IN SHARE UPDATE EXCLUSIVE MODE NOWAIT', grown.relname);
            EXECUTE format('ANALYZE hitherto.%I', grown.relname);
            RETURN grown.relname;
        EXCEPTION WHEN lock_not_available THEN
            CONTINUE;
        END;
    END LOOP;
    RETURN NULL;
END
$$;

COMMENT ON FUNCTION analyse_grown IS
    'Analyses one table that has doubled since it was analysed last and has more than 50 rows, or of '
    'which more rows have changed than it had, and a thousand; its name, or null if there is none.';

REVOKE ALL ON FUNCTION analyse_grown FROM PUBLIC;
GRANT EXECUTE ON FUNCTION analyse_grown TO hitherto_maintenance;
