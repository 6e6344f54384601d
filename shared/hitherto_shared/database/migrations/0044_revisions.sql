-- The number of the state that reads of a person see. Every transaction that changes what may be
-- held of a person in the memory of a retrieval process raises it, in the statement that locks the
-- row or right behind it; access counts do not. It grows by a random leap: two histories of one
-- person (before and after an erase, or of a backup and of what came after it) never give one
-- number to two states.
ALTER TABLE users ADD COLUMN revision bigint NOT NULL DEFAULT 0 CHECK (revision >= 0);
GRANT UPDATE (revision) ON users TO hitherto_maintenance;
