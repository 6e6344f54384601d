"""Which known memories the model is shown (B6), and what stays findable (D3)."""

from __future__ import annotations

from typing import Any

from tests.e2e.conftest import Services, StartServices
from tests.e2e.curating import update
from tests.e2e.learning import learn, memories, replies, rows, talk
from tests.e2e.methods import ask
from tests.scripted_model import ChatAnswer, ChatRequest, ScriptedModel
from tests.scripted_model.answers import memory

OLD = "Ana's grandmother taught her to mend fishing nets"


def many(first: int, last: int, **changes: Any) -> list[dict[str, Any]]:
    return [
        memory(f"Ana solved puzzle {n} about the city and its people", **changes)
        for n in range(first, last)
    ]


async def fill(services: Services, model: ScriptedModel, *batches: list[dict[str, Any]]) -> None:
    """Store memories, one batch a conversation; vectors do not matter here."""
    for number, batch in enumerate(batches):
        model.script = lambda request, batch=batch: ChatAnswer.of(new_memories=batch)  # type: ignore[misc]
        await learn(services, talk("go on", conversation=f"fill{number}"))
    model.script = replies({})


async def shown_for(services: Services, model: ScriptedModel, *lines: str) -> list[str]:
    await learn(services, talk(*lines, conversation=f"q{len(model.chat_requests)}"))
    asked: ChatRequest = model.chat_requests[-1]
    assert [known.local_id for known in asked.memories] == [
        f"e{n}" for n in range(1, len(asked.memories) + 1)
    ]
    return [known.content for known in asked.memories]


async def test_b6_an_old_relevant_memory_among_five_hundred_is_shown(modelled: Services) -> None:
    old = [memory(OLD, importance=0.1)]
    newer = [many(n, n + 167, importance=0.9) for n in (0, 167, 334)]
    await fill(modelled, modelled.model, old, *newer)
    assert len(await memories(modelled)) == 502
    filler = "We spoke about the city and its people for a long time. " * 30
    words = " ".join(f"word{n}" for n in range(600))
    found = await shown_for(modelled, modelled.model, filler, words, "Can you help me mend nets?")
    # The best of each message comes first.
    assert OLD in found[:3]
    assert len(found) == 50
    # One embedding call a job, for what was said and learnt, none for the choice.
    assert modelled.model.calls["embeddings"] == 5


async def test_b6_memories_of_a_person_or_tag_that_is_spoken_of_are_shown(
    start_services: StartServices, model: ScriptedModel
) -> None:
    def of(content: str, **more: Any) -> dict[str, Any]:
        return memory(content, importance=0.1, **more)

    zoe, sato = ([{"name": name, "type": "person"}] for name in ("Zoë", "佐藤"))
    her = of("She is the godmother of the twins", entities=zoe)
    other = of("Her name is written 佐藤", entities=sato)
    tagged = of("Beans come from the roaster next door", tags=["coffee_brewing"])
    async with start_services(model, prompt_memories=10) as services:
        await fill(services, model, [her, other, tagged], many(0, 60, importance=0.9))
        for said, known in (
            ("I phoned zoe yesterday", her),
            ("昨日佐藤さんに会いました", other),
            ("Let us talk brewing coffee", tagged),
        ):
            assert known["content"] in await shown_for(services, model, said), said
        assert her["content"] not in await shown_for(services, model, "I phoned nobody")


async def test_b6_the_memories_of_a_prompt_are_bounded_in_tokens(modelled: Services) -> None:
    long = [memory(f"第{n}章" + "長い話です" * 150) for n in range(40)]
    await fill(modelled, modelled.model, long)
    found = await shown_for(modelled, modelled.model, "長い話です")
    assert 0 < sum(len(content.encode()) for content in found) <= 3 * 4_000


async def test_d3_a_reworded_memory_is_found_by_the_words_of_all_its_sources(
    modelled: Services,
) -> None:
    first, bright = (f"Ana rents a {kind}studio in the old town" for kind in ("", "bright "))
    modelled.model.script = replies(
        {
            "landlord": {
                "new_memories": [memory(first, tags=["home"])],
                "updated_memories": [
                    {"id": "e1", "content": f"{bright} by the river", "source_message_ids": ["m1"]}
                ],
            },
            "attic": [memory(first)],
        }
    )
    await learn(
        modelled,
        talk("My place is under the roof, an attic with skylights"),
        talk("The landlord of the bright place keeps alpacas by the river", conversation="c2"),
    )
    (only,) = [m for m in await memories(modelled) if "river" in m.content]
    for words in ("skylights", "alpacas", "river"):
        found = await ask(modelled, "SearchMemories", query=words)
        assert found.results[0].memory.id == only.id, words
    # The statistics are those of the texts that are found, also after two versions in one reply.
    assert rows(modelled.conninfo, "SELECT lexical_documents, lexical_terms FROM users") == rows(
        modelled.conninfo, "SELECT count(*), sum(lexical_length) FROM memories"
    )


async def test_d3_a_corrected_memory_keeps_the_words_of_its_newest_source(
    modelled: Services,
) -> None:
    """Its oldest source alone would fill the index."""
    known = "Ana rents a studio in the old town"
    modelled.model.script = replies(
        {
            "landlord": {
                "updated_memories": [
                    {"id": "e1", "content": f"{known} by the river", "source_message_ids": ["m1"]}
                ]
            },
            "attic": [memory(known)],
        }
    )
    await learn(
        modelled,
        talk("My attic is in the old town. " + "It has a very old roof. " * 250),
        talk("The landlord of my studio by the river keeps alpacas", conversation="c2"),
    )
    (only,) = await memories(modelled)
    assert len(only.sources) == 2
    await update(modelled, only.id, keywords=["home"])
    found = await ask(modelled, "SearchMemories", query="alpacas")
    assert found.results[0].memory.id == only.id
    assert "keyword" in found.results[0].matched_legs
