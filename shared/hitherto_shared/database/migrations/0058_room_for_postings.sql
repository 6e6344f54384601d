-- Every transcript extends some hundred postings. A row that finds room in its page is updated there
-- and leaves the index alone; without room, each update adds an entry to the index. Existing pages
-- get the room as their rows move.
ALTER TABLE postings SET (fillfactor = 75);
ALTER TABLE passage_postings SET (fillfactor = 75);
