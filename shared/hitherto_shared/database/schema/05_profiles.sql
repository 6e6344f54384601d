-- Who a person is: the profile and its versions, habits that were learnt, and feedback.

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
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    -- What was learnt. Department and access level stay clear: they decide who may read.
    sealed bytea,
    -- Where each value comes from, by its path: conversation, message, time, memories, quote.
    sources jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(sources) = 'object'),
    PRIMARY KEY (tenant_id, user_id),
    FOREIGN KEY (tenant_id, user_id) REFERENCES users,
    CONSTRAINT profiles_sealed CHECK (sealed IS NULL
        OR (summary = '' AND current_projects = '{}' AND preferences = '{}'
            AND frequent_intents = '{}' AND facts = '{}' AND metadata = '{}' AND said_at = '{}'))
);

-- A caller that is bound to departments lists the profiles of these.
CREATE INDEX profiles_of_department ON profiles (tenant_id, department, user_id)
    WHERE department <> '';

-- Every version a profile ever had, the current one included: gapless from 1.
CREATE TABLE profile_versions (
    tenant_id text NOT NULL,
    user_id text NOT NULL,
    version integer NOT NULL CHECK (version >= 1),
    profile jsonb NOT NULL,
    actor text NOT NULL,
    job_id uuid,
    recorded_at timestamptz NOT NULL DEFAULT now(),
    sealed bytea,
    PRIMARY KEY (tenant_id, user_id, version),
    FOREIGN KEY (tenant_id, user_id) REFERENCES profiles,
    CONSTRAINT profile_versions_sealed CHECK (sealed IS NULL OR profile = '{}')
);

-- Ways of a user that were learnt from behaviour (F5) and feedback (F6), each with how sure it is.
CREATE TABLE preferences (
    tenant_id text NOT NULL,
    user_id text NOT NULL,
    type text NOT NULL CHECK (char_length(type) BETWEEN 1 AND 64),
    key text NOT NULL CHECK (char_length(key) BETWEEN 1 AND 64),
    value jsonb NOT NULL,
    confidence double precision NOT NULL CHECK (confidence BETWEEN 0 AND 1),
    observations integer NOT NULL DEFAULT 1 CHECK (observations >= 1),
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, user_id, type, key),
    FOREIGN KEY (tenant_id, user_id) REFERENCES users
);

-- What users made of answers: a rating or an edit.
CREATE TABLE feedback (
    tenant_id text NOT NULL,
    user_id text NOT NULL,
    feedback_id uuid NOT NULL,
    conversation_id text NOT NULL,
    message_id text NOT NULL,
    rating smallint CHECK (rating BETWEEN 1 AND 5),
    original text CHECK (octet_length(original) <= 65536),
    edited text CHECK (octet_length(edited) <= 65536),
    memory_ids uuid[] NOT NULL DEFAULT '{}',
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, user_id, feedback_id),
    FOREIGN KEY (tenant_id, user_id) REFERENCES users,
    CHECK ((rating IS NULL) = (original IS NOT NULL AND edited IS NOT NULL))
);
