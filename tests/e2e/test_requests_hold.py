"""A request to forget holds, whatever is taken back but the request (faults.md, rows 10 and 72).

What was joined to something forgotten, and what comes back in the words of something forgotten,
stay untold with it, now and at every earlier time; once the request is taken back, nothing is lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hitherto.v1 import change_pb2, memory_pb2
from tests.e2e.conftest import Services
from tests.e2e.curating import forget, restore, save, update
from tests.e2e.learning import learn, memories, shown, talk
from tests.e2e.merging import (
    CASUAL,
    STYLE,
    all_into,
    consolidate,
    consolidations,
    merged_memory,
    say,
)
from tests.e2e.merging import script as merging
from tests.e2e.methods import ask
from tests.e2e.receiver import Receiver
from tests.e2e.reconciling import (
    COMMUTE,
    SISTER,
    Settling,
    jobs,
    joining,
    nothing,
    replacing,
    script,
    settled,
    with_words,
)
from tests.e2e.test_rollback import take_back
from tests.e2e.travelling import contents_at
from tests.e2e.watching import Watcher
from tests.scripted_model import ChatAnswer, ChatRequest, ScriptedModel
from tests.scripted_model.answers import change, quoting
from tests.scripted_model.answers import memory as new_memory
from tests.waiting import eventually

STATUS = memory_pb2.MemoryStatus
NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
MEAT, NONE, VEGETARIAN = "Ana avoids meat", "Ana does not eat any meat", "Ana is a vegetarian"
DIETS = {MEAT, NONE, VEGETARIAN}

SERVICE_SETTINGS = {"reconcile": True, "webhook_private": True}


def learning(request: ChatRequest) -> Mapping[str, Any]:
    """Learn each message word for word; one that begins so asks to forget, or ends, some words."""
    (said,) = request.messages
    verb, _, words = said.content.partition(": ")
    if verb not in ("Forget", "No longer"):
        return {"new_memories": [new_memory(said.content.rstrip("!"), [said.local_id])]}
    known = change(shown(request, words), said.content, said.local_id)
    if verb == "Forget":
        return {"forgotten_memories": [known]}
    new = new_memory("Ana has changed", [said.local_id])
    return {"new_memories": [new], "contradicted_memories": [{**known, "by": 0}]}


async def tell(services: Services, conversation: str, words: str, day: int) -> Mapping[str, int]:
    at = NOON + timedelta(days=day)
    return (await learn(services, talk(words, conversation=conversation, at=at))).counts


async def told(services: Services) -> set[str]:
    """What is told of the diet."""
    return {each.content for each in await memories(services)} & DIETS


async def join(services: Services, model: ScriptedModel, keep: str, other: str, why: str) -> str:
    """Let a reconciliation join two memories, set off by saving something; its job."""
    model.script = script(joining(keep, other), learning)
    await save(services, why)
    assert (await settled(services)).counts["joined"] == 1
    return (await jobs(services))[0].id


async def ask_to_forget(services: Services, words: str, by: str) -> None:
    if by == "hand":
        await forget(services, (await with_words(services, words)).id)
    else:
        await tell(services, "asked", f"Forget: {words}", day=5)


@pytest.fixture
async def chained(modelled: Services, model: ScriptedModel) -> Services:
    """NONE was joined to MEAT, and MEAT to VEGETARIAN; each was said once."""
    model.script = script(nothing, learning)
    await tell(modelled, "none", NONE, day=0)
    await tell(modelled, "meat", MEAT, day=1)
    await join(modelled, model, MEAT, NONE, SISTER)
    await tell(modelled, "vegetarian", VEGETARIAN, day=2)
    await join(modelled, model, VEGETARIAN, MEAT, COMMUTE)
    assert await told(modelled) == {VEGETARIAN}
    return modelled


@pytest.mark.parametrize("by", ["hand", "request"])
async def test_row_10_what_was_joined_by_a_chain_stays_forgotten(
    chained: Services, by: str
) -> None:
    await ask_to_forget(chained, VEGETARIAN, by)
    await take_back(chained, conversation_id="meat")
    assert await told(chained) == set()
    await take_back(chained, conversation_id="vegetarian")
    assert await told(chained) == set()
    # Nor does who says it late, but said it before, bring it back.
    assert (await tell(chained, "late", f"{MEAT}!", day=3))["kept_forgotten"] == 1
    if by == "request":
        await take_back(chained, conversation_id="late")
        await take_back(chained, conversation_id="asked")
        assert await told(chained) == {NONE}


async def test_row_10_and_comes_back_with_it(chained: Services) -> None:
    await ask_to_forget(chained, VEGETARIAN, "request")
    await take_back(chained, conversation_id="meat")
    await take_back(chained, conversation_id="asked")
    assert await told(chained) == {VEGETARIAN}
    kept = await with_words(chained, VEGETARIAN)
    assert {each.conversation_id for each in kept.sources} == {"vegetarian", "none"}
    await take_back(chained, conversation_id="vegetarian")
    assert await told(chained) == {NONE}


@pytest.mark.parametrize("by", ["hand", "request"])
async def test_row_10_taking_a_join_back_brings_nothing_forgotten_back(
    modelled: Services, model: ScriptedModel, by: str
) -> None:
    """Whoever asked to forget the one asked for both; once that is taken back, the two part."""
    model.script = script(nothing, learning)
    await tell(modelled, "none", NONE, day=0)
    await tell(modelled, "vegetarian", VEGETARIAN, day=2)
    job_id = await join(modelled, model, VEGETARIAN, NONE, COMMUTE)
    await ask_to_forget(modelled, VEGETARIAN, by)
    await take_back(modelled, job_id=job_id)
    assert await told(modelled) == set()
    if by == "hand":
        await restore(modelled, (await with_words(modelled, VEGETARIAN)).id)
    else:
        await take_back(modelled, conversation_id="asked")
    assert await told(modelled) == {VEGETARIAN}
    await take_back(modelled, job_id=job_id)
    assert await told(modelled) == {NONE, VEGETARIAN}


async def test_row_72_a_request_and_a_join_taken_back_at_once_leave_both(
    modelled: Services, model: ScriptedModel
) -> None:
    model.script = script(nothing, learning)
    await tell(modelled, "none", NONE, day=0)
    await tell(modelled, "vegetarian", VEGETARIAN, day=2)
    job_id = await join(modelled, model, VEGETARIAN, NONE, COMMUTE)
    since = (await ask(modelled, "GetJob", job_id=job_id)).job.started_at
    await ask_to_forget(modelled, VEGETARIAN, "request")
    await take_back(modelled, since=since)
    assert await told(modelled) == {NONE, VEGETARIAN}


@pytest.mark.parametrize("asked_again", [True, False])
async def test_row_10_what_was_joined_after_a_request_parts_with_what_let_it_join(
    modelled: Services, model: ScriptedModel, asked_again: bool
) -> None:
    """Nobody asked to forget it, unless they have asked once more since."""
    model.script = script(nothing, learning)
    await tell(modelled, "meat", MEAT, day=0)
    await tell(modelled, "vegetarian", VEGETARIAN, day=1)
    await ask_to_forget(modelled, MEAT, "hand")
    since = datetime.now(UTC)
    await learn(modelled, talk(MEAT, conversation="again", at=since))
    await join(modelled, model, MEAT, VEGETARIAN, COMMUTE)
    assert await told(modelled) == {MEAT}
    if asked_again:
        await ask_to_forget(modelled, MEAT, "hand")
    await take_back(modelled, since=since)
    assert await told(modelled) == (set() if asked_again else {VEGETARIAN})


@pytest.mark.parametrize("by", ["hand", "request"])
async def test_row_10_what_comes_back_in_forgotten_words_stays_untold(
    modelled: Services, model: ScriptedModel, by: str
) -> None:
    """It had ended when somebody asked to forget those words, as said meanwhile."""
    model.script = script(nothing, learning)
    await tell(modelled, "first", MEAT, day=0)
    await tell(modelled, "bad", f"No longer: {MEAT}", day=1)
    await tell(modelled, "again", f"{MEAT}!", day=2)
    (again,) = [each for each in await memories(modelled) if each.content == MEAT]
    if by == "hand":
        await forget(modelled, again.id)
    else:
        await tell(modelled, "asked", f"Forget: {MEAT}", day=3)
    counts = await take_back(modelled, conversation_id="bad")
    assert await told(modelled) == set()
    assert counts["memories_restored"] == 0
    if by == "hand":
        await restore(modelled, again.id)
    else:
        await take_back(modelled, conversation_id="asked")
    (held,) = [each for each in await memories(modelled) if each.content == MEAT]
    assert {each.conversation_id for each in held.sources} == {"first", "again"}
    await take_back(modelled, conversation_id="again")
    (held,) = [each for each in await memories(modelled) if each.content == MEAT]
    assert {each.conversation_id for each in held.sources} == {"first"}


@pytest.mark.parametrize("by", ["hand", "request"])
async def test_row_10_no_past_tells_what_was_joined_to_it(chained: Services, by: str) -> None:
    known_at = (await with_words(chained, VEGETARIAN)).created_at
    pasts: list[tuple[dict[str, Any], set[str]]] = [
        ({"as_of": NOON + timedelta(hours=12)}, {NONE}),
        ({"as_of": NOON + timedelta(hours=36)}, {MEAT}),
        ({"known_at": known_at}, {MEAT, VEGETARIAN}),
    ]

    async def told_then() -> list[set[str]]:
        return [DIETS & set(await contents_at(chained, **moment)) for moment, _ in pasts]

    assert await told_then() == [words for _, words in pasts]
    await ask_to_forget(chained, VEGETARIAN, by)
    assert await told_then() == [set(), set(), set()]
    if by == "request":
        await take_back(chained, conversation_id="asked")
        assert await told_then() == [words for _, words in pasts]


def tagging(request: ChatRequest) -> Mapping[str, Any]:
    """Learn, with a tag for each exclamation mark."""
    (said,) = request.messages
    marks = len(said.content) - len(said.content.rstrip("!"))
    learnt = learning(request)
    for new in learnt.get("new_memories", ()):
        new["tags"] = ["once", "twice"][:marks]
    return learnt


async def told_of(
    watcher: Watcher, receiver: Receiver, memory_id: str, version: int
) -> tuple[str, str]:
    """The words that changes of a memory tell after a version, to a stream and a webhook.

    A stream may begin with changes from just before it.
    """

    def heard(changes: Sequence[change_pb2.MemoryChange]) -> set[str]:
        mine = [each for each in changes if each.memory_id == memory_id]
        return {each.memory.content for each in mine if each.version > version}

    def received() -> set[str]:
        changes = [each.data["change"] for each in receiver.received]
        mine = [each for each in changes if each.get("memoryId") == memory_id]
        return {
            each.get("memory", {}).get("content", "") for each in mine if each["version"] > version
        }

    await watcher.until(lambda changes: bool(heard(changes)))
    await eventually(lambda: bool(received()))
    ((streamed,), (sent,)) = heard(watcher.heard), received()
    return streamed, sent


async def test_row_10_no_change_tells_the_words_of_what_was_joined_to_it(
    modelled: Services, model: ScriptedModel
) -> None:
    model.script = script(nothing, tagging)
    await tell(modelled, "none", NONE, day=0)
    await tell(modelled, "again", f"{NONE}!", day=1)
    await tell(modelled, "third", f"{NONE}!!", day=2)
    await tell(modelled, "vegetarian", VEGETARIAN, day=3)
    await join(modelled, model, VEGETARIAN, NONE, COMMUTE)
    joined = await with_words(modelled, NONE)
    async with Receiver() as receiver, Watcher(modelled, include_content=True) as watcher:
        await ask(modelled, "CreateWebhook", url=receiver.url, include_content=True)
        await take_back(modelled, conversation_id="third")
        assert await told_of(watcher, receiver, joined.id, joined.version) == (NONE, NONE)
        joined = await with_words(modelled, NONE)
        await ask_to_forget(modelled, VEGETARIAN, "hand")
        await take_back(modelled, conversation_id="again")
        assert await told_of(watcher, receiver, joined.id, joined.version) == ("", "")


async def test_row_72_who_says_it_after_a_request_is_heard(
    modelled: Services, model: ScriptedModel
) -> None:
    """Whatever has changed of the forgotten memory since."""
    model.script = script(nothing, tagging)
    await tell(modelled, "first", MEAT, day=0)
    await tell(modelled, "again", f"{MEAT}!", day=1)
    gone = await forget(modelled, (await with_words(modelled, MEAT)).id)
    between = datetime.now(UTC)
    await take_back(modelled, conversation_id="again")
    assert (await with_words(modelled, MEAT)).version > gone.version
    result = await learn(modelled, talk(MEAT, conversation="later", at=between))
    assert result.counts["kept_forgotten"] == 0
    assert await told(modelled) == {MEAT}


async def test_row_72_what_was_told_after_a_request_comes_back(
    modelled: Services, model: ScriptedModel
) -> None:
    """A correction says it since; the request is older, whatever has changed of what it forgot."""
    model.script = script(nothing, tagging)
    await tell(modelled, "none", NONE, day=0)
    other = await with_words(modelled, NONE)
    await tell(modelled, "first", MEAT, day=0)
    await tell(modelled, "again", f"{MEAT}!", day=1)
    await forget(modelled, (await with_words(modelled, MEAT)).id)
    await update(modelled, other.id, "content", content=MEAT)
    ending = talk(f"No longer: {MEAT}", conversation="bad", at=datetime.now(UTC))
    await learn(modelled, ending)
    assert await told(modelled) == set()
    await take_back(modelled, conversation_id="again")
    await take_back(modelled, conversation_id="bad")
    assert [m.id for m in await memories(modelled) if m.content == MEAT] == [other.id]


async def test_row_72_who_repeats_joined_words_rewords_nothing(
    modelled: Services, model: ScriptedModel
) -> None:
    """Nor once what came after is taken back."""
    model.script = script(nothing, learning)
    await tell(modelled, "none", NONE, day=0)
    await tell(modelled, "vegetarian", VEGETARIAN, day=2)
    await join(modelled, model, VEGETARIAN, NONE, COMMUTE)
    await tell(modelled, "again", f"{NONE}!", day=3)
    for bad in ("Forget", "No longer"):
        await tell(modelled, bad, f"{bad}: {VEGETARIAN}", day=4)
        assert await told(modelled) == set()
        await take_back(modelled, conversation_id=bad)
        assert await told(modelled) == {VEGETARIAN}
    await take_back(modelled, conversation_id="vegetarian")
    assert await told(modelled) == {NONE}


@pytest.mark.parametrize("order", ["source first", "request first"])
async def test_row_72_nobody_asks_any_more_to_forget_what_was_taken_back(
    modelled: Services, model: ScriptedModel, order: str
) -> None:
    """In whichever order the source and the request are taken back."""
    model.script = script(nothing, learning)
    await tell(modelled, "first", MEAT, day=0)
    await tell(modelled, "asked", f"Forget: {MEAT}", day=2)
    sources = ["first", "asked"] if order == "source first" else ["asked", "first"]
    for each in sources:
        await take_back(modelled, conversation_id=each)
    assert (await tell(modelled, "late", f"{MEAT}!", day=1))["kept_forgotten"] == 0
    assert await told(modelled) == {MEAT}


SWEETS = [
    "Ana bakes cakes",
    "Ana bakes pies",
    "Ana bakes buns",
    "Ana bakes rolls",
    "Ana bakes tarts",
]
BAKES, RARELY = "Ana bakes all kinds of sweets", "Ana bakes sweets only rarely now"


def baking(settling: Settling) -> Any:
    """Merge what is shown, settle as told, and update the merged memory where it is spoken of."""
    ordinary = script(settling, learning)

    def answer(request: ChatRequest) -> ChatAnswer:
        if request.consolidation:
            return ChatAnswer.of(memories=list(all_into(BAKES, type="fact")(request)))
        said = request.messages[0].content if request.messages else ""
        if said == "Update":
            update = {"id": shown(request, BAKES), "content": f"{BAKES} for friends"}
            return quoting(request, updated_memories=[{**update, "source_message_ids": ["m1"]}])
        if said in SWEETS:
            return ChatAnswer.of(new_memories=[new_memory(said, ["m1"], tags=[STYLE])])
        return ordinary(request)

    return answer


async def merge_and_update(services: Services, model: ScriptedModel) -> str:
    model.script = baking(nothing)
    for day, sweet in enumerate(SWEETS):
        await tell(services, f"c{day}", sweet, day=day)
    await consolidate(services, tag=STYLE)
    merged = await merged_memory(services)
    await tell(services, "update", "Update", day=6)
    return merged.id


async def test_row_72_what_was_said_of_a_merge_outlives_an_ending_that_was_taken_back(
    modelled: Services, model: ScriptedModel
) -> None:
    """A reconciliation ended the merged memory because of a statement that is gone."""
    merged = await merge_and_update(modelled, model)
    model.script = baking(replacing(BAKES, RARELY))
    await tell(modelled, "rarely", RARELY, day=7)
    await save(modelled, SISTER)
    await settled(modelled)
    ended = await with_words(modelled, BAKES)
    assert (ended.id, ended.status) == (merged, STATUS.MEMORY_STATUS_CONTRADICTED)
    await take_back(modelled, conversation_id="rarely")
    newer = f"{BAKES} for friends"
    assert newer in {each.content for each in await memories(modelled)}
    await ask(modelled, "UndoConsolidation", memory_id=merged)
    assert {newer, *SWEETS} <= {each.content for each in await memories(modelled)}


async def test_a_merge_that_leaves_something_said_since_is_left_alone_once_undone(
    modelled: Services, model: ScriptedModel
) -> None:
    """Its group was processed as it is in the end: no model is asked about it again."""
    model.script = merging(all_into(CASUAL[0]))
    await say(modelled, *CASUAL, "The user likes a casual tone")
    await consolidate(modelled, tag=STYLE)
    await say(modelled, CASUAL[0], conversation="c2")
    await ask(modelled, "UndoConsolidation", memory_id=(await merged_memory(modelled)).id)
    asked = len(consolidations(list(model.chat_requests)))
    await consolidate(modelled)
    assert len(consolidations(list(model.chat_requests))) == asked
