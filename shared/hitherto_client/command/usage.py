"""`hitherto usage`: what work cost."""

from __future__ import annotations

import argparse
from typing import Any

from hitherto.v1 import job_pb2
from hitherto.v1 import maintenance_service_pb2 as pb
from hitherto_client.command.exits import OK
from hitherto_client.command.options import (
    add_command,
    add_everybody,
    add_paging,
    connect,
    moment,
    numbers,
    read_pages,
    words,
)
from hitherto_client.command.output import Output
from hitherto_client.command.values import dollars

_DIMENSIONS = pb.UsageDimension.DESCRIPTOR
_COLUMNS = ("calls", "tokens in", "tokens out", "embedding calls", "tokens embedded", "cost")


def register(commands: Any) -> None:
    """Add the sub-command."""
    parser = add_command(commands, "usage", "Show calls, tokens and cost.", _run)
    parser.add_argument(
        "--by",
        type=_dimensions,
        default=[],
        metavar=",".join(words(_DIMENSIONS)),
        help="group by these (default: one row in all)",
    )
    add_everybody(parser)
    parser.add_argument(
        "--kind", dest="kinds", action="append", default=[], help="only jobs of this kind"
    )
    parser.add_argument("--since", type=moment, metavar="TIME", help="only at this time or later")
    parser.add_argument("--until", type=moment, metavar="TIME", help="only before this time")
    add_paging(parser)


def _dimensions(text: str) -> list[str]:
    found = [word.strip().lower() for word in text.split(",")]
    known = words(_DIMENSIONS)
    if not set(found) <= set(known):
        raise argparse.ArgumentTypeError(f"{text!r} should be some of {','.join(known)}")
    return list(dict.fromkeys(found))


def _run(options: argparse.Namespace, output: Output) -> int:
    with connect(options) as client:
        reply = read_pages(
            options,
            "rows",
            lambda size, token: client.get_usage(
                user_id=options.user,
                kinds=options.kinds,
                since=options.since,
                until=options.until,
                group_by=numbers(_DIMENSIONS, options.by),
                page_size=size,
                page_token=token,
            ),
        )
    if output.as_json:
        output.document(reply)
        return OK
    rows = [
        (*(getattr(row, _field(word)) or "(none)" for word in options.by), *_figures(row.usage))
        for row in reply.rows
    ]
    if options.by:
        rows.append(("total", *[""] * (len(options.by) - 1), *_figures(reply.total)))
    else:
        rows = [_figures(reply.total)]
    output.table((*options.by, *_COLUMNS), rows, numbers=_COLUMNS)
    output.more(len(reply.rows), None, reply.next_page_token)
    budget = f" of {dollars(reply.daily_budget_usd)}" if reply.daily_budget_usd else ", no budget"
    output.note(f"spent today (UTC): {dollars(reply.spent_today_usd)}{budget}")
    return OK


def _field(word: str) -> str:
    return "user_id" if word == "user" else word


def _figures(usage: job_pb2.Usage) -> tuple[str, ...]:
    return (
        str(usage.llm_calls),
        str(usage.input_tokens),
        str(usage.output_tokens),
        str(usage.embedding_calls),
        str(usage.embedding_tokens),
        dollars(usage.cost_usd),
    )
