"""Rows and what came of them, made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.extraction.rows import ConversationCase, Existing, MemoryOutcome, Observation
from hitherto.v1 import memory_pb2
from hitherto_client.results import Memory
from hitherto_client.wire import build, read


def row(*said: str, **more: Any) -> ConversationCase:
    """A row in which the user says some things, one a minute."""
    transcript = [
        {"role": "user", "content": text, "created_at": f"2026-03-04T09:{minute:02}:00Z"}
        for minute, text in enumerate(said or ("I live in Porto.",))
    ]
    return ConversationCase.model_validate(
        {"id": "r1", "language": "en", "category": "fact", "transcript": transcript, **more}
    )


def seen(content: str, **more: Any) -> Memory:
    """A memory as it was read back."""
    given = {"id": content, "type": "fact", "importance": 0.5, "status": "active", "version": 1}
    return read(Memory, build(memory_pb2.Memory, content=content, **{**given, **more}))


def observed(of: ConversationCase, *learnt: Memory, **more: Any) -> Observation:
    """The row after a job that learnt these."""
    return Observation(row=of, new=learnt, **more)


def perfect(of: ConversationCase) -> Observation:
    """The row after a job that did all it had to and nothing else."""
    new = [
        seen(item.says, type=item.types[0], importance=item.importance_min or 0.5)
        for item in of.expected
        if item.says and not item.optional
    ]
    return Observation(row=of, new=new, fates=[_done(known) for known in of.existing_memories])


def _done(wanted: Existing) -> MemoryOutcome:
    before = seen(wanted.content, type=wanted.type, importance=wanted.importance)
    match wanted.then:
        case "contradicted" | "achieved":
            after = seen(wanted.content, type=wanted.type, status=wanted.then, version=2)
        case "updated":
            after = seen(f"{wanted.content} {words(wanted.contains)}", version=2)
        case _:
            after = before
    return MemoryOutcome(wanted, before, after)


def words(terms: Sequence[str | tuple[str, ...]]) -> str:
    return " ".join(term if isinstance(term, str) else term[0] for term in terms)
