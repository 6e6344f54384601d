-- Names are compared in one form of each letter (text.normalise.fold): "Łukasz" is called by "lukasz",
-- "ＮＴＴ" by "ntt". A name whose new key another entity has already keeps its key; it is found as it
-- is written.
WITH plain AS (
    SELECT tenant_id, user_id, entity_id, type,
           translate(replace(replace(replace(normalize(name_key, NFKC), 'æ', 'ae'), 'œ', 'oe'),
                             'þ', 'th'), 'ðħıłøŧکی', 'dhilotكي') AS name_key
    FROM entities
    WHERE name_key ~ '[ðħıłøŧæœþکی]' OR name_key IS NOT NFKC NORMALIZED
), first AS (
    SELECT DISTINCT ON (tenant_id, user_id, type, name_key)
           tenant_id, user_id, entity_id, type, name_key
    FROM plain
    ORDER BY tenant_id, user_id, type, name_key, entity_id
)
UPDATE entities AS e
SET name_key = first.name_key
FROM first
WHERE e.tenant_id = first.tenant_id AND e.user_id = first.user_id
  AND e.entity_id = first.entity_id
  AND NOT EXISTS (
      SELECT FROM entities AS other
      WHERE other.tenant_id = first.tenant_id AND other.user_id = first.user_id
        AND other.type = first.type AND other.name_key = first.name_key);

CREATE OR REPLACE FUNCTION entity_called(name_key text, aliases text[], email text) RETURNS text[]
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
BEGIN
    IF aliases = '{}' AND email = '' AND name_key !~ '[[:space:],.;:()"/&]' THEN
        RETURN ARRAY[name_key];
    END IF;
    RETURN (
        WITH whole (name) AS (
            SELECT name_key
            UNION
            SELECT lower(alias) FROM unnest(aliases) AS alias
            UNION
            -- As text.normalise.fold does it.
            SELECT translate(
                replace(replace(replace(regexp_replace(
                    normalize(lower(normalize(alias, NFKC)), NFD), U&'[\0300-\036F]', '', 'g'),
                    'æ', 'ae'), 'œ', 'oe'), 'þ', 'th'), 'đðħıłøŧکی', 'ddhilotكي')
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
                  'a', 'an', 'and', 'at', 'by', 'da', 'de', 'del', 'der', 'des', 'di', 'du', 'for',
                  'from', 'in', 'la', 'le', 'of', 'on', 'or', 'the', 'to', 'und', 'van', 'von',
                  'with', 'dr', 'mr', 'mrs', 'ms', 'jr', 'sr', 'co', 'corp', 'gmbh', 'inc', 'llc',
                  'ltd', 'company', 'department', 'group', 'project', 'team', 'công', 'cong', 'dự',
                  'án', 'ty'])
        )
        SELECT array_agg(name ORDER BY name) FROM called
    );
END
$$;
