"""One row of the data set, what is refused in one, and what a run saw of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Literal, Self, get_args

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, StringConstraints, model_validator

from benchmarks.extraction.wording import Terms, contains_all
from hitherto_client.words import MemoryType

LANGUAGES = {"en": "English", "vi": "Vietnamese", "ja": "Japanese"}

TYPES: tuple[str, ...] = get_args(MemoryType)
TRAPS = (
    "small_talk",
    "sarcasm",
    "hypothetical",
    "third_person",
    "pasted_text",
    "injection",
    "assistant_claim",
)
CATEGORIES = (
    *TYPES,
    "goal_achieved",
    "duplicate",
    "contradiction",
    "unrelated",
    "relative_date",
    "code_switching",
    *TRAPS,
)

MAX_MESSAGES = 12

Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
Importance = Annotated[float, Field(ge=0, le=1)]
CURRENT = ("active", "achieved")


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class TranscriptMessage(_Strict):
    """What somebody said."""

    role: Literal["user", "assistant", "system", "tool"]
    name: str = ""
    content: Text
    created_at: AwareDatetime


class Expectation(_Strict):
    """One memory that must be learnt, or, if `optional`, may be.

    Attributes:
        types: Types that are right for it.
        contains: Words its text must have; of a list of words one is enough.
        importance_min: Lowest importance it may get.
        says: How it could read. Empty only in the rows of document 002.
        optional: True if learning it is right and leaving it out is right too.
    """

    types: tuple[MemoryType, ...] = Field(min_length=1)
    contains: Terms = Field(min_length=1)
    importance_min: Importance | None = None
    says: str = ""
    optional: bool = False

    @model_validator(mode="after")
    def _keeps_its_own_words(self) -> Self:
        if self.says and not contains_all(self.says, self.contains):
            raise ValueError(f"`says` ({self.says!r}) lacks a word of its own `contains`")
        return self


class SeededMemory(_Strict):
    """A memory that a user has before a conversation.

    Attributes:
        type: Its type.
        content: Its text.
        importance: Its importance.
        said_at: Since when it is known; before the conversation.
    """

    type: MemoryType
    content: Text
    importance: Importance = 0.5
    said_at: AwareDatetime


class Existing(SeededMemory):
    """A memory from before the conversation, and what must become of it.

    Attributes:
        then: `untouched`: stays word for word in the same version. `kept`: stays true; it may be
            confirmed. `updated`: gets a new version with other words. `contradicted` and
            `achieved`: gets this status.
        contains: Words its text must have afterwards, and by which a new memory that says the
            same is recognised.
    """

    then: Literal["untouched", "kept", "updated", "contradicted", "achieved"]
    contains: Terms = ()

    @model_validator(mode="after")
    def _can_be_recognised(self) -> Self:
        if self.then in ("kept", "updated") and not self.contains:
            raise ValueError(f"a memory that must be {self.then} needs `contains`")
        if self.then == "kept" and not contains_all(self.content, self.contains):
            raise ValueError(f"the memory {self.content!r} lacks a word of its own `contains`")
        if self.then == "achieved" and self.type != "goal":
            raise ValueError("only a goal can be achieved")
        return self


class Forbidden(_Strict):
    """What must not be learnt, neither as a memory nor into the profile.

    Attributes:
        contains: Words that together give it away.
        pattern: A regular expression that does; either this or `contains`.
        unless: Words any of which makes a text harmless, such as the name of the person whom
            the attribute belongs to.
        because: Why it must not be learnt.
    """

    contains: Terms = ()
    pattern: str = ""
    unless: tuple[Text, ...] = ()
    because: Text

    @model_validator(mode="after")
    def _one_way_to_find_it(self) -> Self:
        if bool(self.contains) == bool(self.pattern):
            raise ValueError("give either `contains` or `pattern`")
        try:
            re.compile(self.pattern)
        except re.error as error:
            raise ValueError(f"`pattern` is no regular expression: {error}") from None
        return self


class ConversationCase(_Strict):
    """A conversation and how it is judged."""

    id: Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]
    language: Literal["en", "vi", "ja"]
    category: str
    time_zone: str = "UTC"
    source: str = ""
    transcript: tuple[TranscriptMessage, ...] = Field(min_length=1, max_length=MAX_MESSAGES)
    expected: tuple[Expectation, ...] = ()
    existing_memories: tuple[Existing, ...] = ()
    forbidden: tuple[Forbidden, ...] = ()

    @property
    def required(self) -> tuple[Expectation, ...]:
        """The expectations that must be met."""
        return tuple(item for item in self.expected if not item.optional)

    @property
    def silent(self) -> bool:
        """True if nothing at all may be learnt."""
        return not self.expected

    @property
    def began_at(self) -> datetime:
        """When the first message was said."""
        return self.transcript[0].created_at

    @model_validator(mode="after")
    def _hangs_together(self) -> Self:
        if self.category not in CATEGORIES:
            raise ValueError(f"category {self.category!r} is none of {', '.join(CATEGORIES)}")
        if not any(message.role == "user" for message in self.transcript):
            raise ValueError("no message is the user's")
        times = [message.created_at for message in self.transcript]
        if times != sorted(times):
            raise ValueError("messages must stand in the order in which they were said")
        for known in self.existing_memories:
            if known.said_at >= self.began_at:
                raise ValueError(f"the memory {known.content!r} must be older than the talk")
        if self.category in TRAPS and self.required and not self.forbidden:
            raise ValueError("a trap that teaches something needs `forbidden`")
        return self


@dataclass(frozen=True, slots=True)
class ObservedMemory:
    """A memory as the services returned it."""

    id: str
    type: str
    content: str
    importance: float
    status: str
    version: int


@dataclass(frozen=True, slots=True)
class MemoryOutcome:
    """A memory that was there before: what was wanted, and how it was before and after."""

    wanted: Existing
    before: ObservedMemory
    after: ObservedMemory


@dataclass(frozen=True, slots=True)
class TokenSpending:
    """Tokens of language model calls; `estimated` if no model was asked."""

    input_tokens: int = 0
    output_tokens: int = 0
    usd: float = 0.0
    """At the prices of the model that was used; 0 if nothing was spent."""
    usd_reference: float = 0.0
    """What the tokens cost at the reference model's prices."""
    estimated: bool = False


@dataclass(frozen=True, slots=True)
class Observation:
    """One row after its job.

    Attributes:
        row: The row.
        new: The memories that the job made, whatever their status.
        fates: The memories that were there before.
        profile: The values of the user's profile, as `path: value`.
        spent: What it cost.
        error: Why the job did not succeed; empty if it did.
    """

    row: ConversationCase
    new: Sequence[ObservedMemory] = ()
    fates: Sequence[MemoryOutcome] = ()
    profile: Sequence[str] = ()
    spent: TokenSpending = field(default_factory=TokenSpending)
    error: str = ""

    @property
    def learnt(self) -> list[ObservedMemory]:
        """The new memories that count: current ones, not quarantined or closed again."""
        return [memory for memory in self.new if memory.status in CURRENT]

    @property
    def texts(self) -> list[str]:
        """All texts whose nearness may matter."""
        return list(
            dict.fromkeys(
                [
                    *(memory.content for memory in self.new),
                    *(fate.after.content for fate in self.fates),
                    *(item.says for item in self.row.expected if item.says),
                    *(message.content for message in self.row.transcript),
                ]
            )
        )
