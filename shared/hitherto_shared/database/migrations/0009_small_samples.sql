-- Tables that have grown are analysed with a tenth of the usual sample. While a store is young, its
-- tables double every few minutes, and sorting 30,000 rows of each, column by column, took as much of
-- Postgres as the queue. 3,000 rows tell as well how many users share a table, which is what the plans
-- need at once. Autovacuum takes the full sample once a further tenth of a table has changed.
ALTER FUNCTION analyse_grown() SET default_statistics_target = 10;
