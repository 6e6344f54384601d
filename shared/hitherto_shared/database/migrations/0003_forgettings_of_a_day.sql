-- oldest-program: 0002
-- Requests to forget count for the daily cap on changes by models, too. The index is built before
-- the earlier one goes, so that reads of the history go on meanwhile.
CREATE INDEX history_changes_of_a_day ON history (tenant_id, user_id, recorded_at)
    WHERE actor IN ('extraction', 'reconciliation') AND subject = 'memory'
    AND action IN ('contradicted', 'achieved', 'updated', 'superseded', 'forgotten');
DROP INDEX history_changes_by_models;
