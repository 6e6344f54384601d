"""How memories are read that are uncertain, that may replace others, and what they rest on."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

from hitherto.v1 import memory_pb2, retrieval_service_pb2, search_pb2
from tests.e2e import reconciling
from tests.e2e.conftest import Services
from tests.e2e.consoles import console_over, visitor
from tests.e2e.curating import forget, save
from tests.e2e.learning import learn, talk
from tests.e2e.methods import ask
from tests.e2e.reconciling import (
    MAY,
    NEW_HOME,
    OLD_HOME,
    SEPTEMBER,
    doubting,
    jobs,
    named,
    nothing,
    script,
    settled,
    take_back,
    with_words,
)
from tests.e2e.travelling import now_of
from tests.scripted_model import ChatRequest
from tests.tenants import Tenant, credential

COMMUTE = "Ana bikes to the university in 12 minutes"
SWIM = "Ana bikes to the swimming pool in 12 minutes"
QUESTION = "How long does Ana bike?"


SERVICE_SETTINGS = {"reconcile": True}
"""With reconciliation."""


def moving(request: ChatRequest) -> dict[str, Any]:
    """The move, and what matters more than the rest."""
    learnt = reconciling.moving(request)
    for each in learnt["new_memories"]:
        each["importance"] = 0.9 if each["content"] in (OLD_HOME, COMMUTE) else 0.5
    return learnt


async def move(services: Services) -> None:
    """Somebody moves, which makes the commute uncertain."""
    services.model.script = script(doubting(COMMUTE, NEW_HOME), moving)
    await learn(services, talk(OLD_HOME, COMMUTE, SWIM, conversation="c1", at=MAY))
    await learn(services, talk(NEW_HOME, conversation="c2", at=SEPTEMBER))
    await settled(services)


async def search(services: Services, query: str, **more: Any) -> list[search_pb2.SearchResult]:
    found = await ask(services, "SearchMemories", query=query, min_relevance=0, **more)
    return list(found.results)


async def context(services: Services, **more: Any) -> retrieval_service_pb2.GetContextResponse:
    found: retrieval_service_pb2.GetContextResponse
    found = await ask(services, "GetContext", line_dates=True, min_relevance=0, **more)
    return found


async def test_b10_an_uncertain_memory_says_so_wherever_it_is_read(modelled: Services) -> None:
    await move(modelled)
    cause = await with_words(modelled, NEW_HOME)
    read = await ask(modelled, "GetMemory", memory_id=(await with_words(modelled, COMMUTE)).id)
    found = {each.memory.content: each.memory for each in await search(modelled, QUESTION)}
    whole = await context(modelled)
    listed = {each.content: each for each in whole.memories}
    for each in (read.memory, found[COMMUTE], listed[COMMUTE]):
        assert each.doubt.because_memory_id == cause.id
        assert each.doubt.reason == "moved to Kassel"
        assert each.doubt.since.ToDatetime(UTC) == SEPTEMBER
    assert not found[SWIM].HasField("doubt")
    for block in (whole.prompt_block, (await context(modelled, query=QUESTION)).prompt_block):
        line = next(line for line in block.splitlines() if COMMUTE in line)
        assert line.endswith("(uncertain since 2026-09-03: moved to Kassel)")
    # Before the change it was certain.
    june = datetime(2026, 6, 1, tzinfo=UTC)
    then = {
        each.memory.content: each.memory for each in await search(modelled, QUESTION, as_of=june)
    }
    assert not then[COMMUTE].HasField("doubt")
    # A1: evidence is told with the memory.
    evidence = [("c2", "c2-1", NEW_HOME)]
    for each in (cause, found[NEW_HOME]):
        told = [(e.conversation_id, e.message_id, e.quote) for e in each.evidence]
        assert told == evidence


async def test_b10_it_ranks_below_what_is_certain_and_explains_it(modelled: Services) -> None:
    await move(modelled)
    question = "Ana bikes in 12 minutes"
    results = await search(modelled, question, explain=True)
    places = {each.memory.content: each for each in results}
    assert places[SWIM].score > places[COMMUTE].score
    breakdown = places[COMMUTE].breakdown
    assert sum(breakdown.values()) == pytest.approx(places[COMMUTE].score)
    assert breakdown["doubt"] == pytest.approx(-places[COMMUTE].score / 4)
    assert "doubt" not in places[SWIM].breakdown
    # A forgotten one as well.
    await forget(modelled, (await with_words(modelled, COMMUTE)).id)
    statuses = [memory_pb2.MEMORY_STATUS_FORGOTTEN, memory_pb2.MEMORY_STATUS_ACTIVE]
    results = await search(modelled, question, statuses=statuses, explain=True)
    places = {each.memory.content: each for each in results}
    assert places[COMMUTE].memory.HasField("doubt")
    assert places[COMMUTE].breakdown["doubt"] == pytest.approx(-places[COMMUTE].score / 4)
    # What is cleared together with its cause is uncertain no more.
    await ask(modelled, "ClearMemories")
    read = await ask(modelled, "GetMemory", memory_id=places[COMMUTE].memory.id)
    assert not read.memory.HasField("doubt")


async def test_b10_a_filter_leaves_it_out_of_what_the_last_answer_rested_on(
    modelled: Services,
) -> None:
    """F4: a follow-up question is not answered from it either."""
    await move(modelled)
    answered = talk("How do I get there?", ("assistant", "By bike."), conversation="c3")
    used = [(await with_words(modelled, words)).id for words in (COMMUTE, SWIM)]
    for memory_id in used:
        answered.messages[1].context_items.add(id=memory_id, relevance=0.9)
    await ask(modelled, "AppendMessages", conversation_id="c3", messages=answered.messages)
    for query in ("", QUESTION):
        asked = partial(context, modelled, conversation_id="c3", max_memories=0, query=query)
        assert [each.memory.id for each in (await asked()).previous_items] == used
        certain = await asked(include_doubtful=False)
        assert [each.memory.id for each in certain.previous_items] == used[1:]
        assert SWIM in certain.prompt_block
        assert "uncertain since" not in certain.prompt_block


async def test_b10_a_filter_leaves_it_out(modelled: Services) -> None:
    await move(modelled)
    found = await search(modelled, QUESTION, include_doubtful=False)
    assert {each.memory.content for each in found} == {SWIM, NEW_HOME}
    listed = await ask(modelled, "ListMemories", include_doubtful=False)
    assert {each.content for each in listed.memories} == {SWIM, NEW_HOME}
    assert listed.total_size == 2
    for query in ("", QUESTION):
        whole = await context(modelled, query=query, include_doubtful=False)
        assert COMMUTE not in {each.content for each in whole.memories}
        relevant = {each.memory.content for each in whole.relevant}
        assert COMMUTE not in relevant
    # What is left out takes no place.
    for fields in ({}, {"known_at": datetime.now(UTC)}):
        few = await context(modelled, include_doubtful=False, max_memories=2, **fields)
        assert {each.content for each in few.memories} == {SWIM, NEW_HOME}


async def test_the_console_says_why_a_memory_is_uncertain_and_lets_it_be_confirmed(
    modelled: Services, tenant: Tenant
) -> None:
    await move(modelled)
    commute = await with_words(modelled, COMMUTE)
    async with console_over(modelled) as url, visitor(url) as ana:
        await ana.sign_in(credential(tenant, "ana"))
        await ana.open("/review")
        for told in (COMMUTE, "Uncertain since 3 Sep 2026 : moved to Kassel", NEW_HOME):
            assert told in ana.text, told
        await ana.send(f"/memories/{commute.id}/review", decision="approve")
        assert ana.url.endswith("/review")
        assert COMMUTE not in ana.text


async def test_b10_the_filter_goes_by_the_doubts_of_the_time_that_is_read(
    modelled: Services,
) -> None:
    await move(modelled)
    doubted = now_of(modelled.conninfo)
    modelled.model.script = script(lambda request: {"certain": [named(request, COMMUTE)]})
    await save(modelled, "Ana's university has a campus in Kassel")
    assert (await settled(modelled)).counts["certain"] == 1

    async def certain(**moment: Any) -> set[bool]:
        """Whether lists, searches and contexts of a moment tell the commute as certain."""
        wanted: dict[str, Any] = {**moment, "include_doubtful": False}
        listed = await ask(modelled, "ListMemories", **wanted)
        whole = await context(modelled, query=QUESTION, **wanted)
        found = [
            listed.memories,
            whole.memories,
            [each.memory for each in await search(modelled, QUESTION, **wanted)],
            [each.memory for each in await search(modelled, "", **wanted)],
            [each.memory for each in whole.relevant],
        ]
        assert all(SWIM in {each.content for each in some} for some in found)
        return {COMMUTE in {each.content for each in some} for some in found}

    assert await certain() == {True}
    # Lifted by now, but what was known then was in doubt.
    assert await certain(known_at=doubted) == {False}
    june = datetime(2026, 6, 1, tzinfo=UTC)
    assert await certain(known_at=doubted, as_of=june) == {True}
    assert await certain(as_of=SEPTEMBER) == {True}
    await take_back(modelled, job_id=(await jobs(modelled))[0].id)
    # In doubt again, since September.
    assert await certain(as_of=june) == {True}
    assert await certain(as_of=SEPTEMBER) == {False}
    assert await certain() == {False}


async def test_a3_the_newer_of_an_unsettled_pair_is_told_first(modelled: Services) -> None:
    old, new = "Ana's favourite editor is Vim", "Ana's favourite editor of all is Zed"

    def learning(request: ChatRequest) -> dict[str, Any]:
        said = request.messages[0]
        if said.content == old:
            return moving(request)
        update = {"id": named(request, old), "content": new, "source_message_ids": ["m1"]}
        return {"updated_memories": [{**update, "quote": "words that nobody said"}]}

    modelled.model.script = script(nothing, learning)
    await learn(modelled, talk(old, conversation="c1", at=MAY))
    await learn(modelled, talk("I moved over to Zed.", conversation="c2", at=SEPTEMBER))
    older, newer = await with_words(modelled, old), await with_words(modelled, new)
    assert list(newer.may_replace) == [older.id]
    assert older.status == memory_pb2.MEMORY_STATUS_ACTIVE
    found = [each.memory for each in await search(modelled, old)]
    assert [each.content for each in found] == [new, old]
    assert list(found[0].may_replace) == [older.id]
    block = (await context(modelled, query=old, max_memories=0)).prompt_block
    assert block.index(f"- {new}") < block.index(f"- {old}")
    assert "2026-05-04" in block
    # Once one of them is gone, there is no pair.
    await forget(modelled, older.id)
    for left in (await with_words(modelled, new), (await search(modelled, old))[0].memory):
        assert (left.content, list(left.may_replace)) == (new, [])
