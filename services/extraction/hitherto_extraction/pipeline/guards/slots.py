"""Compares the words in the slots of one sentence frame: "allergic to peanuts", "to cashews".

Embeddings compare the frame. Two statements differ if each has a content word that the other lacks,
up to inflection. A word that only one of them has makes it more precise and is no exchange. The few
synonyms that occur in so many statements that they would cause duplicates are in a list; rarer ones
cost a second memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from hitherto_extraction.pipeline.guards.support import JoinedWords, content, unspaced
from hitherto_extraction.pipeline.guards.tokens import (
    NUMBER,
    SIGN,
    Token,
    kept_for_a_while,
    tokenise,
)
from hitherto_shared.text.terms import count_terms
from hitherto_shared.vocabulary.opposites import alternatives

_SAME = (
    "kid kids child children",
    "job jobs work works worked working employed",
    "live lives lived living reside resides resided residing based",
    "bike bikes bicycle bicycles",
    "movie movies film films",
    "car cars automobile automobiles",
    "doctor doctors physician physicians",
    "photo photos photograph photographs picture pictures",
    "big large huge",
    "small little tiny",
    "suffer suffers suffered suffering struggle struggles",
    "speak speaks spoke spoken speaking talk talks",
    "go goes went gone going",
    "take takes took taken taking",
    "make makes made making",
    "give gives gave given giving",
    "get gets got gotten getting",
    "eat eats ate eaten eating",
    "drink drinks drank drunk drinking",
    "drive drives drove driven driving",
    "ride rides rode ridden riding",
    "run runs ran running",
    "swim swims swam swum swimming",
    "sing sings sang sung singing",
    "write writes wrote written writing",
    "teach teaches taught teaching",
    "build builds built building",
    "keep keeps kept keeping",
    "meet meets met meeting",
    "sleep sleeps slept sleeping",
    "see sees saw seen seeing",
    "man men",
    "woman women",
    "foot feet",
    "tooth teeth",
)
SAME_AS = {word: row.split()[0] for row in _SAME for word in row.split()}
"""The canonical form of words with irregular forms and synonyms."""
_EMPHASIS = frozenset(
    # Quantifiers, and marks of hours and days, which are compared with their numbers.
    "lot lots much greatly deeply truly absolutely extremely especially highly so lắm nhiều quá "
    "mucho muchísimo beaucoup sehr gern gerne molto muito очень pm th st nd rd h "
    "anymore longer".split()
)


def exchanged(left: Sequence[Token], right: Sequence[Token]) -> list[str]:
    """The words that each of two statements has and the other lacks, as "slot: one / other"."""
    one, two = _content(left), _content(right)
    # Exact words go first: few statements require the comparison up to inflection.
    only_one, only_two = _only(one, two), _only(two, one)
    if not only_one or not only_two:
        return []
    left_only, right_only = _unsaid(only_one, right), _unsaid(only_two, left)
    if not left_only or not right_only or "".join(left_only) == "".join(right_only):
        return []
    return [f"slot: {' '.join(left_only)} / {' '.join(right_only)}"]


@kept_for_a_while(4_096)
def merged_words(text: str) -> frozenset[str]:
    """The words of a statement with synonyms and inflections merged, for a rough comparison."""
    tokens = tokenise(text)
    run = unspaced(tokens)
    return frozenset(
        [
            *(f"{each}" for each in alternatives([token.lower for token in tokens]).items()),
            *map(_stem, _content(tokens)),
            *(one + two for one, two in pairwise(run)),
            *(token.text for token in tokens if token.kind in (NUMBER, SIGN)),
        ]
    )


def _stem(word: str) -> str:
    return next(iter(count_terms(word)), word)


def _content(tokens: Sequence[Token]) -> dict[str, Token]:
    """The words of a statement in the form in which they are compared, in order."""
    return {
        SAME_AS.get(token.lower, token.lower): token
        for token in content(tokens)
        if token.lower not in _EMPHASIS
    }


def _only(one: dict[str, Token], two: dict[str, Token]) -> list[Token]:
    return [token for word, token in one.items() if word not in two]


def _unsaid(words: Sequence[Token], other: Sequence[Token]) -> list[str]:
    text = " ".join(token.text for token in other)
    return [token.lower for token in JoinedWords.of(text).lacking(words)]
