"""Decides whether two statements say the same: the guards that complement a cosine.

Embeddings map "Caroline has 2 kids" and "Caroline has 3 kids" almost to one point, as well as "Lan
likes coffee" and "Minh likes coffee". A duplicate overwrites what is known, so a false one loses a
fact, while a missed one costs a second memory that consolidation can merge later. Every rule here
therefore prefers to keep statements apart: an additional name, number or date is a difference
("lives in Berlin" and "lives in Berlin, Germany" stay two; making a memory more precise is the
purpose of `updated_memories`). So is a different content word ("allergic to peanuts", "allergic to
cashews"; `slots`). Words that only one of the two has, and function words, are left to the
threshold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from hitherto_extraction.pipeline.guards.pairings import Pairings, rearranged
from hitherto_extraction.pipeline.guards.placement import (
    Counted,
    Frame,
    counted,
    miscounted,
    reordered,
)
from hitherto_extraction.pipeline.guards.quantities import quantities
from hitherto_extraction.pipeline.guards.slots import exchanged
from hitherto_extraction.pipeline.guards.subjects import names, small_words, subject
from hitherto_extraction.pipeline.guards.tokens import (
    NUMBER,
    POINT,
    SIGN,
    UNCASED,
    WORD,
    Token,
    key,
    tokenise,
)
from hitherto_shared.text.normalise import fold
from hitherto_shared.vocabulary.opposites import markers, opposed

_COMPARATORS = frozenset("over than to instead rather before hơn thay sang đến".split())
_FILLERS = frozenset("the a an of in on at and or is are user user's".split())
# Particles without content. The Japanese particles that mark roles (が, を, に) are not included.
_PARTICLES = str.maketrans("", "", "的了呢吧啊呀很也はー")


def same_statement(a: str, b: str) -> bool:
    """Whether no relevant difference separates the two texts. Symmetric."""
    return next(_differences(a, b), None) is None


def same_wording(a: str, b: str) -> bool:
    """Whether two texts have the same words, except for case, spaces and punctuation."""
    return _keys(tokenise(a), loose=False) == _keys(tokenise(b), loose=False)


def differences(a: str, b: str) -> list[str]:
    """The differences of two statements, as "kind: one / other"; empty if there are none.

    Kinds: number, date, name, negation, subject, opposite, order, sign, spelling, slot, wording.
    Swapping the arguments swaps the two sides and changes nothing else. Scripts without capitals do
    not mark names: every word may be one, and only particles may differ.
    """
    return list(_differences(a, b))


def _differences(a: str, b: str) -> Iterator[str]:
    """One by one: most statements that differ do so in what is read first."""
    left, right = tokenise(a), tokenise(b)
    # Diacritics are optional only in a text that was plainly typed without any.
    loose = a.isascii() or b.isascii()
    left_keys, right_keys = _keys(left, loose=loose), _keys(right, loose=loose)
    if left_keys == right_keys:
        return
    left_numbers, left_dates = quantities(left)
    right_numbers, right_dates = quantities(right)
    yield from _unlike("number", left_numbers, right_numbers)
    yield from _unlike("date", left_dates, right_dates)
    small = small_words(left, right)
    yield from _names(names(left, small, loose=loose), names(right, small, loose=loose))
    left_words, right_words = _words(left), _words(right)
    yield from _unlike("negation", Counter(markers(left_words)), Counter(markers(right_words)))
    yield from (f"opposite: {pair}" for pair in opposed(left_words, right_words))
    yield from _signs(left, right)
    yield from _wording(left, right, loose=loose)
    if not _mostly_uncased([*left, *right]):
        yield from _subjects(left, right, loose=loose)
        yield from _order(left_keys, right_keys)
        yield from exchanged(left, right)
        yield from [] if loose else _spelling(left_keys, right_keys)
    frames = Frame.of(left, loose=loose), Frame.of(right, loose=loose)
    yield from (f"order: {each}" for each in reordered(*frames))
    yield from _counted(left, right) if left_numbers == right_numbers else []
    yield from _paired(left, right, small, loose=loose)


def _keys(tokens: Sequence[Token], *, loose: bool) -> list[str]:
    return [
        key(token, loose=loose)
        for token in tokens
        if token.kind != POINT or token.text == "%"  # 5 is not 5 %
    ]


def _words(tokens: Sequence[Token]) -> list[str]:
    return [token.lower for token in tokens if token.kind in (WORD, UNCASED, SIGN)]


def _unlike(kind: str, left: Counter[str], right: Counter[str]) -> list[str]:
    if left == right:
        return []
    return [f"{kind}: {_listed((left - right).elements())} / {_listed((right - left).elements())}"]


def _names(left: Sequence[tuple[str, ...]], right: Sequence[tuple[str, ...]]) -> list[str]:
    if list(left) == list(right):
        return []
    found = _unlike("name", Counter(chain(*left)), Counter(chain(*right)))
    return found or [f"order: {_listed(chain(*left))} / {_listed(chain(*right))}"]


def _signs(left: Sequence[Token], right: Sequence[Token]) -> list[str]:
    # A sign in only one text is decoration; a different sign in its place changes the meaning.
    one = Counter(token.text for token in left if token.kind == SIGN)
    two = Counter(token.text for token in right if token.kind == SIGN)
    return _unlike("sign", one, two) if one and two else []


def _mostly_uncased(tokens: Sequence[Token]) -> bool:
    counts: Counter[str] = Counter()
    for token in tokens:
        counts[token.kind] += len(token.text)
    return counts[UNCASED] > 0 and 2 * counts[UNCASED] >= counts[WORD]


def _wording(left: Sequence[Token], right: Sequence[Token], *, loose: bool) -> list[str]:
    kinds = (UNCASED, WORD, NUMBER) if _mostly_uncased([*left, *right]) else (UNCASED,)

    def text(tokens: Sequence[Token]) -> str:
        kept = (key(token, loose=loose) for token in tokens if token.kind in kinds)
        return " ".join(kept)

    one, two = text(left), text(right)
    # Particles and the spaces around them are a matter of style.
    same = _bare(one) == _bare(two)
    return [] if same else [f"wording: {one or '-'} / {two or '-'}"]


def _bare(text: str) -> str:
    return text.replace(" ", "").translate(_PARTICLES)


def _subjects(left: Sequence[Token], right: Sequence[Token], *, loose: bool) -> list[str]:
    (one, one_first), (two, two_first) = subject(left, loose=loose), subject(right, loose=loose)
    same = one_first == two_first if one is None or two is None else one == two
    if same:
        return []
    return [f"subject: {' '.join(one or (one_first,))} / {' '.join(two or (two_first,))}"]


def _order(left: Sequence[str], right: Sequence[str]) -> list[str]:
    """Sides that changed places around a comparison ("tea over coffee")."""
    for word in sorted(_COMPARATORS & set(left) & set(right)):
        one, two = left.index(word), right.index(word)
        moved_right = set(left[:one]) & set(right[two + 1 :]) - _FILLERS
        moved_left = set(left[one + 1 :]) & set(right[:two]) - _FILLERS
        if moved_right and moved_left:
            return [f"order: before {word} {_listed(moved_right)} / {_listed(moved_left)}"]
    return []


def _counted(left: Sequence[Token], right: Sequence[Token]) -> list[str]:
    """Numbers that belong to another word ("2 coffees and 3 teas")."""
    one, two = counted(left), counted(right)
    words = {word for _, word in (*miscounted(one, two), *miscounted(two, one))}
    return [
        f"order: {_numbers_of(word, one)} / {_numbers_of(word, two)} {word}"
        for word in sorted(words)
    ]


def _paired(
    left: Sequence[Token], right: Sequence[Token], small: frozenset[str], *, loose: bool
) -> list[str]:
    """Words that changed places."""
    one, two = Pairings.of(left, small, loose=loose), Pairings.of(right, small, loose=loose)
    moved = rearranged(two, one)
    if not moved:
        return []
    before, after = ([word for word in each.words if word in moved] for each in (one, two))
    return [f"order: {' '.join(before)} / {' '.join(after)}"]


def _numbers_of(word: str, found: Sequence[Counted]) -> str:
    return _listed({each.number for each in found if word in each.words})


def _spelling(left: Sequence[str], right: Sequence[str]) -> list[str]:
    """Words that differ only in diacritics, which make other words ("cá", "cà")."""
    only_left, only_right = set(left) - set(right), set(right) - set(left)
    plain = {fold(word) for word in only_left} & {fold(word) for word in only_right}
    if not plain:
        return []
    one = [word for word in only_left if fold(word) in plain]
    two = [word for word in only_right if fold(word) in plain]
    return [f"spelling: {_listed(one)} / {_listed(two)}"]


def _listed(items: Iterable[str]) -> str:
    return ", ".join(sorted(items)) or "-"
