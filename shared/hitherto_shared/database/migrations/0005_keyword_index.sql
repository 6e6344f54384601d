-- The keyword index (BM25), written in the transaction that writes the memory. One row holds a
-- term's postings of one user, in segments of bounded length so that a frequent word stays cheap
-- to extend. The three arrays run in parallel: which text (memories.lexical_no), how often the
-- term stands in it, how many terms the text has. A text that changes gets a new number; postings
-- of numbers that no memory carries any more are passed over by readers.
CREATE TABLE postings (
    tenant_id text NOT NULL,
    user_id text NOT NULL,
    term text NOT NULL CHECK (char_length(term) BETWEEN 1 AND 64),
    segment integer NOT NULL CHECK (segment >= 0),
    lexical_nos integer[] NOT NULL,
    frequencies smallint[] NOT NULL,
    lengths smallint[] NOT NULL,
    PRIMARY KEY (tenant_id, user_id, term, segment),
    FOREIGN KEY (tenant_id, user_id) REFERENCES users,
    CHECK (cardinality(lexical_nos) BETWEEN 1 AND 256),
    CHECK (cardinality(frequencies) = cardinality(lexical_nos)),
    CHECK (cardinality(lengths) = cardinality(lexical_nos))
);
