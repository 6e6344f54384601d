"""Who restores what nothing states any more vouches for it (faults.md, row 72).

No later roll-back of the same source takes anything of it back, except what the source has said
about it since.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.e2e.conftest import Services
from tests.e2e.curating import forget, restore, save
from tests.e2e.handing_over import document, taken_in
from tests.e2e.importing import bring
from tests.e2e.learning import memories, shown
from tests.e2e.leaving import export
from tests.e2e.merging import merged_memory
from tests.e2e.methods import ask
from tests.e2e.reconciling import COMMUTE, nothing, script, settled, with_words
from tests.e2e.test_hands_hold import BAKES, HABITS, baked, merge_habits, tell
from tests.e2e.test_requests_hold import MEAT, VEGETARIAN, join, learning, told
from tests.e2e.test_rollback import take_back
from tests.scripted_model import ChatRequest, ScriptedModel
from tests.scripted_model.answers import change
from tests.scripted_model.answers import memory as new_memory

SERVICE_SETTINGS = {"reconcile": True}


async def test_row_72_a_document_that_is_taken_back_again_takes_nothing_that_was_restored(
    modelled: Services, model: ScriptedModel
) -> None:
    model.script = script(nothing, learning)
    (letter,), _ = await taken_in(modelled, document("letter", "Plans.", title="A letter"))
    held = (await save(modelled, MEAT, metadata={"document_id": letter})).memory
    await take_back(modelled, document_id=letter)
    assert await told(modelled) == set()
    await restore(modelled, held.id)
    for _ in range(3):
        await take_back(modelled, document_id=letter)
        assert await told(modelled) == {MEAT}


async def test_row_72_messages_that_somebody_vouched_for_stay(
    modelled: Services, model: ScriptedModel
) -> None:
    """Not those that the same conversation adds afterwards."""
    model.script = script(nothing, learning)
    await tell(modelled, "first", MEAT, day=0)
    held = await with_words(modelled, MEAT)
    await take_back(modelled, conversation_id="first")
    await restore(modelled, held.id)
    before = await with_words(modelled, MEAT)
    assert [each.message_id for each in before.sources] == ["first-0"]
    for said_anew in (False, True, False):
        if said_anew:
            await tell(modelled, "first", f"{MEAT}!", day=1)
            assert len((await with_words(modelled, MEAT)).sources) == 2
        await take_back(modelled, conversation_id="first")
        after = await with_words(modelled, MEAT)
        assert list(after.sources) == list(before.sources)
        assert await told(modelled) == {MEAT}


async def test_row_72_what_was_said_after_a_restore_goes_from_an_imported_memory_too(
    modelled: Services, model: ScriptedModel
) -> None:
    model.script = script(nothing, learning)
    await tell(modelled, "first", MEAT, day=0)
    held = await with_words(modelled, MEAT)
    await take_back(modelled, conversation_id="first")
    await restore(modelled, held.id)
    await tell(modelled, "second", MEAT, day=1)
    await bring(modelled, (await export(modelled)).text.encode(), user="bo")
    for user in ("ana", "bo"):
        source = {"user_id": user, "conversation_id": "second"}
        await ask(modelled, "RollbackSource", **source)
        (after,) = await memories(modelled, user=user)
        assert [each.conversation_id for each in after.sources] == ["first"]


async def test_row_72_messages_that_somebody_vouched_for_stay_with_what_it_was_joined_to(
    modelled: Services, model: ScriptedModel
) -> None:
    model.script = script(nothing, learning)
    await tell(modelled, "meat", MEAT, day=0)
    held = await with_words(modelled, MEAT)
    await take_back(modelled, conversation_id="meat")
    await restore(modelled, held.id)
    await save(modelled, VEGETARIAN)
    await settled(modelled)
    await join(modelled, model, VEGETARIAN, MEAT, COMMUTE)
    before = await with_words(modelled, VEGETARIAN)
    assert [each.conversation_id for each in before.sources] == ["meat"]
    await take_back(modelled, conversation_id="meat")
    assert list((await with_words(modelled, VEGETARIAN)).sources) == list(before.sources)
    assert await told(modelled) == {VEGETARIAN}


async def test_row_72_what_was_restored_before_a_merge_stays_merged(
    modelled: Services, model: ScriptedModel
) -> None:
    """Its conversation is taken back again."""
    await merge_habits(modelled, model, restored=True)
    before = await merged_memory(modelled)
    await take_back(modelled, conversation_id="c0")
    assert await baked(modelled) == {BAKES}
    after = await merged_memory(modelled)
    assert (after.id, list(after.sources)) == (before.id, list(before.sources))
    await take_back(modelled, conversation_id="c1")
    assert await baked(modelled) == {HABITS[0], *HABITS[2:]}


async def test_row_72_what_was_restored_as_ended_is_told_once_that_is_taken_back(
    modelled: Services, model: ScriptedModel
) -> None:
    """It had returned to what it was: contradicted by something that is gone now."""
    model.script = script(nothing, learning)
    await tell(modelled, "first", MEAT, day=0)
    await tell(modelled, "ended", f"No longer: {MEAT}", day=1)
    await take_back(modelled, conversation_id="first")
    held = await restore(modelled, (await with_words(modelled, MEAT)).id)
    assert held.superseded_by
    assert await told(modelled) == set()
    await take_back(modelled, conversation_id="ended")
    assert await told(modelled) == {MEAT}
    after = await with_words(modelled, MEAT)
    assert not after.superseded_by
    assert not after.HasField("valid_to")


def ending(request: ChatRequest) -> Mapping[str, Any]:
    """As `learning`, of goals; what begins so reaches one, or ends it, without a successor."""
    (said,) = request.messages
    verb, _, words = said.content.partition(": ")
    if verb == "No longer":
        return learning(request)
    if verb not in ("Reached", "Over"):
        return {"new_memories": [new_memory(said.content, [said.local_id], type="goal")]}
    known = {**change(shown(request, words), said.content, said.local_id), "by": None}
    return {"achieved_goals" if verb == "Reached" else "contradicted_memories": [known]}


@pytest.mark.parametrize("verb", ["No longer", "Over", "Reached"])
@pytest.mark.parametrize("lapsed", ["by hand", "with its source"])
@pytest.mark.parametrize("first", ["restored", "taken back"])
async def test_row_72_what_is_restored_is_as_before_an_end_that_is_taken_back(
    modelled: Services, model: ScriptedModel, verb: str, lapsed: str, first: str
) -> None:
    """Whether it had a successor or not, in either order, and whatever it lapsed by."""
    model.script = script(nothing, ending)
    await tell(modelled, "first", MEAT, day=0)
    before = await with_words(modelled, MEAT)
    await tell(modelled, "ended", f"{verb}: {MEAT}", day=1)
    assert (await with_words(modelled, MEAT)).HasField("valid_to")
    if lapsed == "by hand":
        await forget(modelled, before.id)
    else:
        await take_back(modelled, conversation_id="first")
    if first == "restored":
        back = await restore(modelled, before.id)
        assert back.HasField("valid_to")
        assert back.status != before.status
    await take_back(modelled, conversation_id="ended")
    after = await restore(modelled, before.id)
    assert after.status == before.status
    assert after.importance == before.importance
    assert not after.superseded_by
    assert not after.HasField("valid_to")


def naming(request: ChatRequest) -> Mapping[str, Any]:
    """Learn each message word for word; `/` parts it from the person that it mentions."""
    (said,) = request.messages
    words, _, person = said.content.rstrip("!").partition(" / ")
    entities = [{"name": person, "type": "person"}]
    return {"new_memories": [new_memory(words, [said.local_id], entities=entities)]}


async def test_row_72_what_is_restored_names_whom_and_where_it_did(
    modelled: Services, model: ScriptedModel
) -> None:
    """Also once somebody else has repeated it, and is taken back."""
    model.script = script(nothing, naming)
    await tell(modelled, "first", f"{MEAT} / Lan", day=0)
    held = await with_words(modelled, MEAT)
    for said_again in (False, True):
        await take_back(modelled, conversation_id="again" if said_again else "first")
        if not said_again:
            assert not (await ask(modelled, "SearchMemories", entity="Lan")).results
            await restore(modelled, held.id)
        found = await ask(modelled, "SearchMemories", entity="Lan")
        assert [each.memory.id for each in found.results] == [held.id]
        told = found.results[0].memory
        assert (list(told.entities), told.conversation_id) == (["Lan"], "first")
        if not said_again:
            await tell(modelled, "again", f"{MEAT}! / Huy", day=1)
            again = await with_words(modelled, MEAT)
            assert list(again.entities) == ["Huy", "Lan"]


async def test_row_72_messages_that_somebody_vouched_for_stay_with_a_part_that_is_repeated(
    modelled: Services, model: ScriptedModel
) -> None:
    """By the same conversation, after the part was joined to another memory."""
    model.script = script(nothing, learning)
    await tell(modelled, "meat", MEAT, day=0)
    held = await with_words(modelled, MEAT)
    await take_back(modelled, conversation_id="meat")
    await restore(modelled, held.id)
    await save(modelled, VEGETARIAN)
    await settled(modelled)
    await join(modelled, model, VEGETARIAN, MEAT, COMMUTE)
    before = await with_words(modelled, VEGETARIAN)
    model.script = script(nothing, learning)
    await tell(modelled, "meat", f"{MEAT}!", day=1)
    assert len((await with_words(modelled, VEGETARIAN)).sources) == 2
    await take_back(modelled, conversation_id="meat")
    for words in (VEGETARIAN, MEAT):
        after = await with_words(modelled, words)
        assert [each.message_id for each in after.sources] == ["meat-0"]
    assert list(before.sources) == list((await with_words(modelled, VEGETARIAN)).sources)


async def test_row_72_a_part_that_only_a_repetition_states_stays_joined(
    modelled: Services, model: ScriptedModel
) -> None:
    model.script = script(nothing, learning)
    await tell(modelled, "meat", MEAT, day=0)
    await save(modelled, VEGETARIAN)
    await settled(modelled)
    await join(modelled, model, VEGETARIAN, MEAT, COMMUTE)
    model.script = script(nothing, learning)
    await tell(modelled, "again", f"{MEAT}!", day=1)
    await take_back(modelled, conversation_id="meat")
    part, whole = await with_words(modelled, MEAT), await with_words(modelled, VEGETARIAN)
    assert part.superseded_by == whole.id
    for each in (part, whole):
        assert [source.conversation_id for source in each.sources] == ["again"]
    await restore(modelled, part.id)
    assert await told(modelled) == {MEAT, VEGETARIAN}


async def test_row_72_what_is_taken_back_twice_was_taken_back_the_first_time(
    modelled: Services, model: ScriptedModel
) -> None:
    """A repetition of an original goes with a merge, and again once that was joined to it anew.

    Between the two, somebody restored the merged memory, which nothing stated any more.
    """
    await merge_habits(modelled, model)
    merged = await merged_memory(modelled)
    await tell(modelled, "again", f"{HABITS[0]}!", day=6)
    await tell(modelled, "own", BAKES, day=7)
    await ask(modelled, "UndoConsolidation", memory_id=merged.id)
    assert await baked(modelled) == {BAKES, *HABITS}
    await take_back(modelled, conversation_id="own")
    await restore(modelled, merged.id)
    await join(modelled, model, BAKES, HABITS[0], COMMUTE)
    assert await baked(modelled) == {BAKES, *HABITS[1:]}
    await take_back(modelled, conversation_id="c0")
    assert await baked(modelled) == {BAKES, *HABITS}


@pytest.mark.parametrize("forgotten", ["by hand", "by a request"])
async def test_row_72_who_restores_again_vouches_for_nothing_more(
    modelled: Services, model: ScriptedModel, forgotten: str
) -> None:
    """A repetition was taken back while the memory was forgotten once more."""
    model.script = script(nothing, learning)
    await tell(modelled, "first", MEAT, day=0)
    held = await with_words(modelled, MEAT)
    await take_back(modelled, conversation_id="first")
    await restore(modelled, held.id)
    await tell(modelled, "again", f"{MEAT}!", day=1)
    if forgotten == "by hand":
        await forget(modelled, held.id)
    else:
        await tell(modelled, "asked", f"Forget: {MEAT}", day=2)
    await take_back(modelled, conversation_id="again")
    if forgotten == "by hand":
        await restore(modelled, held.id)
    else:
        await take_back(modelled, conversation_id="asked")
    after = await with_words(modelled, MEAT)
    assert await told(modelled) == {MEAT}
    assert [each.conversation_id for each in after.sources] == ["first"]
