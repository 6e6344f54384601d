"""`hitherto history`: every change of a memory or of a profile."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from typing import Any

from google.protobuf import json_format

from hitherto.v1 import history_pb2
from hitherto.v1 import retrieval_service_pb2 as pb
from hitherto_client.client import HithertoClient
from hitherto_client.command.exits import OK
from hitherto_client.command.filters import add_consistency
from hitherto_client.command.memory_view import nothing
from hitherto_client.command.options import (
    add_command,
    add_paging,
    add_user,
    connect,
    read_pages,
    word_of,
)
from hitherto_client.command.output import Output
from hitherto_client.command.values import minute, short

_KINDS = history_pb2.HistoryEventKind.DESCRIPTOR


def register(commands: Any) -> None:
    """Add the sub-command."""
    parser = add_command(
        commands, "history", "Show every change of a memory, or of the user's profile.", _run
    )
    add_user(parser)
    parser.add_argument(
        "id", metavar="ID", nargs="?", help="a memory; without it the profile's history is shown"
    )
    add_consistency(parser)
    add_paging(parser)


def _run(options: argparse.Namespace, output: Output) -> int:
    with connect(options) as client:
        reply = _read(client, options)
    if output.as_json:
        output.document(reply)
        return OK
    if not reply.events:
        output.note(nothing("nothing has changed yet", reply.reason))
        return OK
    output.table(
        ("when", "version", "what", "change", "who", "why"),
        [
            (
                minute(event.created_at),
                event.version or "",
                word_of(_KINDS, event.kind),
                change(event),
                event.actor,
                _why(event),
            )
            for event in reply.events
        ],
        numbers=("version",),
        whole=("when",),
    )
    output.more(len(reply.events), None, reply.next_page_token)
    return OK


def _read(
    client: HithertoClient, options: argparse.Namespace
) -> pb.GetMemoryHistoryResponse | pb.GetProfileHistoryResponse:
    if options.id is None:
        return read_pages(
            options,
            "events",
            lambda size, token: client.get_profile_history(
                options.user,
                page_size=size,
                page_token=token,
                consistency_token=options.consistency_token,
            ),
        )
    return read_pages(
        options,
        "events",
        lambda size, token: client.get_memory_history(
            options.user,
            options.id,
            page_size=size,
            page_token=token,
            consistency_token=options.consistency_token,
        ),
    )


def change(event: history_pb2.HistoryEvent) -> str:
    """The fields that changed, before and after; of what is new, what it says."""
    before, after = (json_format.MessageToDict(part) for part in (event.before, event.after))
    if not before and isinstance(after.get("content"), str):
        return short(after["content"])
    return "; ".join(
        f"{name}: {_value(before.get(name))} → {_value(after.get(name))}"
        for name in _names(before, after)
        if before.get(name) != after.get(name)
    )


def _names(*parts: dict[str, Any]) -> Iterable[str]:
    return dict.fromkeys(name for part in parts for name in sorted(part))


def _value(value: Any) -> str:
    if value is None:
        return "nothing"
    return short(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), 80)


def _why(event: history_pb2.HistoryEvent) -> str:
    parts = [
        event.reason,
        event.job_id and f"job {event.job_id}",
        event.related_memory_id and f"memory {event.related_memory_id}",
    ]
    return ", ".join(part for part in parts if part)
