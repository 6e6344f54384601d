"""Memories, profiles and feedback, changed by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from google.protobuf.field_mask_pb2 import FieldMask

from hitherto.v1 import memory_pb2, profile_pb2
from hitherto.v1 import memory_service_pb2 as pb
from hitherto_client._sync.imports import stream_memories
from hitherto_client.methods.stubs import Stubs
from hitherto_client.streams import WINDOW_SECONDS, Progress


class Curation(Stubs):
    """Calls of MemoryService."""

    def save_memory(
        self,
        user_id: str,
        content: str,
        *,
        idempotency_key: str = "",
        timeout: float | None = None,
        **options: Any,
    ) -> pb.SaveMemoryResponse:
        """Save one statement at once; `options` are fields of SaveMemoryRequest."""
        request = pb.SaveMemoryRequest(
            user_id=user_id, content=content, idempotency_key=idempotency_key, **options
        )
        return self.memories.SaveMemory(request, timeout=timeout)

    def stream_memories(
        self,
        items: Iterable[pb.SaveMemoryRequest],
        *,
        progress: Callable[[Progress], None] | None = None,
        timeout: float = WINDOW_SECONDS,
    ) -> pb.StreamMemoriesResponse:
        """Save any number of memories, each accepted or refused on its own.

        Args:
            items: One request for each memory, read as the import goes on and never held whole.
            progress: Called with the progress after every 100 items.
            timeout: Seconds until 100 items must be taken, retries included.

        Returns:
            The sum over all items. `errors` names the first 1,000 refused ones by their place in
            `items`; `memory_ids` the first 60,000 saved ones.

        Raises:
            HithertoCallError: The import cannot go on; what was saved stays, and starting again
                from the first item does no harm.
        """
        return stream_memories(
            self.memories.StreamMemories,
            items,
            self._writes_at(),
            self._retry,
            progress=progress,
            timeout=timeout,
        )

    def update_memory(
        self,
        user_id: str,
        memory_id: str,
        memory: memory_pb2.Memory,
        *,
        paths: Iterable[str] | None = None,
        version: int = 0,
        idempotency_key: str = "",
        timeout: float | None = None,
    ) -> pb.UpdateMemoryResponse:
        """Correct a memory; it keeps its id and gets a new version.

        Args:
            user_id: The user whose memory it is.
            memory_id: The memory.
            memory: The new values.
            paths: What to change, such as `content` or `metadata.project`; what has no value in
                `memory` is cleared. Unset: every field that has a value.
            version: The version on which the correction is based. 0: no check.
            idempotency_key: Unset: a new one.
            timeout: Seconds, retries included.
        """
        request = pb.UpdateMemoryRequest(
            user_id=user_id,
            memory_id=memory_id,
            memory=memory,
            update_mask=_mask(paths),
            version=version,
            idempotency_key=idempotency_key,
        )
        return self.memories.UpdateMemory(request, timeout=timeout)

    def forget_memory(
        self,
        user_id: str,
        memory_id: str,
        *,
        reason: str = "",
        idempotency_key: str = "",
        timeout: float | None = None,
    ) -> pb.ForgetMemoryResponse:
        """Make a memory FORGOTTEN; earlier messages never bring it back."""
        request = pb.ForgetMemoryRequest(
            user_id=user_id, memory_id=memory_id, reason=reason, idempotency_key=idempotency_key
        )
        return self.memories.ForgetMemory(request, timeout=timeout)

    def restore_memory(
        self,
        user_id: str,
        memory_id: str,
        *,
        reason: str = "",
        idempotency_key: str = "",
        timeout: float | None = None,
    ) -> pb.RestoreMemoryResponse:
        """Make a FORGOTTEN or ARCHIVED memory ACTIVE again."""
        request = pb.RestoreMemoryRequest(
            user_id=user_id, memory_id=memory_id, reason=reason, idempotency_key=idempotency_key
        )
        return self.memories.RestoreMemory(request, timeout=timeout)

    def review_memory(
        self,
        user_id: str,
        memory_id: str,
        *,
        approve: bool,
        reason: str = "",
        idempotency_key: str = "",
        timeout: float | None = None,
    ) -> pb.ReviewMemoryResponse:
        """Approve or reject a QUARANTINED memory."""
        request = pb.ReviewMemoryRequest(
            user_id=user_id,
            memory_id=memory_id,
            decision=pb.REVIEW_DECISION_APPROVE if approve else pb.REVIEW_DECISION_REJECT,
            reason=reason,
            idempotency_key=idempotency_key,
        )
        return self.memories.ReviewMemory(request, timeout=timeout)

    def update_profile(
        self,
        user_id: str,
        profile: profile_pb2.Profile,
        *,
        paths: Iterable[str] | None = None,
        version: int = 0,
        idempotency_key: str = "",
        timeout: float | None = None,
    ) -> pb.UpdateProfileResponse:
        """Change or create a profile by hand.

        Args:
            user_id: The user whose profile it is.
            profile: The new values.
            paths: What to change, such as `summary` or `facts.personal.location`; what has no
                value in `profile` is removed. Unset: every field that has a value.
            version: The version on which the change is based. 0: no check.
            idempotency_key: Unset: a new one.
            timeout: Seconds, retries included.
        """
        request = pb.UpdateProfileRequest(
            user_id=user_id,
            profile=profile,
            update_mask=_mask(paths),
            version=version,
            idempotency_key=idempotency_key,
        )
        return self.memories.UpdateProfile(request, timeout=timeout)

    def record_feedback(
        self,
        user_id: str,
        conversation_id: str,
        message_id: str,
        feedback: int | pb.ResponseEdit,
        *,
        idempotency_key: str = "",
        timeout: float | None = None,
    ) -> pb.RecordFeedbackResponse:
        """Record the user's reaction to an answer: a rating from 1 to 5, or an edit."""
        request = pb.RecordFeedbackRequest(
            user_id=user_id,
            conversation_id=conversation_id,
            message_id=message_id,
            idempotency_key=idempotency_key,
        )
        if isinstance(feedback, int):
            request.rating = feedback
        else:
            request.edit.CopyFrom(feedback)
        return self.memories.RecordFeedback(request, timeout=timeout)


def _mask(paths: Iterable[str] | None) -> FieldMask | None:
    return None if paths is None else FieldMask(paths=paths)
