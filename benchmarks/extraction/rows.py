"""The data set: its rows, how they are read and refused, and what a run saw of one.

A row that is wrong ends the run with its name and what to change.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args
from zoneinfo import ZoneInfo

import yaml
from pydantic import (
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    model_validator,
)

from benchmarks.extraction.wording import Terms, contains_all
from hitherto_client.results import Memory
from hitherto_client.words import MemoryType

try:
    # The parser in C takes a tenth of the time; PyYAML may have been built without it.
    from yaml import CSafeLoader as _SafeLoader
except ImportError:
    from yaml import SafeLoader as _SafeLoader  # type: ignore[assignment]

DATA = Path(__file__).parent / "data"
LANGUAGES = {"en": "English", "vi": "Vietnamese", "ja": "Japanese"}

TYPES: tuple[str, ...] = get_args(MemoryType)
TRAPS = (
    "small_talk sarcasm hypothetical third_person pasted_text injection assistant_claim"
).split()
_SITUATIONS = (
    "goal_achieved duplicate contradiction unrelated relative_date code_switching"
).split()
CATEGORIES = (*TYPES, *_SITUATIONS, *TRAPS)

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
    """One memory that must be learnt, or, if `optional`, may be."""

    types: tuple[MemoryType, ...] = Field(min_length=1)  # types that are right for it
    # Words its text must have; of a list of words one is enough.
    contains: Terms = Field(min_length=1)
    importance_min: Importance | None = None  # lowest importance it may get
    # How it could read. Empty only in the rows of document 002.
    says: str = ""
    optional: bool = False  # true if learning it is right and leaving it out is right too

    @model_validator(mode="after")
    def _keeps_its_own_words(self) -> Self:
        if self.says and not contains_all(self.says, self.contains):
            raise ValueError(f"`says` ({self.says!r}) lacks a word of its own `contains`")
        return self


class Existing(_Strict):
    """A memory from before the conversation, and what must become of it."""

    type: MemoryType
    content: Text
    importance: Importance = 0.5
    said_at: AwareDatetime  # since when it is known
    # `untouched`: stays word for word in the same version. `kept`: stays true; it may be confirmed.
    # `updated`: gets a new version with other words. `contradicted` and `achieved`: gets this
    # status.
    then: Literal["untouched", "kept", "updated", "contradicted", "achieved"]
    # Words its text must have afterwards, and by which a new memory that says the same is
    # recognised.
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
    """What must not be learnt, neither as a memory nor into the profile."""

    contains: Terms = ()  # words that together give it away
    pattern: str = ""  # a regular expression that does; either this or `contains`
    # Words any of which makes a text harmless, such as the name of the person whom the attribute
    # belongs to.
    unless: tuple[Text, ...] = ()
    because: Text  # why it must not be learnt

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
        try:
            ZoneInfo(self.time_zone)
        except (LookupError, ValueError, OSError):
            raise ValueError(f"time_zone {self.time_zone!r} is no IANA name") from None
        return self


class BadData(ValueError):
    """A file of the data set cannot be used; the text names the file, the row and the fault."""


def load(folder: Path = DATA) -> list[ConversationCase]:
    """Every row of every file in `folder`, by file name and then in order.

    Raises:
        BadData: A file or a row is wrong, two rows have one id, or there is none.
    """
    rows = [row for path in sorted(folder.glob("*.yaml")) for row in _yaml(path)]
    seen: set[str] = set()
    for row in rows:
        if row.id in seen:
            raise BadData(f"two rows have the id {row.id!r}: give one of them another")
        seen.add(row.id)
    if not rows:
        raise BadData(f"no row in {folder.name}: it must hold .yaml files")
    return rows


def choose(
    rows: Sequence[ConversationCase],
    *,
    languages: Sequence[str] = (),
    categories: Sequence[str] = (),
    limit: int | None = None,
) -> list[ConversationCase]:
    """The rows of some languages and categories, at most `limit`; empty means all.

    With a limit the languages take turns, so that a few rows show something of each.

    Raises:
        BadData: No row is left.
    """
    chosen = [
        row
        for row in rows
        if (not languages or row.language in languages)
        and (not categories or row.category in categories)
    ]
    if limit is not None:
        before: Counter[str] = Counter()
        turns = []
        for row in chosen:
            turns.append(before[row.language])
            before[row.language] += 1
        in_turns = sorted(zip(turns, chosen, strict=True), key=lambda pair: pair[0])
        chosen = [row for _, row in in_turns][:limit]
    if not chosen:
        raise BadData("no row has these languages and categories: see --help for their names")
    return chosen


def _yaml(path: Path) -> list[ConversationCase]:
    try:
        # A subclass of the safe loader that makes strings of everything.
        found = list(yaml.load_all(path.read_text("utf-8"), Loader=_Loader))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise BadData(f"{path.name} is not YAML: {' '.join(str(error).split())}") from None
    return [
        _row(path, number, item) for number, item in enumerate(found, 1) if item not in (None, "")
    ]


def _row(path: Path, number: int, item: Any) -> ConversationCase:
    name = item.get("id") if isinstance(item, Mapping) else None
    place = f"{path.name}, row {number}" + (f" ({name})" if name else "")
    try:
        return ConversationCase.model_validate(item)
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(map(str, fault['loc'])) or 'row'}: {fault['msg']}"
            for fault in error.errors(include_input=False, include_url=False)
        )
        raise BadData(f"{place}: {faults}") from None


class _Loader(_SafeLoader):
    """YAML whose scalars are all strings ("no" is a word, not false) and whose keys are unique."""

    yaml_implicit_resolvers: dict[str, list[Any]] = {}  # noqa: RUF012

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Refuse a key that comes twice, which YAML would let win silently."""
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        twice = {key for key in keys if keys.count(key) > 1}
        if twice:
            raise yaml.constructor.ConstructorError(
                "a row", node.start_mark, f"the key {sorted(twice)[0]!r} comes twice"
            )
        return super().construct_mapping(node, deep)


@dataclass(frozen=True, slots=True)
class MemoryOutcome:
    """A memory that was there before: what was wanted, and how it was before and after."""

    wanted: Existing
    before: Memory
    after: Memory


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
    """One row after its job."""

    row: ConversationCase  # the row
    new: Sequence[Memory] = ()  # the memories that the job made, whatever their status
    fates: Sequence[MemoryOutcome] = ()  # the memories that were there before
    profile: Sequence[str] = ()  # the values of the user's profile, as `path: value`
    spent: TokenSpending = field(default_factory=TokenSpending)  # what it cost
    error: str = ""  # why the job did not succeed; empty if it did

    @property
    def learnt(self) -> list[Memory]:
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
