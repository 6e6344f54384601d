-- What all processes of an installation must have in common and cannot see of each other. Nothing
-- secret: of the hash key only what tells it from another one.
CREATE TABLE installation (
    fact text PRIMARY KEY CHECK (fact IN ('hash_key_id')),
    value text NOT NULL,
    stated_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

GRANT SELECT ON installation TO hitherto_read, hitherto_write, hitherto_maintenance;
GRANT INSERT ON installation TO hitherto_maintenance;
