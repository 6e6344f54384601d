"""Records a user's feedback on an answer, and applies it (F6).

A rating of 4 or 5 raises the confidence of inferred preferences and the importance of the memories
that the answer used, 1 or 2 lowers them, by 0.1 each. An edit that changed the length enough
teaches the preferred length. The feedback itself is stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from hitherto_extraction.pipeline import behaviour
from hitherto_extraction.pipeline.versions import write_next
from hitherto_extraction.storage import editing, ledger, preferences, users
from hitherto_extraction.storage.ledger import ChangeEvent
from hitherto_extraction.storage.preferences import AnswerFeedback
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.errors import NotFound
from hitherto_shared.identifiers import parse_uuid
from hitherto_shared.models import CURRENT_STATUSES, Preference

GOOD = 4
BAD = 2
STEP = 0.1
"""The change of a confidence or an importance by a rating."""


@dataclass(frozen=True, slots=True)
class FeedbackEffects:
    """The effects of feedback."""

    preferences: Sequence[Preference]
    memory_ids: Sequence[UUID]


async def record_feedback(
    user: UserRows, feedback: AnswerFeedback, *, actor: str, memory_enabled: bool
) -> FeedbackEffects:
    """Store feedback and apply it, unless the user has switched learning off.

    With memory off, nothing is stored either. `memory_enabled` applies to users who did not choose.

    Raises:
        NotFound: The conversation has no such message of the assistant.
        WrongState: The user was erased.
    """
    state = await users.enter_alone(user)
    items = await preferences.items_of_answer(user, feedback.conversation_id, feedback.message_id)
    if items is None:
        raise NotFound(
            "the conversation has no message of the assistant with this id",
            reason="MESSAGE_NOT_FOUND",
            metadata={
                "conversation_id": feedback.conversation_id,
                "message_id": feedback.message_id,
            },
        )
    moved = FeedbackEffects([], [])
    if users.why_not_storing(state, memory_enabled):
        return moved
    at = await users.database_now(user.connection)
    if users.why_not_learning(state, memory_enabled) is None:
        known = await preferences.read_preferences(user)
        if feedback.rating is None:
            seen = behaviour.observe_edit(feedback.original or "", feedback.edited or "")
            changed = behaviour.learn(known, seen, at)
            moved = FeedbackEffects(changed, [])
        elif (step := _step(feedback.rating)) != 0:
            changed = behaviour.shift(known.values(), step, at)
            shifted = await _shift_memories(user, items, step, actor)
            moved = FeedbackEffects(changed, shifted)
        await preferences.write_preferences(user, moved.preferences)
    await preferences.add_feedback(user, feedback, memory_ids=moved.memory_ids)
    return moved


def _step(rating: int) -> float:
    if rating >= GOOD:
        return STEP
    return -STEP if rating <= BAD else 0.0


async def _shift_memories(
    user: UserRows, items: Sequence[str], step: float, actor: str
) -> list[UUID]:
    """Change the importance of the memories among the items of an answer."""
    wanted = [found for item in items if (found := parse_uuid(item)) is not None]
    known = await editing.read(user, wanted)
    at = await users.database_now(user.connection)
    events: list[ChangeEvent] = []
    for held in known.values():
        before = held.memory
        importance = round(min(max(before.importance + step, 0.0), 1.0), 6)
        if before.status not in CURRENT_STATUSES or importance == before.importance:
            continue
        after = held.changed(importance=importance)
        reason = "an answer that used it was rated " + ("well" if step > 0 else "badly")
        events.append(await write_next(user, held, after, "updated", reason, at=at))
    await ledger.record(user, None, events, actor=actor)
    return [event.memory_id for event in events if event.memory_id is not None]
