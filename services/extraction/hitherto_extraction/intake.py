"""Accepts messages durably: messages, their numbers and their jobs in one transaction.

A batch is all or nothing. Sending it again changes nothing: message ids identify what is already
stored, an idempotency key replays the first outcome.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace

from hitherto_extraction.job_calls import Accepted, JobCalls
from hitherto_extraction.queue import jobs
from hitherto_extraction.storage import conversations, settings, users
from hitherto_extraction.storage.conversations import Counters, IncomingMessage
from hitherto_extraction.storage.corpora import index
from hitherto_extraction.storage.corpora.messages import MESSAGES
from hitherto_extraction.storage.idempotency import Identity
from hitherto_extraction.transcripts import (
    IncomingTranscript,
    Stored,
    latest_time,
    store_messages,
)
from hitherto_extraction.user_key import with_keys
from hitherto_shared.database.pool import Connection
from hitherto_shared.database.together import together
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.encryption.user_keys import UserKeys
from hitherto_shared.models import Job, Scope


@dataclass(eq=False)
class Intake(JobCalls):
    """Accepts messages into the database behind `database` (role hitherto_write).

    The settings say when and how jobs are created; docs/configuration.md describes the variables.
    """

    keys: UserKeys | None = None
    _: KW_ONLY
    memory_enabled: bool
    extract_every: int
    debounce_seconds: float
    message_vectors: bool = True

    async def submit(
        self,
        tenant_id: str,
        transcripts: Sequence[IncomingTranscript],
        identity: Identity | None,
        *,
        timeout: float,
    ) -> Accepted:
        """Accept a batch of transcripts: one job per transcript, in order.

        Raises:
            WrongState: A user was erased, or a known message id came with different content.
            Exhausted: Too many jobs wait.
            AlreadyExists: The idempotency key was used for another body.
            KeyUnavailable: A user has encryption on and the key is unavailable; nothing was stored.
            KeyServiceUnavailable: The same, temporarily.
        """
        # A key that is known leaves nothing to do.
        known = len(transcripts)

        async def work(connection: Connection) -> list[Job]:
            nonlocal known
            _, made = await together(
                connection,
                self.queue.limit.require(connection, tenant_id, len(transcripts)),
                self._submit_all(connection, tenant_id, transcripts),
            )
            known = sum(added_nothing for _, added_nothing in made.values())
            return [made[i][0] for i in range(len(transcripts))]

        user_ids = sorted({transcript.user_id for transcript in transcripts})
        accepted = await self._once_sealed(tenant_id, identity, user_ids, work, timeout)
        return replace(accepted, known=known)

    async def append(
        self,
        scope: Scope,
        conversation_id: str,
        messages: Sequence[IncomingMessage],
        identity: Identity | None,
        *,
        timeout: float,
    ) -> Accepted:
        """Accept messages of an ongoing conversation; queues a job once enough of them wait.

        Raises:
            WrongState, AlreadyExists, KeyUnavailable, KeyServiceUnavailable: As for `submit`.
            Exhausted: A job would be due and too many wait; nothing was stored.
        """
        pending: int | None = None

        async def count(connection: Connection) -> int:
            return await conversations.count_pending(connection.of(scope), conversation_id)

        async def work(connection: Connection) -> list[Job]:
            nonlocal pending
            job, pending = await self._append(connection.of(scope), conversation_id, messages)
            return [job] if job is not None else []

        accepted = await self._once_sealed(
            scope.tenant_id, identity, [scope.user_id], work, timeout
        )
        if pending is None:
            pending = await self.database.run(count, timeout=timeout, repeatable=True)
        return Accepted(accepted.jobs, accepted.position, pending)

    async def _append(
        self, user: UserRows, conversation_id: str, messages: Sequence[IncomingMessage]
    ) -> tuple[Job | None, int | None]:
        """Store messages; returns the job, if any, and how many messages wait, if counted."""
        # Code that stores or indexes holds the user's row, and locks it before a conversation's.
        state = await users.enter_alone(user)
        why = users.why_not_learning(state, self.memory_enabled)
        if why == "MEMORY_DISABLED":
            return await self.queue.enqueue_cancelled(user, conversation_id, why), None
        stored = await store_messages(
            user,
            conversation_id,
            messages,
            "messages",
            seals_secrets=state.seals_secrets,
        )
        await conversations.advance(
            user,
            conversation_id,
            last_message_no=stored.last_message_no,
            watermark=stored.last_message_no if why else None,
            last_said_at=latest_time(messages),
            ended=False,
        )
        await self._index(user, conversation_id, stored)
        if why:
            return await self._leave(user, conversation_id, why, stored), None
        pending = await conversations.count_pending(user, conversation_id)
        if pending < self.extract_every:
            return None, pending
        await self.queue.limit.require(user.connection, user.scope.tenant_id)
        job = await self.queue.enqueue_open(
            user, conversation_id, debounce_seconds=self.debounce_seconds
        )
        return job, pending

    async def end(
        self, scope: Scope, conversation_id: str, identity: Identity | None, *, timeout: float
    ) -> Accepted:
        """Mark a conversation as over and queue what has not been extracted.

        Raises:
            NotFound: The user has no such conversation.
            Exhausted: Too many jobs wait.
            AlreadyExists: The idempotency key was used for another body.
        """

        async def work(connection: Connection) -> list[Job]:
            await self.queue.limit.require(connection, scope.tenant_id)
            user = connection.of(scope)
            await users.enter_user(user)
            counters = await conversations.require_conversation(user, conversation_id)
            job = await self._hand_out(user, conversation_id, counters)
            await conversations.advance(
                user,
                conversation_id,
                last_message_no=counters.last_message_no,
                watermark=counters.last_message_no,
                last_said_at=None,
                ended=True,
            )
            job = job or await jobs.find_covering(user, conversation_id, counters.last_message_no)
            return [job] if job else []

        return await self.once(scope.tenant_id, identity, [scope.user_id], work, timeout)

    async def queue_idle(self, scope: Scope, conversation_id: str) -> None:
        """Queue the rest of a conversation that fell silent."""

        async def work(connection: Connection) -> None:
            user = connection.of(scope)
            counters = await conversations.lock_conversation(user, conversation_id)
            if counters is not None and counters.watermark < counters.last_message_no:
                await self.queue.enqueue_open(
                    user, conversation_id, debounce_seconds=self.debounce_seconds
                )

        await self.database.transact(work, timeout=10.0)

    async def _submit_all(
        self, connection: Connection, tenant_id: str, transcripts: Sequence[IncomingTranscript]
    ) -> dict[int, tuple[Job, bool]]:
        # Locks are taken in one order, whatever the order of the batch.
        order = sorted(
            range(len(transcripts)),
            key=lambda i: (transcripts[i].user_id, transcripts[i].conversation_id, i),
        )
        return {i: await self._submit_one(connection, tenant_id, transcripts[i], i) for i in order}

    async def _submit_one(
        self,
        connection: Connection,
        tenant_id: str,
        transcript: IncomingTranscript,
        index: int,
    ) -> tuple[Job, bool]:
        """The job of a transcript, and whether all of its messages were stored already."""
        scope = Scope(tenant_id, transcript.user_id)
        conversation_id = transcript.conversation_id
        user = connection.of(scope)
        state = await users.enter_alone(user)
        why = users.why_not_learning(state, self.memory_enabled)
        if why == "MEMORY_DISABLED":
            return await self.queue.enqueue_cancelled(user, conversation_id, why), False
        # Days are those of the person. Who always sends UTC says nothing of where that is.
        if state.time_zone is None and transcript.time_zone not in (None, "UTC"):
            await settings.take_zone(user, transcript.time_zone)
        stored = await store_messages(
            user,
            conversation_id,
            transcript.messages,
            f"transcripts[{index}].messages",
            time_zone=transcript.time_zone,
            seals_secrets=state.seals_secrets,
        )
        job = None
        watermark = stored.before.watermark
        if why:
            # No job reads them, now or later.
            await self._index(user, conversation_id, stored)
            job = await self._leave(user, conversation_id, why, stored)
            watermark = stored.last_message_no
        elif transcript.ended or stored.highest > watermark:
            after = Counters(stored.last_message_no, watermark)
            job = await self._hand_out(user, conversation_id, after)
            watermark = stored.last_message_no
        if job is None:
            job = await jobs.find_covering(user, conversation_id, stored.highest)
        if job is None:
            # The job for these messages no longer exists: run them again.
            job = await self.queue.enqueue_range(
                user,
                conversation_id,
                range_from=stored.lowest,
                range_to=stored.highest,
            )
        await conversations.advance(
            user,
            conversation_id,
            last_message_no=stored.last_message_no,
            watermark=watermark,
            last_said_at=latest_time(transcript.messages),
            ended=transcript.ended,
        )
        return job, not stored.new

    async def _index(self, user: UserRows, conversation_id: str, stored: Stored) -> None:
        """Index new messages by their words before a job has read them."""
        await index.index_unindexed(
            user,
            MESSAGES,
            [(conversation_id, number) for number in stored.new],
            embedded=self.message_vectors,
        )

    async def _leave(self, user: UserRows, conversation_id: str, why: str, stored: Stored) -> Job:
        """A cancelled job with every message that no job owns yet."""
        first, last = stored.before.watermark + 1, stored.last_message_no
        return await self.queue.enqueue_cancelled(
            user,
            conversation_id,
            why,
            range_from=first if first <= last else None,
            range_to=last if first <= last else None,
        )

    async def _hand_out(
        self, user: UserRows, conversation_id: str, counters: Counters
    ) -> Job | None:
        """Queue every message that no job owns yet; None if there is none."""
        if counters.watermark >= counters.last_message_no:
            return None
        return await self.queue.enqueue_range(
            user,
            conversation_id,
            range_from=counters.watermark + 1,
            range_to=counters.last_message_no,
        )

    async def _once_sealed(
        self,
        tenant_id: str,
        identity: Identity | None,
        user_ids: Sequence[str],
        work: Callable[[Connection], Awaitable[list[Job]]],
        timeout: float,
    ) -> Accepted:
        """See `once`, with the keys of users with encryption on."""
        return await with_keys(
            self.keys,
            [Scope(tenant_id, user_id) for user_id in user_ids],
            lambda: self.once(tenant_id, identity, user_ids, work, timeout),
        )
