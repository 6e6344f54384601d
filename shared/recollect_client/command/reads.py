"""`recollect context` and `recollect search`: what an assistant would be told, and why."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from recollect.v1 import memory_pb2, retrieval_service_pb2, search_pb2
from recollect_client.command.exits import OK, UsageError
from recollect_client.command.options import (
    add_command,
    add_enum,
    connect,
    natural,
    number,
    numbers,
    whole,
    word_of,
    words,
)
from recollect_client.command.output import Output
from recollect_client.command.values import day

_TEMPLATES = search_pb2.PromptTemplate.DESCRIPTOR
_SCOPES = search_pb2.SearchScope.DESCRIPTOR
_LEG_STATES = search_pb2.LegState.DESCRIPTOR
_TYPES = memory_pb2.MemoryType.DESCRIPTOR
_STATUSES = memory_pb2.MemoryStatus.DESCRIPTOR
_CONFIDENCES = memory_pb2.Confidence.DESCRIPTOR


def register(commands: Any) -> None:
    """Add the sub-commands."""
    context = add_command(
        commands, "context", "Print the prompt block an assistant would be given.", _context
    )
    context.add_argument("user", metavar="USER")
    context.add_argument("query", metavar="QUERY", nargs="?", default="")
    context.add_argument("--template", choices=words(_TEMPLATES), type=str.lower)
    context.add_argument("--custom-template", metavar="FILE", help="one's own shape of the block")
    context.add_argument("--max-tokens", type=whole, metavar="N", help="budget of the block")
    context.add_argument("--max-memories", type=whole, metavar="N", help="0 leaves them out")
    context.add_argument("--conversation", default="", metavar="ID", help="the one that goes on")
    context.add_argument(
        "--provenance", action="store_true", help="origin, date and id of every memory"
    )
    search = add_command(commands, "search", "Find memories, best first.", _search)
    search.add_argument("user", metavar="USER")
    search.add_argument("query", metavar="QUERY", nargs="?", default="")
    search.add_argument("--limit", type=natural, default=10, metavar="N")
    add_enum(search, "--type", _TYPES, "types", "only memories of this type")
    search.add_argument("--tag", dest="tags", action="append", default=[], metavar="TAG")
    add_enum(search, "--status", _STATUSES, "statuses", "only memories with this status")
    add_enum(search, "--scope", _SCOPES, "scopes", "what is searched (default memories)")
    search.add_argument("--entity", default="", metavar="NAME", help="only what mentions it")
    search.add_argument("--conversation", default="", metavar="ID", help="only what came from it")
    search.add_argument("--min-confidence", choices=words(_CONFIDENCES), type=str.lower)
    search.add_argument("--min-score", type=number, metavar="SCORE")
    search.add_argument("--ranking", default="", metavar="NAME", help="balanced or seed003")
    search.add_argument(
        "--explain", action="store_true", help="what each component adds to each score"
    )


def _context(options: argparse.Namespace, output: Output) -> int:
    request = retrieval_service_pb2.GetContextRequest(
        user_id=options.user,
        query=options.query,
        conversation_id=options.conversation,
        include_provenance=options.provenance,
        max_tokens=options.max_tokens,
        max_memories=options.max_memories,
        custom_template=_custom_template(options),
    )
    if options.template:
        request.template = numbers(_TEMPLATES, [options.template])[0]
    elif options.custom_template:
        request.template = search_pb2.PROMPT_TEMPLATE_CUSTOM
    with connect(options) as client:
        reply = client.retrieval.GetContext(request)
    if output.as_json:
        output.document(reply)
        return OK
    if reply.prompt_block:
        output.text(reply.prompt_block)
    else:
        output.note(f"nothing is known about {options.user} yet{_because(reply.reason)}")
    _legs(output, reply.legs, f"{reply.prompt_tokens} tokens")
    _warn(output, degraded=reply.degraded)
    return OK


def _custom_template(options: argparse.Namespace) -> str:
    if options.custom_template is None:
        if options.template == "custom":
            raise UsageError("--template custom needs --custom-template FILE")
        return ""
    if options.template not in (None, "custom"):
        raise UsageError(f"--custom-template does not go with --template {options.template}")
    try:
        return Path(options.custom_template).read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8"
        raise UsageError(f"{options.custom_template} cannot be read ({why})") from None


def _search(options: argparse.Namespace, output: Output) -> int:
    request = retrieval_service_pb2.SearchMemoriesRequest(
        user_id=options.user,
        query=options.query,
        limit=options.limit,
        types=numbers(_TYPES, options.types),
        tags=options.tags,
        statuses=numbers(_STATUSES, options.statuses),
        scopes=numbers(_SCOPES, options.scopes),
        entity=options.entity,
        conversation_id=options.conversation,
        min_score=options.min_score,
        ranking=options.ranking,
        explain=options.explain,
    )
    if options.min_confidence:
        request.confidence_min = numbers(_CONFIDENCES, [options.min_confidence])[0]
    with connect(options) as client:
        reply = client.retrieval.SearchMemories(request)
    if output.as_json:
        output.document(reply)
        return OK
    if reply.results:
        output.table(
            ("#", "score", "type", "what", "since", "found by"),
            [_row(place, result) for place, result in enumerate(reply.results, start=1)],
            numbers=("#", "score"),
        )
        if options.explain:
            for place, result in enumerate(reply.results, start=1):
                output.line(f"#{place}  {explanation(result.score, result.breakdown)}")
    else:
        output.note(f"nothing was found{_because(reply.reason)}")
    if options.explain:
        _legs(output, reply.legs, f"{reply.candidates_total} candidates were scored")
    _warn(output, degraded=reply.degraded)
    return OK


def _row(place: int, result: search_pb2.SearchResult) -> Sequence[object]:
    legs = ", ".join(result.matched_legs)
    score = f"{result.score:.4f}"
    match result.WhichOneof("item"):
        case "memory":
            memory = result.memory
            kind, text, time = word_of(_TYPES, memory.type), memory.content, memory.valid_from
            if memory.status != memory_pb2.MEMORY_STATUS_ACTIVE:
                kind = f"{kind} ({word_of(_STATUSES, memory.status)})"
        case "message":
            kind, text, time = "message", result.message.content, result.message.created_at
        case "summary":
            summary = result.summary
            kind, text, time = "summary", f"{summary.title}: {summary.summary}", summary.updated_at
        case "document_chunk":
            chunk = result.document_chunk
            kind, text, time = "document", f"{chunk.title}: {chunk.content}", chunk.created_at
        case _:
            return (place, score, "", "(of a kind that this version does not know)", "", legs)
    return (place, score, kind, text, day(time), legs)


def explanation(score: float, breakdown: Mapping[str, float]) -> str:
    """The score as a sum, rounded such that the parts shown add up to the total shown."""
    exact = {name: value * 10_000 for name, value in breakdown.items() if value}
    parts = {name: int(value // 1) for name, value in exact.items()}
    missing = round(sum(exact.values())) - sum(parts.values())
    by_remainder = sorted(exact, key=lambda name: parts[name] - exact[name])
    for name in by_remainder[:missing]:
        parts[name] += 1
    shown = sorted(parts.items(), key=lambda part: -abs(part[1]))
    total = sum(parts.values())
    added = " + ".join(f"{name} {value / 10_000:.4f}" for name, value in shown) or "no component"
    # Parts that do not make the score would be a fault of the service: show it, do not hide it.
    differs = abs(score - sum(breakdown.values())) > 1e-6
    return f"{added} = {total / 10_000:.4f}" + (f" (score {score:.4f})" if differs else "")


def _legs(output: Output, legs: Sequence[search_pb2.LegReport], remark: str) -> None:
    if legs:
        rows = [
            (
                leg.name,
                word_of(_LEG_STATES, leg.state),
                f"{leg.duration.seconds * 1e3 + leg.duration.nanos / 1e6:.1f} ms",
                leg.candidates,
                leg.reason,
            )
            for leg in legs
        ]
        columns = ("leg", "state", "time", "found", "why")
        output.table(columns, rows, numbers=("time", "found"), on_stderr=True)
    output.note(remark)


def _warn(output: Output, *, degraded: bool) -> None:
    if degraded:
        output.note("a leg failed or was too slow: something may be missing")


def _because(reason: str) -> str:
    return f" ({reason})" if reason else ""
