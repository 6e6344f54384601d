"""Back-fills vectors after an embedder outage, and indexes messages that no job has indexed.

A message whose job is dead or cancelled, or waits, was accepted all the same: a quarter of an hour
after its arrival it is indexed without its job, which skips it later.
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from uuid import UUID

from hitherto_extraction.budget import Budget
from hitherto_extraction.pipeline.embedding_charges import affords, shared_out
from hitherto_extraction.pipeline.embedding_loop import BATCH, EmbeddedBatch, embed_next
from hitherto_extraction.prices import Prices, load_prices
from hitherto_extraction.storage import ledger, reembedding, schedules, users
from hitherto_extraction.storage.corpora import index, vectors
from hitherto_extraction.storage.corpora.corpus import (
    EmbeddableText,
    EmbeddedCorpus,
    ItemKey,
    SpokenCorpus,
)
from hitherto_extraction.storage.corpora.messages import MESSAGES
from hitherto_extraction.storage.corpora.summaries import SUMMARIES
from hitherto_shared.database import faults
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.embeddings.active_embedder import registered_length
from hitherto_shared.embeddings.protocol import Embedder
from hitherto_shared.model_api import ModelError
from hitherto_shared.models import Scope

logger = logging.getLogger("hitherto.backfill")

KIND = "reembedding"
NO_JOB = UUID(int=0)
"""The job id in the ledger for work outside jobs."""
WAIT_SECONDS = 900.0
"""Time for which a message waits for its job; longer than the default silence after which a
conversation is extracted."""
_TURN_SECONDS = 60.0
"""Time for which the other processes leave a corpus to one that embeds a batch of it, or has died.
If it needs longer, they embed and pay the same texts again."""
_AT_ONCE = 256
_SECONDS = 30.0


@dataclass(eq=False)
class Backfill:
    """Embeds waiting texts, the oldest first. The database role is hitherto_maintenance.

    Without `message_vectors`, messages that no job has indexed are found by their words only.
    """

    database: Database
    embedder: Embedder
    prices: Prices = field(default_factory=lambda: load_prices(None))
    _: KW_ONLY
    message_vectors: bool = True
    budget: Budget = field(default_factory=Budget)

    async def run(self) -> int:
        """Index and embed one batch of waiting texts; returns how many are settled.

        A text that the embedder refuses while it accepts others is given up: it is found by its
        words only, and does not block others.
        """
        backlog = Backlog(self.database, message_vectors=self.message_vectors)
        done = await backlog.run()
        await self.database.run(reembedding.await_recent, timeout=_SECONDS)
        for corpus in vectors.CORPORA:
            done += await self._fill(corpus)
        return done

    async def _fill(self, corpus: EmbeddedCorpus) -> int:
        done, work = 0, f"vectors of {corpus.name}"
        turn: datetime | None = None

        async def find(connection: Connection) -> Sequence[EmbeddableText]:
            nonlocal turn
            found = await self._waiting(connection, corpus)
            if found and turn is None:
                # If the answer is lost, the repetition finds the turn taken: all wait for its end.
                turn = await schedules.take_turn(connection, work, seconds=_TURN_SECONDS)
                # Read again: by now others may have embedded what waited.
                found = await self._waiting(connection, corpus)
            return found if turn is not None else ()

        async def keep(connection: Connection, made: EmbeddedBatch[EmbeddableText]) -> None:
            nonlocal done
            done = 0
            length = await registered_length(connection, made.model)
            await vectors.write(connection, corpus, made.vectors, model=made.model, length=length)
            for texts, state in ((made.vectors, "stored"), (made.refused, "refused")):
                done += await vectors.settle(
                    connection, corpus, texts, model=made.model, state=state
                )

        try:
            await embed_next(self.database, self.embedder, find, keep, charge=self._charge)
        except ModelError as error:
            logger.info("vectors are still waiting for the embedder: %s", error)
        finally:
            if (mine := turn) is not None:
                with faults.Tolerated(logger, "the turn at vectors ends later"):
                    await self.database.run(
                        lambda connection: schedules.end_turn(connection, work, mine),
                        timeout=_SECONDS,
                    )
        return done

    async def _waiting(
        self, connection: Connection, corpus: EmbeddedCorpus
    ) -> Sequence[EmbeddableText]:
        """A batch of waiting texts, without tenants whose budget for today is spent."""
        spent: set[str] = set()
        bounded = self.budget.limits(KIND) and not self.embedder.offline
        while True:
            found = await vectors.find_pending(
                connection, corpus, limit=BATCH, without=sorted(spent)
            )
            tenants = {text.scope.tenant_id for text in found} if bounded else set()
            over = {
                tenant_id
                for tenant_id in tenants
                if not await affords(connection, self.budget, tenant_id, KIND)
            }
            if not over:
                return found
            spent |= over

    async def _charge(self, connection: Connection, made: EmbeddedBatch[EmbeddableText]) -> None:
        """Charge the tenants of the texts, in proportion."""
        sizes: Counter[str] = Counter()
        for text in made.vectors:
            sizes[text.scope.tenant_id] += sum(map(len, text.contents))
        charges = shared_out(made, sizes, made.model, self.prices)
        for tenant_id, charge in sorted(charges.items()):
            await ledger.charge_tenant(connection, tenant_id, NO_JOB, KIND, [charge])


class Backlog:
    """Indexes by words, user by user. The database role is hitherto_maintenance."""

    def __init__(self, database: Database, *, message_vectors: bool) -> None:
        """Work on `database`; with `message_vectors`, indexed messages also wait for a vector."""
        self._database = database
        self._embedded = {MESSAGES: message_vectors, SUMMARIES: True}

    async def run(self) -> int:
        """Index one batch of messages and one of summaries; returns their number."""
        return sum([await self._index(corpus) for corpus in self._embedded])

    async def _index(self, corpus: SpokenCorpus) -> int:
        """Index a batch; what fails of some users is replaced by texts of others."""
        indexed, failed = 0, set[Scope]()
        while True:
            left = await self._database.run(
                lambda connection: index.find_left(
                    connection, corpus, seconds=WAIT_SECONDS, limit=_AT_ONCE, without=failed
                ),
                timeout=_SECONDS,
                repeatable=True,
            )
            by_user: defaultdict[Scope, list[ItemKey]] = defaultdict(list)
            for scope, key in left:
                by_user[scope].append(key)
            failed_before = len(failed)
            for scope, keys in by_user.items():
                failed.add(scope)
                with faults.Tolerated(logger, "texts of a user are indexed later"):
                    indexed += await self._database.transact(
                        lambda connection: self._of_user(connection.of(scope), corpus, keys),  # noqa: B023
                        timeout=_SECONDS,
                    )
                    failed.remove(scope)
            if len(failed) == failed_before:
                return indexed

    async def _of_user(self, user: UserRows, corpus: SpokenCorpus, keys: list[ItemKey]) -> int:
        state = await users.lock_user(user)
        if state is None or state.erased:
            return 0
        return await index.index_unindexed(user, corpus, keys, embedded=self._embedded[corpus])
