-- A change of embedding model: the target is back-filled while the active model answers, the
-- previous one stays complete so that going back is one step too.
ALTER TABLE embedding_models ADD COLUMN target boolean NOT NULL DEFAULT false;
ALTER TABLE embedding_models ADD COLUMN previous boolean NOT NULL DEFAULT false;
ALTER TABLE embedding_models ADD CONSTRAINT embedding_models_one_part
    CHECK (active::int + target::int + previous::int <= 1);
CREATE UNIQUE INDEX embedding_models_target ON embedding_models (target) WHERE target;
CREATE UNIQUE INDEX embedding_models_previous ON embedding_models (previous) WHERE previous;

-- Since when a model has been the active one: what was embedded just before may lack its vector.
ALTER TABLE embedding_models ADD COLUMN activated_at timestamptz;

-- Which wording of a memory a vector was made of. A vector of an earlier one is of no use: it is
-- the version at which the content last changed.
ALTER TABLE memories ADD COLUMN text_version integer NOT NULL DEFAULT 1;
ALTER TABLE memory_embeddings ADD COLUMN text_version integer NOT NULL DEFAULT 1;

-- A back-fill is charged to the tenant.
GRANT INSERT, UPDATE ON usage_ledger TO hitherto_maintenance;
