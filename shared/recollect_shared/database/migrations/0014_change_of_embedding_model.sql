-- A change of embedding model: the target is back-filled while the active model answers, the
-- previous one stays complete so that going back is one step too.
ALTER TABLE embedding_models ADD COLUMN target boolean NOT NULL DEFAULT false;
ALTER TABLE embedding_models ADD COLUMN previous boolean NOT NULL DEFAULT false;
ALTER TABLE embedding_models ADD CONSTRAINT embedding_models_one_part
    CHECK (active::int + target::int + previous::int <= 1);
CREATE UNIQUE INDEX embedding_models_target ON embedding_models (target) WHERE target;
CREATE UNIQUE INDEX embedding_models_previous ON embedding_models (previous) WHERE previous;
