"""Indexes the messages and summaries that no job has indexed.

A job indexes the messages it reads. A message whose job is dead or cancelled, waits for long, or is
not due yet was accepted all the same: a quarter of an hour after its arrival it is indexed without
its job, which skips it later. The same applies to messages stored before the index existed.
"""

from __future__ import annotations

from collections import defaultdict

from hitherto_extraction.storage import users
from hitherto_extraction.storage.corpora import index
from hitherto_extraction.storage.corpora.corpus import ItemKey, SpokenCorpus
from hitherto_extraction.storage.corpora.messages import MESSAGES
from hitherto_extraction.storage.corpora.summaries import SUMMARIES
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.models import Scope

WAIT_SECONDS = 900.0
"""Time for which a message waits for its job; longer than the default silence after which a
conversation is extracted."""
_AT_ONCE = 256
_SECONDS = 30.0


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
        left = await self._database.run(
            lambda connection: index.find_left(
                connection, corpus, seconds=WAIT_SECONDS, limit=_AT_ONCE
            ),
            timeout=_SECONDS,
            repeatable=True,
        )
        by_user: defaultdict[Scope, list[ItemKey]] = defaultdict(list)
        for scope, key in left:
            by_user[scope].append(key)
        indexed = 0
        for scope, keys in by_user.items():
            indexed += await self._database.run(
                lambda connection: self._of_user(connection, scope, corpus, keys),  # noqa: B023
                timeout=_SECONDS,
            )
        return indexed

    async def _of_user(
        self, connection: Connection, scope: Scope, corpus: SpokenCorpus, keys: list[ItemKey]
    ) -> int:
        async with connection.transaction():
            state = await users.lock_user(connection, scope)
            if state is None or state.erased:
                return 0
            return await index.index_unindexed(
                connection, scope, corpus, keys, embedded=self._embedded[corpus]
            )
