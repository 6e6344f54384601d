"""Start-up of both services: find the database, migrate it, and run until a signal."""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, LiteralString

import psycopg
from pgvector.psycopg import register_vector_async

from hitherto_shared.auth.authenticate import ApiKeyAuthentication, Authenticator, NoAuthentication
from hitherto_shared.auth.token_settings import web_token_authentication
from hitherto_shared.config import SharedSettings
from hitherto_shared.database.bootstrap import bootstrap
from hitherto_shared.database.connect import (
    LOGINS,
    OWNER,
    SESSION_SETTINGS,
    VECTOR_SCHEMAS,
    DatabaseUnreachable,
    Pooler,
    Role,
    connected,
    holds,
    login_of,
    with_role,
)
from hitherto_shared.database.embedded import EmbeddedPostgres
from hitherto_shared.database.faults import described
from hitherto_shared.database.lasting import vanishes, would_vanish
from hitherto_shared.database.logins import require_no_more
from hitherto_shared.database.migrate import (
    COMMAND,
    MigrationError,
    SchemaState,
    migrate,
    schema_state,
)
from hitherto_shared.database.pool import Connection, Reads
from hitherto_shared.database.rights import (
    AnotherOwner,
    lacking_rights,
    require_ownership,
    told_of,
)
from hitherto_shared.key_files import (
    hash_key_path,
    load_deployment_secret,
    load_hash_key,
    load_installation_signer,
    secret_path,
    signing_key_path,
)
from hitherto_shared.metrics import lag_measured
from hitherto_shared.rpc.server import ServerFailed, end_signal, tls_credentials
from hitherto_shared.telemetry import quiet_loop
from hitherto_shared.tracing import start_tracing, stop_tracing

logger = logging.getLogger("hitherto.startup")


class StartupFailed(Exception):
    """The service cannot run with these settings; the message gives the remedy."""


@dataclass(frozen=True, slots=True)
class Located:
    """The database to use, and the embedded server that we hold, if it is that."""

    conninfo: str
    embedded: EmbeddedPostgres | None

    def release(self) -> None:
        """Release the embedded server; the last holder stops it."""
        if self.embedded is not None:
            self.embedded.release()


async def locate_unless_ended(settings: SharedSettings, end: asyncio.Event) -> Located:
    """Run `locate_database` off the loop.

    Setting `end` shortens the wait for other processes that migrate.
    """
    stop = threading.Event()
    locating = asyncio.ensure_future(asyncio.to_thread(locate_database, settings, stop))
    ending = asyncio.ensure_future(end.wait())
    await asyncio.wait({locating, ending}, return_when=asyncio.FIRST_COMPLETED)
    if ending.done():
        stop.set()
    ending.cancel()
    located = await locating
    url = settings.database_url
    named = login_of(url.get_secret_value()) if url is not None else None
    if named is not None and named not in LOGINS and not settings.migrate:
        logger.warning(
            "DATABASE_URL names a login that may become %s. This service does not use it, and logs "
            "in as %s; give each service a connection string of its own to keep it from knowing "
            "one (docs/security.md)",
            OWNER,
            ", ".join(settings.logins),
        )
    return located


def locate_database(settings: SharedSettings, stop: threading.Event | None = None) -> Located:
    """Start or join the embedded Postgres, or use `DATABASE_URL`, and check or migrate the schema.

    If `stop` is set while another process migrates, it ends the wait with the present schema.

    Raises:
        StartupFailed: The database is unreachable, or its schema is outdated and this process may
            not change it; or there is none, and an embedded one would not last.
    """
    if settings.database_url is None:
        if vanishes(settings.data_dir, required=settings.require_database_url):
            raise StartupFailed(". ".join(would_vanish(settings.data_dir)))
        embedded = EmbeddedPostgres.acquire(settings.data_dir)
        try:
            conninfo = embedded.conninfo()
            migrate(conninfo, stop=stop)
        except BaseException:
            embedded.release()
            raise
        return Located(conninfo, embedded)
    given = settings.database_url.get_secret_value()
    try:
        if settings.migrate:
            directly = _past_pooler(settings, given)
            bootstrap(directly, passwords=settings.passwords(directly))
            migrate(directly, stop=stop)
        conninfo = settings.for_service(given)
        state = _schema_state(conninfo, settings.logins, settings.pooler)
    except DatabaseUnreachable as error:
        raise StartupFailed(f"DATABASE_URL: {error}") from None
    if state.pending:
        raise StartupFailed(
            f"the database lacks {len(state.pending)} migration(s), from {state.pending[0]} on: run"
            f" `{COMMAND}` with the same DATABASE_URL, or start with HITHERTO_MIGRATE=1"
        )
    if state.newer:
        logger.warning(
            "the schema is newer than this version, which can run on it: %s", ", ".join(state.newer)
        )
    return Located(conninfo, None)


def _past_pooler(settings: SharedSettings, given: str) -> str:
    """The connection string for migrations, which need a session of their own."""
    if settings.pooler == "none":
        return given
    if settings.direct_database_url is None:
        raise StartupFailed(
            "HITHERTO_MIGRATE cannot go through the pooler: set HITHERTO_DIRECT_DATABASE_URL to a "
            f"connection string of Postgres itself, or run `{COMMAND}` with it"
        )
    return settings.direct_database_url.get_secret_value()


def _schema_state(conninfo: str, roles: Sequence[Role], pooler: Pooler) -> SchemaState:
    """How the schema compares with this program, read after a login as each of `roles`."""
    logins = [
        with_role(conninfo, role, application="hitherto-start", pooler=pooler) for role in roles
    ]
    for role, login in zip(roles, logins, strict=True):
        with connected(login) as connection:
            require_no_more(connection, role)
            _require_vectors(connection, role)
            _require_usage(connection, role)
            if pooler == "none":
                _require_settings(connection)
    try:
        state = schema_state(logins[0])
        # A newer migration may have revoked what an earlier one granted.
        if not (state.pending or state.newer):
            _warn_of_lost_rights(logins[0], roles)
        return state
    except DatabaseUnreachable:
        raise
    except psycopg.Error as error:
        raise StartupFailed(
            f"the schema of the database in DATABASE_URL cannot be read: {described(error)}; check "
            f"that `{COMMAND}` was run on it"
        ) from None


def _require_usage(connection: psycopg.Connection, role: Role) -> None:
    """Check that a login may use the schema, where there is one: else it finds nothing there."""
    found = [each for each in lacking_rights(connection, [role]) if each.is_schema]
    if found:
        raise StartupFailed(f"{told_of(found)}: run `{COMMAND}`, which grants it again")


def _warn_of_lost_rights(conninfo: str, roles: Sequence[Role]) -> None:
    """Say what is lost: calls that do not need it go on."""
    with connected(conninfo) as connection:
        lacking = lacking_rights(connection, roles)
        try:
            require_ownership(connection)
        except AnotherOwner as error:
            logger.warning("%s. Until then, no later version can migrate it", error)
    if lacking:
        logger.warning(
            "%s: calls and jobs that need it fail; run `%s`, which grants it again",
            told_of(lacking),
            COMMAND,
        )


_FINDS_VECTORS: LiteralString = """
SELECT EXISTS (
    SELECT FROM pg_type AS t JOIN pg_namespace AS n ON n.oid = t.typnamespace
    WHERE t.typname = 'halfvec' AND n.nspname = ANY (%s) AND has_schema_privilege(n.oid, 'USAGE'))
"""


def _require_vectors(connection: psycopg.Connection, role: Role) -> None:
    """Check that a login finds the types of pgvector, without which no connection can be used."""
    if not holds(connection, _FINDS_VECTORS, [list(VECTOR_SCHEMAS)]):
        raise StartupFailed(
            f"the database login {role} finds no pgvector: run `{COMMAND}` with the same"
            " DATABASE_URL, which grants what is missing or says who may"
        )


def _require_settings(connection: psycopg.Connection) -> None:
    """Check that the session has the settings that it was begun with.

    A pooler that drops them lends servers for one transaction, most likely: the tenant of one call
    would then apply to the calls of others.
    """
    found = connection.execute("SELECT current_setting('search_path')").fetchone()
    if found is None or found[0] != SESSION_SETTINGS["search_path"]:
        raise StartupFailed(
            "DATABASE_URL: something between this service and Postgres drops the settings of a "
            "session: if it is a connection pooler, set HITHERTO_POOLER=transaction"
        )


async def serve(
    settings: SharedSettings,
    listen: str,
    running: Callable[[str], AbstractAsyncContextManager[object]],
) -> None:
    """Find the database and run a service on it until the process is stopped.

    Leaving the context of `running`, the service on the database of a conninfo, drains it.
    """
    end = end_signal()
    settings.auth_mode(listen)
    located = await locate_unless_ended(settings, end)
    try:
        # If it was stopped during start-up, it need not serve first.
        if not end.is_set():
            async with running(located.conninfo):
                keep_what_stands()
                with lag_measured():
                    await end.wait()
    finally:
        await asyncio.to_thread(located.release)


_COLLECTED_AFTER = (10_000, 10, 10)
"""With 700 new objects, most are still in use by the calls that created them, so scanning them is
wasted."""


def keep_what_stands() -> None:
    """Exclude the objects of a started process from garbage collection.

    A full collection scans every object, mostly modules and descriptors, and each would block the
    event loop for a tenth of a second.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECTED_AFTER)


def refusals(settings: SharedSettings, listen: str) -> Iterator[str]:
    """Why a service with these settings would not start, as far as no database is needed to tell.

    It creates no file.
    """

    def secret(load: Callable[[SharedSettings], object], path: Path) -> Callable[[], object]:
        return lambda: load(settings) if path.exists() else None

    for look in (
        lambda: settings.auth_mode(listen),
        lambda: settings.check_listen(listen),
        lambda: tls_credentials(settings),
        settings.load_key_wrapper,
        secret(load_deployment_secret, secret_path(settings)),
        secret(load_hash_key, hash_key_path(settings)),
        secret(load_installation_signer, signing_key_path(settings)),
    ):
        try:
            look()
        except (ValueError, OSError) as error:
            yield str(error)


@asynccontextmanager
async def authentication(
    settings: SharedSettings, listen: str, database: Reads
) -> AsyncIterator[Authenticator]:
    """How callers authenticate; API keys are looked up in `database`.

    Raises:
        ValueError: Authentication is off at an address that others can reach, or the settings of
            tokens are invalid; the message names the variable.
    """
    mode = settings.auth_mode(listen)
    if mode == "jwt":
        async with web_token_authentication(settings) as tokens:
            yield tokens
    elif mode == "off":
        logger.warning("authentication is off: every caller on this machine is accepted")
        yield NoAuthentication()
    else:
        yield ApiKeyAuthentication(database)


async def configure_vectors(connection: Connection) -> None:
    """Let a connection send and receive vectors in binary."""
    # psycopg looks the types up by a cursor of its own, which begins no transaction, and has no
    # search path behind a pooler.
    async with connection.transaction(force_rollback=True):
        await register_vector_async(connection)


def run_service(name: str, serve: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run `serve` to its end on uvloop; start-up failures end the process with one clear line."""
    try:
        start_tracing(name)
        _runner()(_quietly(serve))
    except KeyboardInterrupt:
        sys.exit(130)
    except (
        StartupFailed,
        ServerFailed,
        MigrationError,
        ValueError,
        OSError,
        RuntimeError,
        psycopg.Error,
    ) as error:
        logger.debug("start failed", exc_info=True)
        print(f"{name}: {described(error)}", file=sys.stderr)
        sys.exit(1)
    finally:
        stop_tracing()


async def _quietly(serve: Callable[[], Coroutine[Any, Any, None]]) -> None:
    quiet_loop(asyncio.get_running_loop())
    await serve()


def _runner() -> Callable[[Coroutine[Any, Any, None]], None]:
    try:
        import uvloop  # noqa: PLC0415 - not on every platform
    except ImportError:
        return asyncio.run
    return uvloop.run
