"""`hitherto conversations` and `conversation`: summaries, and what was said."""

from __future__ import annotations

import argparse
from typing import Any

from hitherto.v1 import conversation_pb2
from hitherto_client._sync.privacy import CLEAR_SECONDS
from hitherto_client.command.options import YES, Switch
from hitherto_client.command.output import Output
from hitherto_client.command.rpc import CONSISTENCY, USER, Command, Option, Rpc
from hitherto_client.command.show import (
    Column,
    CountsLine,
    Pair,
    Rows,
    nothing,
    show_record,
    show_rows,
    word_of,
)

_ROLES = conversation_pb2.Role.DESCRIPTOR
SUMMARY: tuple[Pair, ...] = (
    ("conversation", "conversation_id"),
    "title",
    "summary",
    ("topics", "key_topics"),
    ("technologies", "technical_topics"),
    "outcome",
    ("next", lambda summary: "\n".join(summary.followup_suggestions)),
    ("messages", lambda summary: summary.message_count or None),
    ("last said", "last_said_at"),
    ("updated", "updated_at"),
)
_MESSAGES = (
    "id",
    Column("when", "created_at"),
    Column("who", lambda message: message.name or word_of(_ROLES, message.role)),
    Column("what", "content"),
)
_LIST = Rpc(
    "ListConversations",
    (USER, Option("--outcome", "outcomes", "only conversations with this outcome"), CONSISTENCY),
    Rows(
        "conversations",
        (
            Column("conversation", "conversation_id"),
            "title",
            "summary",
            "outcome",
            Column("messages", "message_count", number=True),
            Column("last said", "last_said_at"),
        ),
        "no matching conversations of {user_id}",
    ),
)


def _show_conversation(output: Output, options: argparse.Namespace, reply: Any) -> None:
    if reply.reason:
        output.note(nothing("the conversation is not shown", reply.reason))
        return
    show_record(output, SUMMARY, reply.summary)
    if reply.messages:
        show_rows(output, _MESSAGES, reply.messages)
    else:
        output.note("none of its messages are stored")


_ONE = Rpc(
    "GetConversation",
    (
        USER,
        Option("id", "conversation_id", "the id of the conversation"),
        Option("--messages", "message_limit", "number of last messages (default: 10)"),
        CONSISTENCY,
    ),
    _show_conversation,
)
_DELETE = Rpc(
    "DeleteConversation",
    (),
    CountsLine("deleted"),
    confirm="Delete the messages and the summary of {conversation_id} of {user_id} for good? "
    "What it taught stays; only `hitherto rollback` beforehand takes that back.",
)


def _one(options: argparse.Namespace, output: Output) -> int:
    if options.delete:
        return _DELETE.run(options, output, timeout=options.timeout or CLEAR_SECONDS)
    return _ONE.run(options, output)


COMMANDS = (
    Command("conversations", "List the summaries of a user's conversations.", _LIST),
    Command(
        "conversation",
        "Show one conversation with its messages, or delete it.",
        _ONE,
        Switch("--delete", "remove messages and summary for good; memories stay"),
        YES,
        run=_one,
    ),
)
