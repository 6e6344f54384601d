-- Retrieval reads when each update of a memory was said, to tell the wording of another time. It does
-- not see what was said.
GRANT SELECT (tenant_id, user_id, memory_id, action, version, made_version, said_at, taken_back_at)
    ON statements TO hitherto_read;
