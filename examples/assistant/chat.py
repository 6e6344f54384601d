"""One turn of the assistant: from the user's message to the reply, and what is kept of it."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from openai import OpenAIError

from examples.assistant.actions import ActionFailed, Executor
from examples.assistant.agents import ORCHESTRATOR, AssistantTurn, Clarification, Orchestrator
from examples.assistant.model import Message, Model
from hitherto_client import Hitherto, HithertoCallError
from hitherto_client.results import ContextItem, SearchResult
from hitherto_client.tools import Toolbox

HISTORY_MESSAGES = 10
_CONTEXT_ITEMS = 200

logger = logging.getLogger("assistant")


@dataclass(frozen=True, slots=True)
class AssistantRequest:
    """What the user sends.

    Attributes:
        user_id: Who the user is; it comes from your sign-in, never from the text.
        message: What the user wrote.
        session_id: The chat that goes on. Empty: a new one.
        confirm_actions: Ids of prepared actions that the user confirms.
        clarification_response: The answer to the question of the last reply.
    """

    user_id: str
    message: str = ""
    session_id: str = ""
    confirm_actions: tuple[str, ...] = ()
    clarification_response: str = ""


@dataclass(frozen=True, slots=True)
class ContextUsed:
    """An item that the answer is based on."""

    id: str
    source: str
    title: str
    relevance: float


@dataclass(frozen=True, slots=True)
class CompletedAction:
    """A confirmed action: what came of it, or why it was not done."""

    id: str
    result: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True)
class AssistantReply:
    """What the user gets."""

    session_id: str
    response: str
    context_used: tuple[ContextUsed, ...] = ()
    pending_actions: tuple[Mapping[str, Any], ...] = ()
    clarification: Clarification | None = None
    completed_actions: tuple[CompletedAction, ...] = ()

    @property
    def needs_clarification(self) -> bool:
        """Whether the assistant waits for an answer to `clarification`."""
        return self.clarification is not None

    def to_dict(self) -> dict[str, Any]:
        """The reply as JSON for a web page."""
        return asdict(self) | {"needs_clarification": self.needs_clarification}


class Assistant:
    """An assistant that remembers.

    Args:
        memory: The client, with a credential that is bound to the users of this process, or of one
            user.
        model: The language model.
        executor: Carries out confirmed actions.
    """

    def __init__(self, memory: Hitherto, model: Model, executor: Executor) -> None:
        self._memory = memory
        self._model = model
        self._executor = executor

    def greet(self, user_id: str) -> list[str]:
        """What the user may want to go on with, for the beginning of a chat."""
        return list(self._memory.get_suggestions(user_id).suggestions)

    def answer(self, request: AssistantRequest) -> AssistantReply:
        """Answer one message.

        Raises:
            HithertoCallError: The memory did not answer; nothing was kept.
        """
        session = request.session_id or f"chat-{uuid.uuid4()}"
        completed = tuple(
            self._carry_out(request.user_id, session, action) for action in request.confirm_actions
        )
        said = "\n".join(text for text in (request.message, request.clarification_response) if text)
        if not said:
            return AssistantReply(session, _summed_up(completed), completed_actions=completed)
        turn = AssistantTurn()
        messages = self._messages(request.user_id, session, said, turn)
        toolbox = Toolbox(
            self._memory, request.user_id, session_id=session, conversation_id=session
        )
        try:
            response = Orchestrator(self._model, toolbox).answer(messages, turn)
        except OpenAIError as error:
            logger.warning("the language model did not answer: %s", type(error).__name__)
            response = "I cannot answer at the moment. Please try again."
        response = response or _instead(turn)
        used = _used(turn)
        self._keep(request.user_id, session, said, response, turn, used)
        return AssistantReply(
            session, response, used, tuple(turn.actions), turn.clarification, completed
        )

    def _carry_out(self, user_id: str, session: str, action_id: str) -> CompletedAction:
        """Carry out one action that the user has confirmed; only what was prepared exists."""
        try:
            action = self._memory.resolve_pending_action(
                user_id, action_id, "confirmed", session_id=session
            )
            outcome = self._executor.execute(action.id, action.type, action.params)
            self._memory.resolve_pending_action(
                user_id, action_id, "completed", session_id=session, result=outcome
            )
        except ActionFailed as failed:
            self._memory.resolve_pending_action(
                user_id, action_id, "rejected", session_id=session, result={"error": str(failed)}
            )
            return CompletedAction(action_id, error=str(failed))
        except HithertoCallError as error:
            if error.reason not in {"PENDING_ACTION_NOT_FOUND", "PENDING_ACTION_CONFLICT"}:
                raise
            return CompletedAction(action_id, error=error.reason)
        return CompletedAction(action_id, result=str(outcome["result"]))

    def _messages(
        self, user_id: str, session: str, said: str, turn: AssistantTurn
    ) -> list[Message]:
        """The prompt: who the assistant is and what it knows, the chat so far, the message."""
        context = self._memory.get_context(user_id, said, conversation=session)
        for result in context.previous_items:
            item = _item(result)
            turn.items[item["id"]] = item
        turn.entities.extend(entity.name for entity in context.entities)
        system = (
            f"{ORCHESTRATOR}\n\n{context.prompt_block}" if context.prompt_block else ORCHESTRATOR
        )
        if turn.items:
            told = "\n".join(f"[{one['id']}] {one['title']}" for one in turn.items.values())
            system += f"\n\nYour last answer was based on these items:\n{told}"
        return [
            {"role": "system", "content": system},
            *self._history(user_id, session),
            {"role": "user", "content": said},
        ]

    def _history(self, user_id: str, session: str) -> list[Message]:
        found = self._memory.get_conversation(user_id, session, message_limit=HISTORY_MESSAGES)
        return [
            {"role": message.role, "content": message.content}
            for message in (found.messages if found else ())
            if message.role in {"user", "assistant"}
        ]

    def _keep(
        self,
        user_id: str,
        session: str,
        said: str,
        response: str,
        turn: AssistantTurn,
        used: tuple[ContextUsed, ...],
    ) -> None:
        """Store both messages, from which is learnt in the background, and the working memory."""
        items = [ContextItem(id=one.id, relevance=one.relevance) for one in used]
        self._memory.add(
            user_id,
            [
                {"role": "user", "content": said, "id": f"u-{uuid.uuid4()}"},
                {
                    "role": "assistant",
                    "id": f"a-{uuid.uuid4()}",
                    "content": response,
                    "context_items": items,
                    "pending_action_ids": [str(action["id"]) for action in turn.actions],
                },
            ],
            conversation=session,
        )
        self._memory.update_session(
            user_id,
            session,
            context={
                "last_message": said,
                "last_response": response,
                "entities_mentioned": turn.entities,
                "context_used_count": len(used),
            },
            recent_items=items,
        )


def _item(result: SearchResult) -> dict[str, Any]:
    """An item of the memory in the form in which its tools return items."""
    found = result.memory or result.message or result.summary or result.document_chunk
    chunk = result.document_chunk
    return {
        "id": chunk.document_id if chunk else getattr(found, "id", ""),
        "source": chunk.source_type if chunk else "memory",
        "title": (chunk.title if chunk else "") or result.text[:80],
        "content": result.text,
        "score": result.score,
    }


def _used(turn: AssistantTurn) -> tuple[ContextUsed, ...]:
    ranked = sorted(turn.items.values(), key=lambda item: -float(item.get("score", 0.0)))
    return tuple(
        ContextUsed(
            id=item["id"],
            source=str(item.get("source") or item.get("kind") or "memory"),
            title=str(item.get("title") or item.get("content", ""))[:80],
            relevance=min(1.0, max(0.0, float(item.get("score", 0.0)))),
        )
        for item in ranked[:_CONTEXT_ITEMS]
    )


def _instead(turn: AssistantTurn) -> str:
    """What is said where the model found no words.

    Some answer with nothing, or call a tool when they are asked for words. What the user wrote is
    kept all the same, and learnt from.
    """
    if turn.clarification is not None:
        return turn.clarification.question
    if turn.actions:
        prepared = "; ".join(str(action.get("description", "")) for action in turn.actions)
        return f"Please confirm: {prepared}"
    return "I have no answer to this. I keep what you said; please ask me again."


def _summed_up(completed: tuple[CompletedAction, ...]) -> str:
    if not completed:
        return ""
    return "\n".join(one.result or f"not done: {one.error}" for one in completed)
