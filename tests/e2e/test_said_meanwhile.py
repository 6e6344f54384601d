"""What was said meanwhile counts once a source is taken back, and what says a forgotten memory is
told to nobody until then (faults.md, rows 10 and 72)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hitherto.v1 import memory_pb2, search_pb2
from tests.e2e.conftest import Services, StartServices, model_settings
from tests.e2e.curating import forget, restore
from tests.e2e.learning import ALL_STATUSES, Answering, learn, memories, replies, rows, shown, talk
from tests.e2e.methods import ask
from tests.e2e.test_rollback import take_back
from tests.scripted_model import ChatAnswer, ChatRequest, ScriptedModel
from tests.scripted_model.answers import change
from tests.scripted_model.answers import memory as new_memory

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
DAY = timedelta(days=1)
BEES = "The user keeps bees."
FORGOTTEN = memory_pb2.MEMORY_STATUS_FORGOTTEN


def stating(_: ChatRequest) -> Mapping[str, Any]:
    return {"new_memories": [new_memory(BEES, ["m1"])]}


def forgetting(request: ChatRequest) -> Mapping[str, Any]:
    return {"forgotten_memories": [{"id": shown(request, "bees"), "source_message_ids": ["m1"]}]}


async def tell(services: Services, conversation: str, *words: str, day: int) -> Mapping[str, int]:
    said = talk(*words, conversation=conversation, at=NOON + day * DAY)
    return (await learn(services, said)).counts


async def messages(services: Services) -> set[str]:
    """The messages that a search tells of."""
    found = await ask(
        services, "SearchMemories", query="keep bees", scopes=[search_pb2.SEARCH_SCOPE_MESSAGES]
    )
    return {hit.message.content for hit in found.results}


@pytest.fixture
async def asked_to_forget(modelled: Services, model: ScriptedModel) -> Services:
    """Ana, who keeps bees, a request to forget that, and what arrives later and says it again."""
    model.script = replies({"forget": forgetting, "I keep bees": stating})
    await tell(modelled, "first", "I keep bees", day=0)
    await tell(modelled, "bad", "Please forget my insects", day=2)
    assert (await tell(modelled, "other", "As you know I keep bees", day=1))["kept_forgotten"] == 1
    return modelled


async def test_row_10_messages_that_say_it_are_told_to_nobody(asked_to_forget: Services) -> None:
    (held,) = await memories(asked_to_forget, statuses=ALL_STATUSES)
    assert held.status == FORGOTTEN
    assert await messages(asked_to_forget) == set()
    await restore(asked_to_forget, held.id)
    assert {"I keep bees", "As you know I keep bees"} <= await messages(asked_to_forget)


async def test_row_72_they_state_it_once_the_request_is_taken_back(
    asked_to_forget: Services,
) -> None:
    await take_back(asked_to_forget, conversation_id="bad")
    (held,) = await memories(asked_to_forget)
    assert {each.conversation_id for each in held.sources} == {"first", "other"}
    assert held.last_confirmed_at.ToDatetime(UTC) == NOON + DAY
    await take_back(asked_to_forget, conversation_id="first")
    (held,) = await memories(asked_to_forget)
    assert {each.conversation_id for each in held.sources} == {"other"}
    assert held.conversation_id == "other"
    assert held.valid_from.ToDatetime(UTC) == NOON + DAY
    assert not held.HasField("last_confirmed_at")


async def test_row_10_they_stay_untold_when_their_conversation_is_taken_back(
    asked_to_forget: Services,
) -> None:
    """They say what is forgotten all the same, but are no source of it any more."""
    await take_back(asked_to_forget, conversation_id="other")
    assert await messages(asked_to_forget) == set()
    (held,) = await memories(asked_to_forget, statuses=ALL_STATUSES)
    back = await restore(asked_to_forget, held.id)
    assert "other" not in {each.conversation_id for each in back.sources}


async def test_row_72_nor_is_it_found_by_their_words_once_it_is_restored(
    asked_to_forget: Services, tenant_conninfo: str
) -> None:
    await tell(asked_to_forget, "zoo", "Zebras aside, I keep bees", day=1)
    await take_back(asked_to_forget, conversation_id="zoo")
    (held,) = await memories(asked_to_forget, statuses=ALL_STATUSES)
    await restore(asked_to_forget, held.id)
    words = "SELECT term FROM hitherto.postings WHERE term LIKE 'zebra%'"
    assert rows(tenant_conninfo, words) == []


async def test_row_72_nor_do_they_state_it_once_the_request_is_taken_back_too(
    asked_to_forget: Services,
) -> None:
    for source in ("other", "bad"):
        await take_back(asked_to_forget, conversation_id=source)
    (held,) = await memories(asked_to_forget)
    assert {each.conversation_id for each in held.sources} == {"first"}
    assert not held.HasField("last_confirmed_at")


async def test_row_10_a_request_outlives_one_of_the_sources_that_state_it(
    asked_to_forget: Services,
) -> None:
    await take_back(asked_to_forget, conversation_id="first")
    late = await tell(asked_to_forget, "late", "Of course I keep bees", day=1)
    assert late["kept_forgotten"] == 1
    assert await memories(asked_to_forget) == []


def ending(request: ChatRequest) -> Mapping[str, Any]:
    ended = {"id": shown(request, "bees"), "by": 0, "source_message_ids": ["m1"]}
    return {
        "new_memories": [new_memory("The user dislikes insects.", ["m1"])],
        "contradicted_memories": [ended],
    }


@pytest.mark.parametrize("left", ["first", "other"])
async def test_row_72_what_was_ended_and_said_again_is_one_memory(
    modelled: Services, model: ScriptedModel, left: str
) -> None:
    """It is known as if nobody had ended it, and goes with its sources only."""
    model.script = replies({"insects": ending, "keep bees": stating})
    await tell(modelled, "first", "I keep bees", day=0)
    await tell(modelled, "bad", "I dislike insects", day=1)
    await tell(modelled, "other", "As you know I keep bees", day=2)
    (again,) = [each for each in await memories(modelled) if each.content == BEES]
    await take_back(modelled, conversation_id="bad")
    (bees,) = await memories(modelled)
    assert {each.conversation_id for each in bees.sources} == {"first", "other"}
    assert bees.valid_from.ToDatetime(UTC) == NOON
    assert bees.last_confirmed_at.ToDatetime(UTC) == NOON + 2 * DAY
    assert list(bees.supersedes) == [again.id]
    await take_back(modelled, conversation_id="other" if left == "first" else "first")
    (bees,) = await memories(modelled)
    assert {each.conversation_id for each in bees.sources} == {left}
    assert bees.valid_from.ToDatetime(UTC) == NOON + 2 * DAY * (left == "other")
    assert not bees.HasField("last_confirmed_at")
    await take_back(modelled, conversation_id=left)
    assert await memories(modelled) == []


async def test_row_72_what_was_joined_stands_for_itself_once_the_other_is_gone(
    modelled: Services, model: ScriptedModel
) -> None:
    """Also if it is rebuilt once more: the other one stays gone."""
    model.script = replies({"insects": ending, "keep bees": stating})
    await tell(modelled, "first", "I keep bees", day=0)
    await tell(modelled, "bad", "I dislike insects", day=1)
    await tell(modelled, "other", "As you know I keep bees", day=2)
    await tell(modelled, "third", "Well, I keep bees", day=3)
    for source in ("bad", "first", "other"):
        await take_back(modelled, conversation_id=source)
        (bees,) = await memories(modelled)
    assert {each.conversation_id for each in bees.sources} == {"third"}


@pytest.mark.parametrize("by", ["request", "hand"])
async def test_row_10_what_was_joined_to_it_is_forgotten_with_it(
    modelled: Services, model: ScriptedModel, by: str
) -> None:
    """It stays so whatever is taken back but the request."""
    model.script = replies({"insects": ending, "forget": forgetting, "keep bees": stating})
    await tell(modelled, "first", "I keep bees", day=0)
    await tell(modelled, "bad", "I dislike insects", day=1)
    await tell(modelled, "other", "As you know I keep bees", day=2)
    await take_back(modelled, conversation_id="bad")
    (bees,) = await memories(modelled)
    if by == "hand":
        await forget(modelled, bees.id)
    else:
        await tell(modelled, "asked", "Please forget my bees", day=3)
    assert await memories(modelled) == []
    await take_back(modelled, conversation_id="first")
    assert await memories(modelled) == []
    assert not {"I keep bees", "As you know I keep bees"} & await messages(modelled)
    if by == "request":
        await take_back(modelled, conversation_id="asked")
        (held,) = await memories(modelled)
        assert {each.conversation_id for each in held.sources} == {"other"}


async def test_row_72_joins_without_a_model_are_none_of_the_changes_of_its_day(
    model: ScriptedModel, start_services: StartServices
) -> None:
    model.script = replies({"insects": ending, "keep bees": stating, "no more": ending})
    async with start_services(**model_settings(model), daily_changes=2) as services:
        await tell(services, "first", "I keep bees", day=0)
        await tell(services, "bad", "I dislike insects", day=1)
        await tell(services, "other", "As you know I keep bees", day=2)
        await take_back(services, conversation_id="bad")
        await tell(services, "late", "There are no more bees", day=3)
        assert BEES not in {each.content for each in await memories(services)}


async def test_row_72_who_says_it_elsewhere_is_believed_though_a_source_was_taken_back(
    modelled: Services, model: ScriptedModel
) -> None:
    """Nobody asked to forget it. From where it was taken back, it is not learnt again."""
    model.script = replies({"I keep bees": stating})
    await tell(modelled, "bad", "I keep bees", day=0)
    await take_back(modelled, conversation_id="bad")
    again = await tell(modelled, "bad", "I keep bees", "I keep bees!", day=1)
    assert again["kept_forgotten"] == 1
    assert await memories(modelled) == []
    assert (await tell(modelled, "other", "As you know I keep bees", day=2))["kept_forgotten"] == 0
    (held,) = await memories(modelled)
    assert {each.conversation_id for each in held.sources} == {"other"}
    assert held.valid_from.ToDatetime(UTC) == NOON + 2 * DAY
    # It is the statement of the other conversation only, whatever is taken back again.
    await take_back(modelled, conversation_id="bad")
    assert [each.id for each in await memories(modelled)] == [held.id]
    # Who restores the first one too has one memory, until the two are parted by hand.
    (first,) = await memories(modelled, statuses=[FORGOTTEN])
    back = await restore(modelled, first.id)
    assert list(back.supersedes) == [held.id]
    assert [each.id for each in await memories(modelled)] == [first.id]
    await restore(modelled, held.id)
    assert [each.id for each in await memories(modelled)] == [first.id, held.id]


async def test_row_72_who_restores_what_was_taken_back_states_it(
    modelled: Services, model: ScriptedModel
) -> None:
    """It stays when something else about it is taken back."""
    model.script = replies({"forget": forgetting, "I keep bees": stating})
    await tell(modelled, "first", "I keep bees", day=0)
    await take_back(modelled, conversation_id="first")
    (held,) = await memories(modelled, statuses=[FORGOTTEN])
    await restore(modelled, held.id)
    await tell(modelled, "bad", "Please forget my insects", day=2)
    assert await memories(modelled) == []
    await take_back(modelled, conversation_id="bad")
    assert [each.content for each in await memories(modelled)] == [BEES]


async def test_row_72_what_followed_the_source_may_replace_what_is_back(
    modelled: Services, model: ScriptedModel
) -> None:
    """Nobody said that Bern ended Oslo, but nobody lives in both."""

    def moving(before: str, after: str) -> Answering:
        return lambda request: {
            "new_memories": [new_memory(f"The user lives in {after}.", ["m1"])],
            "contradicted_memories": [
                {"id": shown(request, before), "by": 0, "source_message_ids": ["m1"]}
            ],
        }

    model.script = replies(
        {
            "now in Oslo": lambda _: {
                "new_memories": [new_memory("The user lives in Oslo.", ["m1"])]
            },
            "now in Rome": moving("Oslo", "Rome"),
            "now in Bern": moving("Rome", "Bern"),
        }
    )
    for day, town in enumerate(("Oslo", "Rome", "Bern")):
        await tell(modelled, town, f"now in {town}", day=day)
    await take_back(modelled, conversation_id="Rome")
    oslo, bern = await memories(modelled)
    assert (oslo.content, bern.content) == ("The user lives in Oslo.", "The user lives in Bern.")
    assert list(bern.may_replace) == [oslo.id]


async def test_row_10_what_was_forgotten_at_once_stays_so_whatever_is_taken_back(
    modelled: Services, model: ScriptedModel
) -> None:
    """The request stands in the conversation that said it first, and that one counts still."""

    def secretly(_: ChatRequest) -> Mapping[str, Any]:
        forgotten = {"new": 0, "source_message_ids": ["m1"], "quote": "do not remember that"}
        return {**stating(_), "forgotten_memories": [forgotten]}

    model.script = replies({"do not remember that": secretly, "I keep bees": stating})
    await tell(modelled, "first", "I keep bees, do not remember that", day=1)
    assert (await tell(modelled, "late", "As you know I keep bees", day=0))["kept_forgotten"] == 1
    await take_back(modelled, conversation_id="late")
    (held,) = await memories(modelled, statuses=ALL_STATUSES)
    assert held.status == FORGOTTEN


SOME_BEES = "The user keeps some bees."


async def test_row_72_what_was_near_to_what_was_forgotten_states_it_too(
    modelled: Services, model: ScriptedModel
) -> None:
    """Its message is told to nobody either, and it stands alone once nothing else states it."""
    model.script = replies(
        {
            "forget": forgetting,
            "some bees": lambda _: {"new_memories": [new_memory(SOME_BEES, ["m1"])]},
            "I keep bees": stating,
        }
    )
    await tell(modelled, "first", "I keep bees", day=0)
    await tell(modelled, "bad", "Please forget my insects", day=2)
    assert (await tell(modelled, "near", "There are some bees", day=1))["kept_forgotten"] == 1
    assert "There are some bees" not in await messages(modelled)
    await take_back(modelled, conversation_id="bad")
    (held,) = await memories(modelled)
    assert held.content == BEES
    assert {each.conversation_id for each in held.sources} == {"first", "near"}
    await take_back(modelled, conversation_id="first")
    (held,) = await memories(modelled)
    assert held.content == SOME_BEES
    assert {each.conversation_id for each in held.sources} == {"near"}
    assert held.valid_from.ToDatetime(UTC) == NOON + DAY


async def test_row_72_it_may_replace_it_only_while_something_says_so(
    modelled: Services, model: ScriptedModel
) -> None:
    """That Bern ended Rome is taken back too: nothing links Bern and Oslo any more."""

    def living(town: str, *before: str) -> Answering:
        return lambda request: {
            "new_memories": [new_memory(f"The user lives in {town}.", ["m1"])],
            "contradicted_memories": [
                {"id": shown(request, each), "by": 0, "source_message_ids": ["m1"]}
                for each in before
            ],
        }

    model.script = replies(
        {
            "in Oslo": living("Oslo"),
            "in Rome": living("Rome", "Oslo"),
            "in Bern": living("Bern"),
            "not Rome": living("Bern", "Rome"),
        }
    )
    for day, words in enumerate(("in Oslo", "in Rome", "in Bern", "not Rome")):
        await tell(modelled, words, f"I live {words}", day=day)
    await take_back(modelled, conversation_id="in Rome")
    oslo, bern = await memories(modelled)
    assert list(bern.may_replace) == [oslo.id]
    await take_back(modelled, conversation_id="not Rome")
    assert [list(each.may_replace) for each in await memories(modelled)] == [[], []]


async def test_row_72_a_goal_that_was_set_again_is_one_with_it_once_nothing_reached_it(
    modelled: Services, model: ScriptedModel
) -> None:
    """What is taken back had reached it, so that it was a new memory."""
    goal = "The user wants to keep bees"

    def learning(request: ChatRequest) -> Mapping[str, Any]:
        (said,) = request.messages
        if said.content.rstrip("!") == goal:
            made = new_memory(goal, [said.local_id], type="goal")
            return {"new_memories": [made]}
        reached = change(shown(request, "bees"), said.content, said.local_id)
        return {"achieved_goals": [{**reached, "by": None}]}

    model.script = lambda request: ChatAnswer.of(**learning(request))
    await tell(modelled, "first", goal, day=0)
    await tell(modelled, "bad", "I keep bees", day=1)
    await tell(modelled, "again", f"{goal}!", day=2)
    assert len(await memories(modelled)) == 2
    await take_back(modelled, conversation_id="bad")
    (held,) = await memories(modelled)
    assert {each.conversation_id for each in held.sources} == {"first", "again"}
