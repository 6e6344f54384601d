"""What was said meanwhile counts once a source is taken back, and what says a forgotten memory is
told to nobody until then (faults.md, rows 10 and 72)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, timedelta
from typing import Any

from hitherto.v1 import memory_pb2, search_pb2
from tests.e2e.conftest import Services, StartServices
from tests.e2e.learning import ALL_STATUSES, learn, memories, replies, rows, shown, talk
from tests.e2e.methods import ask
from tests.e2e.stories import NOON, Teller, stories
from tests.e2e.test_rollback import take_back
from tests.scripted_model import ChatRequest, ScriptedModel
from tests.scripted_model.answers import memory as new_memory

DAY = timedelta(days=1)
BEES = "The user keeps bees."
FORGOTTEN = memory_pb2.MEMORY_STATUS_FORGOTTEN
ASKED = "first 0: MEAT; bad 2: Forget: MEAT; other 1: MEAT!; counted kept_forgotten: 1"
"""A request to forget, and what arrives later and had said it before the request."""
ENDED = "first 0: MEAT; bad 1: No longer: MEAT; other 2: MEAT!"

SERVICE_SETTINGS = {"reconcile": True}


@stories(
    f"""
    row 10: messages that say it are told to nobody:
        {ASKED}; MEAT is forgotten; messages of: nothing
        restore MEAT; messages of: first bad other
    row 10: what was forgotten already is none of what is cleared:
        first 0: MEAT; second 1: NONE; asked 2: Forget: MEAT; clear; counted memories: 1
    row 72: they state it once the request is taken back:
        {ASKED}; take back bad; told: MEAT; MEAT of first other; MEAT confirmed by other
        take back first; told: MEAT; MEAT of other; MEAT since other; MEAT unconfirmed
    row 10: they stay untold when their conversation is taken back, and are no source any more:
        {ASKED}; take back other; messages of: nothing; restore MEAT; MEAT of bad first
    row 72: nor do they state it once the request is taken back too:
        {ASKED}; take back other; take back bad; told: MEAT; MEAT of first; MEAT unconfirmed
    row 10: a request outlives one of the sources that state it:
        {ASKED}; take back first; late 1: MEAT!!; counted kept_forgotten: 1; told: nothing
    row 72: what was ended and said again is one memory, as if nobody had ended it:
        {ENDED}; remember MEAT; take back bad; told: MEAT; MEAT of first other
        MEAT since first; MEAT confirmed by other; MEAT stands for MEAT
        take back other | take back first
        told: MEAT; MEAT of first | MEAT of other
        MEAT since first | MEAT since other
        MEAT unconfirmed; take back first | take back other
        told: nothing
    row 72: what was joined stands for itself once the other is gone, also rebuilt once more:
        {ENDED}; third 3: MEAT!!; take back bad; take back first; take back other
        told: MEAT; MEAT of third
    row 10: what was joined to it is forgotten with it, whatever is taken back but the request:
        {ENDED}; take back bad; asked 3: Forget: MEAT | forget MEAT
        told: nothing; take back first; told: nothing; messages of: nothing
        take back asked |
        told: MEAT | told: nothing
        MEAT of other |
    row 72: who says it elsewhere is believed though a source was taken back, and only there:
        bad 0: MEAT; take back bad; bad 1: MEAT!; counted kept_forgotten: 1; told: nothing
        other 2: MEAT!!; counted kept_forgotten: 0; told: MEAT; MEAT of other; MEAT since other
        remember MEAT; take back bad; told: MEAT; MEAT as before
        restore MEAT; told: MEAT; MEAT stands for MEAT; restore MEAT; told: MEAT MEAT
    row 72: who restores what was taken back states it:
        first 0: MEAT; take back first; restore MEAT; bad 2: Forget: MEAT; told: nothing
        take back bad; told: MEAT
    row 72: what followed the source may replace what is back, as nobody lives in both:
        oslo 0: OSLO; rome 1: ROME instead of: OSLO; bern 2: BERN instead of: ROME
        take back rome; told: OSLO BERN; BERN may replace OSLO; OSLO goes on
    row 72: it may replace it only while something says so:
        oslo 0: OSLO; rome 1: ROME instead of: OSLO; bern 2: BERN; again 3: BERN instead of: ROME
        take back rome; told: OSLO BERN; BERN may replace OSLO; OSLO may replace nothing
        take back again; told: OSLO BERN; BERN may replace nothing
    row 72: a goal that was set again is one with it once nothing reached it:
        first 0: GOAL; bad 1: Reached: GOAL; again 2: GOAL!; told: GOAL GOAL
        take back bad; told: GOAL; GOAL of first again
    """
)
async def test_what_was_said_meanwhile(modelled: Services, story: Sequence[str]) -> None:
    await Teller(modelled).tell(story)


def stating(_: ChatRequest) -> Mapping[str, Any]:
    return {"new_memories": [new_memory(BEES)]}


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


async def test_row_72_nor_is_it_found_by_their_words_once_it_is_restored(
    modelled: Services,
) -> None:
    ana = Teller(modelled)
    await ana.tell(f"{ASKED}; zoo 1: MEAT #zebras; take back zoo; restore MEAT")
    words = "SELECT term FROM hitherto.postings WHERE term LIKE 'zebra%'"
    assert rows(modelled.conninfo, words) == []


async def test_row_72_joins_without_a_model_are_none_of_the_changes_of_its_day(
    model: ScriptedModel, start_services: StartServices
) -> None:
    async with start_services(model, daily_changes=2) as services:
        ana = Teller(services)
        await ana.tell("first 0: MEAT; bad 1: No longer: MEAT; other 2: MEAT!; take back bad")
        await ana.tell("late 3: No longer: MEAT; told: nothing")


async def test_row_10_what_was_forgotten_at_once_stays_so_whatever_is_taken_back(
    modelled: Services,
) -> None:
    """The request stands in the conversation that said it first, and that one counts still."""

    def secretly(_: ChatRequest) -> Mapping[str, Any]:
        forgotten = {"new": 0, "source_message_ids": ["m1"], "quote": "do not remember that"}
        return {**stating(_), "forgotten_memories": [forgotten]}

    modelled.model.script = replies({"do not remember that": secretly, "I keep bees": stating})
    await tell(modelled, "first", "I keep bees, do not remember that", day=1)
    assert (await tell(modelled, "late", "As you know I keep bees", day=0))["kept_forgotten"] == 1
    await take_back(modelled, conversation_id="late")
    (held,) = await memories(modelled, statuses=ALL_STATUSES)
    assert held.status == FORGOTTEN


SOME_BEES = "The user keeps some bees."


async def test_row_72_what_was_near_to_what_was_forgotten_states_it_too(modelled: Services) -> None:
    """Its message is told to nobody either, and it stands alone once nothing else states it."""
    modelled.model.script = replies(
        {"forget": forgetting, "some bees": [new_memory(SOME_BEES)], "I keep bees": stating}
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
