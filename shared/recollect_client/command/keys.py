"""`recollect keys`: API keys, made and revoked in the database itself.

No service hands out credentials, so whoever may reach the database decides. This is the one module
of the client that needs the server's packages; they are imported when it runs.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from recollect_client.command.exits import FAILED, OK, UNREACHABLE, UsageError
from recollect_client.command.options import add_group, add_local_command, natural
from recollect_client.command.output import Output

if TYPE_CHECKING:
    from recollect_shared.database.pool import Connection

Result = TypeVar("Result")

_SCOPES = ("read", "write", "maintenance", "admin")
_DATABASE_SECONDS = 30.0
_MAX_DAYS = 36_500
_MAX_NAME = 256


class _DatabaseUnusable(Exception):
    """The database cannot be used; the message says what to do."""


def register(commands: Any) -> None:
    """Add the sub-command and its own."""
    summary = "Make, list and revoke API keys; needs the database itself."
    actions = add_group(commands, "keys", summary)
    create = add_local_command(actions, "create", "Make a key and print it, this once.", _create)
    create.add_argument("--name", required=True, help="what the key is for, as shown in lists")
    create.add_argument(
        "--scope",
        dest="scopes",
        action="append",
        choices=_SCOPES,
        help="what it may do; may be given several times (default read and write)",
    )
    create.add_argument("--user", metavar="USER", help="bind it to this user (default: any user)")
    create.add_argument(
        "--expires-days", type=natural, metavar="N", help="days it is valid (default: for good)"
    )
    listing = add_local_command(actions, "list", "List the keys of a tenant.", _list)
    revoke = add_local_command(actions, "revoke", "End a key for good.", _revoke)
    revoke.add_argument("key_id", metavar="ID", help="the id that list shows, or the whole key")
    for action in (create, listing, revoke):
        action.add_argument("--tenant", default="default", help="whose keys (default: default)")


def _create(options: argparse.Namespace, output: Output) -> int:
    days = options.expires_days
    if days is not None and days > _MAX_DAYS:
        raise UsageError(f"--expires-days should be at most {_MAX_DAYS}")
    for flag, text in (("--name", options.name), ("--tenant", options.tenant)):
        _check_label(flag, text)
    if options.user is not None:
        _check_label("--user", options.user)
    expires_at = datetime.now(UTC) + timedelta(days=days) if days else None
    scopes = [scope for scope in _SCOPES if scope in (options.scopes or ("read", "write"))]

    async def work(connection: Connection) -> str:
        from recollect_shared.auth.api_keys import create_key  # noqa: PLC0415

        return await create_key(
            connection,
            tenant_id=options.tenant,
            name=options.name,
            scopes=scopes,
            user_id=options.user,
            expires_at=expires_at,
        )

    def tell(key: str) -> int:
        if output.as_json:
            output.document(
                {
                    "key": key,
                    "key_id": _id_of(key),
                    "tenant_id": options.tenant,
                    "name": options.name,
                    "scopes": scopes,
                    "user_id": options.user,
                    "expires_at": expires_at.isoformat() if expires_at else None,
                }
            )
        else:
            output.text(key)
            output.note("keep this key: it is stored as a hash only and cannot be shown again")
        return OK

    return _on_database(work, tell, output)


def _list(options: argparse.Namespace, output: Output) -> int:
    async def work(connection: Connection) -> list[dict[str, Any]]:
        from recollect_shared.auth.api_keys import list_keys  # noqa: PLC0415

        return [
            {
                "key_id": key.key_id,
                "name": key.name,
                "scopes": key.scopes,
                "user_id": key.user_id,
                "created_at": _iso(key.created_at),
                "expires_at": _iso(key.expires_at),
                "revoked_at": _iso(key.revoked_at),
            }
            for key in await list_keys(connection, tenant_id=options.tenant)
        ]

    def tell(keys: list[dict[str, Any]]) -> int:
        if output.as_json:
            output.document({"tenant_id": options.tenant, "keys": keys})
        elif not keys:
            output.note(f"the tenant {options.tenant} has no keys")
        else:
            output.table(
                ("id", "name", "scopes", "user", "state", "created", "expires"),
                [
                    (
                        key["key_id"],
                        key["name"],
                        ", ".join(key["scopes"]),
                        key["user_id"] or "any",
                        _state(key),
                        key["created_at"][:10],
                        (key["expires_at"] or "never")[:10],
                    )
                    for key in keys
                ],
            )
        return OK

    return _on_database(work, tell, output)


def _revoke(options: argparse.Namespace, output: Output) -> int:
    key_id = _id_of(options.key_id)

    async def work(connection: Connection) -> bool:
        from recollect_shared.auth.api_keys import revoke_key  # noqa: PLC0415

        return await revoke_key(connection, tenant_id=options.tenant, key_id=key_id)

    def tell(revoked: bool) -> int:
        if not revoked:
            output.error(
                f"the tenant {options.tenant} has no key {key_id} in force: see `recollect keys "
                "list`"
            )
            return FAILED
        if output.as_json:
            output.document({"key_id": key_id, "revoked": True})
        else:
            output.line(f"revoked {key_id}")
        return OK

    return _on_database(work, tell, output)


def _on_database(
    work: Callable[[Connection], Awaitable[Result]], tell: Callable[[Result], int], output: Output
) -> int:
    try:
        result = _run(work)
    except _DatabaseUnusable as error:
        output.error(str(error))
        return UNREACHABLE
    return tell(result)


def _run(work: Callable[[Connection], Awaitable[Result]]) -> Result:
    try:
        from recollect_shared.config import SharedSettings  # noqa: PLC0415
        from recollect_shared.startup import locate_database  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise UsageError(
            f"keys are made where a service is installed ({error.name} is missing here): "
            "pip install 'recollect[extraction]'"
        ) from None
    try:
        located = locate_database(SharedSettings())
        try:
            # psycopg cannot use the event loop that is the default on Windows.
            with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
                return runner.run(_once(located.conninfo, work))
        finally:
            located.release()
    except Exception as error:
        raise _DatabaseUnusable(_why(error)) from error


async def _once(conninfo: str, work: Callable[[Connection], Awaitable[Result]]) -> Result:
    from recollect_shared.database.pool import Database  # noqa: PLC0415

    database = Database(conninfo, "recollect_maintenance", application="recollect-keys", max_size=1)
    try:
        await database.open(timeout=_DATABASE_SECONDS)
        return await database.run(work, timeout=_DATABASE_SECONDS)
    finally:
        await database.close()


def _why(error: Exception) -> str:
    from recollect_shared.database.bootstrap import BootstrapError  # noqa: PLC0415
    from recollect_shared.database.embedded import EmbeddedPostgresError  # noqa: PLC0415
    from recollect_shared.database.migrate import MigrationError  # noqa: PLC0415
    from recollect_shared.startup import StartupFailed  # noqa: PLC0415

    if isinstance(error, StartupFailed | EmbeddedPostgresError | MigrationError | BootstrapError):
        return str(error)
    # The type alone: a driver's message may quote the connection string with its password.
    return (
        f"the database cannot be used ({type(error).__name__}): check DATABASE_URL, or for the "
        "embedded database RECOLLECT_DATA_DIR"
    )


def _check_label(flag: str, text: str) -> None:
    if not text.strip() or not text.isprintable() or len(text) > _MAX_NAME:
        raise UsageError(f"{flag} should be 1 to {_MAX_NAME} printable characters")


def _id_of(text: str) -> str:
    """The id in a whole key, so that a key at hand need not be taken apart."""
    parts = text.split("_", 2)
    return parts[1] if len(parts) == 3 and parts[0] == "mk" else text


def _state(key: dict[str, Any]) -> str:
    if key["revoked_at"]:
        return "revoked"
    expires_at = key["expires_at"]
    if expires_at and datetime.fromisoformat(expires_at) <= datetime.now(UTC):
        return "expired"
    return "in force"


def _iso(time: datetime | None) -> str | None:
    return time.astimezone(UTC).isoformat() if time else None
