"""Exports all data of a user (H2) as JSON lines, closed by a manifest.

The tables are read from the catalogue, so that none can be missed, each after those that it refers
to. All of it is one snapshot, which does not show an erasure that begins meanwhile: before each
piece, another connection checks that the user's state is still that of the snapshot.

Sealed text is opened. What no key opens any more is exported without it, with `"lost":true`; if an
administrator can restore the key, the export ends before its first line instead.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID
from weakref import WeakValueDictionary

from hitherto_extraction.pipeline.failed_attempts import UnusableReplies
from hitherto_extraction.storage import erased, exports, holdings, sealing, users
from hitherto_extraction.storage.exports import UserStatus
from hitherto_extraction.storage.holdings import UserTable
from hitherto_shared.audit.trail import Trail
from hitherto_shared.database.pool import Connection, Database, countdown
from hitherto_shared.encryption.failures import (
    DecryptionFailed,
    KeyGone,
    KeyServiceUnavailable,
    KeyUnavailable,
)
from hitherto_shared.encryption.rows import BY_TABLE
from hitherto_shared.encryption.user_key import UserKey, version_of
from hitherto_shared.encryption.user_keys import UserKeys
from hitherto_shared.errors import Exhausted, TooLate
from hitherto_shared.models import Scope
from hitherto_shared.sealing import BrokenToken

PIECE_BYTES = 256 * 1024
"""Maximum bytes of one piece."""
_AHEAD = 2
"""Number of pieces read ahead of the caller."""
PATIENCE_SECONDS = 30.0
"""Time for which a caller may leave a piece unread."""
TURN_SECONDS = 3.0
"""Time for which an export waits for another one of the same user, which may be ending."""
_FENCE_SECONDS = 5.0
_SILENCE_SECONDS = 10.0
"""Maximum silence of the database. It may be frozen, and then enforces no limit itself."""
_ANY = 2**32
_REPLIES = "unusable_replies"


@dataclass(frozen=True, slots=True)
class Manifest:
    """The contents of the export, for checking its completeness."""

    created_at: datetime
    counts: dict[str, int]
    total_bytes: int
    sha256: str


class _OtherKey(Exception):
    """The snapshot holds values that the key does not open: encryption was turned on meanwhile."""


@dataclass(slots=True)
class _Going:
    """An export in progress between database and caller; `begun` is set before a piece."""

    scope: Scope
    begun: UserStatus | None = None
    ready: asyncio.Queue[bytes | Manifest | Exception] = field(
        default_factory=lambda: asyncio.Queue(_AHEAD)
    )

    async def put(self, piece: bytes | Manifest) -> None:
        """Hand over the next piece, unless the caller has read nothing for too long."""
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await self.ready.put(piece)
        except TimeoutError:
            raise TooLate(
                f"this export was ended because the client read nothing for {PATIENCE_SECONDS:g} "
                "seconds: call ExportUser again and read to the end without a pause",
                reason="DEADLINE_EXCEEDED",
            ) from None


@dataclass(frozen=True, slots=True)
class _ExportLines:
    """Formats the lines of one user's export.

    Without a `key` there is none, and what it has sealed is lost.
    """

    scope: Scope
    key: UserKey | None
    replies: UnusableReplies

    def line(self, table: str, row: str, sealed: bytes | None) -> bytes:
        """One line; with `"lost":true` if part of the row can no longer be opened.

        `row` is a JSON object without its `sealed` values.
        """
        if sealed is None and table != _REPLIES:
            return _line(table, row)
        found, lost = json.loads(row), False
        if sealed is not None:
            found, lost = self._opened(table, found, sealed)
        if table == _REPLIES and not lost:
            found, lost = self._reply(found)
        return _line(table, found, lost)

    def _opened(
        self, table: str, found: dict[str, Any], sealed: bytes
    ) -> tuple[dict[str, Any], bool]:
        if self.key is None:
            return found, True
        kind = BY_TABLE[table]
        if version_of(sealed) > found.get(kind.version, _ANY):
            # It belongs to a later version, and was moved here.
            return found, True
        try:
            columns = kind.open(self.key, sealed, *(found[name] for name in kind.ids))
        except DecryptionFailed:
            return found, True
        return found | columns, False

    def _reply(self, found: dict[str, Any]) -> tuple[dict[str, Any], bool]:
        """An unusable reply, with the model's text in clear."""
        try:
            reply = self.replies.open(self.scope, UUID(found["job_id"]), found["sealed_reply"])
        except BrokenToken:
            # The secret with which it was sealed no longer exists.
            return found, True
        return found | {"reply": reply}, False


@dataclass(frozen=True, slots=True)
class Exporting:
    """Exports. The database role is hitherto_write."""

    database: Database
    trail: Trail
    replies: UnusableReplies
    keys: UserKeys
    # A turn lasts as long as an export holds it or waits for it.
    _turns: WeakValueDictionary[Scope, asyncio.Lock] = field(default_factory=WeakValueDictionary)

    async def run(
        self, scope: Scope, *, fence: Database, timeout: float
    ) -> AsyncGenerator[bytes | Manifest]:
        """The pieces in order, the manifest last; for an erased user the manifest alone.

        `fence` is where an erasure is visible: not the database of exports, whose connections may
        all be taken by exports. `timeout` includes the caller's reading.

        Raises:
            Exhausted: Another export of this user is running here.
            TooLate: A piece was not read in time, or the database returned none.
            WrongState: The user was erased after the export began.
            KeyUnavailable: Something is sealed, and an administrator can restore its key.
            KeyServiceUnavailable: Something is sealed, and its key is temporarily unavailable.
        """
        going = _Going(scope)
        reading = asyncio.create_task(self._fill(going, await self._key(scope), timeout))
        try:
            while True:
                try:
                    async with asyncio.timeout(_SILENCE_SECONDS):
                        piece = await going.ready.get()
                except TimeoutError:
                    raise TooLate(
                        "the database did not answer in time; call ExportUser again from the start",
                        reason="DEADLINE_EXCEEDED",
                    ) from None
                if isinstance(piece, Exception):
                    raise piece
                if not isinstance(piece, Manifest) or piece.total_bytes:
                    await self._refuse_erased(going, fence)
                yield piece
                if isinstance(piece, Manifest):
                    return
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    async def _fill(
        self, going: _Going, key: UserKey | KeyUnavailable | KeyServiceUnavailable, timeout: float
    ) -> None:
        """Read all of it for the caller, who gets the error if that fails."""
        left = countdown(timeout)

        async def work(connection: Connection) -> None:
            # Before anything is revealed: an interrupted export has revealed something too.
            await self.trail.note_call(connection, {going.scope.user_id: []})
            async with connection.transaction():
                await self._read(connection, going, key, again=False)

        try:
            # Released when the reading ends, and not when the caller notices.
            async with self._turn(going.scope):
                try:
                    await self.database.run(work, timeout=timeout)
                except _OtherKey:
                    # Opened outside the transaction, because a key-management service may be slow.
                    other = await self._key(going.scope)
                    await self.database.transact(
                        lambda connection: self._read(connection, going, other, again=True),
                        timeout=left(),
                    )
        except Exception as error:
            await going.ready.put(error)

    @asynccontextmanager
    async def _turn(self, scope: Scope) -> AsyncIterator[None]:
        """Become the only export of this user in this process."""
        turn = self._turns.setdefault(scope, asyncio.Lock())
        try:
            async with asyncio.timeout(TURN_SECONDS):
                await turn.acquire()
        except TimeoutError:
            raise Exhausted(
                "an export of this user is already running: read it to its end or cancel it, "
                "then call ExportUser again",
                reason="OVERLOADED",
                retry_after=PATIENCE_SECONDS,
            ) from None
        try:
            yield
        finally:
            turn.release()

    async def _refuse_erased(self, going: _Going, fence: Database) -> None:
        """Continue only if the user was not erased since the snapshot."""
        now = await fence.run(
            lambda connection: exports.read_standing(connection.of(going.scope)),
            timeout=_FENCE_SECONDS,
            repeatable=True,
        )
        assert going.begun is not None
        if going.begun.ended_by(now):
            raise erased.was_erased(going.scope)

    async def _key(self, scope: Scope) -> UserKey | KeyUnavailable | KeyServiceUnavailable:
        """The user's data key, or why it is unavailable; needed only if something is sealed."""
        try:
            return await self.keys.open(scope.tenant_id, scope.user_id)
        except (KeyUnavailable, KeyServiceUnavailable) as why:
            return why

    async def _read(
        self,
        connection: Connection,
        going: _Going,
        key: UserKey | KeyUnavailable | KeyServiceUnavailable,
        *,
        again: bool,
    ) -> None:
        """Hand over all of it, from one snapshot.

        Raises:
            _OtherKey: Not `again`, and another key may open what this one does not; nothing was
                handed over.
        """
        scope = going.scope
        created_at = await exports.take_snapshot(connection)
        user = connection.of(scope)
        going.begun = await exports.read_standing(user)
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
            await going.put(piece)

        if going.begun.may_be_read:
            tables = await holdings.find_exported(connection)
            known = await users.read_user(user)
            fits = isinstance(key, UserKey) and known is not None and key.key_id == known.key_id
            if not fits and await sealing.has_sealed(user):
                if isinstance(key, UserKey | KeyGone):
                    if not again:
                        raise _OtherKey
                else:
                    raise key
            opening = _ExportLines(scope, key if isinstance(key, UserKey) else None, self.replies)
            async with aclosing(self._lines(connection, opening, tables, counts)) as lines:
                async for line in lines:
                    held += line if total or held else _announcing(line)
                    while len(held) >= PIECE_BYTES:
                        await hand_over(PIECE_BYTES)
            if total or held:
                so_far = digest.copy()
                so_far.update(held)
                told = {
                    "created_at": created_at.isoformat(),
                    "counts": {table: count for table, count in counts.items() if count},
                    "sha256": so_far.hexdigest(),
                }
                held += _line(exports.MANIFEST, told)
                counts[exports.MANIFEST] = 1
        while held:
            await hand_over(PIECE_BYTES)
        await going.put(Manifest(created_at, counts, total, digest.hexdigest()))

    async def _lines(
        self,
        connection: Connection,
        opening: _ExportLines,
        tables: Sequence[UserTable],
        counts: dict[str, int],
    ) -> AsyncGenerator[bytes]:
        """Every line, counted by table."""
        scope = opening.scope
        hashed = self.trail.hash(scope.tenant_id, scope.user_id)
        user = connection.of(scope)
        for holding in tables:
            counts[holding.name] = 0
            async for row, sealed in exports.rows(user, holding, hashed):
                counts[holding.name] += 1
                yield opening.line(holding.name, row, sealed)
        counts[exports.CALLS] = 0
        async for table, row in exports.shared_rows(user):
            counts[table] += 1
            yield opening.line(table, row, None)


def _line(table: str, row: str | dict[str, Any], lost: bool = False) -> bytes:
    if not isinstance(row, str):
        row = json.dumps(row, ensure_ascii=False, separators=(",", ":"))
    # A lone surrogate is not UTF-8; JSON escapes it just as Python does.
    mark = ',"lost":true' if lost else ""
    return f'{{"table":{json.dumps(table)},"row":{row}{mark}}}\n'.encode(
        "utf-8", "backslashreplace"
    )


def _announcing(line: bytes) -> bytes:
    """The first line, which says that the last one is the manifest."""
    return line.removesuffix(b"}\n") + b',"manifest":true}\n'
