"""Seals what users with encryption on still have in clear (H3): the sweep, and its steps.

It runs in short transactions under the user's lock, with a bounded number of rows each, and with
the role hitherto_removal. An interrupted sweep continues where it was: a user is done only once
nothing is found at all. With encryption off, a step looks only at what belongs to memories that are
sealed already.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from uuid import UUID

from hitherto_extraction.budget import Budget, BudgetSpent
from hitherto_extraction.pipeline.backfill import KIND, NO_JOB
from hitherto_extraction.pipeline.embedding_loop import BATCH, EmbeddedBatch, embed_next
from hitherto_extraction.pipeline.message_removal import reindex
from hitherto_extraction.prices import Prices
from hitherto_extraction.storage import (
    keyword_index,
    ledger,
    reindexing,
    removal,
    sealed_memories,
    sealing,
    told_words,
    users,
)
from hitherto_extraction.storage.corpora import index
from hitherto_extraction.storage.corpora.corpus import EmbeddableText, SpokenCorpus
from hitherto_extraction.storage.corpora.messages import MESSAGES
from hitherto_extraction.storage.corpora.summaries import SUMMARIES
from hitherto_extraction.storage.sealing import Rows
from hitherto_shared.database import faults
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.database.tenancy import acting_for
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.embeddings.protocol import Embedder
from hitherto_shared.encryption.at_hand import key_at_hand, keys_at_hand
from hitherto_shared.encryption.failures import KeyServiceUnavailable, KeyUnavailable
from hitherto_shared.encryption.user_keys import UserKeys
from hitherto_shared.model_api import ModelError
from hitherto_shared.models import Scope

logger = logging.getLogger("hitherto.sealing")

_USERS = 100
_ROWS = 100
_AT_ONCE = {"conversation_summaries": 20}
_SECONDS = 30.0
_NOBODY = ("", "")


class _RowsBusy(Exception):
    """Rows are in use at this moment; the step is repeated later."""


async def seal_table(user: UserRows, table: str, *, limit: int = _ROWS) -> int:
    """Seal rows of a table that stand in clear, and take their words out of the indexes."""
    rows = await sealing.find_clear(user, table, limit=limit)
    if rows and table in _BEFORE:
        rows = await _BEFORE[table](user, rows)
    if rows:
        await sealing.seal(user, table, rows)
    if rows and table == "messages":
        await _forget_words(user, rows)
    return len(rows)


async def _number_anew(user: UserRows, rows: Rows) -> Rows:
    """Lock memories, and give each a new number in the keyword index.

    Under the old number its words belong to nothing, and are swept.
    """
    locked = set(await _lock_free(user, [row["memory_id"] for row in rows]))
    rows = [row for row in rows if row["memory_id"] in locked]
    terms = sum(row["lexical_length"] for row in rows)
    before = await keyword_index.reserve_numbers(user, texts=len(rows), documents=0, terms=-terms)
    return [
        {**row, "lexical_no": number, "lexical_length": 0}
        for number, row in enumerate(rows, before + 1)
    ]


async def _unindex(corpus: SpokenCorpus, user: UserRows, rows: Rows) -> Rows:
    # A summary has no number: it leaves the index whatever the version of its words.
    keys = [(row["conversation_id"], row.get("message_no", 0)) for row in rows]
    await index.drop(user, corpus, keys)
    return rows


_BEFORE: dict[str, Callable[[UserRows, Rows], Awaitable[Rows]]] = {
    "memories": _number_anew,
    "messages": partial(_unindex, MESSAGES),
    "conversation_summaries": partial(_unindex, SUMMARIES),
}
"""What is done with rows while they are in clear; returns those to be sealed."""


async def _forget_words(user: UserRows, messages: Rows) -> None:
    """Remove the words of messages from what the index of memories holds of them."""
    said = [(row["conversation_id"], row["message_id"]) for row in messages]
    learnt = await sealing.learnt_from(user, said)
    await removal.delete_source_vectors(user, learnt)
    await reindex(user, learnt, sweep=False)


async def _move_vectors(user: UserRows) -> int:
    """Move the vectors of sealed memories to where only the key opens them."""
    locked = await _lock_free(user, await sealing.with_clear_vectors(user, limit=_ROWS))
    for memory_id in locked:
        found = await sealed_memories.clear_vectors(user, memory_id)
        for model, vector, text_version in found:
            await sealed_memories.write_vector(
                user, memory_id, vector, model=model, text_version=text_version
            )
    if locked:
        await removal.delete_vectors(user, locked)
    return len(locked)


async def _forget_mentions(user: UserRows) -> int:
    """Remove the mentions of sealed memories."""
    found = await sealing.with_mentions(user, limit=_ROWS)
    if found:
        await removal.forget_mentions(user, found)
    return len(found)


_STEPS: Sequence[Callable[[UserRows], Awaitable[int]]] = (
    *(
        partial(seal_table, table=table, limit=_AT_ONCE.get(table, _ROWS))
        for table in sealing.CLEAR
    ),
    _move_vectors,
    _forget_mentions,
    partial(told_words.drop_told_words, limit=_ROWS),
)


async def _clean_indexes(user: UserRows) -> None:
    """Delete the rest of words and vectors, once no step finds anything."""
    await reindexing.sweep_postings(user)
    await removal.drop_unused_tags(user)
    await sealing.delete_summary_vectors(user)


async def _clean_quotes(user: UserRows) -> None:
    """Delete what may quote messages, of a user with encryption on."""
    if (await users.encryption_of(user)).on:
        await removal.delete_source_vectors(user)
        await removal.drop_excerpts(user)


async def _lock_free(user: UserRows, found: list[UUID]) -> list[UUID]:
    """Those of the memories that could be locked."""
    if not found:
        return []
    locked = await removal.lock_memories(user, found)
    if not locked:
        raise _RowsBusy
    return locked


@dataclass(frozen=True, slots=True)
class SealedVectors:
    """Embeds sealed memories within the budget; the caller acts for the user's tenant."""

    removal: Database
    embedder: Embedder
    prices: Prices
    budget: Budget

    async def fill(self, scope: Scope) -> bool:
        """Embed memories without a vector; False if that waits for the embedder or the budget.

        A text that the embedder refuses is given up and found by its words. So is one that the key
        does not open.
        """
        texts: Sequence[EmbeddableText] = ()

        async def find(connection: Connection) -> Sequence[EmbeddableText]:
            found = await sealed_memories.without_vector(
                connection.of(scope),
                self.embedder.name,
                after=UUID(texts[-1].key[2]) if texts else UUID(int=0),
                limit=BATCH,
            )
            if found and not self.embedder.offline:
                await self.budget.require(connection, scope.tenant_id, KIND)
            return found

        async def keep(connection: Connection, made: EmbeddedBatch[EmbeddableText]) -> None:
            await sealed_memories.write_vectors(
                connection.of(scope), made.vectors, model=made.model
            )
            if made.calls:
                charge = self.prices.embedding_charge(made.model, made.calls, made.tokens)
                await ledger.charge_tenant(connection, scope.tenant_id, NO_JOB, KIND, [charge])

        try:
            while texts := await embed_next(self.removal, self.embedder, find, keep):
                pass
        except (ModelError, BudgetSpent) as error:
            logger.info("vectors of sealed memories are waiting: %s", error)
            return False
        return True


@dataclass(slots=True)
class SealingSweep:
    """Seals rows in clear, user by user: finds users with `maintenance`, seals with `removal`."""

    maintenance: Database
    removal: Database
    keys: UserKeys
    vectors: SealedVectors
    _moved: tuple[str, datetime] | None = None

    async def run(self) -> int:
        """Seal what is left of all users; returns how many are done.

        A user whose key is unavailable, or whose rows are in use, is left for the next run.
        """
        self._moved = await self.maintenance.run(
            partial(sealing.leave_without_vectors, done=self._moved), timeout=_SECONDS
        )
        done, after = 0, _NOBODY
        while found := await self._find(after):
            after = found[-1].tenant_id, found[-1].user_id
            for scope in found:
                with acting_for(scope.tenant_id):
                    done += await self._seal_user(scope)
        return done

    async def _find(self, after: tuple[str, str]) -> list[Scope]:
        return await self.maintenance.run(
            lambda connection: sealing.find_users(connection, after=after, limit=_USERS),
            timeout=_SECONDS,
            repeatable=True,
        )

    async def _seal_user(self, scope: Scope) -> bool:
        # An error of one user; the others do not wait for it.
        with faults.Tolerated(logger, "sealing of a user postponed"):
            try:
                with keys_at_hand(await self.keys.open(scope.tenant_id, scope.user_id)):
                    return await self._seal(scope)
            except (KeyUnavailable, KeyServiceUnavailable) as error:
                # The database identifies the user: users.to_seal.
                logger.warning(
                    "a user's sensitive text stays in clear until the key is available: %s",
                    error.reason,
                )
            except _RowsBusy:
                logger.info("rows to seal are in use; retrying later")
        return False

    async def _seal(self, scope: Scope) -> bool:
        rows = 0
        while changed := await self.removal.transact(
            lambda connection: self._first_change(connection.of(scope)), timeout=_SECONDS
        ):
            rows += changed
        left = await self.removal.run(
            lambda connection: sealing.count_left(connection.of(scope)), timeout=_SECONDS
        )
        # Before the vectors: nothing in clear may wait for an unavailable embedder.
        for cleaning in (_clean_indexes, _clean_quotes):
            await self._clean(scope, cleaning)
        if not await self.vectors.fill(scope):
            return False
        settled = await self._settle(scope, left)
        if settled:
            logger.info("sealed the remaining clear text of a user", extra={"rows": rows})
        return settled

    async def _clean(self, scope: Scope, cleaning: Callable[[UserRows], Awaitable[object]]) -> None:
        async def work(connection: Connection) -> None:
            user = connection.of(scope)
            state = await users.lock_user(user)
            if state is not None and not state.erased:
                await cleaning(user)

        await self.removal.transact(work, timeout=_SECONDS)

    async def _settle(self, scope: Scope, left: int) -> bool:
        """Check again, and record that nothing is left; False if something is."""

        async def work(connection: Connection) -> bool:
            user = connection.of(scope)
            if await self._first_change(user):
                return False
            state = await users.read_user(user)
            if state is None or state.erased:
                return False
            return await sealing.settle(user, left=left)

        return await self.removal.transact(work, timeout=_SECONDS)

    async def _first_change(self, user: UserRows) -> int:
        """Lock the user and run the first step that finds something."""
        state = await users.lock_user(user)
        if state is None or state.erased:
            return 0
        if state.key_id != key_at_hand(user.scope).key_id:
            # Encryption was turned on with another key since this one was opened.
            raise _RowsBusy
        for step in _STEPS:
            if changed := await step(user):
                return changed
        return 0
