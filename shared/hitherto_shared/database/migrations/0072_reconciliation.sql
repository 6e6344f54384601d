-- oldest-program: 0051
--
-- Reconciliation: one job of a user, waiting for a while, takes up what changes in the meantime.
ALTER TABLE jobs DROP CONSTRAINT jobs_kind_check;
ALTER TABLE jobs ADD CONSTRAINT jobs_kind_check CHECK (kind IN ('memory-extraction',
    'document-ingestion', 'consolidation', 'reconciliation', 'decay', 'retention', 'reembedding'));
ALTER TABLE usage_ledger DROP CONSTRAINT usage_ledger_stage_check;
ALTER TABLE usage_ledger ADD CONSTRAINT usage_ledger_stage_check
    CHECK (stage IN ('extraction', 'embedding', 'consolidation', 'reconciliation'));

-- A version keeps what was uncertain about it, so that a roll-back finds it again.
ALTER TABLE memory_versions
    ADD COLUMN may_replace uuid[] NOT NULL DEFAULT '{}',
    ADD COLUMN doubt jsonb CHECK (jsonb_typeof(doubt) = 'object');

-- The few memories that are in doubt, and those that may replace others.
CREATE INDEX memories_in_doubt ON memories (tenant_id, user_id) WHERE doubt IS NOT NULL;
CREATE INDEX memories_unsettled ON memories (tenant_id, user_id) WHERE may_replace <> '{}';

-- The memory that a source was taken over from when the two were joined.
ALTER TABLE memory_sources ADD COLUMN joined_from uuid;

-- What models end by reconciling counts for the daily limit too.
DROP INDEX history_changes_by_models;
CREATE INDEX history_changes_by_models ON history (tenant_id, user_id, recorded_at)
    WHERE actor IN ('extraction', 'reconciliation') AND subject = 'memory'
    AND action IN ('contradicted', 'achieved', 'updated', 'superseded');

-- Nor is a reconciliation a change by anybody.
CREATE OR REPLACE VIEW memory_ages WITH (security_invoker = true) AS
SELECT m.tenant_id, m.user_id, m.memory_id, m.type, m.status, m.importance, m.created_at,
       m.expires_at, coalesce(a.last_accessed_at, m.created_at) AS used_at,
       (SELECT max(h.recorded_at) FROM history AS h
        WHERE h.tenant_id = m.tenant_id AND h.user_id = m.user_id AND h.memory_id = m.memory_id
          AND h.actor NOT IN ('consolidation', 'reconciliation', 'decay', 'retention'))
           AS changed_at,
       CASE WHEN m.type = 'context' THEN m.updated_at + interval '90 days' END AS context_ends_at,
       CASE WHEN m.importance < 0.3 THEN interval '30 days' + greatest(
            a.last_accessed_at, m.created_at,
            (SELECT max(h.recorded_at) FROM history AS h
             WHERE h.tenant_id = m.tenant_id AND h.user_id = m.user_id
               AND h.memory_id = m.memory_id AND h.action = 'restored')) END AS fades_at
FROM memories AS m
LEFT JOIN memory_access AS a ON a.tenant_id = m.tenant_id AND a.user_id = m.user_id
     AND a.memory_id = m.memory_id;

-- With whatever makes a memory uncertain, the words that it rests on, and those that it may replace
-- as long as they stand.
CREATE OR REPLACE VIEW whole_memories WITH (security_invoker = true) AS
SELECT m.tenant_id, m.memory_id, m.user_id, m.type, m.content, m.importance, m.confidence, m.source,
       m.origin, m.status, m.valid_from, m.created_at, m.updated_at, m.detail, m.tags, m.keywords,
       m.context, m.metadata, m.sensitive, m.conversation_id, m.valid_to, m.expires_at,
       m.superseded_by, m.supersedes, m.version, m.job_id,
       coalesce(a.access_count, 0) AS access_count, a.last_accessed_at,
       CASE WHEN m.sealed IS NOT NULL
            THEN sealed_of_memory(m.tenant_id, m.user_id, m.memory_id, m.version, m.text_version,
                                  m.sealed) END AS sealed_words,
       ARRAY(SELECT ARRAY[s.conversation_id, s.message_id]
             FROM memory_sources AS s
             WHERE s.tenant_id = m.tenant_id AND s.user_id = m.user_id
               AND s.memory_id = m.memory_id
             ORDER BY s.conversation_id, s.message_id) AS sources,
       ARRAY(SELECT e.name
             FROM entity_mentions AS em
             JOIN entities AS e ON e.tenant_id = em.tenant_id AND e.user_id = em.user_id
                  AND e.entity_id = em.entity_id
             WHERE em.tenant_id = m.tenant_id AND em.user_id = m.user_id
               AND em.memory_id = m.memory_id
             ORDER BY e.name) AS entity_names,
       m.doubt,
       CASE WHEN m.may_replace = '{}' THEN m.may_replace
            ELSE ARRAY(SELECT o.memory_id FROM memories AS o
                       WHERE o.tenant_id = m.tenant_id AND o.user_id = m.user_id
                         AND o.memory_id = ANY(m.may_replace)
                         AND o.status IN ('active', 'achieved')
                       ORDER BY o.memory_id) END AS may_replace,
       m.last_confirmed_at,
       ARRAY(SELECT ARRAY[s.conversation_id, s.message_id, s.quote]
             FROM memory_sources AS s
             WHERE s.tenant_id = m.tenant_id AND s.user_id = m.user_id
               AND s.memory_id = m.memory_id AND s.quote IS NOT NULL
             ORDER BY s.conversation_id, s.message_id) AS evidence
FROM memories AS m
LEFT JOIN memory_access AS a ON a.tenant_id = m.tenant_id AND a.user_id = m.user_id
     AND a.memory_id = m.memory_id;
