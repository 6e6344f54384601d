"""How far apart messages are in turns: consecutive messages of one speaker are one turn.

In chats people split what they have to say into several messages. The answer to a question is then
several messages away, although it is the next turn.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping

from hitherto_retrieval.storage.candidate import Candidate

TURNS = 2
"""Maximum distance of neighbours, in turns."""
FARTHEST = 4
"""Maximum distance of neighbours, in messages."""
Speaker = tuple[str, str]
"""The role and the name of a message's author."""


def speakers_of(candidates: Iterable[Candidate]) -> dict[str, dict[int, Speaker]]:
    """The speakers of those candidates that are messages, by conversation and number."""
    found: defaultdict[str, dict[int, Speaker]] = defaultdict(dict)
    for candidate in candidates:
        if isinstance(candidate.key, tuple):
            conversation, number = candidate.key
            found[conversation][number] = (candidate.role, candidate.speaker)
    return found


def near_pairs(speakers: Mapping[int, Speaker]) -> list[tuple[int, int, int]]:
    """The pairs of messages at most `TURNS` apart, each with its distance in turns.

    Messages of the same turn are 0 turns apart. Only messages within `FARTHEST` numbers count, so
    that a conversation of one speaker is not one neighbourhood. A number without a known message
    counts as a turn of another speaker.
    """
    found = []
    # The last known messages, the latest first, with the turns that had passed by then.
    passed: deque[tuple[int, int]] = deque(maxlen=FARTHEST)
    turn, last, said_by = 0, 0, None
    for number in sorted(speakers):
        speaker = speakers[number]
        if number != last + 1 or speaker != said_by:
            turn += number - last
        for other, then in passed:
            if turn - then > TURNS or number - other > FARTHEST:
                break
            found.append((other, number, turn - then))
        passed.appendleft((number, turn))
        last, said_by = number, speaker
    return found
