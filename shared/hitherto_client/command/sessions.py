"""`hitherto session` and `hitherto action`: working memory and what waits in it."""

from __future__ import annotations

import argparse
from typing import Any

from google.protobuf import json_format

from hitherto.v1 import profile_pb2
from hitherto_client.command.options import Argument, Repeated, Switch, json_object, number
from hitherto_client.command.output import Output
from hitherto_client.command.rpc import CONSISTENCY, USER, Command, CommandGroup, Option, Rpc
from hitherto_client.command.show import Column, Pair, nothing, show_record, show_rows

_ACTIONS = (
    Column("action", "id", whole=True),
    "type",
    Column("what", "description"),
    "params",
    Column("state", "status"),
    "result",
    Column("expires", "expires_at"),
)
_UPDATED: tuple[Pair, ...] = (
    "context",
    (
        "used last",
        lambda session: "\n".join(
            f"{item.id} ({item.relevance:.2f})" for item in session.recent_items
        ),
    ),
)
_SESSION: tuple[Pair, ...] = (
    *_UPDATED,
    ("preferences", lambda session: "\n".join(map(_preference, session.preferences))),
)


def _preference(preference: profile_pb2.Preference) -> str:
    value = json_format.MessageToDict(preference.value)
    return f"{preference.type} / {preference.key}: {value} ({preference.confidence:.1f})"


def _show(output: Output, options: argparse.Namespace, reply: Any) -> None:
    if not any(field for field, _ in reply.ListFields() if field.name != "reason"):
        output.note(nothing("the session is unknown or has expired", reply.reason))
        return
    show_record(output, _SESSION, reply)
    if reply.pending_actions:
        show_rows(output, _ACTIONS, reply.pending_actions)


def _show_updated(output: Output, options: argparse.Namespace, reply: Any) -> None:
    show_record(output, _UPDATED, reply)
    output.note(f"session {reply.session_id}")


def _show_action(output: Output, options: argparse.Namespace, reply: Any) -> None:
    show_rows(output, _ACTIONS, [reply.pending_action])
    if "session_id" in reply.DESCRIPTOR.fields_by_name:
        output.note(f"session {reply.session_id}")


_GET = Rpc(
    "GetSession",
    (USER, Option("session", "session_id", "by convention the conversation's id"), CONSISTENCY),
    _show,
)
_UPDATE = Rpc("UpdateSession", (), _show_updated)
_ADD = Rpc(
    "AddPendingAction",
    (
        USER,
        Option("type", "type", "the kind of action, such as send_email"),
        Option("text", "description", "what the user is asked", needed=False),
        Option("--session", "session_id", "the session (default: a new one)", "ID"),
        Option("--params", "params", "parameters of the action"),
    ),
    _show_action,
)


def _resolve(status: str) -> Rpc:
    return Rpc(
        "ResolvePendingAction",
        (
            USER,
            Option("id", "pending_action_id", "the id that `hitherto session` shows"),
            Option("--session", "session_id", "the session that the action must belong to", "ID"),
            Option("--result", "result", "the outcome"),
        ),
        _show_action,
        fixed={"status": status},
    )


def _changes(options: argparse.Namespace) -> bool:
    return options.context is not None or bool(options.recent_items) or options.renew


def _item(text: str) -> dict[str, Any]:
    """An id, and how relevant it was if that stands behind it."""
    item_id, sign, relevance = text.rpartition("=")
    return {"id": item_id, "relevance": number(relevance)} if sign else {"id": text}


COMMANDS = (
    Command(
        "session",
        "Show the working memory of a session, or change it.",
        _GET,
        Argument("--context", "replace the context; {} clears it", "JSON", type=json_object),
        Repeated(
            "--recent",
            "replace the recent items",
            "ID[=RELEVANCE]",
            dest="recent_items",
            type=_item,
        ),
        Switch("--renew", "renew the context's lifetime without changing it"),
        run=lambda options, output: (_UPDATE if _changes(options) else _GET).run(options, output),
    ),
    CommandGroup(
        "action",
        "Add and resolve actions that wait for the user's confirmation.",
        Command("add", "Add an action that waits for the user's confirmation.", _ADD),
        Command("confirm", "Say that the user agreed.", _resolve("confirmed")),
        Command("complete", "Say that it was carried out.", _resolve("completed")),
        Command("reject", "Say that the user declined.", _resolve("rejected")),
    ),
)
