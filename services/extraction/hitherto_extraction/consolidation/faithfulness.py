"""Checks a merged statement against its originals: the guards against inventions by the model.

The guards find harmful changes: a number or a name that no original has, a denial that becomes an
affirmation or the reverse, words that changed places, a side of a contrast that is lost or
exchanged, a word that no original has in any form, a statement unrelated to its originals, a word
or two that are left of them, and repetitions longer than all of them. Leaving out a number or a
name is permitted, because shortening is the purpose of a merge, and the originals can be restored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise

from hitherto_extraction.consolidation.coverage import longest_new, uncovered
from hitherto_extraction.pipeline.guards.pairings import Pairings, changed_places
from hitherto_extraction.pipeline.guards.placement import Frame, counted, miscounted, reordered
from hitherto_extraction.pipeline.guards.quantities import is_date_word, numeral, quantities
from hitherto_extraction.pipeline.guards.subjects import small_words
from hitherto_extraction.pipeline.guards.support import JoinedWords, TextWords, unspaced
from hitherto_extraction.pipeline.guards.tokens import (
    NUMBER,
    POINT,
    SIGN,
    UNCASED,
    WORD,
    Token,
    kept_for_a_while,
    tokenise,
    without_possessive,
)
from hitherto_shared.text.normalise import fold
from hitherto_shared.text.terms import count_terms
from hitherto_shared.vocabulary.opposites import LIKING, alternatives, is_phrase, markers, opposed

_IN_COMMON = 3
"""From this number of originals on, at least one must share a word with the merged statement."""
_NEW_SIGNS = 0.4
"""Share of the characters of an unspaced script that a merged statement may add."""
_NEW_PAIRS = 4
"""Consecutive pairs of characters that no original has: a new word and more."""
_FEWEST_WORDS = 3
"""A statement of fewer words has lost its subject or what it says of it."""
_LONGEST = 2
"""How many times longer than all its originals together a merged statement may be."""
_HEAD = 2
"""Number of words after a denial that state what is denied."""
_KEPT = ("no longer", "only")
_PLANS = ("goal", "preference", "feedback", "question", "problem")
"""Types that imply that something is wanted and not yet the case."""

_CLAUSE_ENDS = frozenset(".,;:!?…。，；！？、()[]—–")
_TURNS = frozenset("but however yet while although though nhưng song mais aber pero".split())
_AVOIDING = frozenset(
    "avoid avoids avoided avoiding refuse refuses allergic intolerant tránh kỵ dị".split()
)
_NOT_NAMES = frozenset("i i'm i've i'd i'll user users user's users' ai ok".split())
_FILLING = frozenset(
    chain.from_iterable(
        count_terms(word)
        for word in (
            "a an the this that these those and or but of in on at to for from by with as is are "
            "was were be been being am do does did has have had it its it's i me my he him his she "
            "her they them their user users someone would will can could should may might must not "
            "no never none don't doesn't didn't isn't aren't wasn't won't can't cannot any all "
            "also very really too so like likes liked love loves prefer prefers preferred "
            "preference preferences enjoy enjoys want wants need needs wish wishes dislike "
            "dislikes hate hates avoid avoids mention mentioned say says said keep keeps time "
            "người dùng thích ghét muốn là có không và với của cho một các những được"
        ).split()
    )
)
"""Words that statements may share without having anything in common."""


@dataclass(frozen=True, slots=True)
class _Read:
    """The parts of a statement that are compared.

    Attributes:
        tokens: All tokens.
        words: Its words, folded.
        affirmed: Terms outside every denial.
        denied: For each denial the terms after it; `denies` is true for a "not" and false for a
            dislike.
    """

    tokens: tuple[Token, ...]
    words: frozenset[str]
    terms: frozenset[str]
    affirmed: frozenset[str]
    affirmed_words: tuple[str, ...]
    denied: tuple[tuple[tuple[str, ...], bool], ...]

    @property
    def lower(self) -> list[str]:
        """The words in the form that the guards of opposites take."""
        return [token.lower for token in self.tokens if token.kind in (WORD, UNCASED, SIGN)]


def objections(merged: str, type_: str, originals: Sequence[str]) -> list[str]:
    """The objections to a merged statement, as "kind: what"; empty if there are none.

    Kinds: number, name, exchanged, denied, affirmed, lost, opposite, marker, invented, scattered,
    unrelated, wording, fragment, longer.
    """
    new, old = _read(merged), [_read(text) for text in originals]
    return [
        *_numbers(new, old),
        *_names(new, old),
        *_exchanged(new, old),
        *_denials(new, old),
        *_opposites(new, old),
        *_markers(new, old, type_),
        *_invented(new, old, originals),
        *_scattered(merged, new, old, originals),
        *_unrelated(new, old),
        *_size(merged, new, old, originals),
    ]


@kept_for_a_while(256)
def _read(text: str) -> _Read:
    tokens = tuple(tokenise(text))
    affirmed: list[str] = []
    words: list[str] = []
    denied: list[tuple[list[str], bool]] = []
    open_denial = False
    for token in tokens:
        if token.kind == POINT or token.lower in _TURNS:
            open_denial = open_denial and token.text not in _CLAUSE_ENDS and token.kind == POINT
        elif token.kind != WORD:
            words.append(token.lower)
        elif denial := _denial(token.lower):
            denied.append(([], denial == "not"))
            open_denial = True
        else:
            terms = [term for term in count_terms(token.text) if term not in _FILLING]
            if open_denial:
                denied[-1][0].extend(terms)
            else:
                affirmed.extend(terms)
                words.append(token.lower)
    return _Read(
        tokens,
        frozenset(
            fold(without_possessive(token.text))
            for token in tokens
            if token.kind in (WORD, UNCASED, NUMBER)
        ),
        frozenset(term for term in count_terms(text) if term not in _FILLING),
        frozenset(affirmed),
        tuple(words),
        tuple((tuple(terms), denies) for terms, denies in denied if terms),
    )


def _denial(word: str) -> str:
    """Whether a word denies (`not`), rejects (`dislike`) or does neither."""
    if markers([word]).get("not"):
        return "not"
    return "dislike" if word in _AVOIDING or opposed(["like"], [word]) else ""


def _numbers(new: _Read, old: Sequence[_Read]) -> list[str]:
    """Numbers and dates that no original has."""
    numbers, dates = quantities(new.tokens)
    known: Counter[str] = Counter()
    for each in old:
        for found in quantities(each.tokens):
            known.update(found)
    digits = {numeral(token.text) for token in new.tokens if token.kind == NUMBER}
    # "One" is a pronoun at least as often as a number.
    invented = [each for each in numbers if each not in known and (each != "1" or each in digits)]
    unknown = [f"number: {each}" for each in (*invented, *(d for d in dates if d not in known))]
    return unknown or _misplaced(new, old)


def _misplaced(new: _Read, old: Sequence[_Read]) -> list[str]:
    """Numbers of other things: "3 coffees" if the originals have 2 coffees and 3 teas."""
    said = [each for read in old for each in counted(read.tokens)]
    found = [f"number: {number} {word}" for number, word in miscounted(counted(new.tokens), said)]
    frame = Frame.of(new.tokens, loose=False)
    for each in old:
        found += [
            f"number: {moved}" for moved in reordered(Frame.of(each.tokens, loose=False), frame)
        ]
    return found


def _names(new: _Read, old: Sequence[_Read]) -> list[str]:
    known = frozenset().union(*(each.words for each in old))
    return [
        f"name: {token.text}"
        for token in new.tokens
        if token.capital
        and not token.first  # the subject is compared separately
        and not is_date_word(token)
        and token.lower not in _NOT_NAMES
        and fold(without_possessive(token.text)) not in known
    ]


def _exchanged(new: _Read, old: Sequence[_Read]) -> list[str]:
    """Words that changed places: "swims 5 km" if the originals run 5 km and swim 3 km."""
    small = small_words(new.tokens, *(each.tokens for each in old))
    said = [Pairings.of(each.tokens, small, loose=False) for each in old]
    moved = changed_places(Pairings.of(new.tokens, small, loose=False), said)
    return [f"exchanged: {word}" for word in moved]


def _denials(new: _Read, old: Sequence[_Read]) -> list[str]:
    found: list[str] = []
    affirmed_before = frozenset().union(*(each.affirmed for each in old))
    denied_before = {term for each in old for terms, _ in each.denied for term in terms}
    denied_now = {term for terms, _ in new.denied for term in terms}
    sides_now = alternatives(new.affirmed_words)
    for each in old:
        for terms, denies in each.denied:
            head = set(terms[:_HEAD])
            if head <= new.affirmed and not head <= affirmed_before:
                found.append(f"affirmed: {' '.join(terms[:_HEAD])}")
            if denies and not denied_now & set(terms) and not _turned(each, terms, sides_now):
                found.append(f"lost: not {' '.join(terms[:_HEAD])}")
    for terms, _ in new.denied:
        if any(t in affirmed_before and t not in denied_before for t in terms[:_HEAD]):
            found.append(f"denied: {' '.join(terms[:_HEAD])}")
    return [*found, *_bare_denials(new, old)]


def _turned(original: _Read, terms: Sequence[str], sides: dict[int, set[int]]) -> bool:
    """Whether a denied word becomes its opposite: "not formal" becomes "casual"."""
    behind = [token.lower for token in original.tokens if set(count_terms(token.text)) & set(terms)]
    return any(
        group != LIKING and group in sides and not sides[group] & mentioned
        for group, mentioned in alternatives(behind).items()
    )


def _bare_denials(new: _Read, old: Sequence[_Read]) -> list[str]:
    """In unspaced scripts, only the presence of a denial is compared."""

    def denies(read: _Read) -> bool:
        return bool(markers([t.lower for t in read.tokens if t.kind == UNCASED]).get("not"))

    before, now = any(map(denies, old)), denies(new)
    if before == now:
        return []
    return ["denied: something" if now else "lost: a denial"]


def _opposites(new: _Read, old: Sequence[_Read]) -> list[str]:
    """Sides of a contrast that were exchanged, or of which one was lost."""
    found: list[str] = []
    now = alternatives(new.affirmed_words)
    mentioned_now = alternatives(new.lower)
    said: dict[int, set[int]] = {}
    denied: set[int] = set()
    for each in old:
        sides = alternatives(each.affirmed_words)
        for group, which in sides.items():
            said.setdefault(group, set()).update(which)
        denied |= alternatives(each.lower).keys() - sides.keys()
    for group, which in said.items():
        if group == LIKING:
            continue
        if group not in denied and not now.get(group, set()) <= which:
            found.append("opposite: exchanged")
        if len(which) > 1 and not which <= mentioned_now.get(group, set()):
            found.append("opposite: lost")
    for group in now.keys() - said.keys() - {LIKING}:
        # A word that is only denied may become its opposite, but never itself.
        mentioned = [alternatives(each.lower).get(group, set()) for each in old]
        if group in denied and any(which & now[group] for which in mentioned):
            found.append("opposite: affirmed")
    return found


def _markers(new: _Read, old: Sequence[_Read], type_: str) -> list[str]:
    """Markers of what has ended, is intended or is exclusive, which no merge adds or leaves out."""
    kept = _KEPT if type_ in _PLANS else (*_KEPT, "intended")
    now = markers(new.lower)
    before = Counter(chain.from_iterable(markers(each.lower) for each in old))
    return [f"marker: {each}" for each in kept if bool(now.get(each)) != bool(before[each])]


def _invented(new: _Read, old: Sequence[_Read], originals: Sequence[str]) -> list[str]:
    """Words that no original has up to inflection, in a clause or on their own."""
    said = JoinedWords(map(TextWords, originals))
    counts = _counting(new, old)
    missing = said.lacking(new.tokens)
    found = [f"invented: {token.text}" for token in missing if counts(token)]
    invented = longest_new(unspaced(new.tokens), said) >= _NEW_PAIRS
    return [*found, "invented: characters"] if invented else found


def _scattered(
    merged: str, new: _Read, old: Sequence[_Read], originals: Sequence[str]
) -> list[str]:
    """Clauses whose words the originals have separately, but none of them together."""
    counts = _counting(new, old)
    said = JoinedWords(map(TextWords, originals))
    found = uncovered(
        merged,
        originals,
        lambda token: _means_something(token) and bool(counts(token) or not said.lacking([token])),
        _NEW_PAIRS,
    )
    return [f"scattered: {clause}" for clause in found]


def _counting(new: _Read, old: Sequence[_Read]) -> Callable[[Token], bool]:
    """Selects the words that an original must contain.

    The sides of a contrast that an original names are compared separately.
    """
    contrasts = {LIKING}.union(*(alternatives(each.lower) for each in old))
    phrases = {word for pair in pairwise(new.lower) if is_phrase(*pair) for word in pair}

    def counts(token: Token) -> bool:
        return (
            _means_something(token)
            and token.lower not in phrases
            and not contrasts & alternatives([token.lower]).keys()
        )

    return counts


def _means_something(token: Token) -> bool:
    return not _FILLING.issuperset(count_terms(token.text))


def _unrelated(new: _Read, old: Sequence[_Read]) -> list[str]:
    shared = sum(bool(each.terms & new.terms) for each in old)
    found = [] if shared * _IN_COMMON >= len(old) else ["unrelated: hardly a word in common"]
    signs = "".join(token.text for token in new.tokens if token.kind == UNCASED)
    if signs:
        known = {sign for each in old for token in each.tokens for sign in token.text}
        if sum(sign not in known for sign in signs) > _NEW_SIGNS * len(signs):
            found.append("wording: mostly new")
    return found


def _size(merged: str, new: _Read, old: Sequence[_Read], originals: Sequence[str]) -> list[str]:
    """A statement of which a word or two are left, or one that says the same over and over."""
    left, fewest = len(new.lower), min(len(each.lower) for each in old)
    found = []
    if left < min(_FEWEST_WORDS, fewest) and not unspaced(new.tokens):
        found.append("fragment: too few words")
    if len(merged) > _LONGEST * sum(map(len, originals)):
        found.append("longer: than all originals")
    return found
