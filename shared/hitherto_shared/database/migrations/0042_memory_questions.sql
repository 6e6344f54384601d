-- Questions that a memory answers, as the model worded them: indexed with its words, shown to nobody.
-- They belong to the wording, not to its versions. A sealed memory has none.
ALTER TABLE memories
    ADD COLUMN questions text[] NOT NULL DEFAULT '{}',
    ADD CONSTRAINT memories_sealed_without_questions CHECK (sealed IS NULL OR questions = '{}');
