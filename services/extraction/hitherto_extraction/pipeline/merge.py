"""Merges a repeated statement into a known memory.

- The wording of the newer evidence wins. Older evidence, from a late batch, adds its sources and
  labels but never its words.
- Repetition never weakens a memory: importance and confidence are the higher of the two.
- Questions of both are kept if the words answer them, those of the newer evidence first.
- Trust has two levels (the user and the operator above assistant, tool and document). A less
  trusted statement only adds its source to a more trusted one. A more trusted statement takes over
  a less trusted one entirely, with words, weight and labels, so that whatever carries the user's
  name rests on the user's own words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from hitherto_extraction.pipeline.guards import same_wording
from hitherto_extraction.pipeline.guards.questions import kept
from hitherto_shared.models import CONFIDENCES
from hitherto_shared.text.normalise import nfc

HIGHER_ORIGINS = ("user", "operator")
MAX_LABELS = 32
"""Maximum number of tags or keywords of a memory; existing ones keep their positions."""

_CONTENT = (
    "content", "detail", "importance", "confidence", "origin", "tags", "keywords",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Mergeable:
    """What a merge compares.

    `said_at` is the event time of the newest message behind it, and neither the time of processing
    nor the beginning of its validity.
    """

    content: str
    importance: float
    confidence: str
    origin: str
    said_at: datetime
    detail: str = ""
    tags: Sequence[str] = ()
    keywords: Sequence[str] = ()
    questions: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class NewMemory(_Mergeable):
    """A statement that repeats a known one."""


@dataclass(frozen=True, slots=True)
class KnownMemory(_Mergeable):
    """A memory in its present form."""


@dataclass(frozen=True, slots=True)
class MemoryUpdate:
    """The memory after the merge.

    `changed` names the fields that differ. If it is empty there is no new version: `said_at` is
    evidence, not content.
    """

    content: str
    detail: str
    importance: float
    confidence: str
    origin: str
    said_at: datetime
    tags: tuple[str, ...]
    keywords: tuple[str, ...]
    questions: tuple[str, ...]
    changed: tuple[str, ...]

    @property
    def versioned(self) -> bool:
        """Whether the update makes a new version."""
        return bool(self.changed)


def merge_update(known: KnownMemory, new: NewMemory) -> MemoryUpdate:
    """The known memory after a statement that repeats it."""
    known_is_higher, new_is_higher = _higher(known.origin), _higher(new.origin)
    if known_is_higher and not new_is_higher:
        after = known
    elif new_is_higher and not known_is_higher:
        after = _taken_over(known, new)
    else:
        after = _joined(known, new)
    changed = tuple(
        name for name in _CONTENT if _plain(getattr(after, name)) != _plain(getattr(known, name))
    )
    return MemoryUpdate(
        content=after.content,
        detail=after.detail,
        importance=after.importance,
        confidence=after.confidence,
        origin=after.origin,
        said_at=after.said_at,
        tags=tuple(after.tags),
        keywords=tuple(after.keywords),
        # Fields that only affect searching cause no version, but are stored with one.
        questions=kept(after.questions, after.content, after.detail)
        if changed
        else tuple(known.questions),
        changed=changed,
    )


def _higher(origin: str) -> bool:
    return origin in HIGHER_ORIGINS


def _plain(value: object) -> object:
    return tuple(value) if isinstance(value, list | tuple) else value


def _taken_over(known: KnownMemory, new: NewMemory) -> KnownMemory:
    """The memory as the more trusted statement has it; its age is that of the new words."""
    return replace(
        known,
        content=new.content,
        detail=new.detail,
        importance=new.importance,
        confidence=new.confidence,
        origin=new.origin,
        said_at=new.said_at,
        tags=new.tags,
        keywords=new.keywords,
        questions=new.questions,
    )


def _joined(known: KnownMemory, new: NewMemory) -> KnownMemory:
    newer = new.said_at > known.said_at
    # An additional full stop is not a new wording, and no reason for a version.
    reworded = newer and not same_wording(known.content, new.content)
    return replace(
        known,
        content=new.content if reworded else known.content,
        detail=new.detail if new.detail and (newer or not known.detail) else known.detail,
        importance=max(known.importance, new.importance),
        confidence=max(known.confidence, new.confidence, key=CONFIDENCES.index),
        said_at=max(known.said_at, new.said_at),
        tags=_united(known.tags, new.tags),
        keywords=_united(known.keywords, new.keywords),
        questions=(*new.questions, *known.questions) if newer else known.questions,
    )


def _united(old: Sequence[str], new: Sequence[str]) -> tuple[str, ...]:
    """The labels of both, the old ones first and unchanged, without new spellings of them."""
    found = {nfc(label).casefold(): label for label in reversed(old)}
    united = dict.fromkeys(old)
    for label in new:
        known = found.setdefault(nfc(label).casefold(), label)
        if len(united) < MAX_LABELS:
            united.setdefault(known)
    return tuple(united)
