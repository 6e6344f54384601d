"""`hitherto keys`, which works on the database itself: its login is the credential.

No service hands out credentials, so whoever may reach the database decides. The server's packages
that this needs are imported when it runs.
"""

from __future__ import annotations

import argparse
import unicodedata
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from hitherto_client.command.local_database import on_database, server_packages
from hitherto_client.command.options import Argument, Repeated, natural
from hitherto_client.command.output import FAILED, OK, Output, UsageError
from hitherto_client.command.rpc import Command, CommandGroup
from hitherto_client.command.show import Column, show_rows

if TYPE_CHECKING:
    from hitherto_shared.auth.api_keys import ApiKey

_SCOPES = ("read", "write", "maintenance", "admin")
_CAPABILITIES = ("profiles.manage",)
_MAX_LABELS = 100
_MAX_DAYS = 36_500
_MAX_NAME = 256
_MAX_TENANT = 128


def _create(options: argparse.Namespace, output: Output) -> int:
    days = options.expires_days
    if days is not None and days > _MAX_DAYS:
        raise UsageError(f"--expires-days should be at most {_MAX_DAYS}")
    _check_label("--name", options.name)
    _check_label("--tenant", options.tenant, _MAX_TENANT)
    if options.user is not None:
        _check_label("--user", options.user)
    user_ids = _labels("--for-user", options.for_users) or None
    if user_ids and options.user is not None:
        raise UsageError("--user is for a person's key and --for-user for a service's: give one")
    departments = _labels("--department", options.departments)
    fields: dict[str, Any] = {
        "tenant_id": options.tenant,
        "name": options.name,
        "scopes": [name for name in _SCOPES if name in (options.scopes or ("read", "write"))],
        "user_id": options.user,
        "user_ids": user_ids,
        # A key for some users reaches no department unless it says so.
        "departments": departments if departments or user_ids else None,
        "capabilities": sorted(set(options.capabilities)),
        "expires_at": datetime.now(UTC) + timedelta(days=days) if days else None,
    }
    with server_packages():
        from hitherto_shared.auth.api_keys import create_key  # noqa: PLC0415
    key = on_database(lambda connection: create_key(connection, **fields))
    output.result({"key": key, "key_id": _id_of(key), **fields}, lambda: _show_key(output, key))
    return OK


def _show_key(output: Output, key: str) -> None:
    output.text(key)
    output.note("keep this key: it is stored as a hash only and cannot be shown again")


def _list_keys(options: argparse.Namespace, output: Output) -> int:
    with server_packages():
        from hitherto_shared.auth.api_keys import list_keys  # noqa: PLC0415
    keys = on_database(lambda connection: list_keys(connection, tenant_id=options.tenant))
    if output.as_json:
        told = [asdict(key) for key in keys]
        for key in told:
            key.pop("tenant_id")
        output.document({"tenant_id": options.tenant, "keys": told})
    elif not keys:
        output.note(f"the tenant {options.tenant} has no keys")
    else:
        show_rows(output, _KEYS, keys)
    return OK


def _revoke(options: argparse.Namespace, output: Output) -> int:
    key_id, tenant = _id_of(options.key_id), options.tenant
    with server_packages():
        from hitherto_shared.auth.api_keys import revoke_key  # noqa: PLC0415
    if not on_database(lambda found: revoke_key(found, tenant_id=tenant, key_id=key_id)):
        output.error(f"the tenant {tenant} has no key {key_id} in force: see `hitherto keys list`")
        return FAILED
    output.result({"key_id": key_id, "revoked": True}, lambda: output.line(f"revoked {key_id}"))
    return OK


def _check_label(flag: str, text: str, most: int = _MAX_NAME) -> None:
    if not text.strip() or not text.isprintable() or len(text) > most:
        raise UsageError(f"{flag} should be 1 to {most} printable characters")


def _labels(flag: str, given: Sequence[str]) -> list[str]:
    """Users or departments, each once as it is stored."""
    for each in given:
        _check_label(flag, each)
    labels = sorted({unicodedata.normalize("NFC", each) for each in given})
    if len(labels) > _MAX_LABELS:
        raise UsageError(f"{flag} may be given at most {_MAX_LABELS} times")
    return labels


def _id_of(text: str) -> str:
    """The id in a whole key, so that a key at hand need not be taken apart."""
    parts = text.split("_", 2)
    return parts[1] if len(parts) == 3 and parts[0] == "mk" else text


def _users(key: ApiKey) -> str:
    if key.user_ids is not None:
        return ", ".join(key.user_ids) or "none"
    return key.user_id or "any"


def _departments(key: ApiKey) -> str:
    if key.departments is None:
        return "none" if key.user_id else "any"
    return ", ".join(key.departments) or "none"


def _state(key: ApiKey) -> str:
    if key.revoked_at:
        return "revoked"
    expired = key.expires_at and key.expires_at <= datetime.now(UTC)
    return "expired" if expired else "in force"


def _day(time: datetime | None) -> str:
    return f"{time.astimezone(UTC):%Y-%m-%d}" if time else "never"


_KEYS = (
    Column("id", "key_id"),
    "name",
    Column("rights", lambda key: ", ".join((*key.scopes, *key.capabilities))),
    Column("user", _users),
    Column("departments", _departments),
    Column("state", _state),
    Column("created", lambda key: _day(key.created_at)),
    Column("expires", lambda key: _day(key.expires_at)),
)


_TENANT = Argument("--tenant", "the tenant of the keys (default: default)", default="default")
COMMANDS = (
    CommandGroup(
        "keys",
        "Create, list and revoke API keys; connects to the database itself.",
        Command(
            "create",
            "Make a key and print it, this once.",
            Argument("--name", "the purpose of the key, as shown in lists", required=True),
            Argument("--user", "restrict it to this user (default: any user)", "USER"),
            Repeated(
                "--scope",
                "access scope (default: read and write)",
                dest="scopes",
                choices=_SCOPES,
            ),
            Repeated(
                "--for-user",
                "restrict a service's key to the users named in this way, not together with --user",
                "USER",
                dest="for_users",
            ),
            Repeated(
                "--department",
                "restrict it to the users of this department, besides those of --for-user; "
                "with --user, let that person see their profiles",
                "NAME",
                dest="departments",
            ),
            Repeated(
                "--capability",
                "a right in addition to its scopes (default: none)",
                dest="capabilities",
                choices=_CAPABILITIES,
            ),
            Argument("--expires-days", "days until it expires (default: never)", "N", type=natural),
            _TENANT,
            run=_create,
            local=True,
        ),
        Command("list", "List the keys of a tenant.", _TENANT, run=_list_keys, local=True),
        Command(
            "revoke",
            "Revoke a key for good.",
            Argument("key_id", "the id that list shows, or the whole key", "ID"),
            _TENANT,
            run=_revoke,
            local=True,
        ),
    ),
)
