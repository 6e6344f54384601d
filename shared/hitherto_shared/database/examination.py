"""Examines the database of an installation: schema, logins, clock, embedding model, user keys.

It changes nothing. The embedded database is started if it exists, and not made if it does not.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, LiteralString

import psycopg

from hitherto_shared.config import SharedSettings
from hitherto_shared.database.connect import (
    EXTRACTION_LOGINS,
    LOGINS,
    RETRIEVAL_LOGINS,
    DatabaseUnreachable,
    Role,
    connected,
    holds,
    logging_in,
    login_of,
    with_role,
)
from hitherto_shared.database.embedded import EmbeddedPostgres, EmbeddedPostgresError
from hitherto_shared.database.embedded.layout import DataFolderLayout
from hitherto_shared.database.faults import described
from hitherto_shared.database.lasting import vanishes, would_vanish
from hitherto_shared.database.logins import LoginTooStrong, require_no_more
from hitherto_shared.database.migrate import COMMAND, MigrationError, schema_state
from hitherto_shared.database.rights import (
    AnotherOwner,
    lacking_rights,
    require_ownership,
    told_of,
)

State = Literal["ok", "note", "fault"]


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The outcome of one check, such as `chat`, and what to set or to run; no secret is named.

    The state `note` works, but perhaps not as intended.
    """

    check: str
    state: State
    told: str
    remedy: str = ""


_CLOCKS_APART = 5.0
"""Seconds by which the clocks may differ: leases and expiries of tokens are compared with them."""
_CLOCK = "SELECT extract(epoch FROM clock_timestamp())"
_EXTENSION = "SELECT extversion FROM pg_extension WHERE extname = 'vector'"
_READ_ONLY: LiteralString = "SELECT current_setting('transaction_read_only')::bool"
# The services set both for a session, which no transaction behind a pooler can.
_DEFAULTS = """
SELECT s.name || ' = ' || s.setting, s.source
FROM pg_catalog.pg_settings AS s
JOIN (VALUES ('default_transaction_read_only', 'off'),
             ('default_transaction_isolation', 'read committed')) AS n (name, needed) USING (name)
WHERE s.setting <> n.needed
"""
# With their schema: through a pooler the session has no search path.
_ACTIVE = "SELECT model, dimensions FROM hitherto.embedding_models WHERE active"
# By chance, so that a folder that lost a part is noticed too.
_ENCRYPTING = """
SELECT tenant_id, user_id, key_id
FROM hitherto.users
WHERE encrypt_sensitive AND key_id IS NOT NULL AND erased_at IS NULL
ORDER BY random()
LIMIT 16
"""
# A dump that was restored in part, or a hand, loses it; nothing else would say so. API keys are
# looked up before the tenant is known. Without policies a table shows nothing, which is noticed.
_UNWALLED = """
SELECT c.relname
FROM pg_catalog.pg_class c
WHERE c.relnamespace = 'hitherto'::regnamespace AND c.relkind IN ('r', 'p')
    AND c.relname <> 'api_keys' AND NOT c.relrowsecurity
    AND EXISTS (
        SELECT 1 FROM pg_catalog.pg_attribute a
        WHERE a.attrelid = c.oid AND a.attname = 'tenant_id' AND NOT a.attisdropped
    )
ORDER BY c.relname
"""
_HASH_KEY = "SELECT value FROM hitherto.installation WHERE fact = 'hash_key_id'"


@dataclass(frozen=True, slots=True)
class Configured:
    """What the settings say, to be compared with what the database holds.

    `key_of` tells the id of the data key that a user of a tenant has, if any; it raises OSError if
    the folder cannot be read.
    """

    model: str
    dimensions: int
    hash_key_id: str | None
    key_of: Callable[[str, str], str | None]


def examine_database(settings: SharedSettings, configured: Configured) -> Iterator[Diagnosis]:
    """What there is to say about the database."""
    required = settings.require_database_url
    if settings.database_url is None and vanishes(settings.data_dir, required=required):
        yield Diagnosis("database", "fault", *would_vanish(settings.data_dir))
        return
    try:
        with _conninfo(settings) as conninfo:
            if conninfo is None:
                yield Diagnosis(
                    "database",
                    "note",
                    f"the embedded database in {settings.data_dir} will be made by the first "
                    "service that starts",
                    "set DATABASE_URL to use your own Postgres",
                )
                return
            yield from _examined(settings, conninfo, configured)
    except psycopg.Error as error:
        if isinstance(error, DatabaseUnreachable):
            yield _unreachable("database", error, "check DATABASE_URL")
        else:
            yield Diagnosis("database", "fault", described(error), "check DATABASE_URL")
    except AnotherOwner as error:
        yield Diagnosis("database", "fault", str(error))
    except EmbeddedPostgresError as error:
        yield Diagnosis("database", "fault", str(error), "check HITHERTO_DATA_DIR")


@contextmanager
def _conninfo(settings: SharedSettings) -> Iterator[str | None]:
    if settings.database_url is not None:
        yield settings.database_url.get_secret_value()
    elif not (DataFolderLayout(settings.data_dir).cluster / "PG_VERSION").exists():
        yield None
    else:
        with EmbeddedPostgres.acquire(settings.data_dir) as embedded:
            yield embedded.conninfo()


def _examined(
    settings: SharedSettings, conninfo: str, configured: Configured
) -> Iterator[Diagnosis]:
    passwords = settings.passwords(conninfo)

    def login(role: Role) -> str:
        named = with_role(conninfo, role, application="hitherto-doctor", pooler=settings.pooler)
        return logging_in(named, role, passwords[role])

    logins = [(role, login(role)) for role in _known_logins(settings, conninfo)]
    roles = _roles(logins)
    if roles.state == "fault":
        # Whoever may connect at all can tell whether the server is there.
        try:
            connected(conninfo).close()
        except DatabaseUnreachable as error:
            # A pooler knows the logins of the services only: what they met is the reason.
            met = _refused(logins) or error
            yield _unreachable("database", met, "check DATABASE_URL")
            return
        yield Diagnosis("database", "ok", "it answers")
        yield roles
        return
    # It may read the most.
    conninfo = dict(logins).get("hitherto_maintenance", logins[0][1])
    with connected(conninfo) as connection:
        require_ownership(connection)
    schema, as_migrated = _schema(conninfo)
    yield schema
    with connected(conninfo) as connection:
        lacking = lacking_rights(connection)
    if not as_migrated:
        # A migration that is pending may grant the others, and a newer one may have revoked them.
        lacking = [each for each in lacking if each.is_schema]
    if lacking:
        remedy = f"run `{COMMAND}`, which grants it again"
        roles = Diagnosis("roles", "fault", told_of(lacking), remedy)
    yield roles
    if "fault" in (schema.state, roles.state):
        return
    with connected(conninfo) as connection:
        yield from _writes(connection)
        yield from _defaults(logins)
        yield from _walls(connection)
        yield _clocks(connection)
        yield _embeddings(connection, configured.model, configured.dimensions)
        differs = list(_hash_key(connection, configured.hash_key_id))
        yield from differs or _user_keys(connection, configured)
    yield from _signals(settings)


def _known_logins(settings: SharedSettings, conninfo: str) -> Sequence[Role]:
    """The logins whose passwords the settings hold: those of one service, or of both."""
    own = login_of(conninfo)
    if own in EXTRACTION_LOGINS and settings.retrieval_password is None:
        return EXTRACTION_LOGINS
    if own in RETRIEVAL_LOGINS and settings.extraction_password is None:
        return RETRIEVAL_LOGINS
    return LOGINS


def _unreachable(check: str, error: DatabaseUnreachable, remedy: str, whose: str = "") -> Diagnosis:
    return Diagnosis(check, "fault", f"{whose}{error}", "" if error.complete else remedy)


def _schema(conninfo: str) -> tuple[Diagnosis, bool]:
    """How the schema is, and whether exactly the migrations of this program made it."""
    try:
        state = schema_state(conninfo)
        with connected(conninfo) as connection:
            found = connection.execute(_EXTENSION).fetchone()
            version = connection.info.server_version // 10_000
    except MigrationError as error:
        return Diagnosis("database", "fault", str(error), "see docs/upgrading.md"), False
    except DatabaseUnreachable as error:
        return _unreachable("database", error, f"run `{COMMAND}`"), False
    except psycopg.Error as error:
        told = f"its schema cannot be read: {described(error)}"
        return Diagnosis("database", "fault", told, f"run `{COMMAND}`"), False
    if state.pending:
        return Diagnosis(
            "database",
            "fault",
            f"it lacks {len(state.pending)} migration(s), from {state.pending[0]} on",
            f"run `{COMMAND}` with the same DATABASE_URL",
        ), False
    vector = f", pgvector {found[0]}" if found else ""
    newer = ", with a schema newer than this version" if state.newer else ""
    return Diagnosis("database", "ok", f"Postgres {version}{vector}{newer}"), not state.newer


def _roles(logins: list[tuple[Role, str]]) -> Diagnosis:
    for role, conninfo in logins:
        try:
            with connected(conninfo) as connection:
                require_no_more(connection, role)
        except DatabaseUnreachable as error:
            remedy = (
                f"run `{COMMAND}`, and set HITHERTO_RETRIEVAL_PASSWORD and "
                "HITHERTO_EXTRACTION_PASSWORD if the logins have passwords of their own"
            )
            return _unreachable("roles", error, remedy, f"{role} cannot log in: ")
        except LoginTooStrong as error:
            return Diagnosis("roles", "fault", str(error), "let an administrator run the SQL above")
    return Diagnosis("roles", "ok", f"{len(logins)} logins, none with more rights than it needs")


def _refused(logins: list[tuple[Role, str]]) -> DatabaseUnreachable | None:
    """Why the first login that cannot connect cannot."""
    for _, conninfo in logins:
        try:
            connected(conninfo).close()
        except DatabaseUnreachable as error:
            return error
    return None


def _writes(connection: psycopg.Connection) -> Iterator[Diagnosis]:
    if holds(connection, _READ_ONLY):
        yield Diagnosis(
            "database",
            "fault",
            "it accepts no writes, as a standby does, or one with default_transaction_read_only",
            "let DATABASE_URL name the primary",
        )


def _defaults(logins: list[tuple[Role, str]]) -> Iterator[Diagnosis]:
    """Whether the sessions of a login begin with what fails its calls behind a pooler."""
    for role, conninfo in logins:
        with connected(conninfo) as connection:
            found = connection.execute(_DEFAULTS).fetchone()
        if found is not None:
            told = f"behind the pooler, transactions of {role} have {found[0]}"
            remedy = f"reset it for the {found[1]} (docs/poolers.md)"
            yield Diagnosis("database", "fault", told, remedy)
            return


def _walls(connection: psycopg.Connection) -> Iterator[Diagnosis]:
    """Whether row-level security applies to every table with rows of tenants."""
    found = [str(row[0]) for row in connection.execute(_UNWALLED)]
    if found:
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        yield Diagnosis(
            "row security",
            "fault",
            f"row-level security does not apply to the table {found[0]}{more}: only the statements "
            "themselves keep tenants apart there",
            f"let the owner run `ALTER TABLE hitherto.{found[0]} ENABLE ROW LEVEL SECURITY`",
        )


def _hash_key(connection: psycopg.Connection, configured: str | None) -> Iterator[Diagnosis]:
    found = connection.execute(_HASH_KEY).fetchone()
    if found is not None and found != (configured,):
        what = "there is none here" if configured is None else "another one is here"
        yield Diagnosis(
            "settings",
            "fault",
            f"the installation has a hash key, and {what}: a service would not start",
            "set HITHERTO_HASH_KEY_FILE, or HITHERTO_DATA_DIR, to that of the services",
        )


def _user_keys(connection: psycopg.Connection, configured: Configured) -> Iterator[Diagnosis]:
    """Whether those who encrypt have the keys that they had when they turned it on."""
    rows = connection.execute(_ENCRYPTING).fetchall()
    try:
        lost = sum(configured.key_of(str(row[0]), str(row[1])) != row[2] for row in rows)
    except OSError:
        return  # told where the key-encryption key is tried
    if lost:
        yield Diagnosis(
            "encryption",
            "fault",
            f"of {len(rows)} users tried who encrypt, {lost} have no key, or not theirs, in the "
            "folder of user keys: reads leave out what they encrypted, and their jobs wait",
            "let HITHERTO_USER_KEYS_DIR name the folder that the services use, or restore it from "
            "its backup (docs/backup.md)",
        )


def _signals(settings: SharedSettings) -> Iterator[Diagnosis]:
    """Whether Postgres can be reached past a pooler, if the settings say how."""
    if settings.pooler == "none" or settings.direct_database_url is None:
        return
    direct = settings.for_service(settings.direct_database_url.get_secret_value())
    try:
        connected(with_role(direct, settings.logins[0], application="hitherto-doctor")).close()
    except DatabaseUnreachable as error:
        told = f"past the pooler, {error}"
        yield Diagnosis("database", "fault", told, "check HITHERTO_DIRECT_DATABASE_URL")


def _clocks(connection: psycopg.Connection) -> Diagnosis:
    before = time.time()
    found = connection.execute(_CLOCK).fetchone()
    told = float(str(found[0])) if found else before
    apart = max(before - told, told - time.time(), 0.0)
    if apart > _CLOCKS_APART:
        return Diagnosis(
            "clocks",
            "fault",
            f"the clocks of this machine and of the database differ by {apart:.0f} s",
            "synchronise both by NTP",
        )
    return Diagnosis("clocks", "ok", "this machine and the database agree")


def _embeddings(connection: psycopg.Connection, model: str, dimensions: int) -> Diagnosis:
    found = connection.execute(_ACTIVE).fetchone()
    if found is None or found == (model, dimensions):
        return Diagnosis("stored vectors", "ok", f"{model}, {dimensions} numbers")
    return Diagnosis(
        "stored vectors",
        "fault",
        f"memories are embedded with {found[0]} ({found[1]} numbers), and {model} ({dimensions}) "
        "is configured",
        f"set EMBEDDING_MODEL={found[0]} and EMBEDDING_DIMENSIONS={found[1]} again, or move to the "
        "new model with `hitherto reembed`",
    )
