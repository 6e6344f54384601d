"""`hitherto session` and `hitherto action`: working memory and what waits in it."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Any

from google.protobuf import json_format

from hitherto.v1 import conversation_pb2, profile_pb2, session_pb2
from hitherto_client.command.exits import OK
from hitherto_client.command.filters import add_consistency
from hitherto_client.command.memory_view import nothing
from hitherto_client.command.options import (
    add_command,
    add_group,
    add_user,
    connect,
    json_object,
    number,
    word_of,
)
from hitherto_client.command.output import Output
from hitherto_client.command.values import free_json, minute

_STATES = session_pb2.PendingActionState.DESCRIPTOR
_STEPS = {
    "confirm": (session_pb2.PENDING_ACTION_STATE_CONFIRMED, "Say that the user agreed."),
    "complete": (session_pb2.PENDING_ACTION_STATE_COMPLETED, "Say that it was carried out."),
    "reject": (session_pb2.PENDING_ACTION_STATE_REJECTED, "Say that the user declined."),
}


def register(commands: Any) -> None:
    """Add the sub-commands."""
    session = add_command(
        commands, "session", "Show the working memory of a session, or change it.", _session
    )
    add_user(session)
    session.add_argument("session", metavar="SESSION", help="by convention the conversation's id")
    session.add_argument(
        "--context", type=json_object, metavar="JSON", help="replace the context; {} clears it"
    )
    session.add_argument(
        "--recent",
        type=_item,
        action="append",
        default=[],
        metavar="ID[=RELEVANCE]",
        help="replace the recent items; may be given several times",
    )
    session.add_argument(
        "--renew", action="store_true", help="renew the context's lifetime without changing it"
    )
    add_consistency(session)
    actions = add_group(
        commands, "action", "Add and resolve actions that wait for the user's confirmation."
    )
    add = add_command(actions, "add", "Add an action that waits for the user's confirmation.", _add)
    add_user(add)
    add.add_argument("type", metavar="TYPE", help="the kind of action, such as send_email")
    add.add_argument("description", metavar="TEXT", nargs="?", default="")
    add.add_argument("--session", default="", metavar="ID", help="default: a new session")
    add.add_argument("--params", type=json_object, metavar="JSON", help="parameters of the action")
    for name, (_, summary) in _STEPS.items():
        step = add_command(actions, name, summary, _resolve)
        add_user(step)
        step.add_argument("id", metavar="ID", help="the id that `hitherto session` shows")
        step.add_argument(
            "--session", default="", metavar="ID", help="the session that the action must belong to"
        )
        step.add_argument("--result", type=json_object, metavar="JSON", help="the outcome")
        step.set_defaults(step=name)


def _item(text: str) -> conversation_pb2.ContextItem:
    """An id, and how relevant it was if that stands behind it."""
    item_id, sign, relevance = text.rpartition("=")
    if not sign:
        return conversation_pb2.ContextItem(id=text)
    return conversation_pb2.ContextItem(id=item_id, relevance=number(relevance))


def _session(options: argparse.Namespace, output: Output) -> int:
    if options.context is not None or options.recent or options.renew:
        return _update(options, output)
    with connect(options) as client:
        reply = client.get_session(
            options.user, options.session, consistency_token=options.consistency_token
        )
    if output.as_json:
        output.document(reply)
        return OK
    if not any(field for field, _ in reply.ListFields() if field.name != "reason"):
        output.note(nothing("the session is unknown or has expired", reply.reason))
        return OK
    output.pairs(
        [
            ("context", free_json(reply.context)),
            ("used last", _items(reply.recent_items)),
            ("preferences", "\n".join(_preference(found) for found in reply.preferences)),
        ]
    )
    if reply.pending_actions:
        _show(output, reply.pending_actions)
    return OK


def _update(options: argparse.Namespace, output: Output) -> int:
    with connect(options) as client:
        reply = client.update_session(
            options.user,
            options.session,
            context=options.context,
            recent_items=options.recent,
        )
    if output.as_json:
        output.document(reply)
        return OK
    output.pairs([("context", free_json(reply.context)), ("used last", _items(reply.recent_items))])
    output.note(f"session {reply.session_id}")
    return OK


def _add(options: argparse.Namespace, output: Output) -> int:
    with connect(options) as client:
        reply = client.add_pending_action(
            options.user,
            options.type,
            session_id=options.session,
            params=options.params,
            description=options.description,
        )
    if output.as_json:
        output.document(reply)
        return OK
    _show(output, [reply.pending_action])
    output.note(f"session {reply.session_id}")
    return OK


def _resolve(options: argparse.Namespace, output: Output) -> int:
    with connect(options) as client:
        reply = client.resolve_pending_action(
            options.user,
            options.id,
            _STEPS[options.step][0],
            session_id=options.session,
            result=options.result,
        )
    if output.as_json:
        output.document(reply)
        return OK
    _show(output, [reply.pending_action])
    return OK


def _show(output: Output, actions: Iterable[session_pb2.PendingAction]) -> None:
    output.table(
        ("action", "type", "what", "params", "state", "result", "expires"),
        [
            (
                action.id,
                action.type,
                action.description,
                free_json(action.params),
                word_of(_STATES, action.status),
                free_json(action.result),
                minute(action.expires_at),
            )
            for action in actions
        ],
        whole=("action",),
    )


def _items(items: Iterable[conversation_pb2.ContextItem]) -> str:
    return "\n".join(f"{item.id} ({item.relevance:.2f})" for item in items)


def _preference(preference: profile_pb2.Preference) -> str:
    value = json_format.MessageToDict(preference.value)
    return f"{preference.type} / {preference.key}: {value} ({preference.confidence:.1f})"
