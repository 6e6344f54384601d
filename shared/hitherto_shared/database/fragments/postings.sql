-- Parts of the statements that add postings to a keyword index: `%(terms)s` and the other columns have
-- the postings of a term each, as one string for each column.

-- @incoming_postings: the postings to add, by term. Memories have no corpus.
SELECT corpus, term, lexical_nos::int[], frequencies::smallint[], lengths::smallint[]
FROM unnest(string_to_array(%(corpora)s, ','), string_to_array(%(terms)s, E'\n'),
            string_to_array(%(lexical_nos)s, ';'), string_to_array(%(frequencies)s, ';'),
            string_to_array(%(lengths)s, ';'))
     AS posting (corpus, term, lexical_nos, frequencies, lengths);

-- @latest_postings(postings, same): what has been `met` and does not fit into its first segment, with how
-- many postings its term has before. `postings` is the table, and `same` what makes a row of it, `p`, one
-- of the term.
SELECT met.*, coalesce(held.segment * %(segment)s + held.used, 0) AS before
FROM met
LEFT JOIN LATERAL (
    SELECT p.segment, cardinality(p.lexical_nos) AS used
    FROM :postings AS p
    WHERE p.tenant_id = %(tenant_id)s AND p.user_id = %(user_id)s AND :same
    ORDER BY p.segment DESC
    LIMIT 1
) AS held ON true
WHERE NOT met.fits;

-- @placed_postings: each posting of `latest`, which continues `before` postings of its term, with its
-- segment.
SELECT corpus, term, lexical_no, frequency, length,
       (before + place_in_term - 1) / %(segment)s AS segment
FROM latest
CROSS JOIN LATERAL unnest(lexical_nos, frequencies, lengths) WITH ORDINALITY
     AS posting (lexical_no, frequency, length, place_in_term);

-- @continued_postings(postings, same): each posting to add with its segment, where every term continues
-- where its last segment ends. `postings` is the table, and `same` what makes a row of it, `p`, one of
-- the term, `new`.
SELECT u.tenant_id, u.user_id, new.corpus, new.term, posting.lexical_no,
       posting.frequency, posting.length,
       (coalesce(last.segment * %(segment)s + last.used, 0) + posting.place - 1)
           / %(segment)s AS segment
FROM @its_user AS u
CROSS JOIN unnest(string_to_array(%(corpora)s, ','), string_to_array(%(terms)s, E'\n'),
                  string_to_array(%(lexical_nos)s, ';'),
                  string_to_array(%(frequencies)s, ';'), string_to_array(%(lengths)s, ';'))
     AS new (corpus, term, lexical_nos, frequencies, lengths)
LEFT JOIN LATERAL (
    SELECT p.segment, cardinality(p.lexical_nos) AS used
    FROM :postings AS p
    WHERE p.tenant_id = %(tenant_id)s AND p.user_id = %(user_id)s AND :same
    ORDER BY p.segment DESC
    LIMIT 1
) AS last ON true
CROSS JOIN LATERAL unnest(
    new.lexical_nos::int[], new.frequencies::smallint[], new.lengths::smallint[])
    WITH ORDINALITY AS posting (lexical_no, frequency, length, place);
