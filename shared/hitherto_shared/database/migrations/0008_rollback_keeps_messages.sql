-- RollbackSource gives messages that no job owns to one that was cancelled, so that none is learnt from
-- unless somebody retries that job.
GRANT INSERT ON jobs TO hitherto_removal;
