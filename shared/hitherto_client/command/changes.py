"""`hitherto changes` and `hitherto webhooks`: what happens to memories, told as it happens."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import Any

from hitherto.v1 import retrieval_service_pb2
from hitherto_client.command.options import Argument, connect, seconds
from hitherto_client.command.output import OK, Output, time_as_json
from hitherto_client.command.progress import if_stopped
from hitherto_client.command.rpc import Command, CommandGroup, Option, Rpc, given, of
from hitherto_client.command.show import Column, Rows, word_of
from hitherto_client.results.changes import MemoryChange

_WATCHED = retrieval_service_pb2.WatchMemoriesRequest
_KINDS = "only this kind of change (default: all)"
_CONTENT = "also the memory itself, as it is at that moment"


def _changes(options: argparse.Namespace, output: Output) -> int:
    token = ""

    def left() -> str:
        return f"go on with --after {token}" if token else ""

    with connect(options) as client, if_stopped(output, left):
        for found in client.watch_memories(
            options.user_id or "",
            after=options.after or "",
            kinds=given(_WATCHED, options, "kinds") or (),
            include_content=options.include_content,
            timeout=options.seconds,
        ):
            token = found.token
            for change in found.changes:
                if output.as_json:
                    # One line for each, for programs that read along.
                    output.text(_as_json(change) + "\n")
                else:
                    output.line(_line(change))
            output.flush()
    if said := left():
        output.note(said)
    return OK


def _line(change: MemoryChange) -> str:
    at = change.created_at.strftime("%Y-%m-%d %H:%M:%S") if change.created_at else ""
    what = f"memory {change.memory_id}" if change.memory_id else "profile"
    said = f": {change.memory.content}" if change.memory is not None else ""
    return f"{at}  {change.user_id}  {change.kind}  {what} version {change.version}{said}"


def _as_json(change: MemoryChange) -> str:
    found = asdict(change)
    if (memory := found.pop("memory")) is not None:
        found["content"] = memory["content"]
    return json.dumps(found, default=time_as_json)


def _show_created(output: Output, options: argparse.Namespace, reply: Any) -> None:
    output.line(f"webhook {reply.webhook.id}")
    output.line(f"secret  {reply.secret}")
    output.note("the secret is shown this once: the receiver needs it to check signatures")


def _what(delivery: Any) -> str:
    change = delivery.change
    kind = word_of(change.DESCRIPTOR.fields_by_name["kind"].enum_type, change.kind)
    return f"{kind} {change.memory_id or 'profile'}"


_CREATE = Rpc(
    "CreateWebhook",
    (
        Option("url", "url", "where each change is sent, beginning with https://"),
        Option("--user", "user_id", "only the changes of this user (default: everybody's)", "ID"),
        Option("--kind", "kinds", _KINDS),
        Option("--content", "include_content", _CONTENT),
    ),
    _show_created,
)
_LIST = Rpc(
    "ListWebhooks",
    (),
    Rows(
        "webhooks",
        (
            Column("id", "id", whole=True),
            "url",
            Column("user", lambda webhook: webhook.user_id or "everybody"),
            Column("failing since", "failing_since"),
            Column("disabled", "disabled_reason"),
        ),
        "there are no webhooks",
    ),
)
_DELETE = Rpc(
    "DeleteWebhook",
    (Option("id", "webhook_id", "the id that list shows"),),
    lambda output, options, reply: output.note(f"deleted {options.webhook_id}"),
    confirm="Delete webhook {webhook_id} with its deliveries?",
)
_DELIVERIES = Rpc(
    "ListWebhookDeliveries",
    (
        Option("--webhook", "webhook_id", "only to this webhook (default: to all)", "ID"),
        Option("--state", "state", "only in this state (default: in any)"),
    ),
    Rows(
        "deliveries",
        (
            Column("id", "id", whole=True),
            "state",
            Column("attempts", "attempts", number=True),
            Column("change", _what),
            Column("user", lambda delivery: delivery.change.user_id),
            Column("next attempt", "next_attempt_at"),
            Column("last error", "last_error"),
        ),
        "there are no such deliveries",
    ),
)


def _retry(options: argparse.Namespace, output: Output) -> int:
    named = {"webhook_id" if options.webhook else "delivery_id": options.id}
    with connect(options) as client:
        retried = client.retry_webhook_delivery(**named)
    if output.as_json:
        output.document({"retried": retried})
    else:
        output.note(f"{retried} deliver{'y' if retried == 1 else 'ies'} sent again")
    return OK


COMMANDS = (
    Command(
        "changes",
        "Show changes of memories as they happen, until stopped.",
        *of(
            _WATCHED,
            Option("user", "user_id", "whose changes (default: everybody's)", needed=False),
            Option("--after", "after", "continue after this token", "TOKEN"),
            Option("--kind", "kinds", _KINDS),
            Option("--content", "include_content", _CONTENT),
        ),
        Argument("--seconds", "end after so long (default: never)", "N", type=seconds),
        run=_changes,
    ),
    CommandGroup(
        "webhooks",
        "Create, list and delete webhooks; see and repeat deliveries.",
        Command("create", "Send later changes to an address; print its secret.", _CREATE),
        Command("list", "List webhooks, oldest first.", _LIST),
        Command("delete", "Delete a webhook with its deliveries.", _DELETE),
        Command("deliveries", "List deliveries, newest first.", _DELIVERIES),
        Command(
            "retry",
            "Send a delivery again, or all dead ones of a webhook, which enables it.",
            Argument("id", "of a delivery; with --webhook, of a webhook", "ID"),
            Argument("--webhook", "all dead deliveries of a webhook", action="store_true"),
            run=_retry,
        ),
    ),
)
