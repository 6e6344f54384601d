-- The memories that were in doubt at another time. `known_when` chooses the doubts that stood then,
-- also those that were lifted later; NULL is those that stand now. `true_when` leaves out what became
-- doubtful only after that time. Versions keep the doubt of their time.
CREATE FUNCTION in_doubt_at(
    of_tenant text, of_user text, known_when timestamptz, true_when timestamptz)
RETURNS TABLE (memory_id uuid)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT m.memory_id
    FROM memories AS m
    WHERE m.tenant_id = of_tenant AND m.user_id = of_user AND m.doubt IS NOT NULL
      AND (known_when IS NULL OR m.updated_at <= known_when)
      AND (true_when IS NULL OR (m.doubt ->> 'since')::timestamptz <= true_when)
    UNION ALL
    SELECT v.memory_id
    FROM memory_versions AS v
    WHERE v.tenant_id = of_tenant AND v.user_id = of_user AND v.doubt IS NOT NULL
      AND v.known_from <= known_when AND v.known_to > known_when
      AND (true_when IS NULL OR (v.doubt ->> 'since')::timestamptz <= true_when);
END;
