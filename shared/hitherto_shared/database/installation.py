"""Ensures that all processes of an installation share the hash key.

Audit log, receipts and user-key files identify users by a keyed hash. A process with another key
would write under names that nobody finds. The first process to learn records a fingerprint of its
key; a process with another key does not start.
"""

from __future__ import annotations

from hitherto_shared.database.pool import Connection
from hitherto_shared.user_hash import hash_key_id

_STATE = """
INSERT INTO installation (fact, value) VALUES ('hash_key_id', %(id)s) ON CONFLICT DO NOTHING
"""
_READ = "SELECT value FROM installation WHERE fact = 'hash_key_id'"


async def state_hash_key(connection: Connection, key: bytes) -> None:
    """Record the installation's hash key, unless it is recorded; then `check_hash_key`.

    The role is hitherto_maintenance.
    """
    await connection.execute(_STATE, {"id": hash_key_id(key)})
    await check_hash_key(connection, key)


async def check_hash_key(connection: Connection, key: bytes) -> None:
    """Raise ValueError if the installation has recorded another hash key."""
    row = await connection.fetch_row(_READ)
    if row is not None and row[0] != hash_key_id(key):
        raise ValueError(
            "this process has a different hash key than the installation, and would not "
            "recognise users by their hashes: set HITHERTO_HASH_KEY_FILE to the file of the"
            " other processes (unset: `hash_key` in HITHERTO_DATA_DIR). If that file is "
            "lost for good, an administrator of the database must delete the row of "
            "hitherto.installation"
        )
