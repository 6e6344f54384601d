"""Opens the database with each role of the service, and the audit log."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass

from hitherto_extraction.config import ExtractionSettings
from hitherto_extraction.storage import erased
from hitherto_extraction.upkeep.audit_digests import AuditDigests
from hitherto_shared.audit.reads import AuditedReads
from hitherto_shared.audit.trail import Trail
from hitherto_shared.database.arrays import register_arrays
from hitherto_shared.database.connect import Role, with_role
from hitherto_shared.database.installation import state_hash_key
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.startup import configure_vectors, load_hash_key, load_installation_signer

NAME = "hitherto-extraction"
EXPORTS_AT_ONCE = 2
_CHECK_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Databases:
    """A pool for each role, one for exports, and the key that identifies erased users.

    Attributes:
        listening: A connection string to listen for signals; None if a pooler allows none.
    """

    write: Database
    maintenance: Database
    removal: Database
    exports: Database
    hash_key: bytes
    listening: str | None


async def open_databases(
    stack: AsyncExitStack, settings: ExtractionSettings, conninfo: str
) -> Databases:
    """Open all pools; leaving `stack` closes them.

    Raises:
        ValueError: The settings name another hash key than the installation has.
    """
    hash_key = load_hash_key(settings)

    async def configure(connection: Connection) -> None:
        await configure_vectors(connection)
        register_arrays(connection)
        erased.know_hash_key(connection, hash_key)

    def pool(role: Role, most: int) -> Database:
        return Database(
            conninfo,
            role,
            application=NAME,
            max_size=most,
            configure=configure,
            pooler=settings.pooler,
        )

    direct = settings.direct(conninfo)
    databases = Databases(
        pool("hitherto_write", settings.worker_concurrency + 8),
        pool("hitherto_maintenance", settings.worker_concurrency + 4),
        pool("hitherto_removal", 2),
        # Separate, because an export lasts as long as its reader takes.
        pool("hitherto_write", EXPORTS_AT_ONCE),
        hash_key,
        None if direct is None else with_role(direct, "hitherto_maintenance", application=NAME),
    )
    for database in (databases.write, databases.maintenance, databases.removal, databases.exports):
        stack.push_async_callback(database.close)
        await database.open()

    async def check(connection: Connection) -> None:
        await erased.check_hash_key(connection, hash_key)
        await state_hash_key(connection, hash_key)

    await databases.maintenance.run(check, timeout=_CHECK_SECONDS)
    return databases


@dataclass(frozen=True, slots=True)
class Audit:
    """Writes the audit log: changes, reads, and the digests of its days."""

    trail: Trail
    reads: AuditedReads
    digests: AuditDigests


async def open_audit(
    stack: AsyncExitStack, settings: ExtractionSettings, databases: Databases
) -> Audit:
    """Start writing the audit log; leaving `stack` writes what is left."""
    trail = Trail(databases.hash_key)
    reads = AuditedReads(databases.write, trail)
    stack.push_async_callback(reads.stop)
    await reads.start()
    signer = load_installation_signer(settings)
    return Audit(trail, reads, AuditDigests(databases.maintenance, signer))
