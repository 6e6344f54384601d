"""`hitherto usage`: what work cost."""

from __future__ import annotations

import argparse
from typing import Any

from hitherto.v1 import job_pb2
from hitherto.v1 import maintenance_service_pb2 as pb
from hitherto_client.command.output import Output
from hitherto_client.command.rpc import EVERYBODY, SINCE, UNTIL, Option, Rpc, declare
from hitherto_client.command.values import dollars, words

_DIMENSIONS = pb.UsageDimension.DESCRIPTOR
_COLUMNS = ("calls", "tokens in", "tokens out", "embedding calls", "tokens embedded", "cost")


def _show(output: Output, options: argparse.Namespace, reply: Any) -> None:
    by = options.group_by
    rows = [
        (*(getattr(row, _field(word)) or "(none)" for word in by), *_figures(row.usage))
        for row in reply.rows
    ]
    if by:
        rows.append(("total", *[""] * (len(by) - 1), *_figures(reply.total)))
    else:
        rows = [_figures(reply.total)]
    output.table((*by, *_COLUMNS), rows, numbers=_COLUMNS)
    output.more(len(reply.rows), None, reply.next_page_token)
    budget = f" of {dollars(reply.daily_budget_usd)}" if reply.daily_budget_usd else ", no budget"
    output.note(f"spent today (UTC): {dollars(reply.spent_today_usd)}{budget}")


_USAGE = Rpc(
    "GetUsage",
    (
        EVERYBODY,
        Option("--kind", "kinds", "only jobs of this kind", "KIND"),
        Option("--since", "since", SINCE),
        Option("--until", "until", UNTIL),
    ),
    _show,
)


def register(commands: Any) -> None:
    """Add the sub-command."""
    parser = declare(commands, "usage", "Show calls, tokens and cost.", _USAGE)
    parser.add_argument(
        "--by",
        dest="group_by",
        type=_dimensions,
        default=[],
        metavar=",".join(words(_DIMENSIONS)),
        help="group by these (default: one row in all)",
    )


def _dimensions(text: str) -> list[str]:
    found = [word.strip().lower() for word in text.split(",")]
    known = words(_DIMENSIONS)
    if not set(found) <= set(known):
        raise argparse.ArgumentTypeError(f"{text!r} should be some of {','.join(known)}")
    return list(dict.fromkeys(found))


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
