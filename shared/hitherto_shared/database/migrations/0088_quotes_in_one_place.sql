-- A quote goes with its message. Statements therefore hold none any more: memory_sources and profiles
-- do, where it is found by its message.
UPDATE statements SET said = said - 'quote' WHERE subject = 'memory' AND said ? 'quote';

UPDATE statements
SET said = jsonb_set(said, '{changes}', (
    SELECT coalesce(jsonb_agg(c.change #- '{source,quote}' ORDER BY c.place), '[]')
    FROM jsonb_array_elements(said -> 'changes') WITH ORDINALITY AS c (change, place)))
WHERE subject = 'profile' AND said ? 'changes';
