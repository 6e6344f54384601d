"""`hitherto save`, `correct`, `forget`, `restore`, `review`, `feedback`: changes by hand."""

from __future__ import annotations

import argparse
import shlex
from datetime import UTC, datetime
from typing import Any

from google.protobuf import json_format

from hitherto.v1 import memory_pb2
from hitherto_client.command.memories import MEMORIES
from hitherto_client.command.options import PAGING, Argument, OneOf, Repeated, read_text
from hitherto_client.command.output import Output, UsageError
from hitherto_client.command.rpc import USER, Command, Option, Rpc, given, of
from hitherto_client.command.show import Column, Rows, day, show_rows

_FIELDS = (
    Option("--type", "type", "the type (default for a new memory: fact)"),
    Option("--detail", "detail", "the full text behind it", "TEXT"),
    Option("--importance", "importance", "how much it matters", "0..1"),
    Option("--confidence", "confidence", "how clear it is"),
    Option("--tag", "tags", "a tag by which lists and searches find it", "TAG"),
    Option("--keyword", "keywords", "helps to find it", "WORD"),
    Option("--valid-from", "valid_from", "since when it has been true"),
    Option("--expires", "expires_at", "when reads stop returning it"),
    Option("--context", "context", "the circumstances, as free JSON"),
    Option("--metadata", "metadata", "your own metadata, as free JSON"),
)
"""What a new and a corrected memory share."""
_CORRECTED = (
    *_FIELDS,
    Option("--entity", "entities", "an entity it mentions", "NAME"),
    Option("--valid-to", "valid_to", "until when it was true"),
)
_ID = Option("id", "memory_id", "the id that `hitherto memories` shows")
_REASON = Option("--reason", "reason", "stored in the history", "TEXT")
_ALONG = Option("--carry-along", "carry_along", "take along what else states it")
_PLACES = {"memory_id": "memory", "profile_path": "profile", "conversation_id": "conversation"}
_STATED = (
    Column("where", lambda place: _PLACES[place.WhichOneof("place")]),
    Column("name", lambda place: getattr(place, place.WhichOneof("place"))),
    Column("text", "text"),
)


def _show(output: Output, options: argparse.Namespace, reply: Any) -> None:
    show_rows(output, MEMORIES, [reply.memory])


def _show_saved(output: Output, options: argparse.Namespace, reply: Any) -> None:
    user, memory = options.user_id, reply.memory
    _show(output, options, reply)
    _tell_if_expired(output, memory)
    if reply.deduplicated:
        output.note(f"{user} already has this memory; it is now at version {memory.version}")
    elif memory.status != memory_pb2.MEMORY_STATUS_ACTIVE:
        output.note(f"review it with `hitherto review {shlex.quote(user)} {memory.id}`")


def _tell_if_expired(output: Output, memory: memory_pb2.Memory) -> None:
    """An ACTIVE memory that has expired is in no reply."""
    if memory.HasField("expires_at") and memory.expires_at.ToDatetime(UTC) <= datetime.now(UTC):
        output.note(
            f"it expired on {day(memory.expires_at)} already: reads leave it out; "
            "`hitherto correct` with another --expires shows it again"
        )


def _show_corrected(output: Output, options: argparse.Namespace, reply: Any) -> None:
    user, memory = options.user_id, reply.memory
    _show(output, options, reply)
    _tell_if_expired(output, memory)
    output.note(
        f"now in version {memory.version}; `hitherto history {shlex.quote(user)} {memory.id}` "
        "shows the earlier ones"
    )
    _show_stated(output, options, reply, "the same correction")


def _show_stated(output: Output, options: argparse.Namespace, reply: Any, again: str) -> None:
    """What else states the earlier words, and what was taken along."""
    for title, places in (
        ("taken along:", reply.carried_along),
        ("this still says it:", reply.also_states),
    ):
        if places:
            output.line(title)
            show_rows(output, _STATED, places)
    if reply.also_states and not options.carry_along:
        output.note(f"{again} with --carry-along takes along what says nothing more")


def _show_forgotten(output: Output, options: argparse.Namespace, reply: Any) -> None:
    _show(output, options, reply)
    output.note(
        f"`hitherto restore {shlex.quote(options.user_id)} {reply.memory.id}` brings it back"
    )
    _show_stated(output, options, reply, "forgetting it again")


_SAVE = Rpc(
    "SaveMemory",
    (
        USER,
        Option("text", "content", "the statement; - reads standard input"),
        *_FIELDS,
        Option("--source", "source", "how it was created (default: explicit)"),
        Option("--origin", "origin", "who said it (default: user)"),
        Option("--conversation", "conversation_id", "the conversation it comes from", "ID"),
    ),
    _show_saved,
)
_CORRECT = Rpc(
    "UpdateMemory",
    (USER, _ID, Option("--version", "version", "correct it only if it has this version"), _ALONG),
    _show_corrected,
)
_FORGET = Rpc("ForgetMemory", (USER, _ID, _REASON, _ALONG), _show_forgotten)
_RESTORE = Rpc("RestoreMemory", (USER, _ID, _REASON), _show)
_REVIEW = Rpc(
    "ReviewMemory",
    (USER, Option("id", "memory_id", "the memory to approve or reject", needed=False), _REASON),
    _show,
)
_QUARANTINE = Rpc(
    "ListMemories",
    (),
    Rows(
        "memories",
        MEMORIES,
        "no memory of {user_id} waits for review",
        "decide with `hitherto review {user_id} ID --approve` or `--reject`",
    ),
    fixed={"statuses": ["quarantined"]},
)


_PREFERENCES = (
    Column("preference", lambda found: f"{found.type} / {found.key}"),
    Column("value", lambda found: json_format.MessageToDict(found.value)),
    Column("confidence", lambda found: f"{found.confidence:.1f}", number=True),
    Column("observations", "observations", number=True),
)


def _show_feedback(output: Output, options: argparse.Namespace, reply: Any) -> None:
    if reply.preferences:
        show_rows(output, _PREFERENCES, reply.preferences)
    output.note(
        f"{len(reply.preferences)} preferences and {len(reply.memory_ids)} memories became "
        "stronger or weaker"
    )
    for memory_id in reply.memory_ids:
        output.line(memory_id)


_FEEDBACK = Rpc(
    "RecordFeedback",
    (
        USER,
        Option("conversation", "conversation_id", "the id of the conversation"),
        Option("message", "message_id", "id of the assistant's message"),
    ),
    _show_feedback,
)


def _text(typed: str) -> str:
    return read_text(typed).strip() if typed == "-" else typed


def _save(options: argparse.Namespace, output: Output) -> int:
    options.content = _text(options.content)
    return _SAVE.run(options, output)


def _correct(options: argparse.Namespace, output: Output) -> int:
    if options.content is not None:
        options.content = _text(options.content)
    names = ("content", "sensitive", *(option.field for option in _CORRECTED))
    fields = {name: given(memory_pb2.Memory, options, name) for name in names}
    fields = {name: value for name, value in fields.items() if value is not None}
    if not fields and not options.cleared:
        raise UsageError("say what to correct: the new TEXT, an option such as --type, or --clear")
    for path in options.cleared:
        if path.partition(".")[0] in fields:
            raise UsageError(f"{path} is both set and cleared")
    paths = [*fields, *options.cleared]
    return _CORRECT.run(options, output, memory=fields, update_mask=paths)


def _review(options: argparse.Namespace, output: Output) -> int:
    if options.decision and not options.memory_id:
        raise UsageError("name the memory to decide about: hitherto review USER ID --approve")
    if options.memory_id and not options.decision:
        raise UsageError("say what to do with it: --approve or --reject")
    return (_REVIEW if options.decision else _QUARANTINE).run(options, output)


def _feedback(options: argparse.Namespace, output: Output) -> int:
    files = (options.original, options.edited)
    if (options.rating is None) != all(files) or (options.rating is not None and any(files)):
        raise UsageError("give either --rating, or --original and --edited together")
    more: dict[str, Any] = {}
    if options.rating is None:
        more["edit"] = {"original": read_text(files[0]), "edited": read_text(files[1])}
    return _FEEDBACK.run(options, output, **more)


_DECISIONS = {
    "approve": "approve it: it becomes active",
    "reject": "reject it: it is forgotten",
}
_SENSITIVE = Argument(
    "--sensitive", "treat it as sensitive text", action=argparse.BooleanOptionalAction, default=None
)
COMMANDS = (
    Command("save", "Remember one statement at once.", _SAVE, _SENSITIVE, run=_save),
    Command(
        "correct",
        "Correct a memory; it keeps its id and its earlier versions.",
        _CORRECT,
        Argument("content", "the corrected statement; - reads standard input", "TEXT", nargs="?"),
        *of(memory_pb2.Memory, *_CORRECTED),
        Repeated(
            "--clear",
            "empty a field, such as tags, expires_at or metadata.project",
            "FIELD",
            dest="cleared",
        ),
        _SENSITIVE,
        run=_correct,
    ),
    Command("forget", "Forget a memory; the same messages do not bring it back.", _FORGET),
    Command("restore", "Bring a forgotten or archived memory back.", _RESTORE),
    Command(
        "review",
        "List the quarantined memories, or approve or reject one.",
        _REVIEW,
        OneOf(
            *(
                Argument(f"--{word}", told, dest="decision", action="store_const", const=word)
                for word, told in _DECISIONS.items()
            )
        ),
        *PAGING,
        run=_review,
    ),
    Command(
        "feedback",
        "Rate an answer, or record how the user edited it.",
        _FEEDBACK,
        Argument("--rating", "1 is bad, 5 is good", "1..5", type=int, choices=range(1, 6)),
        Argument("--original", "the answer as the assistant gave it", "FILE"),
        Argument("--edited", "the answer as the user left it", "FILE"),
        run=_feedback,
    ),
)
