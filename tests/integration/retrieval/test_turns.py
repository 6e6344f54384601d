"""Neighbours counted in turns: consecutive messages of one speaker are one turn."""

from __future__ import annotations

from random import Random

import pytest

from hitherto_retrieval.search.ranking.turns import FARTHEST, TURNS, near_pairs, speakers_of
from hitherto_retrieval.storage import message_candidates, neighbours
from hitherto_retrieval.storage.candidate import MessageKey
from hitherto_retrieval.storage.item_query import ItemQuery
from hitherto_retrieval.storage.passage_filters import PassageFilters
from hitherto_shared.database.pool import Database
from hitherto_shared.models import Scope
from hitherto_shared.text.bm25 import Scores
from tests.integration.retrieval.questions import answer
from tests.integration.retrieval.seed import TENANT
from tests.integration.retrieval.seed_passages import Turn, converse

ANA = Scope(TENANT, "ana")


async def around(
    reader: Database, *given: MessageKey, turns: int = TURNS, farthest: int = FARTHEST
) -> set[object]:
    statement = neighbours.around(ItemQuery(ANA), given, turns=turns, farthest=farthest)
    return {candidate.key for candidate in await answer(reader, statement)}


async def test_consecutive_messages_of_a_speaker_are_one_turn(
    reader: Database, superuser_conninfo: str
) -> None:
    said = [Turn("x", role, name) for role, name in _said("a A A A b b b a b b A")]
    await converse(superuser_conninfo, "ana", {"c": said, "notes": [Turn("x")] * 9})
    everything = {("c", number) for number in range(1, 12)}
    # The turns are 1, 2 to 4, 5 to 7, 8, 9 and 10, 11.
    assert await around(reader, ("c", 3), turns=0) == {("c", 2), ("c", 4)}
    assert await around(reader, ("c", 3), turns=1, farthest=9) == {
        ("c", n) for n in (1, 2, 4, 5, 6, 7)
    }
    assert await around(reader, ("c", 8), turns=1, farthest=9) == {
        ("c", n) for n in (5, 6, 7, 9, 10)
    }
    assert await around(reader, ("c", 8), turns=9, farthest=99) == everything - {("c", 8)}
    # Far away is no neighbour, however much one speaker says.
    assert await around(reader, ("notes", 2)) == {("notes", n) for n in (1, 3, 4, 5, 6)}
    assert await around(reader, ("notes", 2), ("notes", 5)) == {
        ("notes", n) for n in (1, 3, 4, 6, 7, 8, 9)
    }


@pytest.mark.parametrize("seed", range(3))
async def test_the_database_and_the_ranking_count_alike(
    reader: Database, superuser_conninfo: str, seed: int
) -> None:
    chance = Random(seed)
    names = [f"{seed}-{n}" for n in range(4)]
    said = {
        name: [
            Turn("x", *speaker)
            for speaker in _said(" ".join(chance.choices("aabAt", k=chance.randint(1, 15))))
        ]
        for name in names
    }
    await converse(superuser_conninfo, "ana", said)
    query = ItemQuery(ANA, Scores.of(dict.fromkeys(range(1, 200), 1.0)), wanted=200)
    found = await answer(reader, message_candidates.SEARCH.find(query, PassageFilters()))
    speakers = {name: of for name, of in speakers_of(found).items() if name in names}
    assert speakers
    for name, of in speakers.items():
        near: dict[int, set[tuple[str, int]]] = {number: set() for number in of}
        for first, second, _ in near_pairs(of):
            near[first].add((name, second))
            near[second].add((name, first))
        for number in of:
            assert await around(reader, (name, number)) == near[number]


def _said(speakers: str) -> list[tuple[str, str]]:
    """Roles and names: a and A are two users, b is the assistant, t a tool."""
    of = {"a": ("user", "Ana"), "A": ("user", "Minh"), "b": ("assistant", ""), "t": ("tool", "")}
    return [of[letter] for letter in speakers.split()]
