-- Who may do what. Roles own nothing and are not superusers; hitherto_owner alone may delete.
GRANT USAGE ON SCHEMA hitherto TO hitherto_read, hitherto_write, hitherto_maintenance;

-- Reading: everything a reader needs, and the access counters as the one thing it may write.
GRANT SELECT ON
    users, conversations, messages, conversation_summaries, memories, memory_versions,
    memory_sources, memory_access, embedding_models, memory_embeddings,
    memory_source_embeddings, postings, profiles, profile_versions, entities, entity_mentions,
    history, api_keys, schema_migrations
    TO hitherto_read;
GRANT INSERT, UPDATE ON memory_access TO hitherto_read;

-- Writing for one user at a time. Nothing is deleted; history only grows.
GRANT SELECT ON ALL TABLES IN SCHEMA hitherto TO hitherto_write;
GRANT INSERT, UPDATE ON
    users, conversations, messages, conversation_summaries, memories, memory_embeddings,
    memory_source_embeddings, postings, profiles, entities, jobs, usage_ledger
    TO hitherto_write;
GRANT INSERT ON
    memory_versions, memory_sources, memory_access, profile_versions, entity_mentions,
    history, idempotency_keys
    TO hitherto_write;

-- Across users: the queue's claims and leases, sweeps, registries. Of the memories it may only say
-- that a vector has come.
GRANT SELECT ON ALL TABLES IN SCHEMA hitherto TO hitherto_maintenance;
GRANT INSERT, UPDATE ON
    jobs, embedding_models, memory_embeddings, memory_source_embeddings, api_keys
    TO hitherto_maintenance;
GRANT UPDATE (embedding_state) ON memories TO hitherto_maintenance;
GRANT DELETE ON idempotency_keys TO hitherto_maintenance;
