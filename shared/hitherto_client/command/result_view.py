"""Results of a search as people read them: what was found, why, and what was said around it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from google.protobuf.timestamp_pb2 import Timestamp

from hitherto.v1 import conversation_pb2, memory_pb2, search_pb2
from hitherto_client.command.output import Output
from hitherto_client.command.show import Column, day, minute, short, show_rows, word_of

_ROLES = conversation_pb2.Role.DESCRIPTOR
_TYPES = memory_pb2.MemoryType.DESCRIPTOR
_STATUSES = memory_pb2.MemoryStatus.DESCRIPTOR
_LEG_STATES = search_pb2.LegState.DESCRIPTOR
_MISSING = frozenset({search_pb2.LEG_STATE_TIMED_OUT, search_pb2.LEG_STATE_FAILED})
_LEGS = (
    Column("leg", "name"),
    "state",
    Column(
        "time",
        lambda leg: f"{leg.duration.seconds * 1e3 + leg.duration.nanos / 1e6:.1f} ms",
        number=True,
    ),
    Column("found", "candidates", number=True),
    Column("why", "reason"),
)
_SHOWN = 400
"""Characters of a text in a table; `--json` has it whole."""
_UNIT = 10_000
"""Scores are shown to four places."""
_NAME_COLUMNS = 18
_SCORE_COLUMNS = 8


def show_results(output: Output, results: Sequence[search_pb2.SearchResult]) -> None:
    """One row each, whatever kind of thing it is.

    Without a query nothing has a score, and nothing is found by anything.
    """
    places = {each.memory.id: place for place, each in enumerate(results, 1) if each.memory.id}
    scored = _scored(results)
    rows = []
    for place, result in enumerate(results, start=1):
        item = _item(result, places)
        score = _units(round(result.score * _UNIT))
        found = (place, score, *item, ", ".join(result.matched_legs))
        rows.append(found if scored else (place, *item))
    numbers = ("#", "score") if scored else ("#",)
    columns = ("kind", "what", "from", "when")
    output.table(
        (*numbers, *columns, "found by") if scored else (*numbers, *columns),
        rows,
        numbers=numbers,
        whole=numbers,
    )


def show_explanations(output: Output, results: Sequence[search_pb2.SearchResult]) -> None:
    """What each component adds to each score: a column per result, which adds up to its last row.

    As many results stand beside each other as fit the width. Of results without a score there is
    nothing to tell.
    """
    if not _scored(results):
        return
    fit = max(1, (output.stdout.width - _NAME_COLUMNS) // _SCORE_COLUMNS)
    places = list(enumerate(results, start=1))
    for first in range(0, len(places), fit):
        _explain(output, places[first : first + fit])


def show_excerpts(output: Output, results: Sequence[search_pb2.SearchResult]) -> None:
    """What was said where results came from."""
    told: dict[tuple[tuple[str, str], ...], int] = {}
    for place, result in enumerate(results, start=1):
        key = tuple((message.conversation_id, message.id) for message in result.excerpt)
        if not key:
            continue
        output.line("")
        if (first := told.setdefault(key, place)) != place:
            output.line(f"Around #{place} the same was said as around #{first}.")
            continue
        output.line(f"What was said around #{place}:")
        show_rows(output, _EXCERPT, result.excerpt)


def speaker(message: conversation_pb2.Message) -> str:
    """Who said it: the name, where one was given, and the role."""
    role = word_of(_ROLES, message.role)
    return f"{message.name} ({role})" if message.name and role else message.name or role


def whole_parts(breakdown: Mapping[str, float]) -> dict[str, int]:
    """The components in units of 0.0001, rounded such that they add up to the rounded score.

    Those that add nothing are left out. What is cut off by rounding down goes to the parts that
    lose the most by it.
    """
    exact = {name: value * _UNIT for name, value in breakdown.items() if value}
    parts = {name: int(value // 1) for name, value in exact.items()}
    missing = round(sum(exact.values())) - sum(parts.values())
    by_loss = sorted(exact, key=lambda name: parts[name] - exact[name])
    for name in by_loss[:missing]:
        parts[name] += 1
    return parts


def _explain(output: Output, placed: Sequence[tuple[int, search_pb2.SearchResult]]) -> None:
    parts = {place: whole_parts(result.breakdown) for place, result in placed}
    largest: dict[str, int] = {}
    for of_one in parts.values():
        for name, value in of_one.items():
            largest[name] = max(largest.get(name, 0), abs(value))
    # By what they matter: a map on the wire has no order.
    names = sorted(largest, key=lambda name: (-largest[name], name))
    rows: list[tuple[object, ...]] = [
        (name, *(_units(of_one[name]) if name in of_one else "" for of_one in parts.values()))
        for name in names
    ]
    rows.append(("score", *(_units(sum(of_one.values())) for of_one in parts.values())))
    columns = [f"#{place}" for place in parts]
    output.line("")
    output.table(("adds", *columns), rows, numbers=columns, whole=columns)
    for place, result in placed:
        # Parts that do not make the score would be a fault of the service: show it, do not hide it.
        if abs(result.score - sum(result.breakdown.values())) > 1e-6:
            output.line(f"#{place}: these do not add up to its score, {result.score:.4f}")


def _scored(results: Sequence[search_pb2.SearchResult]) -> bool:
    return any(result.matched_legs or result.score for result in results)


def _units(value: int) -> str:
    return f"{value / _UNIT:.4f}"


def _item(result: search_pb2.SearchResult, places: Mapping[str, int]) -> tuple[str, str, str, str]:
    """Kind, text, origin and time of what was found; `places` are those of the memories."""
    match result.WhichOneof("item"):
        case "memory":
            return _memory_item(result.memory, places)
        case "message":
            message = result.message
            origin = f"{speaker(message)}, {message.conversation_id}".strip(", ")
            return "message", short(message.content, _SHOWN), origin, minute(message.created_at)
        case "summary":
            summary = result.summary
            text = _titled(summary.title, summary.summary)
            return "summary", text, summary.conversation_id, day(summary.updated_at)
        case "document_chunk":
            chunk = result.document_chunk
            kind = f"document ({chunk.content_type})" if chunk.content_type else "document"
            origin = f"{chunk.source_type} {short(chunk.source_id, 40)}".strip()
            return kind, _titled(chunk.title, chunk.content), origin, day(chunk.created_at)
        case _:
            return "", "(of a kind that this version does not know)", "", ""


def _memory_item(memory: memory_pb2.Memory, places: Mapping[str, int]) -> tuple[str, str, str, str]:
    kind = word_of(_TYPES, memory.type)
    if memory.status not in (memory_pb2.MEMORY_STATUS_ACTIVE, 0):
        status, by = word_of(_STATUSES, memory.status), memory.superseded_by
        named = f"#{places[by]}" if by in places else by
        kind = f"{kind} ({status} by {named})" if by else f"{kind} ({status})"
    conversations = list(dict.fromkeys(source.conversation_id for source in memory.sources))
    more = f" and {len(conversations) - 1} more" if len(conversations) > 1 else ""
    origin = f"{conversations[0]}{more}" if conversations else ""
    return kind, memory.content, origin, _held(memory.valid_from, memory.valid_to)


def _held(since: Timestamp, until: Timestamp) -> str:
    """Since when a memory holds, and until when if it holds no longer."""
    end = day(until)
    return f"{day(since)} to {end}" if end else day(since)


_EXCERPT = (
    Column("conversation", "conversation_id"),
    Column("when", "created_at", whole=True),
    Column("who", speaker),
    Column("what", lambda message: short(message.content, _SHOWN)),
)


def _titled(title: str, text: str) -> str:
    return short(f"{title}: {text}" if title and text else title or text, _SHOWN)


def show_legs(output: Output, legs: Sequence[search_pb2.LegReport], remark: str) -> None:
    """A table beside the output, and a remark below it."""
    if legs:
        show_rows(output, _LEGS, legs, on_stderr=True)
    output.note(remark)


def warn(output: Output, legs: Sequence[search_pb2.LegReport], *, degraded: bool) -> None:
    """Say which legs are missing from a degraded answer, and why."""
    if not degraded:
        return
    missing = [_missing(leg) for leg in legs if leg.state in _MISSING]
    told = "; ".join(missing) or "a leg failed or was too slow"
    output.note(f"the answer is degraded, something may be missing: {told}")


def _missing(leg: search_pb2.LegReport) -> str:
    ended = word_of(_LEG_STATES, leg.state).replace("-", " ")
    return f"{leg.name} {ended} ({leg.reason})" if leg.reason else f"{leg.name} {ended}"
