"""Indexes the messages and summaries that no job has indexed.

A job indexes the messages it reads. A message whose job is dead or cancelled, waits for long, or is
not due yet was accepted all the same: a quarter of an hour after its arrival it is indexed without
its job, which skips it later. The same applies to messages stored before the index existed.
"""

from __future__ import annotations

from collections import defaultdict

from hitherto_extraction.storage import message_passages, passages, summary_index, users
from hitherto_extraction.storage.message_passages import MessageWords
from hitherto_extraction.transcripts import index_messages
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.models import Scope
from hitherto_shared.text.terms import count_terms

WAIT_SECONDS = 900.0
"""Time for which a message waits for its job; longer than the default silence after which a
conversation is extracted."""
_MESSAGES = 256
_SUMMARIES = 64
_SECONDS = 30.0


class Backlog:
    """Indexes by words, user by user. The database role is hitherto_maintenance."""

    def __init__(self, database: Database, *, message_vectors: bool) -> None:
        """Work on `database`; with `message_vectors`, indexed messages also wait for a vector."""
        self._database = database
        self._message_vectors = message_vectors

    async def run(self) -> int:
        """Index one batch of messages and one of summaries; returns their number."""
        return await self._messages() + await self._summaries()

    async def _messages(self) -> int:
        left = await self._database.run(
            lambda connection: message_passages.find_left(
                connection, seconds=WAIT_SECONDS, limit=_MESSAGES
            ),
            timeout=_SECONDS,
            repeatable=True,
        )
        by_user: defaultdict[Scope, list[MessageWords]] = defaultdict(list)
        for message in left:
            by_user[message.scope].append(message)
        indexed = 0
        for scope, messages in by_user.items():
            indexed += await self._database.run(
                lambda connection: self._index_messages(connection, scope, messages),  # noqa: B023
                timeout=_SECONDS,
            )
        return indexed

    async def _index_messages(
        self, connection: Connection, scope: Scope, messages: list[MessageWords]
    ) -> int:
        async with connection.transaction():
            state = await users.lock_user(connection, scope)
            if state is None or state.erased:
                return 0
            return await index_messages(connection, scope, messages, vectors=self._message_vectors)

    async def _summaries(self) -> int:
        left = await self._database.run(
            lambda connection: summary_index.find_left(connection, limit=_SUMMARIES),
            timeout=_SECONDS,
            repeatable=True,
        )
        by_user: defaultdict[Scope, list[str]] = defaultdict(list)
        for scope, conversation_id in left:
            by_user[scope].append(conversation_id)
        indexed = 0
        for scope, conversation_ids in by_user.items():
            indexed += await self._database.run(
                lambda connection: _index_summaries(connection, scope, conversation_ids),  # noqa: B023
                timeout=_SECONDS,
            )
        return indexed


async def _index_summaries(
    connection: Connection, scope: Scope, conversation_ids: list[str]
) -> int:
    async with connection.transaction():
        state = await users.lock_user(connection, scope)
        if state is None or state.erased:
            return 0
        left = await summary_index.unindexed(connection, scope, conversation_ids)
        counted = [count_terms(summary.text) for summary in left]
        numbers = await passages.add(connection, scope, passages.SUMMARIES, counted)
        await summary_index.number(
            connection,
            scope,
            {
                summary.conversation_id: (number, terms.total())
                for summary, number, terms in zip(left, numbers, counted, strict=True)
            },
        )
        return len(left)
