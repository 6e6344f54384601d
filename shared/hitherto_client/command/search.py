"""`hitherto search`: what is found for a question, and why."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from hitherto.v1 import entity_pb2
from hitherto_client.command.exits import UsageError
from hitherto_client.command.memories import FILTERS, TIME_TRAVEL
from hitherto_client.command.options import number, whole
from hitherto_client.command.output import Output
from hitherto_client.command.result_view import (
    show_excerpts,
    show_explanations,
    show_legs,
    show_results,
    warn,
)
from hitherto_client.command.rpc import USER, Option, Rpc, declare
from hitherto_client.command.show import nothing
from hitherto_client.command.values import word_of

_ENTITY_TYPES = entity_pb2.EntityType.DESCRIPTOR
REFERENCE_TIME = Option(
    "--reference-time", "reference_time", "the time that `last week` is relative to"
)
COUNT_ACCESS = Option(
    "--count-access", "count_access", "count what is shown as used (the default), or only look"
)


def _show(output: Output, options: argparse.Namespace, reply: Any) -> None:
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


_SEARCH = Rpc(
    "SearchMemories",
    (
        USER,
        Option("query", "query", needed=False),
        Option("--limit", "limit", "results at most (default 10)"),
        Option("--scope", "scopes", "what is searched (default memories)"),
        *FILTERS,
        Option(
            "--source-type", "source_types", "only documents of this source, such as gmail", "NAME"
        ),
        Option("--min-score", "min_score", metavar="SCORE"),
        Option("--ranking", "ranking", "balanced or seed003", "NAME"),
        Option("--explain", "explain", "show what each component adds to each score"),
        REFERENCE_TIME,
        *TIME_TRAVEL,
        COUNT_ACCESS,
    ),
    _show,
)


def register(commands: Any) -> None:
    """Add the sub-command."""
    search = declare(
        commands, "search", "Find memories, messages, summaries and documents.", _SEARCH, _search
    )
    search.set_defaults(limit=10)
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
        "--excerpt",
        dest="excerpt_messages",
        type=whole,
        default=0,
        metavar="N",
        help="also show N messages around the source",
    )
    search.add_argument(
        "--vector", metavar="FILE", help="the query's own vector: a JSON list of numbers"
    )


def _weight(text: str) -> tuple[str, float]:
    name, sign, value = text.partition("=")
    if not (name and sign):
        raise argparse.ArgumentTypeError(f"{text!r} should be NAME=VALUE, such as keyword=2")
    return name, number(value)


def _search(options: argparse.Namespace, output: Output) -> int:
    options.weights = dict(options.weights)
    options.query_embedding = _vector(options.vector)
    return _SEARCH.run(options, output)


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
