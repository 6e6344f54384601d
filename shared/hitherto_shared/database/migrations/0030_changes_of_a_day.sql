-- What jobs made of a user's memories by the word of a model, newest last: the daily cap on such
-- changes counts the last 24 hours in the transaction of every reply.
CREATE INDEX history_changes_by_models ON history (tenant_id, user_id, recorded_at)
    WHERE actor = 'extraction' AND subject = 'memory'
    AND action IN ('contradicted', 'achieved', 'updated');
