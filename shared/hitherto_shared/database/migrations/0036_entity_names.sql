-- What an entity is called: by its whole name, an alias or an address, and by each word of a name.
-- "Sarah" calls Sarah Johnson, "Atlas" calls Project Atlas. A column that Postgres keeps cannot fall
-- behind the names. Words that say only what kind of thing is named, or nothing, call nobody.
CREATE FUNCTION entity_called(name_key text, aliases text[], email text) RETURNS text[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (
    WITH whole (name) AS (
        SELECT name_key
        UNION
        SELECT lower(alias) FROM unnest(aliases) AS alias
        UNION
        -- As text.normalise.fold does it.
        SELECT regexp_replace(normalize(translate(lower(alias), 'đ', 'd'), NFD),
                              U&'[\0300-\036F]', '', 'g')
        FROM unnest(aliases) AS alias
        UNION
        SELECT lower(email) WHERE email <> ''
    ), called (name) AS (
        SELECT name FROM whole
        UNION
        SELECT word
        FROM whole, regexp_split_to_table(whole.name, '[[:space:],.;:()"/&]+') AS word
        WHERE char_length(word) >= 2
          AND word <> ALL (ARRAY[
              'a', 'an', 'and', 'at', 'by', 'da', 'de', 'del', 'der', 'des', 'di', 'du', 'for', 'from',
              'in', 'la', 'le', 'of', 'on', 'or', 'the', 'to', 'und', 'van', 'von', 'with',
              'dr', 'mr', 'mrs', 'ms', 'jr', 'sr', 'co', 'corp', 'gmbh', 'inc', 'llc', 'ltd',
              'company', 'department', 'group', 'project', 'team', 'công', 'cong', 'dự', 'án', 'ty'])
    )
    SELECT array_agg(name ORDER BY name) FROM called
);

ALTER TABLE entities ADD COLUMN called text[] NOT NULL
    GENERATED ALWAYS AS (entity_called(name_key, aliases, coalesce(metadata ->> 'email', ''))) STORED;
