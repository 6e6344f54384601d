"""`hitherto settings` and `hitherto clear`: what a person decides about being remembered."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from google.protobuf.descriptor import FieldDescriptor

from hitherto.v1 import memory_pb2, privacy_pb2
from hitherto_client import Hitherto
from hitherto_client._sync.privacy import CLEAR_SECONDS
from hitherto_client.command.options import Argument, Repeated
from hitherto_client.command.output import Output, UsageError
from hitherto_client.command.rpc import USER, Command, Option, Rpc
from hitherto_client.command.show import CountsLine, OneRecord, word_of, words

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
    many = f"all {held} memories" if held else "all memories"
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
    """The new values; None for settings to reset.

    Raises:
        UsageError: A change is not `NAME=VALUE`, or is none that there is.
    """
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


COMMANDS = (
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
