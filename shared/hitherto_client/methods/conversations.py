"""Conversations: bulk import, preview, reading and deletion."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from hitherto.v1 import conversation_pb2
from hitherto.v1 import extraction_service_pb2 as extraction_pb2
from hitherto.v1 import privacy_service_pb2 as privacy_pb2
from hitherto.v1 import retrieval_service_pb2 as retrieval_pb2
from hitherto_client._sync.imports import stream_transcripts
from hitherto_client.methods.stubs import Stubs
from hitherto_client.streams import WINDOW_SECONDS, Progress


class Conversations(Stubs):
    """Calls about conversations other than a running chat."""

    def stream_transcripts(
        self,
        transcripts: Iterable[conversation_pb2.Transcript],
        *,
        progress: Callable[[Progress], None] | None = None,
        timeout: float = WINDOW_SECONDS,
    ) -> extraction_pb2.StreamTranscriptsResponse:
        """Submit any number of transcripts, each accepted or refused on its own.

        Args:
            transcripts: Read as the import goes on and never held whole.
            progress: Called with the progress after every 100 transcripts.
            timeout: Seconds until 100 transcripts must be taken, retries included: the wait for
                room in a full queue counts.

        Returns:
            The sum over all transcripts. `errors` names the first 1,000 refused ones by their place
            in `transcripts`; `job_ids` the first 60,000 jobs.

        Raises:
            HithertoCallError: The import cannot go on; what was accepted stays, and starting again
                from the first transcript does no harm.
        """
        return stream_transcripts(
            self.extraction.StreamTranscripts,
            transcripts,
            self._writes_at(),
            self._retry,
            progress=progress,
            timeout=timeout,
        )

    def preview_extraction(
        self, transcript: conversation_pb2.Transcript, *, timeout: float | None = None
    ) -> extraction_pb2.PreviewExtractionResponse:
        """What would be learnt from a transcript; nothing is stored, but the model is paid."""
        request = extraction_pb2.PreviewExtractionRequest(transcript=transcript)
        return self.extraction.PreviewExtraction(request, timeout=timeout)

    def get_conversation(
        self,
        user_id: str,
        conversation_id: str,
        *,
        message_limit: int = 0,
        consistency_token: str = "",
        timeout: float | None = None,
    ) -> retrieval_pb2.GetConversationResponse:
        """The summary of a conversation and its last messages (10 by default)."""
        request = retrieval_pb2.GetConversationRequest(
            user_id=user_id,
            conversation_id=conversation_id,
            message_limit=message_limit,
            consistency_token=consistency_token,
        )
        return self.retrieval.GetConversation(request, timeout=timeout)

    def delete_conversation(
        self,
        user_id: str,
        conversation_id: str,
        *,
        idempotency_key: str = "",
        timeout: float | None = None,
    ) -> privacy_pb2.DeleteConversationResponse:
        """Remove the messages and the summary of a conversation for good; memories stay."""
        request = privacy_pb2.DeleteConversationRequest(
            user_id=user_id, conversation_id=conversation_id, idempotency_key=idempotency_key
        )
        return self.privacy.DeleteConversation(request, timeout=timeout)
