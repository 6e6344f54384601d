"""`hitherto search`: what is found for a question, and why."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from hitherto.v1 import entity_pb2, retrieval_service_pb2, search_pb2
from hitherto_client.command.exits import OK, UsageError
from hitherto_client.command.filters import (
    add_consistency,
    add_filters,
    add_time_travel,
    filter_fields,
    moment_fields,
)
from hitherto_client.command.legs_view import show_legs, warn
from hitherto_client.command.memory_view import nothing
from hitherto_client.command.options import (
    add_command,
    add_enum,
    add_user,
    connect,
    moment,
    natural,
    number,
    numbers,
    whole,
    word_of,
)
from hitherto_client.command.output import Output
from hitherto_client.command.result_view import show_excerpts, show_explanations, show_results

_SCOPES = search_pb2.SearchScope.DESCRIPTOR
_ENTITY_TYPES = entity_pb2.EntityType.DESCRIPTOR


def register(commands: Any) -> None:
    """Add the sub-command."""
    search = add_command(
        commands, "search", "Find memories, messages, summaries and documents.", _search
    )
    add_user(search)
    search.add_argument("query", metavar="QUERY", nargs="?", default="")
    search.add_argument("--limit", type=natural, default=10, metavar="N")
    add_enum(search, "--scope", _SCOPES, "scopes", "what is searched (default memories)")
    add_filters(search)
    search.add_argument(
        "--source-type",
        dest="source_types",
        action="append",
        default=[],
        metavar="NAME",
        help="only documents of this source, such as gmail; may be given several times",
    )
    search.add_argument("--min-score", type=number, metavar="SCORE")
    search.add_argument("--ranking", default="", metavar="NAME", help="balanced or seed003")
    search.add_argument(
        "--weight",
        dest="weights",
        type=_weight,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="weight of a component of the ranking; may be given several times",
    )
    search.add_argument(
        "--explain", action="store_true", help="show what each component adds to each score"
    )
    search.add_argument(
        "--excerpt",
        type=whole,
        default=0,
        metavar="N",
        help="also show N messages around the source",
    )
    search.add_argument(
        "--vector", metavar="FILE", help="the query's own vector: a JSON list of numbers"
    )
    search.add_argument(
        "--reference-time",
        type=moment,
        metavar="TIME",
        help="the time that `last week` is relative to",
    )
    add_time_travel(search)
    add_consistency(search)


def _weight(text: str) -> tuple[str, float]:
    name, sign, value = text.partition("=")
    if not (name and sign):
        raise argparse.ArgumentTypeError(f"{text!r} should be NAME=VALUE, such as keyword=2")
    return name, number(value)


def _search(options: argparse.Namespace, output: Output) -> int:
    request = retrieval_service_pb2.SearchMemoriesRequest(
        user_id=options.user,
        query=options.query,
        query_embedding=_vector(options.vector),
        limit=options.limit,
        scopes=numbers(_SCOPES, options.scopes),
        source_types=options.source_types,
        min_score=options.min_score,
        ranking=options.ranking,
        weights=dict(options.weights),
        explain=options.explain,
        excerpt_messages=options.excerpt,
        reference_time=options.reference_time,
        **filter_fields(options),
        **moment_fields(options),
    )
    with connect(options) as client:
        reply = client.retrieval.SearchMemories(request)
    if output.as_json:
        output.document(reply)
        return OK
    if reply.results:
        show_results(output, reply.results)
        if options.explain:
            show_explanations(output, reply.results)
        show_excerpts(output, reply.results)
    else:
        output.note(nothing("nothing was found", reply.reason))
    if options.explain:
        if reply.entities:
            named = ", ".join(
                f"{entity.name} ({word_of(_ENTITY_TYPES, entity.type)})"
                for entity in reply.entities
            )
            output.note(f"the query names {named}")
        show_legs(output, reply.legs, f"{reply.candidates_total} candidates were scored")
    warn(output, reply.legs, degraded=reply.degraded)
    return OK


def _vector(path: str | None) -> list[float]:
    if path is None:
        return []
    try:
        vector = json.loads(Path(path).read_text("utf-8-sig"))
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError):
        vector = None
    numeric = isinstance(vector, list) and all(type(part) in (int, float) for part in vector)
    if not (numeric and vector):
        raise UsageError(f"{path} should hold a JSON list of numbers, such as [0.1, -0.2]")
    return [float(part) for part in vector]
