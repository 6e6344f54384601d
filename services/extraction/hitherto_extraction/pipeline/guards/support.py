"""Decides whether texts contain the words of a statement, up to inflection, in any script.

Each word of the statement is looked up: exactly, by its stem, without its diacritics if the text
was typed without any, and by a long common beginning if no stemmer knows the language. Scripts
without spaces are compared by pairs of characters. Words that only join others need no support.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from itertools import pairwise

from hitherto_extraction.pipeline.guards.quantities import is_date_word, is_number_word, quantities
from hitherto_extraction.pipeline.guards.tokens import (
    UNCASED,
    WORD,
    Token,
    kept_for_a_while,
    tokenise,
    without_possessive,
)
from hitherto_shared.text.normalise import fold
from hitherto_shared.text.terms import count_terms, lone_characters
from hitherto_shared.vocabulary.opposites import NAMES_TOO, alternatives, markers
from hitherto_shared.vocabulary.users import USER_WORDS

MAX_NUMBERS_IN = 20_000
"""Maximum characters of a text in which numbers are looked up."""
_AT_ONCE = 8_000
_CLAUSE = re.compile(r"[.,;:!?…\n。，；！？、؟،؛।]")
_DIGITS = re.compile(r"\d+")
_MIXED = re.compile(r"[^\W\d_]\d|\d[^\W\d_]")
_SPOKEN = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_JOINING = USER_WORDS.union(
    "a an the this that these those and or but so of in on at to for from by with as into about is "
    "are was were be been being am do does did has have had having it its it's they them their "
    "theirs he him his she her hers we us our i me my mine you your who which whose where when "
    "while because since also too very really quite still now currently already just even both "
    "there here own will would can could may might should than then if "
    "one's some any each all named called not no never longer don't doesn't didn't isn't aren't "
    "không chưa chẳng tên لا لم ليس ما не нет nicht kein keine no nunca pas jamais "
    "người dùng và hoặc của với cho là có được ở tại trong vào từ đến để vì nên khi mà thì những "
    "các một này đó đang đã rất cũng còn nữa vẫn luôn về ra lên bằng như họ mình tôi bạn sẽ "
    "el la los las un una unos unas de del al y o que en con por para su sus es son está "
    "le les des du et ou qui dans avec pour par sur ses son sa est sont "
    "il lo gli di da che è ha nel nella al alla suo sua "
    "der die das den dem ein eine einen und oder mit von zu im am ist sind hat seine ihre "
    "и или в во на с со о об из к по за для что который его её их это "
    "في من إلى على عن مع و أو أن إن التي الذي الذين هو هي هم كان كانت قد هذا هذه "
    "של על את עם או הוא היא הם זה זו גם אל מן כי אשר "
    "का की के में से और को पर है हैं था थी ने यह वह".split()
)
"""Words that join others, stand for them, or deny, which the guards handle themselves."""
JOINING_SIGNS = str.maketrans(
    "",
    "",
    "的了呢吧啊呀很也在和与跟及并且是有都就还又而到把被个用户戶使者はーをにがでとへもやのユザ",
)
"""Characters of the same kind in scripts without spaces, including the words for the user."""
_ARABIC = re.compile("[\u0621-\u064a]")
_ARABIC_JOINED = re.compile("^[وفبكل]?(?:ال)?")
_LATIN_SHARED = 6
_SHARED = 3
_SHARED_PART = 0.6
_TAIL = 3


class TextWords:
    """The words of one text."""

    def __init__(self, text: str, dates: Callable[[], Iterable[str]] = tuple) -> None:
        """Parse the text, once for every question about it.

        `dates` provides dates in addition to those in the text; it is called only if a number is
        looked up.
        """
        self._text = text
        self._dates = dates
        self._words: set[str] = set()
        self.terms: set[str] = set()
        self.affirmed: set[str] = set()
        self._begin: defaultdict[str, list[str]] = defaultdict(list)
        self._plain = text.isascii()
        for clause in _CLAUSE.split(text):
            for at in range(0, len(clause), _AT_ONCE):
                self._read(clause[at : at + _AT_ONCE])
        for term in self.terms:
            self._begin[term[:_SHARED]].append(term)
        self.sides = alternatives(sorted(self._words))

    @cached_property
    def numbers(self) -> frozenset[str]:
        """The numbers and dates of the text."""
        tokens = tokenise("\n".join([self._text[:MAX_NUMBERS_IN], *self._dates()]))
        return frozenset(each for found in quantities(tokens) for each in found)

    def _read(self, clause: str) -> None:
        spoken = _SPOKEN.findall(clause)
        words = [word.casefold() for word in spoken]
        self._words.update(words)
        terms = set(count_terms(clause, clause.translate(JOINING_SIGNS)))
        if _MIXED.search(clause):
            # A token is letters or digits: "Q4" is "Q" and a number.
            terms |= count_terms(_DIGITS.sub(" ", clause)).keys()
        terms.update(bare for word in words if (bare := _without_article(word)) is not None)
        self.terms |= terms
        named = {at for at, word in enumerate(spoken) if at and word in NAMES_TOO}
        said = [word for at, word in enumerate(words) if at not in named]
        if not {"not", "no longer"} & markers(said).keys():
            self.affirmed |= terms

    def find(self, word: str) -> set[str]:
        """The terms of the text that match the word."""
        word = without_possessive(word)
        if (bare := _without_article(word)) is not None and bare in self.terms:
            return {bare}
        exact, *plain = count_terms(word) or [word]
        if exact in self.terms:
            return {exact}
        if self._plain and not self.terms.isdisjoint(plain):
            return self.terms.intersection(plain)
        return {term for term in self._begin.get(exact[:_SHARED], ()) if _inflected(exact, term)}

    def quotes(self, words: str) -> bool:
        """Whether the text contains words or signs exactly."""
        return words in self._text


@kept_for_a_while(64)
def _reading(text: str) -> TextWords:
    """A text that is compared with many others, parsed once."""
    return TextWords(text)


class JoinedWords:
    """The words of several texts together."""

    def __init__(self, readings: Iterable[TextWords]) -> None:
        """Take the parsed texts."""
        self._readings = list(readings)

    @classmethod
    def of(cls, text: str) -> JoinedWords:
        """The words of one text."""
        return cls([_reading(text)])

    def lacking(self, tokens: Sequence[Token]) -> list[Token]:
        """The words among `tokens` that the texts lack; numbers are ignored."""
        return [token for token in content(tokens) if not self._holds(token.lower)]

    def only_denied(self, tokens: Sequence[Token]) -> list[Token]:
        """The words among `tokens` that the texts contain only in denials."""
        return [
            token
            for token in content(tokens)
            if (found := [(each, each.find(token.lower)) for each in self._readings])
            and any(terms for _, terms in found)
            and not any(terms & each.affirmed for each, terms in found)
        ]

    def lacking_numbers(self, tokens: Sequence[Token]) -> set[str]:
        """The numbers and dates among `tokens` that the texts lack."""
        wanted = {each for found in quantities(tokens) for each in found}
        if not wanted:
            return set()
        return wanted.difference(*(each.numbers for each in self._readings))

    def lacks_run(self, run: str) -> bool:
        """Whether the texts lack most of a run of a script without spaces."""
        run = run.translate(JOINING_SIGNS)
        if len(run) == 1:
            return not any(each.quotes(run) for each in self._readings)
        pairs = [one + two for one, two in pairwise(run)]
        return 2 * sum(map(self.has_term, pairs)) < len(pairs)

    def quotes(self, words: str) -> bool:
        """Whether one of the texts contains words or signs exactly."""
        return any(each.quotes(words) for each in self._readings)

    def has_term(self, term: str) -> bool:
        """Whether one of the texts has a term."""
        return any(term in each.terms for each in self._readings)

    def bears_out(self, new: str, old: str) -> bool:
        """Whether the texts contain at least half of what `new` says beyond `old`.

        If it says nothing beyond `old`, at least half of everything it says: then it is a reduction
        or a denial of `old`.
        """
        total, missing = self._beside(new, old)
        return 2 * missing <= total if total else self.holds_half(new)

    def holds_half(self, text: str) -> bool:
        """Whether the texts contain at least half of the words of another, affirmed or denied."""
        tokens = tokenise(text)
        pairs = _pairs(tokens)
        total = len(content(tokens)) + len(pairs)
        missing = len(self.lacking(tokens)) + sum(not self.has_term(pair) for pair in pairs)
        return total > 0 and 2 * missing <= total

    def invents(self, new: str, old: str) -> bool:
        """Whether `new` says more than `old`, and the texts lack half of the addition."""
        total, missing = self._beside(new, old)
        return 2 * missing > total

    def _beside(self, new: str, old: str) -> tuple[int, int]:
        """How much `new` says beyond `old`, and how much of that the texts lack."""
        known, tokens = JoinedWords.of(old), tokenise(new)
        words, numbers = known.lacking(tokens), known.lacking_numbers(tokens)
        pairs = [pair for pair in _pairs(tokens) if not known.has_term(pair)]
        missing = len(self.lacking(words)) + len(self.only_denied(words))
        missing += len(self.lacking_numbers(tokens) & numbers)
        missing += sum(not self.has_term(pair) for pair in pairs)
        return len(words) + len(numbers) + len(pairs), missing

    def _holds(self, word: str) -> bool:
        if any(each.find(word) for each in self._readings):
            return True
        sides = alternatives([word])
        return bool(sides) and any(
            which <= each.sides.get(group, set())
            for each in self._readings
            for group, which in sides.items()
        )


def content(tokens: Sequence[Token]) -> list[Token]:
    """The content words among the tokens, in scripts with spaces."""
    return [
        token
        for token in tokens
        if token.kind in (WORD, UNCASED)
        and not lone_characters(token.text[:1])
        and token.lower not in _JOINING
        and not is_number_word(token.lower)
        and not is_date_word(token)
    ]


def unspaced(tokens: Sequence[Token]) -> str:
    """The characters of a text that belong to scripts without spaces."""
    return "".join(
        token.text for token in tokens if token.kind == UNCASED and lone_characters(token.text[:1])
    )


def _pairs(tokens: Sequence[Token]) -> list[str]:
    """The pairs of characters, or the single character, of scripts without spaces."""
    run = unspaced(tokens).translate(JOINING_SIGNS)
    return [one + two for one, two in pairwise(run)] or [*run]


def _without_article(word: str) -> str | None:
    """An Arabic word without vowel points and prefixes; None for other words."""
    if not _ARABIC.match(word):
        return None
    plain = fold(word)
    bare = _ARABIC_JOINED.sub("", plain, count=1)
    return bare if len(bare) >= _SHARED else plain


def _inflected(one: str, other: str) -> bool:
    """Whether two words begin so similarly that they are forms of one word."""
    longer = max(len(one), len(other))
    shared = next(
        (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
        min(len(one), len(other)),
    )
    if longer - shared > _TAIL:
        return False
    if one[0] < "\u0250" or "\u1e00" <= one[0] < "\u1f00":
        # Latin letters, including Vietnamese ones, whose syllables differ in their last letter.
        return shared >= _LATIN_SHARED
    return shared >= _SHARED and shared >= _SHARED_PART * longer
