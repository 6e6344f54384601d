"""Exports everything that is held of a user (H2) as JSON lines, closed by a manifest.

One line is one row: `{"table": "memories", "row": {...}}`. Which tables there are is asked of the
catalogue, so that none can be forgotten. All of it is one snapshot, and at no time more of it is in
memory than a few rows and pieces.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from recollect_extraction.pipeline.account import UnusableReplies
from recollect_extraction.storage import exports, holdings
from recollect_shared.audit.trail import Trail
from recollect_shared.database.pool import Connection, Database
from recollect_shared.models import Scope
from recollect_shared.sealing import BrokenToken

PIECE_BYTES = 256 * 1024
"""The most that one piece holds."""
_AHEAD = 2
"""Pieces that are read before the caller has taken them."""
_REPLIES = "unusable_replies"


@dataclass(frozen=True, slots=True)
class Manifest:
    """What was sent, for whoever checks that all of it came."""

    created_at: datetime
    counts: dict[str, int]
    total_bytes: int
    sha256: str


class Exporting:
    """Exports. The database's role is recollect_write."""

    def __init__(self, database: Database, trail: Trail, replies: UnusableReplies) -> None:
        self._database = database
        self._trail = trail
        self._replies = replies

    async def run(self, scope: Scope, *, timeout: float) -> AsyncGenerator[bytes | Manifest]:
        """The pieces in their order, the manifest last; of an erased user the manifest alone.

        Args:
            scope: Whose.
            timeout: Seconds for all of it, the caller's taking included.
        """
        ready: asyncio.Queue[bytes | Manifest] = asyncio.Queue(_AHEAD)

        async def work(connection: Connection) -> None:
            # Before anything is told: an export that breaks off has told something too.
            await self._trail.note_call(connection, {scope.user_id: []})
            async with connection.transaction():
                await self._read(connection, scope, ready)

        reading = asyncio.create_task(self._database.run(work, timeout=timeout))
        try:
            while True:
                taking = asyncio.ensure_future(ready.get())
                await asyncio.wait({taking, reading}, return_when=asyncio.FIRST_COMPLETED)
                if not taking.done() and ready.empty():
                    taking.cancel()
                    # It ended without a manifest: the reason is its own.
                    await reading
                    return
                piece = await taking
                yield piece
                if isinstance(piece, Manifest):
                    return
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    async def _read(
        self, connection: Connection, scope: Scope, ready: asyncio.Queue[bytes | Manifest]
    ) -> None:
        created_at = await exports.take_snapshot(connection)
        digest = hashlib.sha256()
        counts: dict[str, int] = {}
        total = 0
        held = bytearray()

        async def hand_over(size: int) -> None:
            nonlocal total
            piece = bytes(held[:size])
            del held[:size]
            digest.update(piece)
            total += len(piece)
            await ready.put(piece)

        if await exports.may_be_read(connection, scope):
            async with aclosing(self._lines(connection, scope, counts)) as lines:
                async for line in lines:
                    held += line
                    while len(held) >= PIECE_BYTES:
                        await hand_over(PIECE_BYTES)
        if held:
            await hand_over(len(held))
        await ready.put(Manifest(created_at, counts, total, digest.hexdigest()))

    async def _lines(
        self, connection: Connection, scope: Scope, counts: dict[str, int]
    ) -> AsyncGenerator[bytes]:
        """Every line, counted by table."""
        hashed = self._trail.hash(scope.tenant_id, scope.user_id)
        for holding in await holdings.find_holdings(connection):
            counts[holding.name] = 0
            async for row in exports.rows(connection, scope, holding, hashed):
                counts[holding.name] += 1
                yield _line(
                    holding.name, self._opened(scope, row) if holding.name == _REPLIES else row
                )
        counts[exports.CALLS] = 0
        async for row in exports.calls(connection, scope):
            counts[exports.CALLS] += 1
            yield _line(exports.CALLS, row)

    def _opened(self, scope: Scope, row: str) -> str:
        """The row of a reply that was of no use, with what the model said in clear."""
        found = json.loads(row)
        try:
            found["reply"] = self._replies.open(scope, UUID(found["job_id"]), found["sealed_reply"])
        except BrokenToken:
            # It was sealed under a secret that this installation no longer has.
            return row
        return json.dumps(found, ensure_ascii=False, separators=(",", ":"))


def _line(table: str, row: str) -> bytes:
    return f'{{"table":{json.dumps(table)},"row":{row}}}\n'.encode()
