"""The messages of a transcript: how they are numbered and stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from hitherto_extraction.storage import conversations
from hitherto_extraction.storage.conversations import Counters, IncomingMessage
from hitherto_shared.database.together import together
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.errors import WrongState
from hitherto_shared.text.passages import SHORTEST_EMBEDDED
from hitherto_shared.text.redaction import redact_text


@dataclass(frozen=True, slots=True)
class IncomingTranscript:
    """A complete or partial conversation as submitted."""

    user_id: str
    conversation_id: str
    messages: Sequence[IncomingMessage]
    time_zone: str | None = None
    ended: bool = False


@dataclass(frozen=True, slots=True)
class Stored:
    """The numbers of stored messages: the conversation's last, and their lowest and highest.

    `new` are the numbers of those that were not stored before, and `before` are the counters of the
    conversation from then.
    """

    before: Counters
    last_message_no: int
    lowest: int
    highest: int
    new: Sequence[int]


async def store_messages(
    user: UserRows,
    conversation_id: str,
    messages: Sequence[IncomingMessage],
    field: str,
    *,
    time_zone: str | None = None,
    seals_secrets: bool = False,
) -> Stored:
    """Open the conversation, number and insert new messages; known ones must be unchanged.

    `user` is in the transaction of a caller that has entered the user; `field` is the path of the
    messages in the request. If `seals_secrets`, new ones also keep what they were before their
    secrets were redacted.

    Raises:
        WrongState: A known id came with different content.
    """
    # In this order: the look for known messages follows the lock.
    counters, known = await together(
        user.connection,
        conversations.open_conversation(user, conversation_id, time_zone=time_zone),
        conversations.find_known(
            user, conversation_id, [message.message_id for message in messages]
        ),
    )
    new: list[IncomingMessage] = []
    numbers: list[int] = []
    for i, message in enumerate(messages):
        held = known.get(message.message_id)
        if held is None:
            new.append(message)
            numbers.append(counters.last_message_no + len(new))
        elif held.role != message.role or not _same(held.content, message.content):
            raise WrongState(
                f"{field}[{i}].id: a message with this id and other content is already part "
                "of the conversation; a message never changes, send the new one under a new id",
                reason="MESSAGE_ID_REUSED",
                metadata={
                    "conversation_id": conversation_id,
                    "message_id": message.message_id,
                    "field": f"{field}[{i}].id",
                },
            )
        else:
            numbers.append(held.message_no)
    if not seals_secrets:
        new = [
            message if message.unredacted is None else replace(message, unredacted=None)
            for message in new
        ]
    if new:
        await conversations.insert_messages(
            user, conversation_id, new, first_no=counters.last_message_no + 1
        )
    last = counters.last_message_no + len(new)
    new_numbers = range(counters.last_message_no + 1, last + 1)
    return Stored(counters, last, min(numbers), max(numbers), new_numbers)


def _same(held: str, sent: str) -> bool:
    """Whether a message is sent again: equal but for secrets, if only one of them is redacted."""
    return held == sent or held == redact_text(sent).text or redact_text(held).text == sent


def latest_time(messages: Sequence[IncomingMessage]) -> datetime | None:
    """The newest event time among the messages; None, meaning now, if one of them has none."""
    times = [message.said_at for message in messages]
    return None if None in times else max(time for time in times if time is not None)


def has_vector(content: str) -> bool:
    """Whether a message is long enough to have a vector."""
    return len(content) >= SHORTEST_EMBEDDED
