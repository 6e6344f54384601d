"""How far apart messages are in turns: consecutive messages of one speaker are one turn.

In chats people split what they have to say into several messages. The answer to a question is then
several messages away, although it is the next turn.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from hitherto_retrieval.storage.candidate import MessageKey

TURNS = 2
"""Maximum distance of neighbours, in turns."""
FARTHEST = 4
"""Maximum distance of neighbours, in messages."""
Speaker = tuple[str, str]
"""The role and the name of a message's author."""


def near_pairs(messages: Sequence[tuple[MessageKey, Speaker]]) -> list[tuple[int, int, int]]:
    """The pairs of messages at most `TURNS` apart, by place, each with its distance in turns.

    Messages of the same turn are 0 turns apart. Only messages within `FARTHEST` numbers count, so
    that a conversation of one speaker is not one neighbourhood. A number without a known message
    counts as a turn of another speaker.

    Args:
        messages: The known messages, sorted.
    """
    found = []
    # The last messages of the conversation, the latest first, with the turns passed by then.
    passed: deque[tuple[int, int, int]] = deque(maxlen=FARTHEST)
    turn, last, said_by, said_in = 0, 0, None, None
    for place, ((conversation, number), speaker) in enumerate(messages):
        if conversation != said_in:
            said_in, last, said_by = conversation, 0, None
            passed.clear()
        if number != last + 1 or speaker != said_by:
            turn += number - last
        for other, then, before in passed:
            if turn - then > TURNS or number - before > FARTHEST:
                break
            found.append((other, place, turn - then))
        passed.appendleft((place, turn, number))
        last, said_by = number, speaker
    return found
