"""What a call, or an attempt at a job, waits for and uses: statements, connections, models, legs.

The record is in a context variable, so that it reaches from the gateway or the worker to the
database and the models without passing through what lies between. Adding to it takes about a
microsecond; only a slow call and the end of a job turn it into text.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any, Literal, Self

from hitherto_shared import tracing
from hitherto_shared.database.statement_names import name_of_trip

Kind = Literal["sql", "connection", "model", "leg"]
What = str | tuple[str | bytes, ...]
"""A name, or the statements of a round trip to the database."""

_MOST_PARTS = 200
"""Maximum number of different parts of one call; further ones are not recorded."""
_MOST_SHOWN = 20


class WorkRecord:
    """The record of one call or attempt: its waits, and its tokens, such as of `chat_input`.

    Of an attempt at a job, also the counts of the result so far, and how it ended.
    """

    __slots__ = ("_waits", "counts", "outcome", "tokens")

    def __init__(self) -> None:
        self._waits: dict[tuple[Kind, What], tuple[int, float]] = {}
        self.tokens: Counter[str] = Counter()
        self.counts: dict[str, int] = {}
        self.outcome = ""

    def add(self, kind: Kind, what: What, seconds: float) -> None:
        """Add a wait."""
        key = (kind, what)
        known = self._waits.get(key)
        if known is not None:
            self._waits[key] = (known[0] + 1, known[1] + seconds)
        elif len(self._waits) < _MOST_PARTS:
            self._waits[key] = (1, seconds)

    def seconds(self, kind: Kind) -> float:
        """The sum of the waits of this kind; they may overlap."""
        return sum(seconds for (of, _), (_, seconds) in self._waits.items() if of == kind)

    def parts(self) -> dict[str, dict[str, float]]:
        """The longest waits by name, the longest first; legs contain their statements."""
        longest = sorted(self._waits.items(), key=lambda wait: wait[1][1], reverse=True)
        return {
            f"{kind} {name_of_trip(what) if isinstance(what, tuple) else what}": {
                "times": times,
                "ms": round(seconds * 1000, 1),
            }
            for (kind, what), (times, seconds) in longest[:_MOST_SHOWN]
        }

    def take_result(self, result: Mapping[str, Any]) -> None:
        """Remember the counts in a job's result; zeros are left out."""
        counts = {**result, **dict(result.get("counts") or {})}
        self.counts = {
            name: count for name, count in counts.items() if isinstance(count, int) and count
        }


_record: ContextVar[WorkRecord | None] = ContextVar("hitherto_work_record", default=None)


def begin_record() -> WorkRecord:
    """A new record, which is that of the current task and its children from now on."""
    record = WorkRecord()
    _record.set(record)
    return record


def current_record() -> WorkRecord | None:
    """The record of the current work, or None in background work."""
    return _record.get()


class Waiting:
    """Adds the time of its block to the record of the current work, and a span to its trace."""

    __slots__ = ("_attributes", "_began", "_kind", "_span", "_what")

    def __init__(
        self, kind: Kind, what: What, attributes: tracing.Attributes | None = None
    ) -> None:
        self._kind: Kind = kind
        self._what = what
        self._attributes = attributes

    def __enter__(self) -> Self:
        tracer = tracing.tracer()
        self._span = tracer.wait(*self._named()) if tracer else None
        self._began = time.perf_counter()
        return self

    def note(self, name: str, value: int) -> None:
        """Add an attribute to the span."""
        if self._span is not None:
            self._attributes = {**(self._attributes or {}), name: value}

    def _named(self) -> tuple[str, tracing.Attributes]:
        """The name and the first attributes of the span."""
        if not isinstance(self._what, tuple):
            name = self._what if self._kind == "sql" else f"{self._kind} {self._what}"
            return name, self._attributes or {}
        size = len(self._what)
        batch: tracing.Attributes = {"db.operation.batch.size": size} if size > 1 else {}
        return name_of_trip(self._what), {"db.system.name": "postgresql", **batch}

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        record = _record.get()
        if record is not None:
            record.add(self._kind, self._what, time.perf_counter() - self._began)
        if self._span is not None:
            self._span.end(_kind_of(error), self._attributes)


def _kind_of(error: BaseException | None) -> str:
    """The type of an error, or the SQLSTATE of Postgres; never its message."""
    if error is None:
        return ""
    return getattr(error, "sqlstate", None) or type(error).__name__
