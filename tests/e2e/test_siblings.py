"""Facts with one frame are one memory each, also for an embedder that finds all of them equal (row
75)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.e2e.conftest import Services
from tests.e2e.learning import learn, memories, talk
from tests.scripted_model import ChatAnswer, ScriptedModel
from tests.scripted_model.answers import memory

DIMENSIONS = 64
FRAMES = {
    "The user is allergic to {}": "peanuts cashews pollen latex penicillin shellfish sesame",
    "User takes {} for headaches": "ibuprofen aspirin paracetamol naproxen riboflavin magnesium",
    "User plays the {} in an orchestra": "violin cello flute oboe bassoon trumpet harp",
    "Người dùng thích ăn phở {}": "bò gà chay cá",
    "用户对{}过敏": "花生 腰果 牛奶 虾",
}
FACTS = [frame.format(word) for frame, words in FRAMES.items() for word in words.split()]
SYLLABLES = "bal dor fim gus hon jat kel lum".split()
PARAPHRASES = ["The user has a peanut allergy", "For headaches, the user takes aspirin."]


async def _all_alike(texts: Sequence[str]) -> list[NDArray[np.float32]]:
    return [np.eye(1, DIMENSIONS, dtype=np.float32)[0] for _ in texts]


@pytest.fixture(scope="module")
async def shared_model() -> AsyncIterator[ScriptedModel]:
    """A model whose embedder has one vector for all texts."""
    async with ScriptedModel(embed=_all_alike) as server:
        yield server


async def test_of_28_siblings_none_takes_the_place_of_another(
    modelled: Services, model: ScriptedModel
) -> None:
    assert len(FACTS) == 28
    facts, again = ([memory(text, ["m1"]) for text in texts] for texts in (FACTS, PARAPHRASES))
    model.queue(ChatAnswer.of(new_memories=facts + again), ChatAnswer.of(new_memories=facts[::-1]))
    result = await learn(modelled, talk("A long list of what I take, play, eat and do not bear"))
    assert (result.memories_created, result.counts["repeated_in_reply"]) == (28, 2)
    assert sorted(each.content for each in await memories(modelled)) == sorted(FACTS)
    # Said again in the same words, each meets itself among all those that are as near.
    result = await learn(modelled, talk("The same list once more", conversation="c2"))
    assert (result.memories_created, result.counts["repeated_in_reply"]) == (0, 0)
    assert len(await memories(modelled)) == 28


async def test_a_paraphrase_finds_its_twin_among_very_many(
    modelled: Services, model: ScriptedModel
) -> None:
    """As many as are near are looked at, and not only the first few."""
    things = [f"{one}{two}" for one in SYLLABLES for two in SYLLABLES]
    facts = [memory(f"The user is allergic to {thing}", ["m1"]) for thing in things]
    twins = [memory(f"The user has a {thing} allergy", ["m1"]) for thing in things[::7]]
    model.queue(ChatAnswer.of(new_memories=facts), ChatAnswer.of(new_memories=twins))
    result = await learn(modelled, talk("I do not bear any of these", user="bo"))
    assert result.memories_created == len(things)
    result = await learn(modelled, talk("Nor those", user="bo", conversation="c2"))
    assert result.memories_created == 0
