-- The users that an API key of a service is bound to. With a list, departments are set too, empty for
-- none: whoever looks at them alone, such as a process of an earlier version, takes the key for one
-- that may act for nobody, and never for everybody.
ALTER TABLE api_keys
    -- NULL: no list. An erasure takes people out; a list without anybody belongs to a revoked key.
    ADD COLUMN user_ids text[],
    ADD CONSTRAINT api_keys_user_ids CHECK (
        cardinality(user_ids) <= 100
        AND (cardinality(user_ids) > 0 OR revoked_at IS NOT NULL)
        AND array_position(user_ids, NULL) IS NULL AND '' <> ALL (user_ids)),
    ADD CONSTRAINT api_keys_one_binding CHECK (user_id IS NULL OR user_ids IS NULL),
    ADD CONSTRAINT api_keys_list_is_bound CHECK (user_ids IS NULL OR departments IS NOT NULL);

-- EraseUser takes the person off the lists of others.
GRANT UPDATE (user_ids, revoked_at) ON api_keys TO hitherto_removal;
