"""B18: a doubt lasts as long as its cause, whatever becomes of the two memories."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from google.protobuf import timestamp_pb2

from hitherto.v1 import memory_pb2
from tests.e2e.conftest import Services
from tests.e2e.curating import forget, restore, save, update
from tests.e2e.learning import learn, memories, talk
from tests.e2e.merging import consolidate
from tests.e2e.reconciling import (
    COMMUTE,
    MAY,
    NEW_HOME,
    OLD_HOME,
    SEPTEMBER,
    SISTER,
    TAG,
    doubting,
    is_doubtful,
    jobs,
    joining,
    move,
    moving,
    named,
    nothing,
    reconciliations,
    replacing,
    script,
    settled,
    take_back,
    with_words,
    word_for_word,
)
from tests.scripted_model import ChatAnswer, ChatRequest, ScriptedModel
from tests.scripted_model.answers import change, merged

VIM, ZED = "Ana's favourite editor is Vim", "Ana's favourite editor is Zed"
STATUS, SOURCE = memory_pb2.MemoryStatus, memory_pb2.MemorySource


SERVICE_SETTINGS = {"reconcile": True}
"""With reconciliation."""


def linking(request: ChatRequest) -> dict[str, Any]:
    """The one editor may replace the other: nobody said the words of the quote."""
    unproven = change(named(request, VIM), "words that nobody said", "m1", by=0)
    return {**word_for_word(request), "contradicted_memories": [unproven]}


async def test_it_goes_when_the_cause_is_forgotten_in_a_conversation(
    modelled: Services, model: ScriptedModel
) -> None:
    await move(modelled, model)
    asked = "Vergiss bitte, wo ich wohne"
    model.script = script(
        nothing, lambda r: {"forgotten_memories": [change(named(r, NEW_HOME), asked, "m1")]}
    )
    await learn(modelled, talk(asked, conversation="c3", at=SEPTEMBER + timedelta(days=1)))
    assert (await with_words(modelled, NEW_HOME)).status == STATUS.MEMORY_STATUS_FORGOTTEN
    assert not await is_doubtful(modelled)
    # The request is a source like any other: without it, all is as it was.
    await take_back(modelled, conversation_id="c3")
    assert (await with_words(modelled, NEW_HOME)).status == STATUS.MEMORY_STATUS_ACTIVE
    assert await is_doubtful(modelled)


async def test_it_goes_when_the_update_is_taken_back_that_caused_it(
    modelled: Services, model: ScriptedModel
) -> None:
    def updating(request: ChatRequest) -> dict[str, Any]:
        if request.messages[0].content != NEW_HOME:
            return word_for_word(request)
        update = change(named(request, OLD_HOME), NEW_HOME, "m1", content=NEW_HOME)
        return {"updated_memories": [update]}

    model.script = script(nothing, updating)
    await learn(modelled, talk(OLD_HOME, COMMUTE, conversation="c1", at=MAY))
    await learn(modelled, talk(NEW_HOME, conversation="c2", at=SEPTEMBER))
    model.script = script(doubting(COMMUTE, NEW_HOME), word_for_word)
    await save(modelled, "Ana found a flat in Kassel")
    await settled(modelled)
    cause = await with_words(modelled, NEW_HOME)
    assert (await with_words(modelled, COMMUTE)).doubt.because_memory_id == cause.id
    await take_back(modelled, conversation_id="c2")
    assert (await with_words(modelled, OLD_HOME)).status == STATUS.MEMORY_STATUS_ACTIVE
    assert not await is_doubtful(modelled)


async def test_it_goes_when_what_stands_for_the_cause_is_forgotten(
    modelled: Services, model: ScriptedModel
) -> None:
    await move(modelled, model)
    other = "Ana's home is in Kassel now"
    model.script = script(joining(other, NEW_HOME), word_for_word)
    await save(modelled, other)
    await settled(modelled)
    assert (await with_words(modelled, NEW_HOME)).status == STATUS.MEMORY_STATUS_SUPERSEDED
    assert await is_doubtful(modelled)
    await forget(modelled, (await with_words(modelled, other)).id)
    assert not await is_doubtful(modelled)


async def test_it_stays_with_the_memory_that_says_the_same(
    modelled: Services, model: ScriptedModel
) -> None:
    again = "Ana bikes to the university, a commute of 12 minutes"
    model.script = script(doubting(COMMUTE, NEW_HOME), moving)
    await learn(modelled, talk(OLD_HOME, COMMUTE, again, conversation="c1", at=MAY))
    await learn(modelled, talk(NEW_HOME, conversation="c2", at=SEPTEMBER))
    await settled(modelled)
    cause = await with_words(modelled, NEW_HOME)
    model.script = script(joining(again, COMMUTE), moving)
    await save(modelled, SISTER)
    await settled(modelled)
    assert (await with_words(modelled, COMMUTE)).status == STATUS.MEMORY_STATUS_SUPERSEDED
    assert (await with_words(modelled, again)).doubt.because_memory_id == cause.id
    await take_back(modelled, job_id=(await jobs(modelled))[0].id)
    assert not await is_doubtful(modelled, again)
    assert await is_doubtful(modelled)


async def test_it_returns_with_its_cause(modelled: Services, model: ScriptedModel) -> None:
    cause = await move(modelled, model)
    await forget(modelled, cause.id)
    assert not await is_doubtful(modelled)
    await restore(modelled, cause.id)
    back = (await with_words(modelled, COMMUTE)).doubt
    assert (back.because_memory_id, back.reason) == (cause.id, "moved to Kassel")
    assert back.since.ToDatetime(UTC) == SEPTEMBER
    # Said once more in another conversation, it returns too.
    await forget(modelled, cause.id)
    model.script = script(nothing, word_for_word)
    later = datetime.now(UTC) + timedelta(minutes=1)
    await learn(modelled, talk(NEW_HOME, conversation="c4", at=later))
    assert (await with_words(modelled, NEW_HOME)).status == STATUS.MEMORY_STATUS_ACTIVE
    assert await is_doubtful(modelled)


async def test_it_stays_when_its_cause_expires(modelled: Services, model: ScriptedModel) -> None:
    """That something has passed does not say that everything is as before."""
    cause = await move(modelled, model)
    expiry = timestamp_pb2.Timestamp()
    expiry.FromDatetime(datetime.now(UTC) - timedelta(days=1))
    await update(modelled, cause.id, expires_at=expiry)
    assert NEW_HOME not in {each.content for each in await memories(modelled)}
    doubt = (await with_words(modelled, COMMUTE)).doubt
    assert (doubt.because_memory_id, doubt.reason) == (cause.id, "moved to Kassel")


async def test_it_stays_when_a_later_end_of_its_cause_is_taken_back(
    modelled: Services, model: ScriptedModel
) -> None:
    await move(modelled, model)
    berlin = "Ana lives in Berlin"

    def away(request: ChatRequest) -> dict[str, Any]:
        ended = change(named(request, NEW_HOME), berlin, "m1", by=0)
        return {**word_for_word(request), "contradicted_memories": [ended]}

    model.script = script(nothing, away)
    await learn(modelled, talk(berlin, conversation="c3", at=SEPTEMBER + timedelta(days=1)))
    await settled(modelled)
    assert (await with_words(modelled, NEW_HOME)).status == STATUS.MEMORY_STATUS_CONTRADICTED
    await take_back(modelled, conversation_id="c3")
    assert (await with_words(modelled, NEW_HOME)).status == STATUS.MEMORY_STATUS_ACTIVE
    assert await is_doubtful(modelled)


COLOURS = ("red", "blue", "green", "black", "white", "golden")


async def merge_rides(
    services: Services, model: ScriptedModel, *, but: Collection[str] = ()
) -> list[str]:
    """Learn six things that share the tag and merge them; what was shown to the model for that.

    What says one of the words of `but` stays as it is.
    """
    rides = [f"Ana's bike is {colour} in front" for colour in COLOURS]
    model.script = script(nothing, word_for_word)
    await learn(services, talk(*rides, conversation="rides", at=MAY))
    shown: list[str] = []

    def answer(request: ChatRequest) -> ChatAnswer:
        if not request.consolidation:
            return script(nothing, word_for_word)(request)
        shown.extend(each.content for each in request.memories)
        ids = [each.local_id for each in request.memories if each.content not in but]
        return ChatAnswer.of(memories=[merged("Ana bikes", ids, type="fact")])

    model.script = answer
    await consolidate(services, tag=TAG)
    assert (await with_words(services, "Ana bikes")).source == SOURCE.MEMORY_SOURCE_CONSOLIDATION
    return shown


async def test_what_is_in_doubt_is_not_merged_into_something_certain(
    modelled: Services, model: ScriptedModel
) -> None:
    await move(modelled, model)
    assert COMMUTE not in await merge_rides(modelled, model)
    assert (await with_words(modelled, COMMUTE)).status == STATUS.MEMORY_STATUS_ACTIVE
    assert await is_doubtful(modelled)


async def unsettled(services: Services, model: ScriptedModel) -> None:
    """Two editors, of which the later may replace the other."""
    for learning, words, at in ((word_for_word, VIM, MAY), (linking, ZED, SEPTEMBER)):
        model.script = script(nothing, learning)
        await learn(services, talk(words, conversation=words, at=at))
    await settled(services)


async def test_neither_of_two_is_merged_while_one_may_replace_the_other(
    modelled: Services, model: ScriptedModel
) -> None:
    await unsettled(modelled, model)
    assert not {VIM, ZED}.intersection(await merge_rides(modelled, model))
    older, newer = await with_words(modelled, VIM), await with_words(modelled, ZED)
    assert list(newer.may_replace) == [older.id]


async def test_neither_is_merged_if_that_turns_out_during_the_call(
    modelled: Services, model: ScriptedModel
) -> None:
    rides = [f"Ana's bike is {colour} in front" for colour in COLOURS[:4]]
    model.script = script(nothing, word_for_word)
    await learn(modelled, talk(VIM, *rides, conversation="c1", at=MAY))
    asked, linked = asyncio.Event(), asyncio.Event()

    async def answer(request: ChatRequest) -> ChatAnswer:
        if not request.consolidation:
            return script(nothing, linking)(request)
        asked.set()
        await asyncio.wait_for(linked.wait(), 180)
        ids = [each.local_id for each in request.memories]
        return ChatAnswer.of(memories=[merged("Ana bikes", ids, type="fact")])

    model.script = answer
    # The job of all users, as at night: it delays nobody's own jobs.
    merging = asyncio.create_task(consolidate(modelled, user="", tag=TAG))
    await asyncio.wait_for(asked.wait(), 180)
    await learn(modelled, talk(ZED, conversation="c2", at=SEPTEMBER))
    linked.set()
    assert (await merging).result.counts["skipped_changed"] == 1
    older, newer = await with_words(modelled, VIM), await with_words(modelled, ZED)
    assert older.status == STATUS.MEMORY_STATUS_ACTIVE
    assert list(newer.may_replace) == [older.id]


async def test_a_joined_memory_hands_on_what_it_may_replace(
    modelled: Services, model: ScriptedModel
) -> None:
    again = "Zed is the editor that Ana likes best"
    await unsettled(modelled, model)
    model.script = script(joining(again, ZED), word_for_word)
    await learn(modelled, talk(again, conversation="c3", at=SEPTEMBER + timedelta(days=1)))
    await save(modelled, SISTER)
    await settled(modelled)
    assert (await with_words(modelled, ZED)).status == STATUS.MEMORY_STATUS_SUPERSEDED
    older = await with_words(modelled, VIM)
    assert list((await with_words(modelled, again)).may_replace) == [older.id]


async def test_what_it_may_replace_is_asked_about_through_the_memory_that_stands_for_it(
    modelled: Services, model: ScriptedModel
) -> None:
    again = "Vim is the editor that Ana likes best"
    await unsettled(modelled, model)
    model.script = script(joining(again, VIM), word_for_word)
    await learn(modelled, talk(again, conversation="c3", at=MAY + timedelta(days=1)))
    await save(modelled, "Ana's sister is called Marta")
    await settled(modelled)
    assert (await with_words(modelled, VIM)).status == STATUS.MEMORY_STATUS_SUPERSEDED
    joining_job = (await jobs(modelled))[0].id
    model.script = script(replacing(again, ZED), word_for_word)
    await save(modelled, "Ana's favourite editor has a dark theme")
    await settled(modelled)
    request = reconciliations(list(model.chat_requests))[-1]
    assert f"may replace {named(request, again)}" in request.user
    assert (await with_words(modelled, again)).status == STATUS.MEMORY_STATUS_CONTRADICTED
    # Parted from what was replaced, it may still be replaced itself.
    await take_back(modelled, job_id=joining_job)
    older, newer = await with_words(modelled, VIM), await with_words(modelled, ZED)
    assert older.status == STATUS.MEMORY_STATUS_ACTIVE
    assert list(newer.may_replace) == [older.id]


@pytest.mark.parametrize("known", [True, False])
async def test_what_it_may_replace_goes_with_the_source_that_said_so(
    known: bool, modelled: Services, model: ScriptedModel
) -> None:
    model.script = script(nothing, word_for_word)
    await learn(modelled, talk(VIM, conversation="c1", at=MAY))
    later = [("c2", word_for_word), ("c3", linking)]
    for conversation, learning in later if known else reversed(later):
        model.script = script(nothing, learning)
        await learn(modelled, talk(ZED, conversation=conversation, at=SEPTEMBER))
    await settled(modelled)
    older = await with_words(modelled, VIM)
    assert list((await with_words(modelled, ZED)).may_replace) == [older.id]
    await take_back(modelled, conversation_id="c3")
    assert [list(each.may_replace) for each in await memories(modelled)] == [[], []]


async def test_what_it_may_replace_returns_with_what_somebody_vouches_for(
    modelled: Services, model: ScriptedModel
) -> None:
    model.script = script(nothing, word_for_word)
    await learn(modelled, talk(VIM, conversation="c1", at=MAY))
    model.script = script(nothing, linking)
    await learn(modelled, talk(ZED, conversation="c2", at=SEPTEMBER))
    older, newer = await with_words(modelled, VIM), await with_words(modelled, ZED)
    assert list(newer.may_replace) == [older.id]
    await take_back(modelled, conversation_id="c2")
    restored = await restore(modelled, newer.id)
    assert list(restored.may_replace) == [older.id]
