"""What reading a message gives: statements, denials and questions."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, datetime

from hitherto_extraction.provider.offline.language import Language
from hitherto_extraction.provider.offline.rules import Rule


@dataclass(slots=True)
class Statement:
    """Something the speaker said about themselves.

    Attributes:
        attributes: Single-valued attribute to folded value.
        profile: Dotted path and value, in order; a path ending in `[]` appends.
        words: Folded content words, to match achievements with goals.
        topic: What the sentence is about, without its subject and verb.
        announced: Whether its message says that something was reached, and not what.
        language: Whose sentence this is.
        places: Proper names that matter to the sentence, by group.
    """

    rule: Rule
    content: str
    language: Language
    message_ids: list[str]
    importance: float
    confidence: str
    tags: list[str]
    keywords: list[str]
    entities: list[tuple[str, str]]
    attributes: dict[str, str]
    profile: list[tuple[str, str]]
    words: frozenset[str]
    topic: str
    places: dict[str, str]
    valid_from: date | None = None
    announced: bool = False

    @property
    def type(self) -> str:
        """Lower-case name of the memory type."""
        return self.rule.type


@dataclass(frozen=True, slots=True)
class Denial:
    """What the speaker says is not so, or no longer so. `by` says what is so now."""

    attributes: dict[str, str]
    message_id: str
    by: Statement | None = None


@dataclass(slots=True)
class Reading:
    """What one text gave.

    Attributes:
        questions: Sentences that ask something.
    """

    statements: list[Statement] = field(default_factory=list)
    denials: list[Denial] = field(default_factory=list)
    questions: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Speaker:
    """Who speaks, where and when: decides how memories are worded and dated."""

    subject: str
    message_id: str
    said_at: datetime
