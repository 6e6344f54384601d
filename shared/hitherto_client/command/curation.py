"""`hitherto save`, `correct`, `forget`, `restore` and `review`: memories changed by hand."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from hitherto.v1 import memory_pb2
from hitherto_client.client import HithertoClient
from hitherto_client.command.exits import OK, UsageError
from hitherto_client.command.memory_view import (
    CONFIDENCES,
    ORIGINS,
    SOURCES,
    STATUSES,
    TYPES,
    nothing,
    show_memories,
)
from hitherto_client.command.options import (
    add_command,
    add_paging,
    add_user,
    connect,
    json_object,
    moment,
    natural,
    number,
    numbers,
    read_pages,
    words,
)
from hitherto_client.command.output import Output


def register(commands: Any) -> None:
    """Add the sub-commands."""
    save = add_command(commands, "save", "Remember one statement at once.", _save)
    add_user(save)
    save.add_argument("text", metavar="TEXT", help="the statement; - reads standard input")
    _add_fields(save)
    _add_choice(save, "--source", SOURCES, "how it was created (default: explicit)")
    _add_choice(save, "--origin", ORIGINS, "who said it (default: user)")
    save.add_argument(
        "--conversation", default="", metavar="ID", help="the conversation it comes from"
    )
    correct = add_command(
        commands, "correct", "Correct a memory; it keeps its id and its earlier versions.", _correct
    )
    _add_one(correct)
    correct.add_argument(
        "text", metavar="TEXT", nargs="?", help="the corrected statement; - reads standard input"
    )
    _add_fields(correct)
    correct.add_argument(
        "--entity", dest="entities", action="append", metavar="NAME", help="an entity it mentions"
    )
    correct.add_argument("--valid-to", type=moment, metavar="TIME", help="until when it was true")
    correct.add_argument(
        "--clear",
        dest="cleared",
        action="append",
        default=[],
        metavar="FIELD",
        help="empty a field, such as tags, expires_at or metadata.project",
    )
    correct.add_argument(
        "--version",
        type=natural,
        default=0,
        metavar="N",
        help="correct it only if it has this version",
    )
    forget = add_command(
        commands, "forget", "Forget a memory; the same messages do not bring it back.", _forget
    )
    restore = add_command(
        commands, "restore", "Bring a forgotten or archived memory back.", _restore
    )
    review = add_command(
        commands, "review", "List the memories in quarantine, or approve or reject one.", _review
    )
    for parser in (forget, restore):
        _add_one(parser)
        _add_reason(parser)
    add_user(review)
    review.add_argument("id", metavar="ID", nargs="?")
    decision = review.add_mutually_exclusive_group()
    decision.add_argument("--approve", action="store_true", help="approve it: it becomes active")
    decision.add_argument("--reject", action="store_true", help="reject it: it is forgotten")
    _add_reason(review)
    add_paging(review)


def _add_one(parser: argparse.ArgumentParser) -> None:
    add_user(parser)
    parser.add_argument("id", metavar="ID", help="the id that `hitherto memories` shows")


def _add_reason(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--reason", default="", metavar="TEXT", help="stored in the history")


def _add_choice(parser: argparse.ArgumentParser, flag: str, enum: Any, summary: str) -> None:
    parser.add_argument(
        flag, choices=words(enum), type=str.lower, metavar="|".join(words(enum)), help=summary
    )


def _add_fields(parser: argparse.ArgumentParser) -> None:
    """The fields that a new and a corrected memory share."""
    _add_choice(parser, "--type", TYPES, "the kind of statement (default of a new one: fact)")
    parser.add_argument("--detail", metavar="TEXT", help="the full text behind it")
    parser.add_argument("--importance", type=number, metavar="0..1")
    _add_choice(parser, "--confidence", CONFIDENCES, "how clear it is")
    parser.add_argument(
        "--tag", dest="tags", action="append", metavar="TAG", help="may be given several times"
    )
    parser.add_argument(
        "--keyword", dest="keywords", action="append", metavar="WORD", help="helps to find it"
    )
    parser.add_argument(
        "--valid-from", type=moment, metavar="TIME", help="since when it has been true"
    )
    parser.add_argument(
        "--expires",
        dest="expires_at",
        type=moment,
        metavar="TIME",
        help="when reads stop returning it",
    )
    parser.add_argument(
        "--sensitive",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="treat it as sensitive text",
    )
    parser.add_argument(
        "--context", type=json_object, metavar="JSON", help="the circumstances, as free JSON"
    )
    parser.add_argument(
        "--metadata", type=json_object, metavar="JSON", help="your own metadata, as free JSON"
    )


_PLAIN = (
    "detail",
    "importance",
    "tags",
    "keywords",
    "entities",
    "valid_from",
    "valid_to",
    "expires_at",
    "sensitive",
    "context",
    "metadata",
    "content",
)
_ENUMS = {"type": TYPES, "confidence": CONFIDENCES, "source": SOURCES, "origin": ORIGINS}


def _given(options: argparse.Namespace) -> dict[str, Any]:
    """The fields that were given, by their names in the contract."""
    given = vars(options)
    fields = {name: given[name] for name in _PLAIN if given.get(name) is not None}
    for name, enum in _ENUMS.items():
        if given.get(name):
            fields[name] = numbers(enum, [given[name]])[0]
    if options.text is not None:
        fields["content"] = _text(options.text)
    return fields


def _text(given: str) -> str:
    if given != "-":
        return given
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig").strip()
    except UnicodeDecodeError:
        raise UsageError("standard input is not UTF-8") from None


def _save(options: argparse.Namespace, output: Output) -> int:
    fields = _given(options)
    with connect(options) as client:
        reply = client.save_memory(
            options.user,
            fields.pop("content"),
            conversation_id=options.conversation,
            **fields,
        )
    if output.as_json:
        output.document(reply)
        return OK
    show_memories(output, [reply.memory])
    if reply.deduplicated:
        output.note(
            f"{options.user} already has this memory; it is now at version {reply.memory.version}"
        )
    elif reply.memory.status != memory_pb2.MEMORY_STATUS_ACTIVE:
        output.note(f"review it with `hitherto review {options.user} {reply.memory.id}`")
    return OK


def _correct(options: argparse.Namespace, output: Output) -> int:
    fields = _given(options)
    paths = list(fields)
    if not fields and not options.cleared:
        raise UsageError("say what to correct: the new TEXT, an option such as --type, or --clear")
    for path in options.cleared:
        if path.partition(".")[0] in fields:
            raise UsageError(f"{path} is both set and cleared")
        paths.append(path)
    with connect(options) as client:
        reply = client.update_memory(
            options.user,
            options.id,
            memory_pb2.Memory(**fields),
            paths=paths,
            version=options.version,
        )
    if output.as_json:
        output.document(reply)
        return OK
    show_memories(output, [reply.memory])
    output.note(
        f"now in version {reply.memory.version}; `hitherto history {options.user} "
        f"{reply.memory.id}` shows the earlier ones"
    )
    return OK


def _forget(options: argparse.Namespace, output: Output) -> int:
    with connect(options) as client:
        reply = client.forget_memory(options.user, options.id, reason=options.reason)
    if output.as_json:
        output.document(reply)
        return OK
    show_memories(output, [reply.memory])
    output.note(f"`hitherto restore {options.user} {reply.memory.id}` brings it back")
    return OK


def _restore(options: argparse.Namespace, output: Output) -> int:
    with connect(options) as client:
        reply = client.restore_memory(options.user, options.id, reason=options.reason)
    if output.as_json:
        output.document(reply)
    else:
        show_memories(output, [reply.memory])
    return OK


def _review(options: argparse.Namespace, output: Output) -> int:
    decided = options.approve or options.reject
    if decided and options.id is None:
        raise UsageError("name the memory to decide about: hitherto review USER ID --approve")
    if options.id is not None and not decided:
        raise UsageError("say what to do with it: --approve or --reject")
    with connect(options) as client:
        if not decided:
            return _list_quarantine(client, options, output)
        reply = client.review_memory(
            options.user, options.id, approve=options.approve, reason=options.reason
        )
    if output.as_json:
        output.document(reply)
    else:
        show_memories(output, [reply.memory])
    return OK


def _list_quarantine(client: HithertoClient, options: argparse.Namespace, output: Output) -> int:
    reply = read_pages(
        options,
        "memories",
        lambda size, token: client.list_memories(
            options.user,
            statuses=numbers(STATUSES, ["quarantined"]),
            page_size=size,
            page_token=token,
        ),
    )
    if output.as_json:
        output.document(reply)
        return OK
    if not reply.memories:
        output.note(nothing(f"no memory of {options.user} waits for review", reply.reason))
        return OK
    show_memories(output, reply.memories)
    output.more(len(reply.memories), reply.total_size, reply.next_page_token)
    output.note(f"decide with `hitherto review {options.user} ID --approve` or `--reject`")
    return OK
