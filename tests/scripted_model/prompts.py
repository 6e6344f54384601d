"""Reading the prompt back: the sections and lines that the contract lays down."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

HEADINGS = (
    "CURRENT PROFILE",
    "CURRENT SUMMARY",
    "EXISTING MEMORIES",
    "CONVERSATION",
    "CHANGED",
    "MEMORIES",
)

_HEADING = re.compile(r"([A-Z][A-Z ]*[A-Z]):(?: (.*))?")
_TIME = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?"
_WEEKDAY = "(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)"
_MESSAGE = re.compile(
    rf"\[(?P<id>m\d+)\] (?P<role>\w+) (?:(?P<name>.*?) )??"
    rf"(?:{_WEEKDAY} )?(?P<time>{_TIME}):(?: (?P<text>.*))?",
    re.DOTALL,
)
_MEMORY = re.compile(
    r"\[(?P<id>e\d+)\] \((?P<type>\w+), (?P<date>[^),]*)(?:, (?P<marks>[^)]*))?\) ?(?P<text>.*)",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class PromptLine:
    """One message of the conversation; `content` has its line breaks back."""

    local_id: str
    role: str
    name: str
    time: str
    content: str


@dataclass(frozen=True, slots=True)
class ExistingMemory:
    """One memory that the prompt shows as known; `marks` are such as `achieved`."""

    local_id: str
    type: str
    date: str
    content: str
    marks: tuple[str, ...] = ()


@dataclass(frozen=True)
class ChatRequest:
    """One request to the chat endpoint."""

    body: Mapping[str, Any]
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def system(self) -> str:
        return self._text("system")

    @property
    def user(self) -> str:
        return self._text("user")

    @property
    def model(self) -> str:
        return str(self.body.get("model", ""))

    @property
    def response_format(self) -> str:
        """`json_schema`, `json_object` or nothing."""
        return str((self.body.get("response_format") or {}).get("type", ""))

    @cached_property
    def sections(self) -> Mapping[str, str]:
        return _sections(self.user)

    @cached_property
    def messages(self) -> list[PromptLine]:
        """The conversation, in order."""
        found = (_MESSAGE.fullmatch(item) for item in _items(self.sections.get("CONVERSATION", "")))
        return [
            PromptLine(
                local_id=match["id"],
                role=match["role"].lower(),
                name=match["name"] or "",
                time=match["time"],
                content=match["text"] or "",
            )
            for match in found
            if match
        ]

    @cached_property
    def memories(self) -> list[ExistingMemory]:
        """The memories shown: known ones, or those to consolidate."""
        text = self.sections.get("EXISTING MEMORIES") or self.sections.get("MEMORIES", "")
        found = (_MEMORY.fullmatch(item) for item in _items(text))
        return [
            ExistingMemory(
                match["id"],
                match["type"].lower(),
                match["date"],
                match["text"],
                tuple(filter(None, (match["marks"] or "").split(", "))),
            )
            for match in found
            if match
        ]

    @property
    def consolidation(self) -> bool:
        """Whether memories are to be merged, not learnt."""
        return "MEMORIES" in self.sections and not self.reconciliation

    @property
    def reconciliation(self) -> bool:
        """Whether it is to be told what changes mean for other memories."""
        return "CHANGED" in self.sections

    @property
    def changed(self) -> list[ExistingMemory]:
        """The memories of a reconciliation that have changed."""
        ids = self.sections["CHANGED"].replace("[", " ").replace("]", " ").split()
        return [memory for name in ids for memory in self.memories if memory.local_id == name]

    def _text(self, role: str) -> str:
        """The last message of one role."""
        for message in reversed(self.body.get("messages") or []):
            if message.get("role") == role:
                return str(message.get("content") or "")
        return ""


def _sections(text: str) -> dict[str, str]:
    sections: dict[str, list[str]] = {}
    current: list[str] = []
    for line in text.split("\n"):
        heading = _HEADING.fullmatch(line)
        if heading and heading[1] in HEADINGS:
            current = sections.setdefault(heading[1], [])
            current += [heading[2]] if heading[2] else []
        else:
            current.append(line)
    return {name: "\n".join(lines) for name, lines in sections.items()}


def _items(section: str) -> list[str]:
    """Undo the folding: a line that starts with two spaces belongs to the line before."""
    items: list[str] = []
    for line in section.split("\n"):
        if line.startswith("  ") and items:
            items[-1] += "\n" + line[2:]
        elif line.strip():
            items.append(line)
    return items
