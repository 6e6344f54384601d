"""The keyword index of passages: texts other than memories, one corpus per kind.

In tables of its own, so that the words of documents neither slow down nor outweigh those of
memories. Whoever writes holds the user's row: nothing looks for entries of other writers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from hitherto_extraction.storage import keyword_index
from hitherto_extraction.storage.corpora import vectors
from hitherto_extraction.storage.corpora.corpus import ItemKey, PassageCorpus, SpokenCorpus
from hitherto_shared.database.arrays import Integers, Texts
from hitherto_shared.database.pool import Connection
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.models import Scope
from hitherto_shared.offloading import in_thread
from hitherto_shared.text.passages import SHORTEST_EMBEDDED
from hitherto_shared.text.terms import count_terms

_TEXTS_AT_ONCE = 2_048
"""Some 300,000 postings. A term costs one row for all of them."""

# In one order for all writers.
_COUNT = """
INSERT INTO passage_statistics AS held
    (tenant_id, user_id, corpus, last_lexical_no, texts, terms)
SELECT u.tenant_id, u.user_id, new.corpus, new.texts, new.texts, new.terms
FROM @its_user AS u
CROSS JOIN unnest(%(corpora)s::text[], %(texts)s::int[], %(terms)s::bigint[])
    AS new (corpus, texts, terms)
ORDER BY new.corpus
ON CONFLICT (tenant_id, user_id, corpus) DO UPDATE
SET last_lexical_no = held.last_lexical_no + EXCLUDED.last_lexical_no,
    texts = held.texts + EXCLUDED.texts, terms = held.terms + EXCLUDED.terms
RETURNING held.corpus, held.last_lexical_no
"""

_DISCOUNT = """
UPDATE passage_statistics
SET texts = greatest(texts - %(texts)s, 0), terms = greatest(terms - %(length)s, 0)
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND corpus = %(corpus)s
"""

# Numbers ascend in a segment, so its ends tell whether it can hold one of those to remove. Rows are
# updated by their physical position: a join by key is planned badly if the table has grown since it
# was analysed, and writers here hold the user's row. A subquery of numbers is hashed in any plan,
# an array only in one for known values.
_REMOVE = """
WITH touched AS (
    SELECT ctid AS place, lexical_nos, frequencies, lengths
    FROM passage_postings
    WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND corpus = %(corpus)s
      AND term = ANY(%(terms)s::text[])
      AND lexical_nos[1] <= %(last)s
      AND lexical_nos[cardinality(lexical_nos)] >= %(first)s
), posting AS (
    SELECT t.place, n.lexical_no, n.frequency, n.length,
           n.lexical_no NOT IN (SELECT unnest(%(lexical_nos)s::int[])) AS stays
    FROM touched AS t
    CROSS JOIN LATERAL unnest(t.lexical_nos, t.frequencies, t.lengths)
        AS n (lexical_no, frequency, length)
), changed AS (
    SELECT place, array_agg(lexical_no ORDER BY lexical_no) FILTER (WHERE stays) AS nos,
           array_agg(frequency ORDER BY lexical_no) FILTER (WHERE stays) AS frequencies,
           array_agg(length ORDER BY lexical_no) FILTER (WHERE stays) AS lengths
    FROM posting
    GROUP BY place
    HAVING NOT bool_and(stays)
), emptied AS (
    DELETE FROM passage_postings AS p USING changed AS c
    WHERE p.tenant_id = %(tenant_id)s AND p.user_id = %(user_id)s AND p.ctid = c.place
      AND c.nos IS NULL
)
UPDATE passage_postings AS p
SET lexical_nos = c.nos, frequencies = c.frequencies, lengths = c.lengths
FROM changed AS c
WHERE p.tenant_id = %(tenant_id)s AND p.user_id = %(user_id)s AND p.ctid = c.place
  AND c.nos IS NOT NULL
"""


@dataclass(frozen=True, slots=True)
class NumberedText:
    """A text with its number and its terms in the index, and its value of embedding_state."""

    key: ItemKey
    lexical_no: int
    terms: Counter[str]
    state: str


async def add(
    user: UserRows, texts: Mapping[PassageCorpus, Sequence[Counter[str]]]
) -> dict[PassageCorpus, list[int]]:
    """Index new texts, given by their terms; returns their numbers, in order."""
    numbers: dict[PassageCorpus, list[int]] = {corpus: [] for corpus in texts}
    fresh = {corpus: those for corpus, those in texts.items() if those}
    if not fresh:
        return numbers
    rows = await user.fetch_rows(
        _COUNT,
        corpora=Texts(corpus.name for corpus in fresh),
        texts=Integers(len(those) for those in fresh.values()),
        terms=[sum(terms.total() for terms in those) for those in fresh.values()],
    )
    last: dict[str, int] = dict(rows)
    for corpus, those in fresh.items():
        end = last[corpus.name] + 1
        numbers[corpus] = list(range(end - len(those), end))
    for start in range(0, max(map(len, fresh.values())), _TEXTS_AT_ONCE):
        end = start + _TEXTS_AT_ONCE
        await keyword_index.append_passages(
            user,
            {
                corpus.name: dict(zip(numbers[corpus][start:end], those[start:end], strict=True))
                for corpus, those in fresh.items()
            },
        )
    return numbers


async def number(
    user: UserRows, corpus: SpokenCorpus, texts: Sequence[NumberedText], *, model: str
) -> int:
    """Assign texts the numbers under which their terms are now indexed; returns how many.

    A text that was indexed elsewhere since it was read keeps its number, and the words under this
    one leave the index. A vector of `model` counts as stored only if that model is active.
    """
    if not texts:
        return 0
    rows = await user.fetch_rows(
        corpus.number,
        **vectors.key_columns([text.key for text in texts]),
        lexical_nos=Integers(text.lexical_no for text in texts),
        lengths=Integers(text.terms.total() for text in texts),
        states=Texts(text.state for text in texts),
        model=model,
    )
    done = set(rows)
    late = [text for text in texts if text.key not in done]
    lengths = {text.lexical_no: text.terms.total() for text in late}
    await _remove(user, corpus, lengths, {term for text in late for term in text.terms})
    return len(done)


async def find_left(
    connection: Connection,
    corpus: SpokenCorpus,
    *,
    seconds: float,
    limit: int,
    without: Collection[Scope] = (),
) -> list[tuple[Scope, ItemKey]]:
    """Texts of users, but those `without`, left unindexed for this many seconds, oldest first."""
    values = {
        "seconds": seconds,
        "limit": limit,
        "tenants": [scope.tenant_id for scope in without],
        "users": [scope.user_id for scope in without],
    }
    rows = await connection.fetch_rows(corpus.left, values)
    return [(Scope(*row[:2]), row[2:]) for row in rows]


async def index_unindexed(
    user: UserRows, corpus: SpokenCorpus, keys: Collection[ItemKey], *, embedded: bool
) -> int:
    """Index those of the texts that are not yet; if `embedded`, they also wait for vectors."""
    if not keys:
        return 0
    rows = await user.fetch_rows(
        corpus.unindexed, **vectors.key_columns(keys), shortest=SHORTEST_EMBEDDED
    )
    if not rows:
        return 0
    counted = await in_thread(
        lambda: [count_terms(corpus.text(*words)) for _, _, _, *words in rows]
    )
    numbers = (await add(user, {corpus: counted}))[corpus]
    numbered = [
        NumberedText(
            (row[0], row[1]), lexical_no, terms, "pending" if embedded and row[2] else "none"
        )
        for row, lexical_no, terms in zip(rows, numbers, counted, strict=True)
    ]
    return await number(user, corpus, numbered, model="")


async def remove(user: UserRows, corpus: PassageCorpus, keys: Collection[ItemKey]) -> None:
    """Remove every word of texts from the index, and lock the texts."""
    if not keys:
        return
    rows = await user.fetch_rows(corpus.indexed, **vectors.key_columns(keys))
    if not rows:
        return
    # Recomputed to find the postings; long texts take a while.
    terms = await in_thread(
        lambda: {term for _, _, *words in rows for term in count_terms(corpus.text(*words))}
    )
    await _remove(user, corpus, {row[0]: row[1] for row in rows}, terms)


async def _remove(
    user: UserRows, corpus: PassageCorpus, lengths: Mapping[int, int], terms: Collection[str]
) -> None:
    """Remove the postings of numbers with these lengths and, among others, these terms."""
    if not lengths:
        return
    await user.execute(
        _REMOVE,
        corpus=corpus.name,
        lexical_nos=list(lengths),
        first=min(lengths),
        last=max(lengths),
        terms=list(terms),
    )
    length = sum(lengths.values())
    await user.execute(_DISCOUNT, corpus=corpus.name, texts=len(lengths), length=length)


async def drop(user: UserRows, corpus: PassageCorpus, keys: Collection[ItemKey]) -> int:
    """Remove texts from the indexes with every word and vector; returns the number of vectors.

    The role is hitherto_removal, or hitherto_write for chunks.
    """
    await remove(user, corpus, keys)
    return await vectors.delete(user, corpus, keys)
