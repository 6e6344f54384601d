"""Whether one text says what another says, by the words that the keyword index uses.

What is learnt from a message and the message itself may say the same, but need not: "User works on
a project in sprints" does not hold "the first sprint ends on March 29". Which messages a memory
came from therefore says what to compare, and the words decide.
"""

from __future__ import annotations

from collections.abc import Set

from hitherto_shared.text.terms import content_terms

Words = frozenset[str]
Source = tuple[str, str]
"""A message by conversation id and message id."""

_READ = 4_000
"""Characters of a text whose words are compared."""
_SAID = 0.65
"""Share of a memory's words in a message that says it: people say "I" and "yesterday"."""
_KEPT = 0.85
"""Share of a message's words in a memory that replaces it."""


def words_of(text: str) -> Words:
    """The words of a text, without function words."""
    return frozenset(content_terms(text[:_READ]))


def is_said(memory: Words, message: Set[str]) -> bool:
    """Whether a message holds the words of a memory that was learnt from it."""
    return bool(memory) and len(memory & message) >= _SAID * len(memory)


def is_kept(message: Words, memory: Set[str]) -> bool:
    """Whether a memory that was learnt from a message holds its words."""
    return bool(message) and len(message & memory) >= _KEPT * len(message)
