"""`hitherto conversations` and `hitherto conversation`: summaries, messages, and deletion."""

from __future__ import annotations

import argparse
from typing import Any

from hitherto.v1 import conversation_pb2
from hitherto_client.command.confirm import add_yes, confirmed
from hitherto_client.command.exits import FAILED, OK
from hitherto_client.command.filters import add_consistency
from hitherto_client.command.memory_view import nothing
from hitherto_client.command.options import (
    add_command,
    add_enum,
    add_paging,
    add_user,
    connect,
    natural,
    numbers,
    read_pages,
    word_of,
)
from hitherto_client.command.output import Output
from hitherto_client.command.values import counted, minute

_OUTCOMES = conversation_pb2.Outcome.DESCRIPTOR
_ROLES = conversation_pb2.Role.DESCRIPTOR


def register(commands: Any) -> None:
    """Add the sub-commands."""
    conversations = add_command(
        commands, "conversations", "List the summaries of a user's conversations.", _conversations
    )
    add_user(conversations)
    add_enum(conversations, "--outcome", _OUTCOMES, "outcomes", "only those that ended so")
    add_consistency(conversations)
    add_paging(conversations)
    conversation = add_command(
        commands, "conversation", "Show one conversation with its messages, or delete it.", _one
    )
    add_user(conversation)
    conversation.add_argument("id", metavar="ID")
    conversation.add_argument(
        "--messages",
        type=natural,
        default=10,
        metavar="N",
        help="number of last messages (default 10)",
    )
    conversation.add_argument(
        "--delete", action="store_true", help="remove messages and summary for good; memories stay"
    )
    add_consistency(conversation)
    add_yes(conversation)


def _conversations(options: argparse.Namespace, output: Output) -> int:
    with connect(options) as client:
        reply = read_pages(
            options,
            "conversations",
            lambda size, token: client.list_conversations(
                options.user,
                outcomes=numbers(_OUTCOMES, options.outcomes),
                page_size=size,
                page_token=token,
                consistency_token=options.consistency_token,
            ),
        )
    if output.as_json:
        output.document(reply)
        return OK
    if not reply.conversations:
        output.note(nothing(f"no matching conversations of {options.user}", reply.reason))
        return OK
    output.table(
        ("conversation", "title", "summary", "outcome", "messages", "updated"),
        [
            (
                found.conversation_id,
                found.title,
                found.summary,
                word_of(_OUTCOMES, found.outcome),
                found.message_count,
                minute(found.updated_at),
            )
            for found in reply.conversations
        ],
        numbers=("messages",),
    )
    output.more(len(reply.conversations), reply.total_size, reply.next_page_token)
    return OK


def _one(options: argparse.Namespace, output: Output) -> int:
    if options.delete:
        return _delete(options, output)
    with connect(options) as client:
        reply = client.get_conversation(
            options.user,
            options.id,
            message_limit=options.messages,
            consistency_token=options.consistency_token,
        )
    if output.as_json:
        output.document(reply)
        return OK
    if reply.reason:
        output.note(nothing("the conversation is not shown", reply.reason))
        return OK
    show_summary(output, reply.summary)
    if reply.messages:
        output.table(
            ("id", "when", "who", "what"),
            [
                (
                    message.id,
                    minute(message.created_at),
                    message.name or word_of(_ROLES, message.role),
                    message.content,
                )
                for message in reply.messages
            ],
        )
    else:
        output.note("none of its messages are stored")
    return OK


def show_summary(output: Output, summary: conversation_pb2.ConversationSummary) -> None:
    """What is kept of a conversation."""
    output.pairs(
        [
            ("conversation", summary.conversation_id),
            ("title", summary.title),
            ("summary", summary.summary),
            ("topics", ", ".join(summary.key_topics)),
            ("technologies", ", ".join(summary.technical_topics)),
            ("outcome", word_of(_OUTCOMES, summary.outcome)),
            ("next", "\n".join(summary.followup_suggestions)),
            ("messages", summary.message_count or None),
            ("begun", minute(summary.created_at)),
            ("updated", minute(summary.updated_at)),
        ]
    )


def _delete(options: argparse.Namespace, output: Output) -> int:
    question = (
        f"Delete the messages and the summary of {options.id} of {options.user} for good? "
        "What it taught stays; only `hitherto rollback` beforehand takes that back."
    )
    if not confirmed(options, output, question):
        return FAILED
    with connect(options) as client:
        reply = client.delete_conversation(options.user, options.id)
    if output.as_json:
        output.document(reply)
    else:
        output.line(f"deleted: {counted(reply.counts) or 'nothing was left'}")
    return OK
