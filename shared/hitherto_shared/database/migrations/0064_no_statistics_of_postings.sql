-- No plan depends on what the arrays of postings hold. Analysing them meant sorting thousands of
-- arrays, three quarters of the time that these tables took: and a table that grows is analysed
-- again and again.
ALTER TABLE postings
    ALTER COLUMN lexical_nos SET STATISTICS 0,
    ALTER COLUMN frequencies SET STATISTICS 0,
    ALTER COLUMN lengths SET STATISTICS 0;
ALTER TABLE passage_postings
    ALTER COLUMN lexical_nos SET STATISTICS 0,
    ALTER COLUMN frequencies SET STATISTICS 0,
    ALTER COLUMN lengths SET STATISTICS 0;
