"""Watches whether the database has room on its disk, for the health service.

A write that found none says so at once, and so does a disk of our own. Between writes a sort that
is too large for its memory tries, every half minute, whether its file can be written.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import time
from contextlib import suppress
from pathlib import Path

from psycopg.errors import DiskFull

from hitherto_shared.database.faults import full_disk
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.database.watch import HealthWatch, Say

logger = logging.getLogger("hitherto.database")

STORAGE = "storage"
"""The health service reports under this name whether there is room."""

_LITTLE_MEMORY = "SET LOCAL work_mem = '64kB'"

# Two megabytes that do not fit into the memory for a sort: Postgres writes them to its disk.
_LARGE_SORT = """
SELECT count(*)
FROM (SELECT rpad(number::text, 1000) AS words
      FROM generate_series(1, 2000) AS number
      ORDER BY words DESC) AS sorted
"""

_LOOK_SECONDS = 0.5
_TRY_SECONDS = 30.0
_TRY_AGAIN_SECONDS = 5.0
_STATEMENT_SECONDS = 10.0
_LITTLE_BYTES = 4 * 1024 * 1024
"""Less than this on our own disk is no room, whether or not Postgres still answers."""


class RoomWatch(HealthWatch):
    """Whether there is room.

    `folder` is where the data of an embedded database lie; None: on another machine.
    """

    def __init__(self, database: Database, say: Say, folder: Path | None = None) -> None:
        super().__init__([STORAGE], say)
        self._database = database
        self._folder = folder

    async def _watch(self) -> None:
        next_try, known_at = time.monotonic() + _TRY_SECONDS, full_disk.found_at
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            found = room = self._known[STORAGE]
            if full_disk.found_at > known_at:
                found, known_at = False, full_disk.found_at
                next_try = time.monotonic() + _TRY_AGAIN_SECONDS
            elif room and self._is_full():
                found, next_try = False, time.monotonic() + _TRY_AGAIN_SECONDS
            elif time.monotonic() >= next_try:
                found = await self._has_room(room)
                next_try = time.monotonic() + (_TRY_SECONDS if found else _TRY_AGAIN_SECONDS)
            full_disk.is_full = not found
            if found != room:
                told = f"the disk of the database {'has room' if found else 'is full'}"
                await self._tell(STORAGE, found, told)

    def _is_full(self) -> bool:
        """Whether our own disk is."""
        if self._folder is not None:
            with suppress(OSError):
                return shutil.disk_usage(self._folder).free < _LITTLE_BYTES
        return False

    async def _has_room(self, before: bool) -> bool:
        """Whether there is; as `before` if the database does not answer."""
        if self._is_full():
            return False
        try:
            await self._database.transact(_write_a_file, timeout=_STATEMENT_SECONDS)
        except DiskFull:
            return False
        except Exception as error:
            # Out of reach, or with a limit on such files: nothing is known of the disk.
            logger.debug("no attempt at the disk: %s", type(error).__name__)
            return before
        return True


async def _write_a_file(connection: Connection) -> None:
    await connection.execute(_LITTLE_MEMORY, {})
    await connection.execute(_LARGE_SORT, {})
