"""`hitherto erase`, `reinstate` and `receipt verify`: removing a user for good, with the proof."""

from __future__ import annotations

import argparse
import base64
import binascii
import json
from pathlib import Path
from typing import Any

from hitherto_client._sync.privacy import CLEAR_SECONDS
from hitherto_client.command.options import Argument, connect
from hitherto_client.command.output import FAILED, OK, Output, UsageError, as_dict
from hitherto_client.command.rpc import USER, Command, CommandGroup, Rpc
from hitherto_client.command.show import counted

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
    """The receipt, what was signed, and the signature.

    Raises:
        UsageError: The file cannot be read or holds no receipt.
    """
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


COMMANDS = (
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
            None,
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
