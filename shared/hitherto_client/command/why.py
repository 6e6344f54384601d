"""`hitherto why`: the words that a memory rests on."""

from __future__ import annotations

import argparse
import shlex
from dataclasses import asdict

from hitherto.v1 import retrieval_service_pb2
from hitherto_client import Hitherto
from hitherto_client.command.options import Argument, connect
from hitherto_client.command.output import FAILED, OK, Output
from hitherto_client.command.rpc import CONSISTENCY, Command
from hitherto_client.command.show import short
from hitherto_client.days import iso_day, use_zone, zone_or_utc
from hitherto_client.results import Message, Proof, SourceQuote

_AROUND = 160
"""Characters of a neighbouring message."""


def _run(options: argparse.Namespace, output: Output) -> int:
    with connect(options) as client:
        if options.consistency_token:
            _read_after(client, options.user, options.consistency_token)
        proof = client.why(options.user, options.id)
        if proof is not None and not output.as_json:
            use_zone(zone_or_utc(client.connection, options.user))
    if proof is None:
        output.error(
            f"{options.user} has no memory {options.id}: see `hitherto memories "
            f"{shlex.quote(options.user)}`"
        )
        return FAILED
    output.result(asdict(proof), lambda: _show(output, proof))
    return OK


def _read_after(client: Hitherto, user: str, token: str) -> None:
    """Let the reads of a client see the write of a token from elsewhere.

    Raises:
        HithertoCallError: It is no token. (A client gives up those of its own that are none.)
    """
    client.connection.retrieval.ListMemories(
        retrieval_service_pb2.ListMemoriesRequest(
            user_id=user, page_size=1, consistency_token=token
        )
    )
    client._tokens.note(user, token)


def _show(output: Output, proof: Proof) -> None:
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


COMMANDS = (
    Command(
        "why",
        "Show the words that a memory rests on.",
        None,
        Argument("user", "whose memory", "USER"),
        Argument("id", "which memory", "ID"),
        Argument(CONSISTENCY.flag, CONSISTENCY.help, CONSISTENCY.metavar, default=""),
        run=_run,
    ),
)
