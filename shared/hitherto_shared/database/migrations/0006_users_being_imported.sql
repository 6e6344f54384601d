-- Until when an import of the user holds off every other writer. Each of its groups postpones it, and
-- its end clears it; one that was cut off leaves the user to others once it has passed.
ALTER TABLE users ADD COLUMN importing_until timestamptz;
