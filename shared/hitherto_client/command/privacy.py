"""`hitherto settings`, `clear`, `erase` and `receipt`: what a person decides."""

from __future__ import annotations

import argparse
import base64
import binascii
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from google.protobuf.descriptor import FieldDescriptor

from hitherto.v1 import memory_pb2, privacy_pb2
from hitherto_client import Hitherto
from hitherto_client._sync.privacy import CLEAR_SECONDS
from hitherto_client.command.options import Argument, Repeated, connect
from hitherto_client.command.output import FAILED, OK, Output, UsageError, as_dict
from hitherto_client.command.rpc import USER, Command, CommandGroup, Option, Rpc
from hitherto_client.command.show import CountsLine, OneRecord, counted, word_of, words

_FIELDS = {field.name: field for field in privacy_pb2.UserSettings.DESCRIPTOR.fields}
# The service alone says whether somebody was erased, which is never unset.
_CHOSEN = [name for name, field in _FIELDS.items() if field.has_presence]
_SWITCH = {"on": True, "true": True, "yes": True, "off": False, "false": False, "no": False}
_STATUSES = memory_pb2.MemoryStatus.DESCRIPTOR


def _setting(name: str) -> tuple[str, Any]:
    return name, lambda settings: _shown(_FIELDS[name], getattr(settings, name))


def _what_goes(client: Hitherto, options: argparse.Namespace, output: Output) -> str:
    kept: Any = [name for name in words(_STATUSES) if name != "forgotten"]
    held = client.memories(options.user_id, statuses=kept, page_size=1).page().total_size
    many = f"all {held} memories" if held and held > 1 else "all memories"
    profile = ", empty the profile" if options.include_profile else ""
    conversations = (
        ", and delete all conversations for good" if options.include_conversations else ""
    )
    return f"Forget {many} of {options.user_id}{profile}{conversations}?"


_SETTINGS = OneRecord("user_settings", tuple(map(_setting, _FIELDS)))
_GET = Rpc("GetUserSettings", (USER,), _SETTINGS)
_UPDATE = Rpc("UpdateUserSettings", (), _SETTINGS)
_CLEAR = Rpc(
    "ClearMemories",
    (
        USER,
        Option("--profile", "include_profile", "also empty the profile and learnt preferences"),
        Option(
            "--conversations", "include_conversations", "also delete all conversations, for good"
        ),
    ),
    CountsLine("cleared", note="`hitherto restore {user_id} ID` brings a single memory back"),
    confirm=_what_goes,
)


def _settings(options: argparse.Namespace, output: Output) -> int:
    if not options.changes and not options.reset:
        return _GET.run(options, output)
    settings = _read(options.changes, options.reset)
    return _UPDATE.run(options, output, user_settings=settings, update_mask=[*settings])


def _read(changes: Sequence[str], reset: Sequence[str]) -> dict[str, bool | int | str | None]:
    """The new values; None for settings to reset."""
    settings: dict[str, bool | int | str | None] = {}
    for change in changes:
        name, sign, value = change.partition("=")
        if not sign or name not in _CHOSEN:
            raise UsageError(
                f"{change!r} should be NAME=VALUE with one of the names {', '.join(_CHOSEN)}"
            )
        if name in settings:
            raise UsageError(f"{name} is set twice")
        settings[name] = _value(_FIELDS[name], value)
    for name in reset:
        if settings.get(name) is not None:
            raise UsageError(f"{name} is both set and reset")
        settings[name] = None
    return settings


def _value(field: FieldDescriptor, text: str) -> bool | int | str:
    if field.type == field.TYPE_BOOL:
        if text.lower() not in _SWITCH:
            raise UsageError(f"{field.name} is a switch: set it to on or off")
        return _SWITCH[text.lower()]
    if field.type == field.TYPE_INT32:
        if not text.isascii() or not text.isdigit() or len(text) > 9:
            raise UsageError(f"{field.name} is a number of days: set it to 0 (never) or more")
        return int(text)
    if field.enum_type is not None:
        known = words(field.enum_type)
        if text.lower() not in known:
            raise UsageError(f"{field.name} is one of {', '.join(known)}")
        return text.lower()
    return text


def _shown(field: FieldDescriptor, value: bool | int | str) -> str:
    if field.enum_type is not None:
        return word_of(field.enum_type, int(value))
    if field.type == field.TYPE_BOOL:
        return "on" if value else "off"
    if field.type == field.TYPE_INT32:
        return str(value) if value else "0 (never)"
    return str(value)


SETTINGS = (
    Command(
        "settings",
        "Show a user's settings, or change them: NAME=VALUE.",
        _GET,
        Argument(
            "changes",
            f"set one of {', '.join(_CHOSEN)}; switches are on or off",
            "NAME=VALUE",
            nargs="*",
        ),
        Repeated("--reset", "reset to the installation's value", "NAME", choices=_CHOSEN),
        run=_settings,
    ),
    Command(
        "clear",
        "Forget all memories of a user.",
        _CLEAR,
        run=lambda options, output: _CLEAR.run(
            options, output, timeout=options.timeout or CLEAR_SECONDS
        ),
    ),
)


_SIGNED = ("id", "user_hash", "counts", "key_id")


def _show_erased(output: Output, options: argparse.Namespace, reply: Any) -> None:
    output.line(f"erased: {counted(reply.receipt.counts) or 'nothing was held'}")


def _show_reinstated(output: Output, options: argparse.Namespace, reply: Any) -> None:
    if reply.reinstated:
        output.line(f"{options.user_id} is remembered again from now on")
    else:
        output.line(f"{options.user_id} was not erased: nothing has changed")


_ERASE = Rpc(
    "EraseUser",
    (USER,),
    _show_erased,
    confirm="Remove everything about {user_id} for good? Nothing brings it back; "
    "`hitherto export` keeps a copy.",
)
_REINSTATE = Rpc("ReinstateUser", (USER,), _show_reinstated)


def _erase(options: argparse.Namespace, output: Output) -> int:
    with connect(options) as client:
        if not _ERASE.agreed(client, options, output):
            return FAILED
        reply = _ERASE.call(client, options, timeout=options.timeout or CLEAR_SECONDS)
    receipt = reply.receipt
    file = options.receipt or Path(f"erase-receipt-{receipt.id}.json")
    written = True
    try:
        file.write_text(json.dumps(as_dict(receipt), indent=2) + "\n", "utf-8")
    except OSError as error:
        written = False
        output.error(
            f"the user is erased; the receipt could not be written to {file}: {error.strerror}. "
            "Run the command again with --receipt FILE: it gets the same receipt"
        )
    _ERASE.write(output, options, reply)
    if written and not output.as_json:
        output.note(f"receipt {receipt.id}, signed by key {receipt.key_id}: {file}")
    return OK if written else FAILED


def _verify(options: argparse.Namespace, output: Output) -> int:
    # Here, because no other command needs what it brings along.
    from hitherto_shared.signing import (  # noqa: PLC0415
        BrokenSignature,
        key_id_of,
        read_public_key,
        verify,
    )

    receipt, payload, signature = _read_receipt(options.file)
    try:
        signed = json.loads(payload)
        stated = bytes.fromhex(signed["public_key"])
    except (ValueError, KeyError, TypeError):
        output.error(f"{options.file}: signed_payload is not that of a receipt")
        return FAILED
    try:
        trusted = stated if options.public_key is None else read_public_key(options.public_key)
    except (OSError, ValueError) as error:
        raise UsageError(str(error)) from None
    try:
        verify(trusted, payload.encode(), signature)
    except BrokenSignature:
        output.error(
            f"{options.file}: the signature is not that of key {key_id_of(trusted)} over this "
            "receipt: it was changed, or another installation signed it"
        )
        return FAILED
    differing = [name for name in _SIGNED if _plain(receipt.get(name)) != _plain(signed.get(name))]
    if key_id_of(trusted) != signed.get("key_id"):
        differing.append("key_id")
    if differing:
        output.error(f"{options.file}: {', '.join(differing)} is not what was signed")
        return FAILED
    if options.json:
        output.document({"valid": True, "trusted_key": options.public_key is not None, **signed})
        return OK
    output.line(f"valid: signed by key {signed['key_id']}, erased at {signed['erased_at']}")
    if options.public_key is None:
        output.note(
            "whose key that is was not checked: add --public-key with the installation's own"
        )
    return OK


def _read_receipt(file: Path) -> tuple[dict[str, Any], str, bytes]:
    """The receipt, what was signed, and the signature."""
    try:
        found = json.loads(file.read_text("utf-8"))
        receipt = found.get("receipt", found)
        signature = base64.b64decode(receipt["signature"], validate=True)
        return receipt, str(receipt["signed_payload"]), signature
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError, binascii.Error):
        raise UsageError(f"{file} holds no receipt as `hitherto erase` writes it") from None


def _plain(value: Any) -> Any:
    """The same for numbers as JSON has them and as proto JSON does, which are texts."""
    if isinstance(value, dict):
        return {name: str(number) for name, number in value.items()}
    return value


ERASURE = (
    Command(
        "erase",
        "Remove everything that is stored about a user, for good.",
        _ERASE,
        Argument(
            "--receipt",
            "file for the receipt (default: erase-receipt-ID.json here)",
            "FILE",
            type=Path,
        ),
        run=_erase,
    ),
    Command("reinstate", "Allow data about an erased user to be stored again.", _REINSTATE),
    CommandGroup(
        "receipt",
        "Verify the receipt of an erasure.",
        Command(
            "verify",
            "Check the signature of a receipt.",
            Argument("file", "the receipt that `hitherto erase` wrote", "FILE", type=Path),
            Argument(
                "--public-key",
                "the installation's public key; without it, only that the receipt is "
                "whole is checked",
                "PEM",
                type=Path,
            ),
            run=_verify,
            local=True,
        ),
    ),
)
