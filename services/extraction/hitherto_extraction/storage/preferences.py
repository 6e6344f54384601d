"""Preferences inferred from behaviour, and feedback."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from hitherto_extraction.storage.sealed_rows import opened
from hitherto_shared.database.arrays import fields_of, records
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.encryption.rows import MESSAGE
from hitherto_shared.identifiers import uuid7
from hitherto_shared.models import Preference

_READ = """
SELECT type, key, value, confidence, observations, updated_at
FROM preferences
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
ORDER BY type, key
"""

_WRITE = """
INSERT INTO preferences (tenant_id, user_id, type, key, value, confidence, observations,
                         updated_at)
SELECT u.tenant_id, u.user_id, p.*
FROM @its_user AS u
CROSS JOIN json_to_recordset(%(rows)s) AS p (type text, key text, value jsonb, confidence float8,
     observations integer, updated_at timestamptz)
ON CONFLICT (tenant_id, user_id, type, key) DO UPDATE
SET value = EXCLUDED.value, confidence = EXCLUDED.confidence,
    observations = EXCLUDED.observations, updated_at = EXCLUDED.updated_at
"""

_ADD_FEEDBACK = """
INSERT INTO feedback (tenant_id, user_id, feedback_id, conversation_id, message_id, rating,
                      original, edited, memory_ids)
VALUES (%(tenant_id)s, %(user_id)s, %(feedback_id)s, %(conversation_id)s, %(message_id)s,
        %(rating)s, %(original)s, %(edited)s, %(memory_ids)s)
"""

# What an answer used, by the ids the assistant sent with it; None if there is no such message.
_ITEMS_OF_MESSAGE = """
SELECT ARRAY(SELECT item ->> 'id' FROM jsonb_array_elements(context_items) AS item), sealed
FROM messages
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
  AND conversation_id = %(conversation_id)s AND role = 'assistant'
  AND md5(message_id) = md5(%(message_id)s) AND message_id = %(message_id)s
"""


@dataclass(frozen=True, slots=True)
class AnswerFeedback:
    """A rating, or an answer before and after the user changed it."""

    conversation_id: str
    message_id: str
    rating: int | None = None
    original: str | None = None
    edited: str | None = None


async def read_preferences(user: UserRows) -> dict[tuple[str, str], Preference]:
    """All preferences inferred from a user's behaviour, by type and key."""
    found = await user.fetch(Preference, _READ)
    return {(each.type, each.key): each for each in found}


async def write_preferences(user: UserRows, preferences: Sequence[Preference]) -> None:
    """Store the new state of preferences."""
    if preferences:
        rows = records([fields_of(each) for each in preferences])
        await user.later(_WRITE, rows=rows)


async def items_of_answer(
    user: UserRows, conversation_id: str, message_id: str
) -> list[str] | None:
    """Ids of what an assistant's message used; None if the conversation has no such message."""
    row = await user.fetch_row(
        _ITEMS_OF_MESSAGE, conversation_id=conversation_id, message_id=message_id
    )
    if row is None:
        return None
    if row[1] is None:
        return list(row[0])
    words = opened(user.scope, MESSAGE, row[1], conversation_id, message_id)
    return [item["id"] for item in words["context_items"]]


async def add_feedback(
    user: UserRows, feedback: AnswerFeedback, *, memory_ids: Sequence[UUID]
) -> None:
    """Store a user's feedback on an answer, and the memories that it affected."""
    await user.later(
        _ADD_FEEDBACK, **fields_of(feedback), feedback_id=uuid7(), memory_ids=list(memory_ids)
    )
