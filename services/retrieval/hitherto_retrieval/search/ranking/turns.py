"""How far apart messages are in turns: consecutive messages of one speaker are one turn.

In chats people split what they have to say into several messages. The answer to a question is then
several messages away, although it is the next turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from hitherto_retrieval.storage.candidate import Candidate, MessageKey

TURNS = 2
"""Maximum distance of neighbours, in turns."""
FARTHEST = 4
"""Maximum distance of neighbours, in messages."""
Speaker = tuple[str, str]
"""The role and the name of a message's author."""


def speakers_of(candidates: Iterable[Candidate]) -> dict[MessageKey, Speaker]:
    """The speakers of those candidates that are messages."""
    return {
        candidate.key: (candidate.role, candidate.speaker)
        for candidate in candidates
        if isinstance(candidate.key, tuple)
    }


def turns_around(
    key: MessageKey, speakers: Mapping[MessageKey, Speaker]
) -> Iterator[tuple[MessageKey, int]]:
    """The messages around one, each with its distance in turns, at most `TURNS`.

    Messages of the same turn are 0 turns away. Only messages within `FARTHEST` numbers count, so
    that a conversation of one speaker is not one neighbourhood. A number without a known message
    counts as a turn of another speaker.

    Args:
        key: A message in `speakers`.
        speakers: The known messages.
    """
    conversation, number = key
    for step in (-1, 1):
        speaker: Speaker | None = speakers[key]
        turns = 0
        for away in range(1, FARTHEST + 1):
            other = (conversation, number + step * away)
            said_by = speakers.get(other)
            turns += said_by is None or said_by != speaker
            if turns > TURNS:
                break
            if said_by is not None:
                yield other, turns
            speaker = said_by
