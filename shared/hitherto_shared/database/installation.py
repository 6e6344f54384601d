"""What all processes of an installation have in common: the hash key.

Users stand in the audit log, in receipts and among the files of user keys under a keyed hash. A
process with another key would write under names that nobody finds. The first one that learns states
which key it is; whoever has another does not start.
"""

from __future__ import annotations

from hitherto_shared.database.pool import Connection
from hitherto_shared.user_hash import hash_key_id

_STATE = """
INSERT INTO installation (fact, value) VALUES ('hash_key_id', %(id)s) ON CONFLICT DO NOTHING
"""
_READ = "SELECT value FROM installation WHERE fact = 'hash_key_id'"


async def state_hash_key(connection: Connection, key: bytes) -> None:
    """Say which hash key this installation has, unless that was said; then hold it against it.

    On the role hitherto_maintenance.

    Raises:
        ValueError: It has another one.
    """
    await connection.execute(_STATE, {"id": hash_key_id(key)})
    await check_hash_key(connection, key)


async def check_hash_key(connection: Connection, key: bytes) -> None:
    """See that this process has the hash key of the installation, if it is known.

    Raises:
        ValueError: It has another one.
    """
    cursor = await connection.execute(_READ)
    row = await cursor.fetchone()
    if row is not None and row[0] != hash_key_id(key):
        raise ValueError(
            "this process has a different hash key than the installation, and would not "
            "recognise users by their hashes: set HITHERTO_HASH_KEY_FILE to the file of the"
            " other processes (unset: `hash_key` in HITHERTO_DATA_DIR). If that file is "
            "lost for good, an administrator of the database must delete the row of "
            "hitherto.installation"
        )
