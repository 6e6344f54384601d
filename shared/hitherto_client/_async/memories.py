"""Memories changed by hand: saved, corrected, forgotten, restored, imported."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

from hitherto.v1 import memory_service_pb2 as pb
from hitherto_client._async.calling import AsyncCalling, rpc
from hitherto_client._async.connection import stream
from hitherto_client.batches import WINDOW_SECONDS, Progress, streamed_memory
from hitherto_client.inputs import MemoryInput
from hitherto_client.results.jobs import ImportedMemories
from hitherto_client.results.memories import ChangedMemory, Feedback, Memory, SavedMemory
from hitherto_client.wire import build, read
from hitherto_client.words import Confidence, MemorySource, MemoryType, Origin


class AsyncMemories(AsyncCalling):
    """What is remembered without a conversation, and how it is corrected."""

    @rpc("SaveMemory")
    async def save_memory(
        self,
        user: str,
        content: str,
        *,
        type: MemoryType | None = None,
        detail: str = "",
        importance: float | None = None,
        confidence: Confidence | None = None,
        tags: Iterable[str] = (),
        keywords: Iterable[str] = (),
        source: MemorySource | None = None,
        origin: Origin | None = None,
        conversation: str = "",
        context: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
        valid_from: datetime | None = None,
        expires_at: datetime | None = None,
        sensitive: bool = False,
        replaces: Iterable[str] = (),
        idempotency_key: str = "",
        timeout: float | None = None,
    ) -> SavedMemory:
        """Remember one statement at once.

        If the user has a memory with the same meaning, that one gets a new version instead.

        Args:
            user: Whom it is about.
            content: The statement, in a sentence; at most 8 KiB.
            type: The kind of statement (fact).
            detail: The full text behind it.
            importance: From 0 to 1. Unset: by type.
            confidence: How clear it is.
            tags: Labels of your own.
            keywords: Words that help to find it.
            source: How it was created (explicit).
            origin: Who said it (user). Statements of others never displace what the user said.
            conversation: The conversation that it comes from.
            context: The circumstances, as free JSON.
            metadata: Your own JSON, which searches can filter by.
            valid_from: Since when it has been true. Unset: now.
            expires_at: When reads stop returning it. Unset: never.
            sensitive: True: encrypted if the user has encryption on.
            replaces: Ids of memories that are no longer true because of it.
            idempotency_key: Unset: a new one for each call.
            timeout: Seconds, retries included. Unset: 30.

        Raises:
            HithertoCallError: The call failed, for example because memory is switched off for the
                user (`MEMORY_DISABLED`).
        """

    @rpc("UpdateMemory", "memory", changes="memory")
    async def update_memory(
        self,
        user: str,
        memory_id: str,
        *,
        content: str | None = None,
        type: MemoryType | None = None,
        detail: str | None = None,
        importance: float | None = None,
        confidence: Confidence | None = None,
        tags: Iterable[str] | None = None,
        keywords: Iterable[str] | None = None,
        entities: Iterable[str] | None = None,
        context: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
        valid_from: datetime | None = None,
        valid_to: datetime | None = None,
        expires_at: datetime | None = None,
        sensitive: bool | None = None,
        clear: Iterable[str] = (),
        version: int = 0,
        carry_along: bool = False,
        idempotency_key: str = "",
        timeout: float | None = None,
    ) -> ChangedMemory:
        """Correct a memory; it keeps its id and its earlier versions.

        What is not given stays as it is. Fields mean what they do in `save_memory`; lists and
        `metadata` are given as they are to be, whole. `entities` are the names of all people and
        things that it mentions, and `valid_to` is until when it was true. `clear` names fields to
        empty or reset, such as `tags` or `metadata.project`. With `version`, the correction is made
        only if that is the memory's version.

        `carry_along` takes along what else states the earlier words, for example a value of the
        profile, and no longer tells the messages that say them. A second call with the same content
        does this too.

        Raises:
            HithertoCallError: The memory does not exist (`MEMORY_NOT_FOUND`), was replaced
                (`MEMORY_STATUS_CONFLICT`) or has another version (`VERSION_MISMATCH`).
        """

    @rpc("ForgetMemory", "memory")
    async def forget_memory(
        self,
        user: str,
        memory_id: str,
        *,
        reason: str = "",
        carry_along: bool = False,
        idempotency_key: str = "",
        timeout: float | None = None,
    ) -> ChangedMemory:
        """Forget a memory: reads no longer return it, and earlier messages never bring it back.

        `reason` is kept in its history. The result names what else states it; `carry_along` takes
        along what says nothing more, for example a value of the profile, also in a second call.

        Raises:
            HithertoCallError: The memory does not exist (`MEMORY_NOT_FOUND`), or the call failed.
        """

    @rpc("RestoreMemory", "memory")
    async def restore_memory(
        self,
        user: str,
        memory_id: str,
        *,
        reason: str = "",
        idempotency_key: str = "",
        timeout: float | None = None,
    ) -> Memory:
        """Bring a forgotten or archived memory back.

        Raises:
            HithertoCallError: It does not exist (`MEMORY_NOT_FOUND`), or its status does not allow
                it (`MEMORY_STATUS_CONFLICT`).
        """

    async def review_memory(
        self,
        user: str,
        memory_id: str,
        *,
        approve: bool,
        reason: str = "",
        idempotency_key: str = "",
        timeout: float | None = None,
    ) -> Memory:
        """Decide about a quarantined memory: approved, it becomes active; rejected, forgotten.

        Raises:
            HithertoCallError: It does not exist (`MEMORY_NOT_FOUND`), or is not in quarantine
                (`MEMORY_STATUS_CONFLICT`).
        """
        request = build(
            pb.ReviewMemoryRequest,
            user_id=user,
            memory_id=memory_id,
            decision="approve" if approve else "reject",
            reason=reason,
            idempotency_key=idempotency_key,
        )
        reply = await self._write(self.connection.memories.ReviewMemory, request, user, timeout)
        return read(Memory, reply.memory)

    async def import_memories(
        self,
        memories: Iterable[MemoryInput],
        *,
        progress: Callable[[Progress], None] | None = None,
        timeout: float = WINDOW_SECONDS,
    ) -> ImportedMemories:
        """Save any number of memories, each accepted or refused on its own.

        Args:
            memories: Read as the import goes on and never held whole.
            progress: Called with the progress after every 100 memories.
            timeout: Seconds until 100 memories must be taken, retries included.

        Raises:
            HithertoCallError: The import cannot go on; what was saved stays, and starting again
                from the first memory does no harm.
        """
        built = (build(pb.SaveMemoryRequest, **memory) for memory in memories)
        reply = await stream(
            self.connection,
            "StreamMemories",
            enumerate(map(streamed_memory, built)),
            progress=progress,
            timeout=timeout,
        )
        self._tokens.note("", reply.consistency_token)
        return read(ImportedMemories, reply)

    @rpc("RecordFeedback")
    async def record_feedback(
        self,
        user: str,
        conversation: str,
        message_id: str,
        *,
        rating: int | None = None,
        edit: tuple[str, str] | None = None,
        idempotency_key: str = "",
        timeout: float | None = None,
    ) -> Feedback:
        """Record how the user reacted to the answer with this `message_id`.

        A `rating` is from 1 to 5: 4 and 5 strengthen what the answer used, 1 and 2 weaken it. An
        `edit` is the original and the edited text: how long answers should be is learnt from it.

        Raises:
            ValueError: Not exactly one of `rating` and `edit` is given.
            HithertoCallError: The message does not exist (`MESSAGE_NOT_FOUND`).
        """
