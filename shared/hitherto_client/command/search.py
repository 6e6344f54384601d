"""`hitherto context` and `hitherto search`: what an assistant sees, and what is found."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from hitherto.v1 import entity_pb2
from hitherto_client.command.memories import FILTERS, TIME_TRAVEL
from hitherto_client.command.options import Argument, Repeated, number, read_text, whole
from hitherto_client.command.output import Output, UsageError
from hitherto_client.command.result_view import (
    show_excerpts,
    show_explanations,
    show_legs,
    show_results,
    warn,
)
from hitherto_client.command.rpc import USER, Command, Option, Rpc
from hitherto_client.command.show import nothing, word_of

_ENTITY_TYPES = entity_pb2.EntityType.DESCRIPTOR
QUERY = Option("query", "query", "what to look for, in words", needed=False)
MIN_RELEVANCE = Option(
    "--min-relevance",
    "min_relevance",
    "minimum relevance, from 0 (everything) to 1 (only the surest)",
    "RELEVANCE",
)
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
        output.note(_nothing_found(options, reply.reason))
    if options.explain:
        if reply.entities:
            named = ", ".join(
                f"{entity.name} ({word_of(_ENTITY_TYPES, entity.type)})"
                for entity in reply.entities
            )
            output.note(f"the query names {named}")
        show_legs(output, reply.legs, f"{reply.candidates_total} candidates were scored")
    warn(output, reply.legs, degraded=reply.degraded)


def _nothing_found(options: argparse.Namespace, reason: str) -> str:
    if not reason and options.min_score:
        if not options.query:
            return "without a query nothing has a score, so that --min-score leaves out everything"
        floor = "" if options.min_relevance is not None else ", or --min-relevance 0,"
        return (
            f"nothing close scored {options.min_score:g} or more; "
            f"a lower --min-score{floor} shows more"
        )
    if reason or not options.query or options.min_relevance is not None:
        return nothing("nothing was found", reason)
    return "nothing close was found; --min-relevance 0 also shows what is not close"


_SEARCH = Rpc(
    "SearchMemories",
    (
        USER,
        QUERY,
        Option("--limit", "limit", "number of results at most (default: 10)"),
        Option("--scope", "scopes", "what is searched (default: memories)"),
        *FILTERS,
        Option(
            "--source-type", "source_types", "only documents of this source, such as gmail", "NAME"
        ),
        Option("--min-score", "min_score", "only results with this score or more", "SCORE"),
        MIN_RELEVANCE,
        Option("--ranking", "ranking", "balanced (the default) or weighted", "NAME"),
        Option("--explain", "explain", "show what each component adds to each score"),
        REFERENCE_TIME,
        *TIME_TRAVEL,
        COUNT_ACCESS,
    ),
    _show,
    days=True,
)


def _weight(text: str) -> tuple[str, float]:
    name, sign, value = text.partition("=")
    if not (name and sign):
        raise argparse.ArgumentTypeError(f"{text!r} should be NAME=VALUE, such as keyword=2")
    return name, number(value)


def _search(options: argparse.Namespace, output: Output) -> int:
    options.limit = options.limit or 10
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


def _show_context(output: Output, options: argparse.Namespace, reply: Any) -> None:
    if reply.prompt_block:
        output.text(reply.prompt_block)
    else:
        output.note(nothing(f"nothing is known about {options.user_id} yet", reply.reason))
    if reply.previous_items:
        output.note(
            f"the last answer of this conversation rested on {len(reply.previous_items)} items"
        )
    more = "; --max-tokens allows more" if options.max_tokens == _ON_A_TERMINAL else ""
    output.note(f"{reply.prompt_tokens} tokens{more}")
    warn(output, reply.legs, degraded=reply.degraded)


_CONTEXT = Rpc(
    "GetContext",
    (
        USER,
        QUERY,
        Option("--template", "template", "the form of the block (default: about-the-user)"),
        Option("--max-tokens", "max_tokens", "token budget of the block"),
        Option("--conversation", "conversation_id", "the current conversation", "ID"),
        Option("--scope", "scopes", "what the query searches (default: all)"),
        MIN_RELEVANCE,
        Option("--max-memories", "max_memories", "most important memories; 0 leaves them out"),
        Option("--max-relevant", "max_relevant", "results for the query; 0 leaves them out"),
        Option("--max-conversations", "max_conversations", "past conversations; 0 leaves them out"),
        Option("--max-entities", "max_entities", "known entities; 0 leaves them out"),
        Option("--order", "memory_order", "order of the most important memories"),
        Option("--provenance", "include_provenance", "show origin, date and id of every memory"),
        Option("--dates", "line_dates", "whether lines have dates (default: with a query)"),
        REFERENCE_TIME,
        *TIME_TRAVEL,
        COUNT_ACCESS,
    ),
    _show_context,
)


_ON_A_TERMINAL = 400
"""Tokens of a block that nobody asked to be longer."""


def _context(options: argparse.Namespace, output: Output) -> int:
    if options.file is None and options.template == "custom":
        raise UsageError("--template custom needs --custom-template FILE")
    if options.file is not None:
        if options.template not in (None, "custom"):
            raise UsageError(f"--custom-template does not go with --template {options.template}")
        options.template, options.custom_template = "custom", read_text(options.file)
    if options.max_tokens is None and output.stdout.is_terminal and not output.as_json:
        # A person reads it: what a model is given by default is eighty lines.
        options.max_tokens = _ON_A_TERMINAL
    return _CONTEXT.run(options, output)


COMMANDS = (
    Command(
        "context",
        "Print the context block for an assistant's prompt.",
        _CONTEXT,
        Argument("--custom-template", "a template of your own", "FILE", dest="file"),
        run=_context,
    ),
    Command(
        "search",
        "Find memories, messages, summaries and documents.",
        _SEARCH,
        Repeated(
            "--weight",
            "weight of a component of the ranking",
            "NAME=VALUE",
            dest="weights",
            type=_weight,
        ),
        Argument(
            "--excerpt",
            "also show N messages around the source",
            "N",
            dest="excerpt_messages",
            type=whole,
            default=0,
        ),
        Argument("--vector", "the query's own vector: a JSON list of numbers", "FILE"),
        run=_search,
    ),
)
