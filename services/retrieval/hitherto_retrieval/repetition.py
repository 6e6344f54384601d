"""Whether one text says what another says, by the words that the keyword index uses.

What is learnt from a message and the message itself may say the same, but need not: "User works on
a project in sprints" does not hold "the first sprint ends on March 29". Which messages a memory
came from therefore says what to compare, and the words decide.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from sys import intern

from hitherto_shared.models import Memory, Message
from hitherto_shared.text.terms import content_terms

Words = frozenset[str]
Source = tuple[str, str]
"""A message by conversation id and message id."""

_SOURCES, _TEXT = "sources", "text"
_READ = 4_000
"""Characters of a text whose words are compared."""
_BYTES_OF_A_PAIR = 40
"""Approximate bytes of a pair of characters in a set: most occur in several texts."""
_SAID = 0.65
"""Share of a memory's words in a message that says it: people say "I" and "yesterday"."""
_KEPT = 0.85
"""Share of a message's words in a memory that replaces it."""
_FEW = 4
"""Fewer words of its own say nothing."""


def words_of(text: str) -> Words:
    """The words of a text, without function words."""
    return frozenset(content_terms(text[:_READ]))


def bytes_of_pairs(text: str) -> int:
    """What the words of a text take beyond a few times its bytes, if its script has no spaces.

    Each of its characters, of three bytes, begins a word.
    """
    read = text[:_READ]
    return _BYTES_OF_A_PAIR * max(0, len(read.encode()) - 2 * len(read))


class ComparedText:
    """A text whose words are found if they are compared, which those of most texts never are.

    Equal words of several that are `kept` take room once.
    """

    __slots__ = ("_kept", "_text", "_words")

    def __init__(self, text: str, *, kept: bool = False) -> None:
        self._text = text
        self._kept = kept
        self._words: Words | None = None

    @property
    def words(self) -> Words:
        """Its words; none of an empty text."""
        if self._words is None:
            found = words_of(self._text)
            self._words = frozenset(map(intern, found)) if self._kept else found
        return self._words


def text_of(item: Memory | Message) -> ComparedText:
    """The text of an item; its words are kept with one that outlives the call."""
    memo = item.memo
    if memo is None:
        return ComparedText(item.content)
    known: ComparedText | None = memo.get(_TEXT)
    if known is None:
        known = memo[_TEXT] = ComparedText(item.content, kept=True)
    return known


def sources_of(item: object) -> Sequence[Source]:
    """The messages that an item shows; none for a summary or a document."""
    if isinstance(item, Message):
        return ((item.conversation_id, item.message_id),)
    if not isinstance(item, Memory):
        return ()
    memo = item.memo
    if memo is not None and _SOURCES in memo:
        known: Sequence[Source] = memo[_SOURCES]
        return known
    found = [(source.conversation_id, source.message_id) for source in item.sources]
    if memo is not None:
        memo[_SOURCES] = found
    return found


def is_said(memory: Words, message: Set[str]) -> bool:
    """Whether a message holds the words of a memory that was learnt from it."""
    return bool(memory) and len(memory & message) >= _SAID * len(memory)


def is_kept(message: Words, memory: Set[str]) -> bool:
    """Whether a memory that was learnt from a message holds its words."""
    return bool(message) and len(message & memory) >= _KEPT * len(message)


def is_outlined(outline: Words, message: Words) -> bool:
    """Whether a message of its conversation holds the words of a summary: "User asked: …"."""
    return is_said(outline, message) or (
        is_kept(message, outline) and adds_nothing(outline, message)
    )


def adds_nothing(text: Words, known: Set[str]) -> bool:
    """Whether hardly a word of a text is its own, and no number is."""
    own = text - known
    if any(any(map(str.isdigit, word)) for word in own):
        return False
    return not is_enough(weight_of(own))


def weight_of(words: Set[str]) -> int:
    """How much words say: two pairs of characters count as one word."""
    return sum(2 if len(word) > 2 or word.isascii() else 1 for word in words)


def is_enough(weight: int) -> bool:
    """Whether a text whose own words have this weight says something by them."""
    return weight >= 2 * _FEW
