-- The keyword index (BM25), written in the transaction that writes the text.
--
-- One row holds a term's postings of one user, in segments of bounded length so that a frequent
-- word stays cheap to extend. The three arrays run in parallel: which text (its `lexical_no`), how
-- often the term stands in it, how many terms the text has. A text that changes gets a new number;
-- readers pass over postings of numbers that no text carries any more.
--
-- * No foreign key to users. A commit writes hundreds of postings of one user, and looking for the
--   user's row each time was a third of what the index costs. Whoever writes postings holds that
--   row (`users` for memories, `users` and `passage_statistics`, which refers to it, for passages),
--   and an erase looks through every table once the row is gone.
-- * Every transcript extends some hundred postings. A row that finds room in its page is updated
--   there and leaves the primary key alone: hence the fillfactor.
-- * No plan depends on what the arrays hold. Analysing them would mean sorting thousands of arrays,
--   again and again while the table grows: hence no statistics.

-- Of memories. Numbers of texts and their total length are columns of `users`.
CREATE TABLE postings (
    tenant_id text NOT NULL,
    user_id text NOT NULL,
    term text NOT NULL CHECK (char_length(term) BETWEEN 1 AND 64),
    segment integer NOT NULL CHECK (segment >= 0),
    lexical_nos integer[] NOT NULL,
    frequencies smallint[] NOT NULL,
    lengths smallint[] NOT NULL,
    PRIMARY KEY (tenant_id, user_id, term, segment),
    CHECK (cardinality(lexical_nos) BETWEEN 1 AND 256),
    CHECK (cardinality(frequencies) = cardinality(lexical_nos)),
    CHECK (cardinality(lengths) = cardinality(lexical_nos))
) WITH (fillfactor = 75);

ALTER TABLE postings
    ALTER COLUMN lexical_nos SET STATISTICS 0,
    ALTER COLUMN frequencies SET STATISTICS 0,
    ALTER COLUMN lengths SET STATISTICS 0;

-- Of passages: texts that are no memories. A table of its own, so that words of documents neither
-- slow nor outweigh those of memories.
CREATE TABLE passage_postings (
    tenant_id text NOT NULL,
    user_id text NOT NULL,
    corpus text NOT NULL CONSTRAINT passage_postings_corpora
        CHECK (corpus IN ('documents', 'messages', 'summaries')),
    term text NOT NULL CHECK (char_length(term) BETWEEN 1 AND 64),
    segment integer NOT NULL CHECK (segment >= 0),
    lexical_nos integer[] NOT NULL,
    frequencies smallint[] NOT NULL,
    lengths smallint[] NOT NULL,
    PRIMARY KEY (tenant_id, user_id, corpus, term, segment),
    CHECK (cardinality(lexical_nos) BETWEEN 1 AND 256),
    CHECK (cardinality(frequencies) = cardinality(lexical_nos)),
    CHECK (cardinality(lengths) = cardinality(lexical_nos))
) WITH (fillfactor = 75);

ALTER TABLE passage_postings
    ALTER COLUMN lexical_nos SET STATISTICS 0,
    ALTER COLUMN frequencies SET STATISTICS 0,
    ALTER COLUMN lengths SET STATISTICS 0;

-- The newest number of a text in a corpus, how many texts are indexed, and their length in terms.
CREATE TABLE passage_statistics (
    tenant_id text NOT NULL,
    user_id text NOT NULL,
    corpus text NOT NULL CONSTRAINT passage_statistics_corpora
        CHECK (corpus IN ('documents', 'messages', 'summaries')),
    last_lexical_no integer NOT NULL DEFAULT 0 CHECK (last_lexical_no >= 0),
    texts integer NOT NULL DEFAULT 0 CHECK (texts >= 0),
    terms bigint NOT NULL DEFAULT 0 CHECK (terms >= 0),
    PRIMARY KEY (tenant_id, user_id, corpus),
    FOREIGN KEY (tenant_id, user_id) REFERENCES users
);
