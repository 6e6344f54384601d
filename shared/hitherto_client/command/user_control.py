"""`hitherto settings` and `hitherto clear`: what a person decides about being remembered."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from google.protobuf.descriptor import FieldDescriptor

from hitherto.v1 import memory_pb2, privacy_pb2
from hitherto_client.command.confirm import add_yes, confirmed
from hitherto_client.command.exits import FAILED, OK, UsageError
from hitherto_client.command.options import add_command, add_user, connect
from hitherto_client.command.output import Output
from hitherto_client.command.values import counted
from hitherto_client.methods.user_control import CLEAR_SECONDS

_FIELDS = {field.name: field for field in privacy_pb2.UserSettings.DESCRIPTOR.fields}
_SWITCH = {"on": True, "true": True, "yes": True, "off": False, "false": False, "no": False}
_ALL_BUT_FORGOTTEN = [
    value.number
    for value in memory_pb2.MemoryStatus.DESCRIPTOR.values
    if value.number not in (0, memory_pb2.MEMORY_STATUS_FORGOTTEN)
]


def register(commands: Any) -> None:
    """Add the sub-commands."""
    settings = add_command(
        commands, "settings", "Show a user's settings, or change them: NAME=VALUE.", _settings
    )
    add_user(settings)
    settings.add_argument(
        "changes",
        metavar="NAME=VALUE",
        nargs="*",
        help=f"set one of {', '.join(_FIELDS)}; switches are on or off",
    )
    settings.add_argument(
        "--reset",
        action="append",
        default=[],
        choices=list(_FIELDS),
        metavar="NAME",
        help="reset to the installation's value",
    )
    clear = add_command(commands, "clear", "Forget all memories of a user.", _clear)
    add_user(clear)
    clear.add_argument(
        "--profile",
        action="store_true",
        help="also empty the profile and learnt preferences",
    )
    clear.add_argument(
        "--conversations", action="store_true", help="also delete all conversations, for good"
    )
    add_yes(clear)


def _settings(options: argparse.Namespace, output: Output) -> int:
    changed = bool(options.changes or options.reset)
    if changed:
        settings, paths = read_settings(options.changes, options.reset)
    with connect(options) as client:
        reply = (
            client.update_user_settings(options.user, settings, paths=paths)
            if changed
            else client.get_user_settings(options.user)
        )
    if output.as_json:
        output.document(reply)
        return OK
    found = reply.user_settings
    output.pairs([(name, _shown(field, getattr(found, name))) for name, field in _FIELDS.items()])
    return OK


def read_settings(
    changes: Sequence[str], reset: Sequence[str]
) -> tuple[privacy_pb2.UserSettings, list[str]]:
    """The new values, and the names of all settings that change.

    Raises:
        UsageError: A change is not `NAME=VALUE`, or is none that there is.
    """
    settings = privacy_pb2.UserSettings()
    paths: list[str] = []
    for change in changes:
        name, sign, value = change.partition("=")
        if not sign or name not in _FIELDS:
            raise UsageError(
                f"{change!r} should be NAME=VALUE with one of the names {', '.join(_FIELDS)}"
            )
        if name in paths:
            raise UsageError(f"{name} is set twice")
        setattr(settings, name, _value(_FIELDS[name], value))
        paths.append(name)
    for name in reset:
        if name in paths:
            raise UsageError(f"{name} is both set and reset")
        paths.append(name)
    return settings, paths


def _value(field: FieldDescriptor, text: str) -> bool | int | str:
    if field.type == field.TYPE_BOOL:
        if text.lower() not in _SWITCH:
            raise UsageError(f"{field.name} is a switch: set it to on or off")
        return _SWITCH[text.lower()]
    if field.type == field.TYPE_INT32:
        if not text.isascii() or not text.isdigit() or len(text) > 9:
            raise UsageError(f"{field.name} is a number of days: set it to 0 (never) or more")
        return int(text)
    return text


def _shown(field: FieldDescriptor, value: bool | int | str) -> str:
    if field.type == field.TYPE_BOOL:
        return "on" if value else "off"
    if field.type == field.TYPE_INT32:
        return str(value) if value else "0 (never)"
    return str(value)


def _clear(options: argparse.Namespace, output: Output) -> int:
    with connect(options) as client:
        if not options.yes:
            held = client.list_memories(options.user, statuses=_ALL_BUT_FORGOTTEN, page_size=1)
            many = f"all {held.total_size} memories" if held.total_size else "all memories"
            also = "".join(
                text
                for chosen, text in (
                    (options.profile, ", empty the profile"),
                    (options.conversations, ", and delete all conversations for good"),
                )
                if chosen
            )
            if not confirmed(options, output, f"Forget {many} of {options.user}{also}?"):
                return FAILED
        reply = client.clear_memories(
            options.user,
            include_profile=options.profile,
            include_conversations=options.conversations,
            timeout=options.timeout or CLEAR_SECONDS,
        )
    if output.as_json:
        output.document(reply)
    else:
        output.line(f"cleared: {counted(reply.counts) or 'nothing was left'}")
        output.note(f"`hitherto restore {options.user} ID` brings a single memory back")
    return OK
