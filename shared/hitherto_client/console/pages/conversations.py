"""Conversations: their summaries, their messages, and their deletion."""

from __future__ import annotations

from typing import get_args

from starlette.responses import Response

from hitherto_client.console.failures import Failure
from hitherto_client.console.visits import PAGE_SIZE, Visit, change, look
from hitherto_client.results import Message
from hitherto_client.words import Outcome

_OUTCOMES: tuple[str, ...] = get_args(Outcome)
_FEW_MESSAGES = 50
_MOST_MESSAGES = 2_000


async def _conversations(visit: Visit) -> Response:
    outcome = visit.address.word("outcome", _OUTCOMES)
    listed = visit.client.conversations(
        visit.user, outcomes=[outcome] if outcome else (), page_size=PAGE_SIZE
    )
    return visit.page(
        "conversations.html",
        found=await listed.page(visit.address.text("page")),
        outcome=outcome or "",
        outcomes=_OUTCOMES,
    )


async def _conversation(visit: Visit) -> Response:
    conversation_id = visit.address.text("id")
    asked = visit.address.whole("show", least=1, most=_MOST_MESSAGES) or _FEW_MESSAGES
    conversation = await visit.client.get_conversation(visit.user, conversation_id, message_limit=1)
    if conversation is None:
        return visit.fail(
            Failure(404, "There is no such conversation", "It was deleted, or is somebody else's.")
        )
    latest: list[Message] = []
    async for message in visit.client.messages(visit.user, conversation_id):
        latest.append(message)
        if len(latest) > asked:
            break
    return visit.page(
        "conversation.html",
        conversation_id=conversation_id,
        summary=conversation.summary,
        messages=latest[:asked][::-1],
        earlier=min(asked * 4, _MOST_MESSAGES) if len(latest) > asked < _MOST_MESSAGES else 0,
    )


async def _delete(visit: Visit) -> Response:
    await visit.client.delete_conversation(visit.user, visit.form.text("id"))
    return visit.go("/conversations", "The conversation is deleted. What was learnt from it stays.")


ROUTES = (
    look("/conversations", _conversations),
    look("/conversation", _conversation),
    change("/conversation/delete", _delete),
)
