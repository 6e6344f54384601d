"""`hitherto profile` and `hitherto profiles`: people in one picture each, shown and changed."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import Any

from google.protobuf import json_format

from hitherto.v1 import profile_pb2
from hitherto_client.command.options import Argument, Repeated, connect
from hitherto_client.command.output import OK, Output, UsageError
from hitherto_client.command.rpc import CONSISTENCY, USER, Command, Option, Rpc, of
from hitherto_client.command.show import Column, OneRecord, Pair, Rows, show_record

_TEXTS = ("summary", "department", "access_level")
_LISTS = ("current_projects", "frequent_intents")
_STRUCTS = ("facts", "preferences", "metadata")
_FIELDS = (*_TEXTS, *_LISTS, *_STRUCTS)


_PROFILE: tuple[Pair, ...] = (
    ("user", "user_id"),
    "department",
    "summary",
    ("projects", lambda profile: "\n".join(profile.current_projects)),
    ("often wants", lambda profile: "\n".join(profile.frequent_intents)),
    "preferences",
    "facts",
    "metadata",
    ("access level", "access_level"),
    "version",
    ("updated", "updated_at"),
    ("last looked at", "last_extracted_at"),
)
_SHOW = Rpc(
    "GetProfile", (USER, CONSISTENCY), OneRecord("profile", _PROFILE, "the profile is not shown")
)


def _show_changed(output: Output, options: argparse.Namespace, reply: Any) -> None:
    show_record(output, _PROFILE, reply.profile)
    output.note(f"the profile of {options.user_id} is now at version {reply.profile.version}")


_UPDATE = Rpc(
    "UpdateProfile",
    (Option("--version", "version", "change it only if it has this version"),),
    _show_changed,
)
_LIST = Rpc(
    "ListProfiles",
    (
        Option("--department", "department", "only profiles of this department", "NAME"),
        Option("--everybody", "include_without_profile", "also people without a profile"),
        CONSISTENCY,
    ),
    Rows(
        "profiles",
        (
            Column("user", "user_id"),
            "department",
            "summary",
            Column("version", "version", number=True),
            Column("updated", "updated_at"),
        ),
        "no profiles that this credential may see",
    ),
)


def _profile(options: argparse.Namespace, output: Output) -> int:
    if not options.changes and not options.cleared:
        return _SHOW.run(options, output)
    profile, paths = read_changes(options.changes, options.cleared)
    request = _UPDATE.make(options, update_mask=paths)
    request.profile.CopyFrom(profile)
    with connect(options) as client:
        reply = client.connection.memories.UpdateProfile(request)
    _UPDATE.write(output, options, reply)
    return OK


def read_changes(
    changes: Sequence[str], cleared: Sequence[str]
) -> tuple[profile_pb2.Profile, list[str]]:
    """The new values, and the paths that they and `cleared` touch."""
    values: dict[str, Any] = {}
    paths: list[str] = []
    for change in changes:
        path, sign, value = change.partition("=")
        if not sign:
            raise UsageError(f"{change!r} should be PATH=VALUE, such as summary='Likes tea.'")
        name, *keys = _split(path)
        if name in _LISTS:
            # Given again, a list gets one more element.
            values.setdefault(name, []).extend(_elements(path, value))
        elif path in paths:
            raise UsageError(f"{path} is set twice")
        elif name in _STRUCTS and (name in paths or (not keys and name in values)):
            raise UsageError(f"{name} is set whole, and so is a place within it")
        elif keys:
            _put(values.setdefault(name, {}), keys, _free(value), path)
        elif name in _STRUCTS:
            values[name] = _object(path, value)
        else:
            values[name] = value
        if path not in paths:
            paths.append(path)
    for path in cleared:
        _split(path)
        if path in paths:
            raise UsageError(f"{path} is both set and cleared")
        paths.append(path)
    try:
        return json_format.ParseDict(values, profile_pb2.Profile()), paths
    except (json_format.ParseError, UnicodeError, RecursionError) as error:
        raise UsageError(f"the values cannot be sent: {error}") from None


def _split(path: str) -> list[str]:
    parts = path.split(".")
    if parts[0] not in _FIELDS or "" in parts or (len(parts) > 1 and parts[0] not in _STRUCTS):
        raise UsageError(
            f"{path!r} is no place in a profile: use one of {', '.join(_FIELDS)}, or a path into "
            f"{', '.join(_STRUCTS)} such as facts.personal.location"
        )
    return parts


def _elements(path: str, value: str) -> list[str]:
    if not value.startswith("["):
        return [value] if value else []
    found = _free(value)
    if not isinstance(found, list) or not all(isinstance(element, str) for element in found):
        raise UsageError(f"{path} is a list of texts: give {path}=TEXT once for each")
    return found


def _object(path: str, value: str) -> dict[str, Any]:
    found = _free(value) if value else {}
    if not isinstance(found, dict):
        raise UsageError(f"{path} holds a JSON object: name a place in it, as {path}.KEY=VALUE")
    return found


def _free(value: str) -> Any:
    """JSON if it is some; else the text itself."""
    try:
        return json.loads(value, parse_constant=_no_number)
    except (ValueError, RecursionError):
        return value


def _no_number(word: str) -> Any:
    raise ValueError(word)


def _put(into: dict[str, Any], keys: Sequence[str], value: Any, path: str) -> None:
    for key in keys[:-1]:
        into = into.setdefault(key, {})
        if not isinstance(into, dict):
            raise UsageError(f"{path} goes through a place that is set to a value too")
    if isinstance(into.get(keys[-1]), dict):
        raise UsageError(f"{path} is set, and so is a place within it")
    into[keys[-1]] = value


COMMANDS = (
    Command(
        "profile",
        "Show a user's profile, or change it: PATH=VALUE.",
        _SHOW,
        Argument(
            "changes",
            f"set a field ({', '.join(_FIELDS)}) or a place in free JSON, such as "
            "facts.personal.location=Berlin; VALUE is text, or JSON within free JSON; a list "
            "is a field that is repeated",
            "PATH=VALUE",
            nargs="*",
        ),
        Repeated("--clear", "remove it", "PATH", dest="cleared"),
        *of(_UPDATE.request, *_UPDATE.options),
        run=_profile,
    ),
    Command("profiles", "List the profiles that you may see.", _LIST),
)
