"""Erases a user for good (H2): a fence first, then everything row by row, last the user's own row.

The fence is `users.erased_at`, set under the user's lock with the mark, a keyed hash: from then on
writes are refused and reads are empty. Bounded transactions count what they delete on the receipt;
the last signs it. Then the data key is erased, which makes sealed text in backups unreadable. The
profile stays until the last step: it holds the department, and so decides who may continue.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TypeVar
from uuid import UUID

from hitherto_extraction.once import (
    IdempotentOperation,
    IdempotentResult,
    UserCall,
    first_ids,
    once,
)
from hitherto_extraction.queue import cancelling
from hitherto_extraction.queue.jobs import announce
from hitherto_extraction.storage import erased, erasure, holdings, users
from hitherto_extraction.storage.erasure import Receipt, RowsRemain
from hitherto_extraction.storage.idempotency import Identity
from hitherto_shared import metrics
from hitherto_shared.audit.trail import Trail
from hitherto_shared.database.pool import Connection, Database, countdown
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.encryption.user_keys import UserKeys
from hitherto_shared.errors import AlreadyExists, Conflict, WrongState
from hitherto_shared.identifiers import uuid7
from hitherto_shared.models import Scope
from hitherto_shared.signing import Signer
from hitherto_shared.user_hash import hash_key_id, user_hash

BATCH = 1_000
"""Number of rows deleted in one transaction."""
_ROUNDS = 20
"""Maximum passes over all tables for rows written during the deletion."""

Done = TypeVar("Done")


@dataclass(frozen=True, slots=True)
class Erasing:
    """Erases and reinstates. `removal` is the database with the role hitherto_removal.

    Neither the user of a call nor its idempotency key is stored in clear.
    """

    removal: Database
    signer: Signer
    trail: Trail
    keys: UserKeys

    async def erase(self, call: UserCall, *, timeout: float) -> IdempotentResult[Receipt]:
        """Erase a user, or return the receipt of the completed erasure.

        What `timeout` does not allow for is left for the next call.

        Raises:
            AlreadyExists: The idempotency key was used for another body.
            Conflict: Other transactions kept writing; the next call continues.
        """
        left = countdown(timeout)
        scope, identity = call.scope, self._hidden(call.identity)

        async def step(work: Callable[[Connection], Awaitable[Done]]) -> Done:
            return await self.removal.transact(work, timeout=left())

        async def change(connection: Connection) -> Receipt:
            return await erasure.hold(connection.of(scope), receipt.receipt_id)

        async def again(connection: Connection, ids: Sequence[str]) -> Receipt:
            return await erasure.hold(connection.of(scope), UUID(ids[0]))

        with _naming_the_key(call.identity):
            receipt = await step(lambda connection: self._begin(connection.of(scope), identity))
            if receipt.erased_at is None:
                await self._empty(step, scope, receipt.receipt_id)
            # In a repeated call, the erasure may have been interrupted between its end and this
            # step.
            await step(lambda connection: self._erase_key(connection.of(scope), receipt.receipt_id))
            return await once(
                self.removal,
                identity,
                IdempotentOperation(change, again, ids=lambda made: [str(made.receipt_id)]),
                timeout=left(),
            )

    async def reinstate(self, call: UserCall, *, timeout: float) -> IdempotentResult[bool]:
        """Permit writes about an erased user again; False if they were permitted already.

        Raises:
            AlreadyExists: The idempotency key was used for another body.
            WrongState: The erasure has not ended yet.
        """
        scope = call.scope

        async def change(connection: Connection) -> bool:
            # Writers about the user read the mark without locking it.
            user = connection.of(scope)
            await erased.keep_all_out(user)
            receipt = await erasure.find_mark(user, self._hash_of(scope))
            if receipt is None:
                return False
            if receipt.erased_at is None:
                raise WrongState(
                    "the erasure of this user was interrupted: call EraseUser once more, then "
                    "ReinstateUser",
                    reason="USER_ERASED",
                    metadata={"user_id": scope.user_id},
                )
            # No earlier text may be opened with the new key of a returning user.
            await self.keys.erase(scope.tenant_id, scope.user_id)
            await erasure.reinstate(user, receipt.receipt_id)
            return True

        async def again(_connection: Connection, ids: Sequence[str]) -> bool:
            return bool(ids)

        with _naming_the_key(call.identity):
            return await once(
                self.removal,
                self._hidden(call.identity),
                IdempotentOperation(
                    change,
                    again,
                    ids=lambda made: ["reinstated"] if made else [],
                    touched=lambda _: {scope.user_id: []},
                ),
                timeout=timeout,
                trail=self.trail,
            )

    async def _begin(self, user: UserRows, identity: Identity | None) -> Receipt:
        """The receipt for this idempotency key, or of the completed, running or new erasure."""
        first = await first_ids(user.connection, identity)
        if first is not None:
            return await erasure.hold(user, UUID(first[0]))
        await erased.keep_all_out(user)
        marked = await erasure.find_mark(user, self._hash_of(user.scope))
        if marked is not None and marked.erased_at is not None:
            return marked
        receipt_id = uuid7() if marked is None else marked.receipt_id
        await self.trail.note_call(user.connection, {user.scope.user_id: [str(receipt_id)]})
        if marked is not None:
            return marked
        await erasure.begin(
            user,
            receipt_id,
            user_hash=self._hash_of(user.scope),
            hash_key_id=hash_key_id(self.trail.key),
        )
        return await erasure.hold(user, receipt_id)

    async def _empty(
        self,
        step: Callable[[Callable[[Connection], Awaitable[bool]]], Awaitable[bool]],
        scope: Scope,
        receipt_id: UUID,
    ) -> None:
        """Delete table by table until nothing is left.

        Other transactions may add rows meanwhile.
        """

        async def in_one(connection: Connection, table: str) -> bool:
            return await self._remove_some(connection.of(scope), receipt_id, table)

        tables: list[str] = []

        async def find(connection: Connection) -> bool:
            tables.extend(await holdings.find_erasable(connection))
            return True

        await step(find)
        for _ in range(_ROUNDS):
            try:
                for table in _in_order(tables):
                    while await step(lambda connection: in_one(connection, table)):  # noqa: B023
                        pass
                await step(lambda connection: self._close(connection.of(scope), receipt_id, tables))
                return
            except RowsRemain:
                continue
        raise Conflict(
            "other writers kept writing during the erasure: call EraseUser again to continue",
            reason="WRITE_CONFLICT",
            retry_after=1.0,
        )

    async def _remove_some(self, user: UserRows, receipt_id: UUID, table: str) -> bool:
        """One step in one table; False if nothing was left in it."""
        held = await erasure.hold(user, receipt_id)
        if held.erased_at is not None:
            return False
        if table == erasure.JOBS:
            await erasure.remove_keys(user, receipt_id)
            return await self._remove_jobs(user, receipt_id)
        removed = await erasure.remove_some(user, receipt_id, table, limit=BATCH)
        return removed > 0

    async def _remove_jobs(self, user: UserRows, receipt_id: UUID) -> bool:
        removed = await cancelling.remove_some(user, limit=BATCH)
        if removed:
            await erasure.count(user, receipt_id, erasure.JOBS, len(removed))
        for job_id in removed:
            await announce(user.connection, str(job_id))
        return bool(removed)

    async def _close(self, user: UserRows, receipt_id: UUID, tables: Sequence[str]) -> bool:
        """Delete the profile, the user's name in others' histories and the user's row, and sign.

        `RowsRemain` is raised if new rows were written in between.
        """
        held = await erasure.hold(user, receipt_id)
        if held.erased_at is not None:
            return True
        # Access by department requires the profile: until here, the caller may also continue.
        await erasure.remove_some(user, receipt_id, erasure.PROFILES, limit=BATCH)
        await erased.unname(user)
        # Waits for all transactions that hold the row; afterwards nobody can name the user.
        await erasure.remove_user(user)
        await erasure.remove_keys(user, receipt_id)
        while await self._remove_jobs(user, receipt_id):
            pass
        for table in (erasure.USAGE, erasure.CREDENTIALS):
            while await erasure.remove_some(user, receipt_id, table, limit=BATCH):
                pass
        # As with the profile: until here, a credential with a list of users may also continue.
        await erasure.leave_lists(user, receipt_id)
        await erasure.require_none_left(user, tables)
        for table in tables:
            # Also those that held nothing.
            await erasure.count(user, receipt_id, table, 0)
        ended = replace(
            await erasure.hold(user, receipt_id),
            erased_at=await users.database_now(user.connection),
        )
        payload = signed_payload(self.signer, ended)
        signed = replace(
            ended,
            signed_payload=payload,
            signature=self.signer.sign(payload.encode()),
            key_id=self.signer.key_id,
        )
        await erasure.complete(user, signed)
        user.connection.once_committed(metrics.ERASURES.labels("user").inc)
        return True

    async def _erase_key(self, user: UserRows, receipt_id: UUID) -> None:
        """Erase the user's data key, unless the user was reinstated and may have a new one."""
        held = await erasure.hold(user, receipt_id)
        if held.erased_at is not None and held.reinstated_at is None:
            await self.keys.erase(user.scope.tenant_id, user.scope.user_id)

    def _hash_of(self, scope: Scope) -> str:
        return user_hash(self.trail.key, scope.tenant_id, scope.user_id)

    def _hidden(self, identity: Identity | None) -> Identity | None:
        """The caller's identity as keyed hashes: its body names the user, and its key may."""
        if identity is None:
            return None
        named = hmac.new(self.trail.key, b"idempotency\0" + identity.key.encode(), hashlib.sha256)
        body = hmac.new(self.trail.key, b"body\0" + identity.body_hash, hashlib.sha256)
        return replace(identity, key=named.hexdigest(), body_hash=body.digest())


@contextmanager
def _naming_the_key(identity: Identity | None) -> Iterator[None]:
    """Names the idempotency key as sent, in the error about its reuse."""
    try:
        yield
    except AlreadyExists as error:
        if identity is not None:
            error.metadata["idempotency_key"] = identity.key
        raise


def signed_payload(signer: Signer, receipt: Receipt) -> str:
    """The signed text: JSON with sorted keys, no spaces, ASCII only."""
    assert receipt.erased_at is not None
    return json.dumps(
        {
            "counts": dict(receipt.counts),
            "erased_at": _moment(receipt.erased_at),
            "id": str(receipt.receipt_id),
            "key_id": signer.key_id,
            "public_key": signer.public_key.hex(),
            "type": "hitherto.v1.EraseReceipt",
            "user_hash": receipt.user_hash,
        },
        sort_keys=True,
        separators=(",", ":"),
    )


def _moment(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _in_order(tables: Sequence[str]) -> list[str]:
    """Jobs first, then what waits to be told, which would take the turns of others.

    Credentials, the profile and the user's row are for the last step.
    """
    first = (erasure.JOBS, erasure.DELIVERIES)
    last = (erasure.USERS, erasure.CREDENTIALS, erasure.PROFILES)
    return [*first, *(table for table in tables if table not in (*first, *last))]
