"""Runs an import: the user first, then group after group of records, last the keyword index.

Each group is one transaction that holds the user's row. It raises the user's revision, as every
change of what is read does, and checks that the user is still the one that the import began with.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

from hitherto_extraction.curation.user_settings import (
    UserSettings,
    change_settings,
    prepare_sealing,
)
from hitherto_extraction.documents.ingest import read_left
from hitherto_extraction.once import IdempotentOperation, once
from hitherto_extraction.queue.enqueueing import JobQueue
from hitherto_extraction.restoring.call import ImportCall, Imported
from hitherto_extraction.restoring.catalogue import read_rules
from hitherto_extraction.restoring.lines import ExportedRecord, read_records
from hitherto_extraction.restoring.names_taken import NamesTaken
from hitherto_extraction.restoring.tables import LEFT_OUT, USERS
from hitherto_extraction.restoring.writing import index_memories, write
from hitherto_extraction.storage import erased, imported, mentions, users
from hitherto_extraction.storage.imported import RowRefused
from hitherto_extraction.storage.users import UserWriteState
from hitherto_extraction.user_key import with_keys
from hitherto_shared.audit.trail import Trail
from hitherto_shared.auth.principal import PROFILES_MANAGE
from hitherto_shared.consistency import Position, current_position
from hitherto_shared.database import faults
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.encryption.user_keys import UserKeys
from hitherto_shared.errors import NotPermitted, WrongState

GROUP_RECORDS = 200
GROUP_BYTES = 512 * 1024
_HELD_SECONDS = 120.0
"""For how long others wait for the next group: longer than the import waits for its caller."""
_RELEASE_SECONDS = 5.0
_UNFINISHED = ("queued", "running", "failed")
_MOST_UNREAD = 10_000
"""Conversations with unfinished jobs that an import remembers."""
_OF_DOCUMENTS = frozenset({"document_chunks", "document_mentions"})
_RESERVED = {"department": "", "access_level": "standard"}
"""Columns of a profile that only `profiles.manage` may set, and their values without it."""

logger = logging.getLogger("hitherto.extraction")

Done = TypeVar("Done")


@dataclass(slots=True)
class OneImport:
    """One import in progress; see `Importing` for what it is given."""

    database: Database
    trail: Trail
    keys: UserKeys
    installation: UserSettings
    call: ImportCall
    queue: JobQueue
    message_vectors: bool
    _made: Imported = field(default_factory=Imported)
    _owner: tuple[Any, Any] | None = None
    _since: datetime | None = None
    _wants_memory: bool = False
    _lost: set[str] = field(default_factory=set)
    _expiring: set[str] = field(default_factory=set)
    _unread: dict[str, int] = field(default_factory=dict)
    _taken: NamesTaken = field(default_factory=NamesTaken)

    async def run(self, pieces: AsyncIterator[bytes]) -> Imported:
        """Import everything, while nobody else writes about the user."""
        try:
            return await self._run(pieces)
        except BaseException:
            if self._since is not None:
                with faults.Tolerated(logger, "writers wait longer for an import that has failed"):
                    await self.database.transact(self._release, timeout=_RELEASE_SECONDS)
            raise

    async def _run(self, pieces: AsyncIterator[bytes]) -> Imported:
        group: list[ExportedRecord] = []
        rules = await self.database.run(read_rules, timeout=self.call.left(), repeatable=True)
        async with aclosing(read_records(pieces, rules)) as records:
            async for record in records:
                if not self._is_taken(record):
                    continue
                if record.table == USERS:
                    await self._begin(record)
                    continue
                if group and not _fits(group, record):
                    await self._store(group)
                    group = []
                group.append(record)
        if group:
            await self._store(group)
        await self._end()
        return self._made

    def _is_taken(self, record: ExportedRecord) -> bool:
        """Whether a record is to be stored; one that is left out is counted."""
        if record.table in LEFT_OUT:
            if record.table == "jobs":
                self._note_unread(record)
            self._made.left_out[record.table] += 1
            return False
        if self._owner is None:
            if record.table != USERS:
                raise record.refused(
                    f"precedes the record of the table {USERS}, which must come first"
                )
            self._owner = record.owner
        elif record.owner != self._owner:
            raise record.refused("belongs to another user or tenant than the records before it")
        elif record.table == USERS:
            raise record.refused("is a second user: import one export at a time")
        if record.lost:
            self._lost.add(record.lost_with)
        if record.lost or (self._lost and record.belongs_to in self._lost):
            self._made.left_out[record.table] += 1
            return False
        assert record.row is not None
        if record.row.get("origin") == "operator":
            self.call.principal.check_origin(f"records[{record.number}].row.origin", "operator")
        return True

    def _note_unread(self, record: ExportedRecord) -> None:
        """Remember the messages of a job that had not ended, as it is not imported."""
        job = record.raw
        conversation_id, first, done = (
            job.get(name) for name in ("conversation_id", "range_from", "done_to")
        )
        if (
            job.get("state") in _UNFINISHED
            and isinstance(conversation_id, str)
            and isinstance(first, int)
        ):
            if conversation_id not in self._unread and len(self._unread) >= _MOST_UNREAD:
                raise record.refused(
                    f"is of one more than {_MOST_UNREAD} conversations that are not learnt to "
                    "their end: let the jobs of the user end, and export again"
                )
            read = max(done if isinstance(done, int) else first - 1, 0)
            self._unread[conversation_id] = min(read, self._unread.get(conversation_id, read))

    async def _begin(self, record: ExportedRecord) -> None:
        """Make the user the one of the export."""
        row = record.row
        assert row is not None
        self._since = datetime.fromisoformat(row["created_at"])
        self._wants_memory = bool(row["memory_enabled"])
        if row["encrypt_sensitive"]:
            await self._encrypt()
        new = False

        async def begin(user: UserRows) -> None:
            nonlocal new
            known = await self._enter(user)
            new = known.created_at != self._since
            if new:
                await imported.adopt(user, row)
            await imported.hold_off_writers(user, seconds=_HELD_SECONDS)

        await self._once(begin, record.raw)
        (self._made.stored if new else self._made.skipped)[USERS] += 1

    async def _once(
        self, begin: Callable[[UserRows], Awaitable[None]], record: Mapping[str, Any]
    ) -> None:
        """Run the first transaction, which takes the idempotency key and enters the audit log."""

        async def change(connection: Connection) -> None:
            await begin(connection.of(self.call.scope))

        async def again(connection: Connection, _: Sequence[str]) -> None:
            # The first import may have been interrupted, and the user may be gone since.
            await change(connection)

        identity = self.call.identity
        if identity is not None:
            body = json.dumps([self.call.scope.user_id, record], sort_keys=True)
            identity = replace(identity, body_hash=hashlib.sha256(body.encode()).digest())
        outcome = await once(
            self.database,
            identity,
            IdempotentOperation(
                change, ids=lambda _: [], again=again, users=lambda _: [self.call.scope.user_id]
            ),
            timeout=self.call.left(),
            trail=self.trail,
        )
        self._made.position = outcome.position

    async def _encrypt(self) -> None:
        """Turn encryption on before anything is stored."""

        async def look(connection: Connection) -> bool:
            return (await self._enter(connection.of(self.call.scope))).encrypts

        if await self.database.transact(look, timeout=self.call.left()):
            return
        sealing = await prepare_sealing(
            self.database, self.call.scope, self.keys, seconds=self.call.left()
        )

        async def turn_on(connection: Connection) -> None:
            name = "encrypt_sensitive"
            await change_settings(
                connection.of(self.call.scope),
                {name: True},
                [name],
                self.installation,
                sealing,
            )

        await self.database.transact(turn_on, timeout=self.call.left())

    async def _enter(self, user: UserRows) -> UserWriteState:
        """Hold the row of the user, and refuse one who is not the user of the export."""
        # Whoever has entered before has committed by then, and what it wrote is found.
        known = await users.lock_alone(user)
        if known.created_at == self._since:
            return known
        if await imported.holds_something(user):
            raise self._not_empty("the user holds data that is not of this export")
        # Until the user has chosen, the choice in the export counts before the installation's.
        if users.why_not_storing(known, self._wants_memory or self.installation.memory_enabled):
            raise users.memory_disabled(self.call.scope, "nothing was imported")
        return known

    def _not_empty(self, why: str) -> WrongState:
        return WrongState(
            f"{why}: import it for another user, or erase and reinstate this one first",
            reason="USER_NOT_EMPTY",
            metadata={"user_id": self.call.scope.user_id},
        )

    async def _store(self, group: Sequence[ExportedRecord]) -> None:
        """Store records of one table, all or none."""
        table = group[0].table
        rows = self._taken.referring(
            table, [self._permitted(table, each.row) for each in group if each.row is not None]
        )
        if table == "documents":
            self._expiring |= {row["document_id"] for row in rows if row["expires_at"] is not None}
        kept: Sequence[int] = range(len(rows))

        async def change(user: UserRows) -> int:
            nonlocal kept
            if table == "conversations" and await imported.begun_otherwise(user, rows):
                raise self._not_empty("the user went on with a conversation of this export")
            if await imported.holds_earlier(user, table, rows):
                raise self._not_empty(
                    "the user is held in an earlier state than that of this export"
                )
            if table in _OF_DOCUMENTS:
                kept = await self._without_expired(user, rows)
            else:
                kept = await self._taken.free(user, table, rows)
            return await write(
                user,
                table,
                [rows[index] for index in kept],
                message_vectors=self.message_vectors,
            )

        try:
            stored = await self._change(change)
        except RowRefused as refusal:
            raise group[kept[refusal.index]].refused(refusal.why) from None
        self._made.stored[table] += stored
        self._made.skipped[table] += len(kept) - stored
        self._made.left_out[table] += len(group) - len(kept)

    async def _without_expired(
        self, user: UserRows, rows: Sequence[dict[str, Any]]
    ) -> Sequence[int]:
        """The places of rows whose documents have not expired, or been handed in again, since."""
        named = sorted({row["document_id"] for row in rows} & self._expiring)
        held = await imported.headings(user, named)
        gone = (set(named) - held.keys()) | set(self._taken.documents)
        return [index for index, row in enumerate(rows) if row["document_id"] not in gone]

    def _permitted(self, table: str, row: dict[str, Any]) -> dict[str, Any]:
        """A row with what the caller may set in it, and with what is still to be learnt."""
        if table == "profiles":
            return self._permitted_profile(row)
        if table == "conversations":
            # What was accepted is learnt, by a job of this installation.
            read = self._unread.get(row["conversation_id"], row["watermark"])
            return {**row, "watermark": min(row["watermark"], read)}
        if table == "profile_versions":
            return {**row, "profile": self._permitted_profile(row["profile"])}
        return row

    def _permitted_profile(self, profile: dict[str, Any]) -> dict[str, Any]:
        found = dict(profile)
        for name, unset in _RESERVED.items():
            if profile.get(name, unset) == unset:
                continue
            try:
                self.call.principal.check_capability(PROFILES_MANAGE)
                if name == "department":
                    self.call.principal.check_department(name, str(profile[name]))
            except NotPermitted:
                found[name] = unset
                self._made.left_out[f"profiles.{name}"] += 1
        return found

    async def _change(self, work: Callable[[UserRows], Awaitable[Done]]) -> Done:
        """Run `work` in one transaction that holds the user's row."""

        async def whole(connection: Connection) -> tuple[Done, Position]:
            user = connection.of(self.call.scope)
            async with connection.transaction():
                state = await users.lock_user(user)
                if state is None or state.erased or state.created_at != self._since:
                    raise erased.was_erased(self.call.scope)
                await imported.hold_off_writers(user, seconds=_HELD_SECONDS)
                done = await work(user)
            return done, await current_position(connection)

        async def attempt() -> Done:
            made, self._made.position = await self.database.run(whole, timeout=self.call.left())
            return made

        return await with_keys(self.keys, [self.call.scope], attempt)

    async def _end(self) -> None:
        """Index the memories, and leave to jobs and sweeps what is unread or to be sealed."""
        if self._since is None:
            # Nothing to import. The user is left as known or unknown as before.

            async def check(user: UserRows) -> None:
                await users.hold_off_erase(user)

            await self._once(check, {})
            return
        last: UUID | None = UUID(int=0)

        async def index(user: UserRows) -> UUID | None:
            assert last is not None
            return await index_memories(user, after=last)

        while last is not None:
            last = await self._change(index)

        async def leave(user: UserRows) -> None:
            await mentions.recount(user, [], also=self._taken.entities)
            await read_left(user, self.queue)
            if (await users.encryption_of(user)).on:
                await users.leave_to_seal(user)
            await imported.hold_off_writers(user, seconds=None)

        await self._change(leave)

    async def _release(self, connection: Connection) -> None:
        """Let others write about the user again, if it still is the one of the export."""
        user = connection.of(self.call.scope)
        state = await users.lock_user(user)
        if state is not None and state.created_at == self._since:
            await imported.hold_off_writers(user, seconds=None)


def _fits(group: Sequence[ExportedRecord], record: ExportedRecord) -> bool:
    return (
        record.table == group[0].table
        and len(group) < GROUP_RECORDS
        and sum(each.size for each in group) + record.size <= GROUP_BYTES
    )
