"""Counts memory accesses (D11) and the tokens of embedded queries (B14), off the request path.

Reading never stops for lack of budget: what a query costs is charged like everything else and
leaves less for the work that can wait.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from hitherto_retrieval.storage.access import count_access, count_questions
from hitherto_shared.database.counts import Counts
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.embeddings.protocol import EmbeddingBatch
from hitherto_shared.models import Scope

_Access = tuple[str, int]
"""User and memory, whose number is hashed at once, unlike a UUID."""
_CALLS, _TOKENS = "calls", "tokens"
_QueryCount = tuple[str, str]
"""Model, and the counted quantity."""


class AccessCounter:
    """Collects and writes counts. The database is the primary, even if reads go to a replica."""

    def __init__(self, database: Database) -> None:
        self._counts: Counts[_Access] = Counts(
            database, _write_accesses, logging.getLogger("hitherto.accesses"), "access counts"
        )
        self.start = self._counts.start
        self.stop = self._counts.stop

    def returned(self, scope: Scope, memory_ids: Iterable[UUID]) -> None:
        """Record that an answer contained memories."""
        self._counts.add(scope.tenant_id, [(scope.user_id, each.int) for each in memory_ids])


async def _write_accesses(
    connection: Connection, tenant_id: str, counts: Mapping[_Access, int]
) -> None:
    returned = [(user, UUID(int=number), times) for (user, number), times in counts.items()]
    await count_access(connection, tenant_id, returned)


class QueryUsageCounter:
    """Collects and writes the counts.

    The database is the primary, even if reads go to a replica.
    """

    def __init__(self, database: Database) -> None:
        self._counts: Counts[_QueryCount] = Counts(
            database,
            _write_queries,
            logging.getLogger("hitherto.usage"),
            "counts of embedded questions",
        )
        self.start = self._counts.start
        self.stop = self._counts.stop

    def embedded(self, model: str, batch: EmbeddingBatch, texts: Sequence[tuple[str, str]]) -> None:
        """Record a model call.

        Args:
            model: The model.
            batch: Its reply.
            texts: Each with the tenant that requested it first. Tokens are divided by length; the
                call itself counts once, for the tenant with the most text.
        """
        sizes: Counter[str] = Counter()
        for tenant_id, text in texts:
            sizes[tenant_id] += max(1, len(text))
        calls, tokens, size = batch.calls, batch.tokens, sizes.total()
        for tenant_id, part in sizes.most_common():
            share = round(tokens * part / size)
            tokens, size = tokens - share, size - part
            self._counts.add(tenant_id, {(model, _CALLS): calls, (model, _TOKENS): share})
            calls = 0


async def _write_queries(
    connection: Connection, tenant_id: str, counts: Mapping[_QueryCount, int]
) -> None:
    used: dict[str, dict[str, int]] = {}
    for (model, what), number in counts.items():
        used.setdefault(model, {_CALLS: 0, _TOKENS: 0})[what] += number
    async with connection.transaction():
        for model, each in sorted(used.items()):
            await count_questions(connection, tenant_id, model, **each)
