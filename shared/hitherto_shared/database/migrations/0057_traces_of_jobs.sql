-- The span in which a job was queued, in the form of W3C Trace Context, if that was traced: the
-- spans of its attempts are linked to it.
ALTER TABLE jobs ADD COLUMN trace_parent text;
