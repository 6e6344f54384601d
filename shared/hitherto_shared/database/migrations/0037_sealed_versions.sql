-- A sealed value says under which version of its row it was sealed, and opens under no other number:
-- the first byte is 2, the next four are the version. Upkeep raises versions without a key, so a row
-- may hold a value of an earlier version, and never one of a later version.

CREATE FUNCTION sealed_version(sealed bytea) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN octet_length(sealed) > 4 AND get_byte(sealed, 0) = 2
            THEN (get_byte(sealed, 1) << 24) | (get_byte(sealed, 2) << 16)
                 | (get_byte(sealed, 3) << 8) | get_byte(sealed, 4)
            ELSE 0 END;

COMMENT ON FUNCTION sealed_version IS
    'The version that a sealed value names; 0: it was sealed before values named one.';

-- Read together with the present row, without reading what is sealed.
ALTER TABLE memory_versions ADD COLUMN sealed_version integer NOT NULL
    GENERATED ALWAYS AS (sealed_version(sealed)) STORED;

CREATE FUNCTION sealed_of_memory(of_tenant text, of_user text, of_memory uuid, at_version integer,
                                 words_since integer, sealed bytea) RETURNS bytea
LANGUAGE sql STABLE PARALLEL SAFE
RETURN (
    SELECT CASE
        WHEN sealed IS NULL THEN NULL
        WHEN sealed_version(sealed) = 0 AND kept.newest = 0 THEN sealed
        WHEN sealed_version(sealed) BETWEEN greatest(kept.newest, words_since, 1) AND at_version
        THEN sealed
        ELSE '\x00'::bytea END
    FROM (SELECT coalesce(max(v.sealed_version), 0) AS newest
          FROM memory_versions AS v
          WHERE v.tenant_id = of_tenant AND v.user_id = of_user AND v.memory_id = of_memory
            AND v.version < at_version) AS kept
);

COMMENT ON FUNCTION sealed_of_memory IS
    'What a version of a memory holds sealed, or a value that opens nowhere: if it was sealed under '
    'a later version, under an earlier one than a version before it, or than its present wording.';

CREATE FUNCTION sealed_at(sealed bytea, at_version integer) RETURNS bytea
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN sealed IS NULL THEN NULL
            WHEN sealed_version(sealed) = at_version THEN sealed
            WHEN sealed_version(sealed) = 0 AND at_version = 1 THEN sealed
            ELSE '\x00'::bytea END;

COMMENT ON FUNCTION sealed_at IS
    'What a row holds sealed that is sealed anew with every version, or a value that opens nowhere: '
    'if it was sealed under another version. One without a version counts as the first.';

-- Every sealing of a summary has a number. Those sealed so far have the first.
ALTER TABLE conversation_summaries ADD COLUMN sealed_version integer NOT NULL DEFAULT 1
    CONSTRAINT conversation_summaries_sealed_version CHECK (sealed_version > 0);

-- A vector is bound to the wording it was made of. The sweep makes anew what was sealed without.
DELETE FROM sealed_embeddings WHERE text_version > 1;
