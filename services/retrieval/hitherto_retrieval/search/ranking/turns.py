"""How far apart messages are in turns: consecutive messages of one speaker are one turn.

In chats people split what they have to say into several messages. The answer to a question is then
several messages away, although it is the next turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hitherto_retrieval.storage.candidate import Candidate

TURNS = 2
"""Maximum distance of neighbours, in turns."""
FARTHEST = 4
"""Maximum distance of neighbours, in messages."""
_DISTANCES = (range(-1, -FARTHEST - 1, -1), range(1, FARTHEST + 1))
Speaker = tuple[str, str]
"""The role and the name of a message's author."""


def speakers_of(candidates: Iterable[Candidate]) -> dict[str, dict[int, Speaker]]:
    """The speakers of those candidates that are messages, by conversation and number."""
    found: dict[str, dict[int, Speaker]] = {}
    for candidate in candidates:
        if isinstance(candidate.key, tuple):
            conversation, number = candidate.key
            found.setdefault(conversation, {})[number] = (candidate.role, candidate.speaker)
    return found


def turns_around(number: int, speakers: Mapping[int, Speaker]) -> list[tuple[int, int]]:
    """The messages around one, each with its distance in turns, at most `TURNS`.

    Messages of the same turn are 0 turns away. Only messages within `FARTHEST` numbers count, so
    that a conversation of one speaker is not one neighbourhood. A number without a known message
    counts as a turn of another speaker.

    Args:
        number: Number of a message in `speakers`.
        speakers: The known messages of its conversation.
    """
    found = []
    said_by, own = speakers.get, speakers[number]
    for distances in _DISTANCES:
        speaker: Speaker | None = own
        turns = 0
        for distance in distances:
            other = said_by(number + distance)
            if other is None or other != speaker:
                turns += 1
                if turns > TURNS:
                    break
            if other is not None:
                found.append((number + distance, turns))
            speaker = other
    return found
