CREATE TABLE profiles (
    tenant_id text NOT NULL,
    user_id text NOT NULL,
    department text NOT NULL DEFAULT '',
    summary text NOT NULL DEFAULT '',
    current_projects text[] NOT NULL DEFAULT '{}',
    preferences jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(preferences) = 'object'),
    frequent_intents text[] NOT NULL DEFAULT '{}',
    access_level text NOT NULL DEFAULT 'standard' CHECK (char_length(access_level) <= 64),
    facts jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(facts) = 'object'),
    metadata jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(metadata) = 'object'),
    -- Event time of each single value by its path, such as {"facts.personal.location": "2026-…"}:
    -- a value is replaced only by something said later.
    said_at jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(said_at) = 'object'),
    version integer NOT NULL DEFAULT 1 CHECK (version >= 1),
    last_extracted_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, user_id),
    FOREIGN KEY (tenant_id, user_id) REFERENCES users
);

-- Every version a profile ever had, the current one included: gapless from 1.
CREATE TABLE profile_versions (
    tenant_id text NOT NULL,
    user_id text NOT NULL,
    version integer NOT NULL CHECK (version >= 1),
    profile jsonb NOT NULL,
    actor text NOT NULL,
    job_id uuid,
    recorded_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, user_id, version),
    FOREIGN KEY (tenant_id, user_id) REFERENCES profiles
);

-- People, projects, places a user speaks of. `name_key` is the name folded for comparison.
CREATE TABLE entities (
    tenant_id text NOT NULL,
    user_id text NOT NULL,
    entity_id uuid NOT NULL,
    name text NOT NULL CHECK (char_length(name) BETWEEN 1 AND 256),
    name_key text NOT NULL,
    type text NOT NULL
        CHECK (type IN ('person', 'project', 'topic', 'company', 'place', 'other')),
    aliases text[] NOT NULL DEFAULT '{}',
    mention_count integer NOT NULL DEFAULT 0 CHECK (mention_count >= 0),
    metadata jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(metadata) = 'object'),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
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
