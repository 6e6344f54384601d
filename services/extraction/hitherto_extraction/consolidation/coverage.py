"""Checks that each clause of a merged statement is covered by one of its originals.

All words of a merge may come from its originals although nobody said it: "works at Siemens in
Berlin" from "works at Acme in Berlin" and "visited Siemens". One original must therefore cover a
clause, except for words of other originals that the clause contains whole: "prefers short, formal
answers" contains both "prefers short answers" and "prefers formal answers".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import groupby, pairwise

from hitherto_extraction.pipeline.guards.support import JoinedWords, content, unspaced
from hitherto_extraction.pipeline.guards.tokens import Token, clauses, tokenise

_SENTENCE = re.compile(r"(?<=[.!?])\s|[;\n。！？؟।]")
_MOST_CLAUSES = 60
"""A sentence of more clauses merges nothing that a person would read, and counts as uncovered:
every clause may have to be compared with every other."""


def uncovered(
    merged: str, originals: Sequence[str], counts: Callable[[Token], bool], new_pairs: int
) -> list[str]:
    """The clauses of a merged statement that no original covers.

    Args:
        merged: The statement.
        originals: Its originals.
        counts: Whether a word has to be covered.
        new_pairs: Number of consecutive pairs of characters, in a script without spaces, that count
            as a word that an original lacks.
    """
    said = [_Text(text, counts) for text in originals]
    found = []
    for sentence in _SENTENCE.split(merged):
        parts = clauses(sentence)
        if len(parts) > _MOST_CLAUSES:
            found.append(parts[0])
            continue
        whole = _Text(sentence, counts)
        # A comma may also stand within a clause: "a casual, conversational tone".
        joined = [_Text(each, counts) for each in clauses(sentence.replace(",", ""))]
        for clause in parts:
            part = _Text(clause, counts)
            if not _covered(part, whole, said, new_pairs) and not any(
                not each.heard.lacking(part.words) and _is_blend(each, said) for each in joined
            ):
                found.append(clause)
    return found


class _Text:
    """A clause, sentence or original, and its words that count."""

    def __init__(self, text: str, counts: Callable[[Token], bool]) -> None:
        self.heard = JoinedWords.of(text)
        self.tokens = tokenise(text)
        self.words = [token for token in content(self.tokens) if counts(token)]
        self.run = unspaced(self.tokens)

    def is_whole_in(self, other: _Text) -> bool:
        """Whether another text contains all of it."""
        if self.run or not self.words:
            return False
        return not other.heard.lacking(self.words) and not other.heard.lacking_numbers(self.tokens)

    def shared(self, clause: _Text) -> int:
        """Number of its words that are in a clause."""
        return len(clause.words) - len(self.heard.lacking(clause.words))


def _covered(clause: _Text, sentence: _Text, originals: Sequence[_Text], new_pairs: int) -> bool:
    """Whether one original covers a clause, except for originals that the clause contains whole."""
    left, numbers = clause.words, JoinedWords([]).lacking_numbers(clause.tokens)
    for each in originals:
        if each.is_whole_in(clause):
            left = each.heard.lacking(left)
            numbers = numbers & each.heard.lacking_numbers(clause.tokens)
    if not left and not numbers and not clause.run:
        return True
    # A name alone is not enough.
    most = len(clause.words) + any(token.capital and not token.first for token in left)
    return any(
        not each.heard.lacking(left)
        and not numbers & each.heard.lacking_numbers(clause.tokens)
        and longest_new(clause.run, each.heard) < new_pairs
        and (2 * each.shared(clause) >= most or each.is_whole_in(sentence))
        for each in originals
    )


def _is_blend(clause: _Text, originals: Sequence[_Text]) -> bool:
    """Whether a clause is one original plus a single word of another one about the same thing."""
    for each in originals:
        missing = each.heard.lacking(clause.words)
        if (
            len(missing) == 1
            and not missing[0].capital
            and 2 * each.shared(clause) > len(clause.words)
            and not each.heard.lacking_numbers(clause.tokens)
            and any(not o.heard.lacking(missing) and o.shared(clause) > 1 for o in originals)
        ):
            return True
    return False


def longest_new(run: str, heard: JoinedWords) -> int:
    """The longest run of consecutive pairs of characters that a text lacks."""
    strange = (not heard.has_term(one + two) for one, two in pairwise(run))
    return max((sum(1 for _ in each) for new, each in groupby(strange) if new), default=0)
