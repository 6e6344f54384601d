"""`hitherto memories`, `memory`, `why` and `history`: what is remembered, why, and its changes."""

from __future__ import annotations

import argparse
import json
import re
import shlex
from dataclasses import asdict
from typing import Any

from google.protobuf import json_format

from hitherto.v1 import history_pb2, retrieval_service_pb2
from hitherto_client import Hitherto
from hitherto_client.command.learning import tell_waiting, waiting
from hitherto_client.command.options import Argument, connect
from hitherto_client.command.output import FAILED, OK, Output, UsageError
from hitherto_client.command.progress import Waits
from hitherto_client.command.rpc import CONSISTENCY, USER, Command, Option, Rpc
from hitherto_client.command.show import Column, OneRecord, Pair, Rows, day, short
from hitherto_client.days import iso_day, use_zone, zone_or_utc
from hitherto_client.errors import HithertoCallError
from hitherto_client.results import Message, Proof, SourceQuote

FILTERS = (
    Option("--type", "types", "only memories of this type"),
    Option("--tag", "tags", "only items with this tag", "TAG"),
    Option("--status", "statuses", "only memories with this status"),
    Option("--source", "sources", "only memories created in this way"),
    Option("--entity", "entity", "only items that mention this entity", "NAME"),
    Option("--conversation", "conversation_id", "only items from this conversation", "ID"),
    Option("--min-confidence", "confidence_min", "only memories at least this certain"),
    Option("--created-after", "created_after", "only items created at this time or later"),
    Option(
        "--created-before",
        "created_before",
        "only items created before this time; a day itself is not included",
    ),
    Option("--metadata", "metadata_filter", "only items with all of these metadata values"),
    Option("--doubtful", "include_doubtful", "also memories that may no longer hold (the default)"),
)
"""What narrows a search and a list alike."""
TIME_TRAVEL = (
    Option("--as-of", "as_of", "what was true at this time"),
    Option("--known-at", "known_at", "what was known at this time"),
    CONSISTENCY,
)


def _uncertain(memory: Any) -> str:
    """Since when a memory may no longer hold, and why; empty while it is certain."""
    if not memory.HasField("doubt"):
        return ""
    since = f"uncertain since {day(memory.doubt.since)}"
    return f" ({since}: {memory.doubt.reason})" if memory.doubt.reason else f" ({since})"


MEMORIES = (
    Column("id", "id", whole=True),
    "type",
    "status",
    Column("importance", lambda memory: f"{memory.importance:.2f}", number=True),
    Column("what", lambda memory: f"{memory.content}{_uncertain(memory)}"),
    Column("since", lambda memory: day(memory.valid_from)),
)
_MEMORY: tuple[Pair, ...] = (
    "id",
    ("user", "user_id"),
    "type",
    "status",
    "content",
    ("uncertain", lambda memory: _uncertain(memory).strip(" ()")),
    "detail",
    ("importance", lambda memory: f"{memory.importance:.2f}"),
    "confidence",
    "source",
    "origin",
    "sensitive",
    "tags",
    "keywords",
    "entities",
    (
        "said in",
        lambda memory: ", ".join(f"{s.conversation_id}: {s.message_id}" for s in memory.sources),
    ),
    ("valid from", "valid_from"),
    ("valid to", "valid_to"),
    ("expires", "expires_at"),
    ("superseded by", "superseded_by"),
    "supersedes",
    "version",
    ("created", "created_at"),
    ("updated", "updated_at"),
    ("last used", "last_accessed_at"),
    ("times used", "access_count"),
    ("written by job", "job_id"),
    "context",
    "metadata",
)
_LIST = Rpc(
    "ListMemories",
    (USER, *FILTERS, *TIME_TRAVEL),
    Rows("memories", MEMORIES, "no matching memories of {user_id}"),
    days=True,
)
_ONE = Rpc(
    "GetMemory",
    (USER, Option("id", "memory_id", "the id that `hitherto memories` shows"), CONSISTENCY),
    OneRecord("memory", _MEMORY, "the memory is not shown"),
)


def change(event: history_pb2.HistoryEvent) -> str:
    """The fields that changed, before and after; of what is new, what it says."""
    before, after = (json_format.MessageToDict(part) for part in (event.before, event.after))
    if not before and isinstance(after.get("content"), str):
        return short(after["content"])
    return "; ".join(
        f"{name}: {_value(before.get(name))} → {_value(after.get(name))}"
        for name in dict.fromkeys([*sorted(before), *sorted(after)])
        if before.get(name) != after.get(name)
    )


def _value(value: Any) -> str:
    if value is None:
        return "nothing"
    return short(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), 80)


def _reasons(event: history_pb2.HistoryEvent) -> str:
    parts = [
        event.reason,
        event.job_id and f"job {event.job_id}",
        event.related_memory_id and f"memory {event.related_memory_id}",
    ]
    return ", ".join(part for part in parts if part)


_HISTORY = Rows(
    "events",
    (
        Column("when", "created_at", whole=True),
        Column("version", lambda event: event.version or "", number=True),
        Column("what", "kind"),
        Column("change", change),
        Column("who", "actor"),
        Column("why", _reasons),
    ),
    "nothing has changed yet",
)
_OF_MEMORY = Rpc(
    "GetMemoryHistory",
    (
        USER,
        Option(
            "id", "memory_id", "a memory; without it the profile's history is shown", needed=False
        ),
        CONSISTENCY,
    ),
    _HISTORY,
)
_OF_PROFILE = Rpc("GetProfileHistory", (), _HISTORY)


def _memories(options: argparse.Namespace, output: Output) -> int:
    code = _LIST.run(options, output)
    if not output.as_json:
        with connect(options) as client:
            tell_waiting(output, options.user_id, waiting(client, options.user_id))
            Waits(client, output).look_at(options.user_id)
    return code


COMMANDS = (
    Command(
        "memories",
        "List a user's memories.",
        _LIST,
        Argument(
            "--order-by",
            "what comes first: the newest (the default), most important or last used",
            default="",
            choices=("created_at", "importance", "last_accessed_at"),
        ),
        run=_memories,
    ),
    Command("memory", "Show one memory, whatever its status.", _ONE),
)
HISTORY = (
    Command(
        "history",
        "Show every change of a memory, or of the user's profile.",
        _OF_MEMORY,
        run=lambda options, output: (_OF_MEMORY if options.memory_id else _OF_PROFILE).run(
            options, output
        ),
    ),
)


_IS_ID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_AROUND = 160
"""Characters of a neighbouring message."""


def _prove(options: argparse.Namespace, output: Output) -> int:
    if not options.user and not _IS_ID.fullmatch(options.id):
        listed = f"hitherto memories {shlex.quote(options.id)}"
        raise UsageError(f"{options.id} is no id of a memory: `{listed}` lists those of a user")
    with connect(options) as client:
        if options.user and options.consistency_token:
            _read_after(client, options.user, options.consistency_token)
        user = options.user or _whose(client, options.id, options.consistency_token)
        proof = client.why(user, options.id) if user else None
        if proof is not None and not output.as_json:
            use_zone(zone_or_utc(client.connection, user))
    if proof is None:
        whose = f"{user} has no" if user else "nobody whom you may read has a"
        listed = f"`hitherto memories {shlex.quote(user) if user else 'USER'}`"
        output.error(f"{whose} memory {options.id}: see {listed}")
        return FAILED
    output.result(asdict(proof), lambda: _show_proof(output, proof))
    return OK


def _whose(client: Hitherto, memory_id: str, token: str) -> str:
    """The user whose memory it is, of those that the credential may read; empty if nobody's."""
    for each in client.profiles(include_without_profile=True):
        try:
            if token:
                _read_after(client, each.user_id, token)
            if client.get_memory(each.user_id, memory_id) is not None:
                return each.user_id
        except HithertoCallError as error:
            # Of colleagues, a person may see the profile and no memories.
            if error.reason != "USER_NOT_ALLOWED":
                raise
    return ""


def _read_after(client: Hitherto, user: str, token: str) -> None:
    """Let the reads of a client see the write of a token from elsewhere.

    It is sent once as it is: a client gives up those of its own that are none.
    """
    client.connection.retrieval.ListMemories(
        retrieval_service_pb2.ListMemoriesRequest(
            user_id=user, page_size=1, consistency_token=token
        )
    )
    client._tokens.note(user, token)


def _show_proof(output: Output, proof: Proof) -> None:
    memory = proof.memory
    output.line(memory.content)
    if memory.valid_to is not None:
        output.line(f"  (true until {iso_day(memory.valid_to)})")
    if not proof.quotes:
        output.line("")
        output.line(
            f"saved directly, on the word of the {memory.origin}: no message stands behind it"
        )
    for quote in proof.quotes:
        _show_quote(output, quote)
    if len(memory.sources) > len(proof.quotes):
        output.note(f"and {len(memory.sources) - len(proof.quotes)} more messages")
    if memory.version > 1:
        output.note(f"changed since: `hitherto history {shlex.quote(memory.user_id)} {memory.id}`")


def _show_quote(output: Output, quote: SourceQuote) -> None:
    said = quote.message
    day = iso_day(said.created_at) if said and said.created_at else ""
    about = f"“{quote.title}” ({quote.conversation_id})" if quote.title else quote.conversation_id
    output.line("")
    output.line(f"because of {day or 'a message'}, in {about}:")
    if said is None:
        output.line(f"  message {quote.message_id} is no longer stored, or cannot be read")
        return
    for mark, message in (("  ", quote.before), ("> ", said), ("  ", quote.after)):
        if message is not None:
            words = message.content if message is said else short(message.content, _AROUND)
            output.line(f"{mark}{_speaker(message)}: {words}")


def _speaker(message: Message) -> str:
    return f"{message.name} ({message.role})" if message.name else message.role


WHY = (
    Command(
        "why",
        "Show the words that a memory rests on.",
        Argument("user", "whose memory it is; unset: it is looked for", "USER", nargs="?"),
        Argument("id", "which memory", "ID"),
        Argument(CONSISTENCY.flag, CONSISTENCY.help, CONSISTENCY.metavar, default=""),
        run=_prove,
    ),
)
