-- People, projects and places that a user speaks of, and the memories that mention them.

-- What an entity is called: by its whole name, an alias or an address, and by each word of a name.
-- "Sarah" calls Sarah Johnson, "Atlas" calls Project Atlas. Words that say only what kind of thing
-- is named, or nothing, call nobody. Most entities are called by one word, which calls them by
-- nothing else: for these the general case, half of the cost of writing an entity, is left out.
CREATE FUNCTION entity_called(name_key text, aliases text[], email text) RETURNS text[]
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

CREATE TABLE entities (
    tenant_id text NOT NULL,
    user_id text NOT NULL,
    entity_id uuid NOT NULL,
    name text NOT NULL CHECK (char_length(name) BETWEEN 1 AND 256),
    -- The name folded for comparison (text.normalise.fold).
    name_key text NOT NULL,
    type text NOT NULL
        CHECK (type IN ('person', 'project', 'topic', 'company', 'place', 'other')),
    aliases text[] NOT NULL DEFAULT '{}',
    mention_count integer NOT NULL DEFAULT 0 CHECK (mention_count >= 0),
    metadata jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(metadata) = 'object'),
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    -- Kept by Postgres, so that it cannot fall behind the names.
    called text[] NOT NULL
        GENERATED ALWAYS AS (entity_called(name_key, aliases, coalesce(metadata ->> 'email', '')))
        STORED,
    PRIMARY KEY (tenant_id, user_id, entity_id),
    UNIQUE (tenant_id, user_id, type, name_key),
    FOREIGN KEY (tenant_id, user_id) REFERENCES users
);

CREATE TABLE entity_mentions (
    tenant_id text NOT NULL,
    user_id text NOT NULL,
    entity_id uuid NOT NULL,
    memory_id uuid NOT NULL,
    PRIMARY KEY (tenant_id, user_id, entity_id, memory_id),
    FOREIGN KEY (tenant_id, user_id, entity_id) REFERENCES entities,
    FOREIGN KEY (tenant_id, user_id, memory_id) REFERENCES memories
);

CREATE INDEX entity_mentions_by_memory ON entity_mentions (tenant_id, user_id, memory_id);
