"""Finds words that changed places: "runs 5 km and swims 3 km", "swims 5 km and runs 3 km".

The numbers and dates, and the names, divide the words of a statement among themselves: a word
belongs to those in its clause. Clauses may stand in any order and take words with them from the
beginning or the end of the sentence. Two statements therefore differ only if words changed places
in both directions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import takewhile

from hitherto_extraction.pipeline.guards.placement import LISTING, word_form
from hitherto_extraction.pipeline.guards.quantities import found_in, without_signs
from hitherto_extraction.pipeline.guards.subjects import is_name
from hitherto_extraction.pipeline.guards.support import JOINING_SIGNS, content
from hitherto_extraction.pipeline.guards.tokens import JOINTS, POINT, UNCASED, Token, key
from hitherto_shared.text.terms import lone_characters

_MOST_OF_A_CLAUSE = 4
"""More numbers or names than this in one clause are a list, which pairs nothing."""
_ENDS = frozenset(".,;:!?…()[]—–。、؟،؛।")
_AND_SIGNS = frozenset("&和与與及跟")
_BORDERS = LISTING.union(JOINTS)
_SHORT_ANDS = frozenset(("e", "ed", "i"))
"""Italian, Portuguese and Polish. With a capital, they are names or the English pronoun."""
_ARABIC_AND = "و"
_SHORTEST_JOINED = 4
"""Characters of an Arabic word that may begin with "and"."""

Owners = Mapping[str, Set[str]]
"""By word, the numbers, or the names, in whose clauses it stands."""


@dataclass(frozen=True, slots=True)
class Pairings:
    """The content words of a statement, in order, and whose they are."""

    words: Sequence[str]
    of_quantities: Owners
    of_names: Owners

    @classmethod
    def of(cls, tokens: Sequence[Token], lower_cased: frozenset[str], *, loose: bool) -> Pairings:
        """The pairings of a statement.

        Args:
            tokens: The statement.
            lower_cased: Words that occur without a capital (`subjects.small_words`).
            loose: Compare words without diacritics.
        """
        clauses = list(_clauses(tokens, lower_cased, loose=loose))
        return cls(
            [word for each in clauses for word in each.words],
            _owners([(each.words, each.quantities) for each in clauses]),
            _owners([(each.words, each.names) for each in clauses]),
        )


def changed_places(new: Pairings, old: Sequence[Pairings]) -> list[str]:
    """The words of `new` that belong to something else in `old`, in both directions.

    Symmetric for two statements.
    """
    frame = _frame([new, *(each for each in old if each.of_quantities or each.of_names)])
    found = [
        *_exchanged(new.of_quantities, [each.of_quantities for each in old], frame),
        *_exchanged(new.of_names, [each.of_names for each in old], frame),
    ]
    return list(dict.fromkeys(found))


def _exchanged(new: Owners, old: Sequence[Owners], frame: Collection[str]) -> list[str]:
    before: dict[str, set[str]] = {}
    for each in old:
        for word, owners in each.items():
            before.setdefault(word, set()).update(owners)
    both = [word for word in new if word in before and word not in frame]
    moved = [word for word in both if before[word].isdisjoint(new[word])]
    left = {owner for word in moved for owner in before[word]}
    taken = {owner for word in moved for owner in new[word]}
    return moved if len(left & taken) > 1 else []


def _frame(statements: Sequence[Pairings]) -> frozenset[str]:
    """The words with which all the statements begin, or end: they belong to the whole."""
    first = [each.words for each in statements]
    last = [each.words[::-1] for each in statements]
    return frozenset(
        words[0]
        for side in (first, last)
        for words in takewhile(lambda at: len(set(at)) == 1, zip(*side, strict=False))
    )


@dataclass(slots=True)
class _PairedClause:
    words: list[str] = field(default_factory=list)
    quantities: set[str] = field(default_factory=set)
    names: set[str] = field(default_factory=set)


def _clauses(
    tokens: Sequence[Token], lower_cased: frozenset[str], *, loose: bool
) -> Iterator[_PairedClause]:
    apart = list(_divided(without_signs(tokens)))
    quantities = {each.start: each for each in found_in(apart)}
    clause = _PairedClause()
    end = 0
    for at, token in enumerate(apart):
        if at in quantities:
            clause.quantities.add(quantities[at].value)
            end = quantities[at].end
        if at < end:
            continue
        if _divides(token):
            yield clause
            clause = _PairedClause()
        elif token.kind != POINT and is_name(token, lower_cased):
            name = word_form(key(token, loose=loose))
            clause.names.add(name)
            clause.words.append(name)
        elif content([token]) or (_is_lone(token) and token.text.translate(JOINING_SIGNS)):
            clause.words.append(word_form(key(token, loose=loose)))
    yield clause


def _divides(token: Token) -> bool:
    return (
        token.text in _ENDS
        or token.text in _AND_SIGNS
        or token.text in _SHORT_ANDS
        or token.lower in _BORDERS
    )


def _divided(tokens: Sequence[Token]) -> Iterator[Token]:
    """The tokens, with single characters of scripts without spaces, and without a joined "and"."""
    for token in tokens:
        if _is_lone(token):
            yield from (Token(sign, UNCASED) for sign in token.text)
        elif token.text[0] == _ARABIC_AND and len(token.text) >= _SHORTEST_JOINED:
            yield from (Token(_ARABIC_AND, UNCASED), Token(token.text[1:], UNCASED))
        else:
            yield token


def _is_lone(token: Token) -> bool:
    return token.kind == UNCASED and bool(lone_characters(token.text[:1]))


def _owners(clauses: Sequence[tuple[Sequence[str], Collection[str]]]) -> Owners:
    """By word the owners, without those of several clauses, which say nothing of either."""
    times = Counter(owner for _, owners in clauses for owner in owners)
    found: dict[str, set[str]] = {}
    for words, owners in clauses:
        own = {owner for owner in owners if times[owner] == 1}
        if 0 < len(own) <= _MOST_OF_A_CLAUSE:
            for word in words:
                if word not in own:
                    found.setdefault(word, set()).update(own)
    return found
