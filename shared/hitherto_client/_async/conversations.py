"""Conversations: running chats, transcripts, what is kept of them; and the sessions beside them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Literal

from hitherto.v1 import conversation_pb2
from hitherto.v1 import extraction_service_pb2 as writing
from hitherto.v1 import retrieval_service_pb2 as reading
from hitherto_client._async.calling import AsyncCalling, AsyncPages, pages, rpc
from hitherto_client._async.connection import stream
from hitherto_client._async.privacy import CLEAR_SECONDS
from hitherto_client.batches import WINDOW_SECONDS, Progress, streamed_transcript
from hitherto_client.inputs import MessageInput, TranscriptInput
from hitherto_client.results.conversations import (
    Added,
    AddedAction,
    ContextItem,
    Conversation,
    ConversationSummary,
    Message,
    PendingAction,
    Session,
    UpdatedSession,
)
from hitherto_client.results.jobs import ImportedTranscripts, Job
from hitherto_client.results.search import Preview
from hitherto_client.wire import build, read
from hitherto_client.words import Outcome

MOST_MESSAGES = 200
"""Messages that one call returns at most."""


class AsyncConversations(AsyncCalling):
    """What was said, as the source of what is learnt."""

    @rpc("AppendMessages")
    async def add(
        self,
        user: str,
        messages: Iterable[MessageInput],
        *,
        conversation: str,
        idempotency_key: str = "",
        timeout: float | None = None,
    ) -> Added:
        """Add messages to a running chat.

        Once this returns, they are stored and can be searched. They are learnt from every few
        messages, when the chat pauses, or at `end_conversation`. Known messages are skipped.

        `messages` are such as `[{"role": "user", "content": "I live in Porto."}]`, and
        `conversation` is your id for the chat.

        Raises:
            HithertoCallError: The call failed; nothing was added.
        """

    @rpc("EndConversation", "job")
    async def end_conversation(
        self,
        user: str,
        conversation: str,
        *,
        idempotency_key: str = "",
        timeout: float | None = None,
    ) -> Job:
        """Mark a chat as over; the job learns from its last messages. Later ones reopen it."""

    async def learn(self, user: str, *, timeout: float | None = None) -> tuple[Job, ...]:
        """Learn at once from every chat of the user that waits for a pause, as if it had ended.

        Returns:
            A job for each of them; `wait_for_job` follows one to its end.
        """
        return tuple(
            [
                await self.end_conversation(user, each.conversation_id, timeout=timeout)
                async for each in self.conversations(user, timeout=timeout)
                if each.pending_messages
            ]
        )

    async def submit_transcripts(
        self,
        transcripts: Iterable[TranscriptInput],
        *,
        idempotency_key: str = "",
        timeout: float | None = None,
    ) -> tuple[Job, ...]:
        """Submit 1 to 100 conversations at once, all or none; one job for each, in order.

        Raises:
            HithertoCallError: The call failed; nothing was accepted.
        """
        request = build(
            writing.SubmitTranscriptsRequest,
            transcripts=transcripts,
            idempotency_key=idempotency_key,
        )
        begun = self._tokens.begin()
        reply = await self.connection.extraction.SubmitTranscripts(request, timeout=timeout)
        for user in {transcript.user_id for transcript in request.transcripts}:
            self._tokens.note(user, reply.consistency_token, begun=begun)
        return tuple(read(Job, job) for job in reply.jobs)

    async def import_transcripts(
        self,
        transcripts: Iterable[TranscriptInput],
        *,
        progress: Callable[[Progress], None] | None = None,
        timeout: float = WINDOW_SECONDS,
    ) -> ImportedTranscripts:
        """Submit any number of conversations, each accepted or refused on its own.

        Args:
            transcripts: Read as the import goes on and never held whole.
            progress: Called with the progress after every 100 transcripts.
            timeout: Seconds until 100 transcripts must be taken, retries included.

        Raises:
            HithertoCallError: The import cannot go on; what was accepted stays, and starting again
                from the first transcript does no harm.
        """
        built = (build(conversation_pb2.Transcript, **transcript) for transcript in transcripts)
        reply = await stream(
            self.connection,
            "StreamTranscripts",
            enumerate(map(streamed_transcript, built)),
            progress=progress,
            timeout=timeout,
        )
        self._tokens.note("", reply.consistency_token)
        return read(ImportedTranscripts, reply)

    @rpc("PreviewExtraction")
    async def preview_extraction(
        self, transcript: TranscriptInput, *, timeout: float | None = None
    ) -> Preview:
        """What would be learnt from a conversation. Nothing is stored, but the model is paid.

        `timeout` is 75 seconds unless given.
        """

    @pages("ListConversations")
    def conversations(
        self,
        user: str,
        *,
        outcomes: Iterable[Outcome] = (),
        created_after: datetime | None = None,
        created_before: datetime | None = None,
        page_size: int = 200,
        timeout: float | None = None,
    ) -> AsyncPages[ConversationSummary]:
        """The summaries of a user's conversations, the latest first, fetched page by page."""

    @rpc("GetConversation")
    async def get_conversation(
        self,
        user: str,
        conversation: str,
        *,
        message_limit: int = 0,
        timeout: float | None = None,
    ) -> Conversation | None:
        """A conversation with its last messages (10); None if there is none."""

    async def messages(
        self,
        user: str,
        conversation: str,
        *,
        page_size: int = 200,
        timeout: float | None = None,
    ) -> AsyncIterator[Message]:
        """Every message of a conversation, the latest first, fetched page by page as you iterate.

        A conversation that does not exist has none. `timeout` holds for each page.
        """
        request = build(
            reading.GetConversationRequest,
            user_id=user,
            conversation_id=conversation,
            message_limit=page_size,
        )
        while True:
            reply = await self._find(
                self.connection.retrieval.GetConversation, request, user, timeout
            )
            if reply is None:
                return
            for message in reversed(reply.messages):
                yield read(Message, message)
            if not reply.messages or len(reply.messages) < min(page_size, MOST_MESSAGES):
                return
            request.before_message_id = reply.messages[0].id

    @rpc("GetRecentConversations", "conversations")
    async def recent_conversations(
        self,
        user: str,
        *,
        limit: int = 0,
        include_messages: bool = False,
        message_limit: int = 0,
        timeout: float | None = None,
    ) -> tuple[Conversation, ...]:
        """The latest conversations (5), with their last messages (20) if you ask for them."""

    @rpc("DeleteConversation", "counts")
    async def delete_conversation(
        self,
        user: str,
        conversation: str,
        *,
        idempotency_key: str = "",
        timeout: float | None = CLEAR_SECONDS,
    ) -> dict[str, int]:
        """Remove the messages and the summary of a conversation for good; memories stay.

        An interrupted call keeps what it has done; the next call does the rest.

        Returns:
            The number of removed rows, by kind.
        """


class AsyncSessions(AsyncCalling):
    """What serves the next answers, lives for minutes or hours, and is never learnt from."""

    @rpc("GetSession")
    async def get_session(
        self, user: str, session_id: str, *, timeout: float | None = None
    ) -> Session:
        """The working memory of a session; an unknown or expired session reads as empty."""

    @rpc("UpdateSession")
    async def update_session(
        self,
        user: str,
        session_id: str = "",
        *,
        context: Mapping[str, Any] | None = None,
        recent_items: Iterable[ContextItem] = (),
        idempotency_key: str = "",
        timeout: float | None = None,
    ) -> UpdatedSession:
        """Replace the context or the recent items of a session, and renew its lifetime.

        The session is by convention called like the conversation; without an id, it is a new one.
        An empty context clears what there is; None, and empty items, leave it as it is.
        """

    @rpc("AddPendingAction")
    async def add_pending_action(
        self,
        user: str,
        type: str,
        *,
        session_id: str = "",
        params: Mapping[str, Any] | None = None,
        description: str = "",
        idempotency_key: str = "",
        timeout: float | None = None,
    ) -> AddedAction:
        """Add an action that waits for the confirmation of the user, for 24 hours.

        `type` is such as `send_email`, `params` are free JSON, and `description` is what the user
        is asked to confirm. Without a session, it belongs to a new one.
        """

    @rpc("ResolvePendingAction", "pending_action")
    async def resolve_pending_action(
        self,
        user: str,
        pending_action_id: str,
        status: Literal["confirmed", "completed", "rejected"],
        *,
        session_id: str = "",
        result: Mapping[str, Any] | None = None,
        idempotency_key: str = "",
        timeout: float | None = None,
    ) -> PendingAction:
        """Confirm, complete or reject an action; each transition happens once.

        A `session_id` must be that of the action. `result` is the outcome, as free JSON; unset, an
        earlier one stays.

        Raises:
            HithertoCallError: It does not exist (`PENDING_ACTION_NOT_FOUND`), or is final or in
                that state already (`PENDING_ACTION_CONFLICT`).
        """
