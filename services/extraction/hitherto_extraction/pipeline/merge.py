"""Merges a repeated statement into a known memory.

Repetition confirms: it adds sources and never words, and weakens nothing. Only a text with
diacritics replaces the same one without. A less trusted statement only adds its source. A more
trusted one takes over a less trusted memory entirely, with words, weight and labels, so that
whatever carries the user's name rests on the user's own words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from hitherto_extraction.pipeline.answer import MAX_LABELS
from hitherto_extraction.pipeline.dedupe import is_marked, same_words
from hitherto_extraction.pipeline.questions import kept
from hitherto_extraction.pipeline.trust import outranks
from hitherto_shared.models import CONFIDENCES
from hitherto_shared.text.normalise import nfc

_CONTENT = (
    "content", "detail", "importance", "confidence", "origin", "tags", "keywords",
)  # fmt: skip
WORDS = ("content", "detail", "importance", "confidence", "tags", "keywords", "questions")
"""What a statement has of its own, beside its origin and its time."""


@dataclass(frozen=True, slots=True)
class MergeableMemory:
    """What a merge compares: a known memory in its present form, or a statement that repeats it.

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
class MemoryUpdate:
    """The memory after the merge.

    `changed` names the fields that differ. If it is empty there is no new version: `said_at` is
    evidence, not content.
    """

    after: MergeableMemory
    changed: tuple[str, ...]


def merge_update(known: MergeableMemory, new: MergeableMemory) -> MemoryUpdate:
    """The known memory after a statement that repeats it."""
    if outranks(known.origin, new.origin):
        after = known
    elif outranks(new.origin, known.origin):
        after = new  # Its age is that of the new words, too.
    else:
        after = _joined(known, new)
    changed = tuple(
        name for name in _CONTENT if _plain(getattr(after, name)) != _plain(getattr(known, name))
    )
    # Fields that only affect searching cause no version, but are stored with one.
    questions = kept(after.questions, after.content, after.detail) if changed else known.questions
    return MemoryUpdate(replace(after, questions=tuple(questions)), changed)


def _plain(value: object) -> object:
    return tuple(value) if isinstance(value, list | tuple) else value


def _joined(known: MergeableMemory, new: MergeableMemory) -> MergeableMemory:
    fuller = (
        is_marked(new.content)
        and not is_marked(known.content)
        and same_words(known.content, new.content)
    )
    return replace(
        known,
        content=new.content if fuller else known.content,
        detail=known.detail or new.detail,
        importance=max(known.importance, new.importance),
        confidence=max(known.confidence, new.confidence, key=CONFIDENCES.index),
        said_at=max(known.said_at, new.said_at),
        tags=_united(known.tags, new.tags),
        keywords=_united(known.keywords, new.keywords),
        questions=(*known.questions, *new.questions),
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
