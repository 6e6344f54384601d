"""D9 through the RPCs: `as_of`, what was true then; `known_at`, what was known then.

Merges, filters and pages of the past: integration/retrieval/test_past.py, test_kept_pasts.py.
Contract "Identity" and "Reads"; details B12, B13, C1, C2, C5; faults.md rows 48, 50.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from hitherto.v1 import memory_pb2, search_pb2
from tests.e2e.conftest import Services
from tests.e2e.curating import save, update
from tests.e2e.handing_over import document, taken_in
from tests.e2e.learning import learn, replies, rows, shown, talk
from tests.e2e.methods import ask
from tests.e2e.sealing import change_profile
from tests.e2e.travelling import at, contents_at, now_of
from tests.scripted_model import ScriptedModel
from tests.scripted_model.answers import memory

ACTIVE = memory_pb2.MEMORY_STATUS_ACTIVE
ACHIEVED = memory_pb2.MEMORY_STATUS_ACHIEVED
CONTRADICTED = memory_pb2.MEMORY_STATUS_CONTRADICTED
LISBON = "Ana lives in Lisbon"
BERLIN = "Ana lives in Berlin"
MARCH = datetime(2026, 3, 1, 12, tzinfo=UTC)
MAY = datetime(2026, 5, 1, 12, tzinfo=UTC)
LONG_AGO = datetime(2001, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)


def moving_house(model: ScriptedModel) -> None:
    """Let the model learn where Ana lives, and that one place takes the place of the other."""

    def place(content: str, other: str):  # type: ignore[no-untyped-def]
        def answer(request):  # type: ignore[no-untyped-def]
            known = [each for each in request.memories if other in each.content]
            return {
                "new_memories": [memory(content)],
                "contradicted_memories": [{"id": each.local_id, "by": 0} for each in known],
            }

        return answer

    model.script = replies(
        {"to Berlin": place(BERLIN, "Lisbon"), "in Lisbon": place(LISBON, "Berlin")}
    )


async def test_d9_lisbon_then_berlin(modelled: Services) -> None:
    moving_house(modelled.model)
    assert await at(modelled, as_of=MARCH) == await at(modelled, known_at=MARCH) == []
    unknown = now_of(modelled.conninfo)
    await learn(modelled, talk("I live in Lisbon", at=MARCH))
    between = now_of(modelled.conninfo)
    await learn(modelled, talk("I moved to Berlin", conversation="c2", at=MAY))
    after = now_of(modelled.conninfo)
    known: list[tuple[dict[str, datetime], list[str]]] = [
        ({}, [BERLIN]),
        # What was true: by event time.
        ({"as_of": MARCH - DAY}, []),
        ({"as_of": MARCH}, [LISBON]),
        ({"as_of": MAY - DAY}, [LISBON]),
        ({"as_of": MAY}, [BERLIN]),
        ({"as_of": after + 365 * DAY}, [BERLIN]),
        # What was known: by the time of learning.
        ({"known_at": LONG_AGO}, []),
        ({"known_at": unknown}, []),
        ({"known_at": between}, [LISBON]),
        ({"known_at": after}, [BERLIN]),
        # Both: nobody knew yet in between that Lisbon had an end.
        ({"as_of": MAY + DAY, "known_at": between}, [LISBON]),
        ({"as_of": MAY - DAY, "known_at": after}, [LISBON]),
        ({"as_of": MARCH - DAY, "known_at": between}, []),
    ]
    for moment, contents in known:
        assert await contents_at(modelled, "Where does Ana live?", **moment) == contents, moment
    (then,) = await at(modelled, "Lisbon", as_of=MAY - DAY)
    assert (then.status, then.superseded_by) == (ACTIVE, "")
    assert then.valid_to.ToDatetime(UTC) == MAY
    (then,) = await at(modelled, "Lisbon", known_at=between)
    assert (then.status, then.superseded_by, then.version) == (ACTIVE, "", 1)
    assert not then.HasField("valid_to")
    # The status of that time can be asked for.
    for as_of, ended_then in ((MAY - DAY, []), (MAY + DAY, [LISBON])):
        listed = await ask(modelled, "ListMemories", statuses=[CONTRADICTED], as_of=as_of)
        assert [each.content for each in listed.memories] == ended_then
        assert {each.status for each in listed.memories} <= {CONTRADICTED}


async def test_d9_an_update_holds_since_it_was_said(modelled: Services) -> None:
    """One of the same day corrects what was said, as a change by hand does: of every time."""

    def costs(euros: int):  # type: ignore[no-untyped-def]
        content = f"Ana pays {euros} euros for the gym"
        return lambda r: {"updated_memories": [{"id": shown(r, "gym"), "content": content}]}

    first = memory("Ana pays 54 euros for the gym", valid_from="2026-02-01")
    modelled.model.script = replies(
        {
            "sorry, 45": costs(45),
            "up to 60": costs(60),
            "still 60": costs(60),
            "even 70": costs(70),
            "sport": lambda r: {"updated_memories": [{"id": shown(r, "gym"), "tags": ["sport"]}]},
            "54": [first],
        }
    )
    july, september = MAY + 61 * DAY, MAY + 123 * DAY
    for number, (words, said_at) in enumerate(
        [
            ("I have paid 54 for the gym since February", MARCH),
            ("sorry, 45 euros it is", MARCH + timedelta(hours=2)),
            ("the gym went up to 60 euros", MAY),
            ("the gym is still 60 euros", july),
            # Neither a repetition nor another tag begins a day anew.
            ("the gym is still 60 euros", september - timedelta(hours=10)),
            ("the gym counts as sport", september - timedelta(hours=9)),
        ]
    ):
        await learn(modelled, talk(words, conversation=f"c{number}", at=said_at))
    between = now_of(modelled.conninfo)
    await learn(modelled, talk("the gym takes even 70 euros", conversation="c9", at=september))

    async def costs_at(query: str = "Ana", **moment: datetime) -> list[int]:
        told = await contents_at(modelled, query, **moment)
        return [int(content.split()[2]) for content in told]

    assert await costs_at() == [70]
    times = {MARCH - 20 * DAY: 45, MAY - DAY: 45, MAY: 60, july + DAY: 60, september: 70}
    for as_of, euros in times.items():
        assert await costs_at(f"{euros} euros", as_of=as_of) == [euros], as_of
    assert await costs_at(known_at=between) == [60]
    assert await costs_at(known_at=between, as_of=MAY - DAY) == [45]
    tagged = {"as_of": MAY - DAY, "min_relevance": 0}
    (then,) = (await ask(modelled, "SearchMemories", query="45", **tagged)).results
    assert "keyword" in then.matched_legs

    ((known, *_),) = rows(modelled.conninfo, "SELECT memory_id FROM memories")
    await update(modelled, str(known), "importance", importance=0.9)
    (listed,) = (await ask(modelled, "ListMemories", as_of=MAY - DAY)).memories
    (present,) = (await ask(modelled, "ListMemories")).memories
    assert (listed.content.split()[2], listed.version) == ("45", present.version)

    await ask(modelled, "RollbackSource", conversation_id="c9")
    assert await costs_at(as_of=MAY - DAY) == [45]
    assert await costs_at(as_of=september) == [60]
    known_at = now_of(modelled.conninfo)
    await ask(modelled, "RollbackSource", conversation_id="c1")
    assert await costs_at(known_at=known_at, as_of=MAY - DAY) == [45]
    assert await costs_at(as_of=MAY - DAY) == [60]
    await update(modelled, str(known), "content", content="Ana pays 61 euros for the gym")
    assert await costs_at(as_of=MAY - DAY) == [61]


async def test_d9_nothing_beside_the_words_of_a_time_comes_from_later(modelled: Services) -> None:
    """What changed a memory, confirmed it or is mentioned since does not stand with its words."""
    still, moved = "I still live there", "I moved to Berlin"
    modelled.model.script = replies(
        {
            moved: lambda r: {
                "updated_memories": [
                    {
                        "id": shown(r, "Lisbon"),
                        "content": BERLIN,
                        "source_message_ids": ["m1"],
                        "quote": moved,
                    }
                ]
            },
            "met": [memory("Ana met Pavel", entities=[{"name": "Pavel", "type": "person"}])],
            still: lambda r: {"updated_memories": [{"id": shown(r, "Lisbon"), "content": LISBON}]},
            "in Lisbon": [memory(LISBON, entities=[{"name": "Lisbon", "type": "place"}])],
        }
    )
    await learn(modelled, talk("I live in Lisbon", at=MARCH))
    first = now_of(modelled.conninfo)
    await learn(modelled, talk(still, conversation="c2", at=MARCH + DAY))
    second = now_of(modelled.conninfo)
    await learn(modelled, talk(moved, conversation="c3", at=MAY))

    async def told(**moment: datetime) -> tuple[str, list[str], list[str], list[str], bool]:
        (found,) = (await ask(modelled, "ListMemories", **moment)).memories
        said_in = [source.conversation_id for source in found.sources]
        quoted = [each.quote for each in found.evidence]
        mentioned = list(found.entities)
        return found.content, said_in, quoted, mentioned, found.HasField("last_confirmed_at")

    known = {moment: await told(known_at=moment) for moment in (first, second)}
    assert known[first][:3] == (LISBON, ["c1"], [])
    assert known[second][:3] == (LISBON, ["c1", "c2"], [still])
    assert not known[first][4]
    # What earlier words mentioned is not kept.
    assert [each[3] for each in known.values()] == [[], []]
    content, said_in, quoted, *_ = await told()
    assert (content, said_in, quoted) == (BERLIN, ["c1", "c2", "c3"], [still, moved])
    # A question about an earlier time names nobody who was met later.
    await learn(modelled, talk("I met Pavel", conversation="c4", at=MAY))
    named: list[tuple[dict[str, datetime], list[str]]] = [
        ({"known_at": second}, []),
        ({}, ["Pavel"]),
    ]
    for moment, names in named:
        reply = await ask(modelled, "SearchMemories", query="Who is Pavel?", **moment)
        assert [entity.name for entity in reply.entities] == names, moment


async def test_d9_an_older_statement_that_is_learnt_later(modelled: Services) -> None:
    moving_house(modelled.model)
    await learn(modelled, talk("I moved to Berlin", conversation="c2", at=MAY))
    between = now_of(modelled.conninfo)
    await learn(modelled, talk("I live in Lisbon", at=MARCH))
    assert await contents_at(modelled) == [BERLIN]
    assert await contents_at(modelled, as_of=MARCH + DAY) == [LISBON]
    assert await contents_at(modelled, as_of=MAY + DAY) == [BERLIN]
    assert await contents_at(modelled, as_of=MARCH + DAY, known_at=between) == []
    assert await contents_at(modelled, as_of=MAY + DAY, known_at=between) == [BERLIN]


async def test_identity_an_earlier_wording_is_shown_and_found_with_its_version(
    modelled: Services,
) -> None:
    saved = (await save(modelled, "Ana works at Acme", importance=0.3)).memory
    first = now_of(modelled.conninfo)
    await update(
        modelled, saved.id, "content", "tags", content="Ana works at Globex", tags=["work"]
    )
    second = now_of(modelled.conninfo)
    await update(modelled, saved.id, "importance", importance=0.9)

    (then,) = await at(modelled, "Where does Ana work?", known_at=first)
    assert (then.content, then.version, list(then.tags)) == ("Ana works at Acme", 1, [])
    assert then.importance == pytest.approx(0.3)
    (then,) = await at(modelled, known_at=second)
    assert (then.content, then.version, list(then.tags)) == ("Ana works at Globex", 2, ["work"])
    assert then.importance == pytest.approx(0.3)
    (now,) = await at(modelled)
    assert now.version == 3
    assert now.importance == pytest.approx(0.9)

    async def legs(query: str, known_at: datetime) -> list[str]:
        moment = {"known_at": known_at, "min_relevance": 0}
        reply = await ask(modelled, "SearchMemories", query=query, **moment)
        return list(reply.results[0].matched_legs)

    assert "keyword" in await legs("Acme", first)
    assert "keyword" not in await legs("Globex", first)
    assert "keyword" in await legs("Globex", second)
    assert "keyword" not in await legs("Acme", second)


async def test_b13_an_achieved_goal_was_open_before(modelled: Services) -> None:
    goal = "Ana wants to run a marathon"
    modelled.model.script = replies(
        {
            "I ran": lambda r: {"achieved_goals": [{"id": shown(r, "wants"), "by": None}]},
            "I want": [memory(goal, type="goal", importance=0.8)],
        }
    )
    await learn(modelled, talk("I want to run a marathon", at=MARCH))
    between = now_of(modelled.conninfo)
    await learn(modelled, talk("I ran the marathon", conversation="c2", at=MAY))
    for moment, status, importance in [
        ({"as_of": MAY - DAY}, ACTIVE, 0.8),
        ({"as_of": MAY + DAY}, ACHIEVED, 0.4),
        ({"known_at": between}, ACTIVE, 0.8),
        ({"as_of": MAY + DAY, "known_at": between}, ACTIVE, 0.8),
        ({}, ACHIEVED, 0.4),
    ]:
        (found,) = await at(modelled, "marathon", **moment)
        assert found.status == status, moment
        assert found.importance == pytest.approx(importance), moment
    assert await contents_at(modelled, as_of=MARCH - DAY) == []


async def test_d1_the_block_of_the_past_tells_only_the_past(modelled: Services) -> None:
    """Profile, summaries, entities and preferences that came later are left out of `known_at`."""
    modelled.model.script = replies(
        {
            "to Berlin": lambda r: {
                "new_memories": [memory(BERLIN, entities=[{"name": "Berlin", "type": "place"}])],
                "contradicted_memories": [{"id": shown(r, "Lisbon"), "by": 0}],
                "profile": {"facts": {"personal": {"location": "Berlin"}}},
                "conversation_summary": {"title": "To Berlin", "summary": "Ana moved."},
            },
            "in Lisbon": {
                "new_memories": [memory(LISBON)],
                "profile": {"facts": {"personal": {"location": "Lisbon"}}},
            },
        }
    )
    await learn(modelled, talk("I live in Lisbon", at=MARCH))
    between = now_of(modelled.conninfo)
    await learn(modelled, talk("I moved to Berlin", conversation="c2", at=MAY))

    async def context(**moment: datetime) -> Any:
        return await ask(modelled, "GetContext", query="Where does Ana live?", **moment)

    now = await context()
    assert "Berlin" in now.prompt_block
    assert (now.profile.version, now.profile.HasField("last_extracted_at")) == (2, True)
    then = await context(known_at=between)
    assert "Lisbon" in then.prompt_block
    assert "Berlin" not in then.prompt_block
    assert (then.profile.version, then.profile.HasField("last_extracted_at")) == (1, False)
    # What was learnt by then is shown as it was summed up; the later conversation is not.
    assert [one.conversation_id for one in then.conversations] == ["c1"]
    assert not then.entities
    # A profile has no times of validity: as of a day it is the version that stood on that day.
    of_that_day = await context(as_of=between)
    assert of_that_day.profile.version == 1
    assert "Lisbon" in str(of_that_day.profile.facts)
    before = await context(known_at=LONG_AGO)
    assert (before.profile.version, list(before.memories)) == (0, [])
    assert "Ana lives" not in before.prompt_block


async def test_d1_the_block_of_the_past_names_no_conversation_by_what_came_later(
    modelled: Services,
) -> None:
    """A conversation goes on and gets another title, which tells nothing of its earlier words."""

    def outline(title: str) -> Callable[[object], dict[str, object]]:
        return lambda _: {"conversation_summary": {"title": title, "summary": f"{title}."}}

    modelled.model.script = replies({"Fado": outline("Concerts"), "lawyer": outline("Divorce")})
    first, later = "The Fado concert was in Alfama", "My lawyer called"
    await learn(modelled, talk(first, ("assistant", "How was it?"), at=MARCH))
    between = now_of(modelled.conninfo)

    async def blocks(**moment: datetime) -> list[str]:
        asked = {"query": "Where was the Fado concert?", "min_relevance": 0, **moment}
        return [
            (await ask(modelled, "GetContext", template=template, **asked)).prompt_block
            for template in search_pb2.PromptTemplate.values()[1:5]
        ]

    past = [{"known_at": between}, {"as_of": MARCH + DAY}]
    for moment in past:
        assert all("Concerts" in told for told in await blocks(**moment))
    going_on = talk(first, ("assistant", "How was it?"), later, at=MARCH)
    going_on.messages[2].created_at.FromDatetime(MAY)
    await learn(modelled, going_on)
    assert all("Divorce" in told for told in await blocks())
    for moment in past:
        for told in await blocks(**moment):
            assert first in told
            assert "Divorce" not in told


async def test_d1_what_is_inferred_from_behaviour_is_of_the_time_that_is_read(
    services: Services,
) -> None:
    """F5: as the values of a profile, a preference has no validity of its own."""
    before = now_of(services.conninfo)
    await learn(services, talk("Any new mail?", at=MARCH))
    after = now_of(services.conninfo)

    async def inferred(**moment: datetime) -> set[str]:
        return {each.key for each in (await ask(services, "GetContext", **moment)).preferences}

    known = await inferred()
    assert "message_style" in known
    for kept in ({"as_of": after}, {"known_at": after}):
        assert await inferred(**kept) == known
    for past in ({"as_of": before}, {"known_at": before}):
        assert not await inferred(**past)
    assert not await inferred(as_of=before, known_at=after)


async def test_d9_e1_every_version_of_the_profile_is_known_from_its_own_time_on(
    services: Services,
) -> None:
    """The profile tells the time of its version now as later, also while many write it."""
    await asyncio.gather(
        *(change_profile(services, facts={f"kind {n}": {"n": n}}) for n in range(6))
    )

    async def profile(known_at: datetime | Timestamp | None) -> Any:
        return (await ask(services, "GetContext", known_at=known_at)).profile

    held = await profile(None)
    assert held.version == 6
    for version in range(6, 0, -1):
        then = await profile(held.updated_at)
        assert (then.version, then.updated_at) == (version, held.updated_at)
        just_before = held.updated_at.ToDatetime(UTC) - timedelta(microseconds=1)
        held = await profile(just_before)
    assert held.version == 0


async def test_d9_an_excerpt_of_the_past_ends_there(services: Services) -> None:
    """What was said or accepted later stands beside nothing that was known before."""
    first = "My name is Ana and I live in Hanoi with two cats."
    await learn(services, talk(first, at=MARCH))
    between = now_of(services.conninfo)
    whole = talk(first, "I moved to Oslo with my cats.", at=MARCH)
    whole.messages[1].created_at.FromDatetime(MARCH + DAY)
    await learn(services, whole)

    async def beside(scope: int, **moment: datetime) -> list[str]:
        asked = {"query": "Hanoi cats", "scopes": [scope], "excerpt_messages": 5, **moment}
        found = await ask(services, "SearchMemories", **asked)
        assert found.results
        return [message.content for result in found.results for message in result.excerpt]

    for scope in (search_pb2.SEARCH_SCOPE_MEMORIES, search_pb2.SEARCH_SCOPE_MESSAGES):
        assert any("Oslo" in content for content in await beside(scope))
        for moment in ({"known_at": between}, {"as_of": MARCH + timedelta(hours=1)}):
            said = await beside(scope, **moment)
            assert said
            assert not any("Oslo" in content for content in said)


async def test_d9_what_came_later_takes_no_place_from_what_was_known(services: Services) -> None:
    """Q2 for documents and summaries: all that was known is found, however much came later."""
    early = [document(f"d{n}", f"budget plan notes for house {n}") for n in range(3)]
    later = [document(f"e{n}", f"budget plan {n}") for n in range(60)]
    await taken_in(services, *early)
    between = now_of(services.conninfo)
    await taken_in(services, *later)
    scopes = [search_pb2.SEARCH_SCOPE_DOCUMENTS]
    found = await ask(
        services, "SearchMemories", query="budget plan", scopes=scopes, known_at=between
    )
    ids = {result.document_chunk.source_id for result in found.results}
    assert ids == {"d0", "d1", "d2"}
