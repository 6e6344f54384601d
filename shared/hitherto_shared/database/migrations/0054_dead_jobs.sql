-- Metrics count dead jobs every few seconds, however many jobs have succeeded.
CREATE INDEX jobs_dead ON jobs (kind, created_at) WHERE state = 'dead';
