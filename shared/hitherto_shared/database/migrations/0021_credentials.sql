-- What an API key is bound to besides a user, and the rights that are named one by one.
ALTER TABLE api_keys
    -- NULL: none, so that a service may act for every user and a person for nobody else.
    ADD COLUMN departments text[] CHECK (
        cardinality(departments) <= 100
        AND array_position(departments, NULL) IS NULL AND '' <> ALL (departments)),
    ADD COLUMN capabilities text[] NOT NULL DEFAULT '{}'
        CHECK (capabilities <@ ARRAY['profiles.manage']);

-- Until now this right came with the scope.
UPDATE api_keys SET capabilities = ARRAY['profiles.manage'] WHERE 'admin' = ANY (scopes);

-- A caller that is bound to departments lists the profiles of these.
CREATE INDEX profiles_of_department ON profiles (tenant_id, department, user_id)
    WHERE department <> '';
