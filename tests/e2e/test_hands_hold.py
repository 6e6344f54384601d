"""What somebody does by hand holds, whatever else is taken back (faults.md, rows 10 and 72).

Who restores a memory states it, and who forgets one asks for it, also if it is forgotten. What came
later undoes no merge that was made before it.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.e2e.conftest import Services
from tests.e2e.curating import REJECT, forget, restore, review, save, update
from tests.e2e.learning import learn, memories, rows, talk
from tests.e2e.merging import STYLE, all_into, consolidate, merged_memory
from tests.e2e.methods import ask
from tests.e2e.privacy import choose
from tests.e2e.reconciling import COMMUTE, nothing, script, settled, with_words
from tests.e2e.sealing import ENCRYPTING
from tests.e2e.test_one_act import correct
from tests.e2e.test_requests_hold import (
    MEAT,
    NONE,
    NOON,
    VEGETARIAN,
    join,
    learning,
    told,
)
from tests.e2e.test_rollback import take_back
from tests.scripted_model import ChatAnswer, ChatRequest, ScriptedModel
from tests.scripted_model.answers import memory as new_memory

SERVICE_SETTINGS = {"reconcile": True, **ENCRYPTING}


async def tell(services: Services, conversation: str, words: str, day: int) -> None:
    """Say something on some day, also in a conversation in which something was said before."""
    said = talk(words, conversation=conversation, at=NOON + timedelta(days=day))
    said.messages[0].id = f"{conversation}-{day}"
    await learn(services, said)


@pytest.mark.parametrize("was", ["forgotten first", "taken back first"])
async def test_row_72_what_somebody_restored_outlives_later_roll_backs(
    modelled: Services, model: ScriptedModel, was: str
) -> None:
    """Whether it was forgotten by hand too, in either order."""
    model.script = script(nothing, learning)
    await tell(modelled, "first", MEAT, day=0)
    held = await with_words(modelled, MEAT)
    if was == "forgotten first":
        await forget(modelled, held.id)
    await take_back(modelled, conversation_id="first")
    await restore(modelled, held.id)
    (before,) = [each for each in await memories(modelled) if each.id == held.id]
    for day, verb in enumerate(("No longer", "Forget"), start=1):
        await tell(modelled, "bad", f"{verb}: {MEAT}", day=day)
        assert await told(modelled) == set()
        await take_back(modelled, conversation_id="bad")
        (after,) = [each for each in await memories(modelled) if each.id == held.id]
        assert (after.content, after.sources) == (MEAT, before.sources)
    # Nor is what it is restored from taken back twice.
    await take_back(modelled, conversation_id="first")
    assert await told(modelled) == {MEAT}


async def test_row_72_what_somebody_restored_and_others_stated_goes_with_these(
    modelled: Services, model: ScriptedModel
) -> None:
    """The restore only undid the forgetting."""
    model.script = script(nothing, learning)
    await tell(modelled, "first", MEAT, day=0)
    held = await with_words(modelled, MEAT)
    await forget(modelled, held.id)
    await restore(modelled, held.id)
    await take_back(modelled, conversation_id="first")
    assert await told(modelled) == set()


async def test_row_72_what_was_parted_by_hand_outlives_later_roll_backs(
    modelled: Services, model: ScriptedModel
) -> None:
    """It was joined to something forgotten when its source was taken back."""
    model.script = script(nothing, learning)
    await tell(modelled, "none", NONE, day=0)
    await tell(modelled, "vegetarian", VEGETARIAN, day=1)
    await join(modelled, model, VEGETARIAN, NONE, COMMUTE)
    await forget(modelled, (await with_words(modelled, VEGETARIAN)).id)
    await take_back(modelled, conversation_id="none")
    await restore(modelled, (await with_words(modelled, NONE)).id)
    assert await told(modelled) == {NONE}
    model.script = script(nothing, learning)
    await tell(modelled, "bad", f"No longer: {NONE}", day=2)
    await take_back(modelled, conversation_id="bad")
    assert await told(modelled) == {NONE}


async def test_row_72_who_restores_vouches_also_for_what_the_memory_was_joined_to(
    modelled: Services, model: ScriptedModel
) -> None:
    """It has those sources until they part, also if a request was taken back meanwhile."""
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
    asking = talk(f"Forget: {VEGETARIAN}", conversation="asked", at=datetime.now(UTC))
    await learn(modelled, asking)
    assert await told(modelled) == set()
    await take_back(modelled, conversation_id="asked")
    after = await with_words(modelled, VEGETARIAN)
    assert after.sources == before.sources
    assert await told(modelled) == {VEGETARIAN}


HABITS = [
    "Ana bakes cakes",
    "Ana bakes pies",
    "Ana bakes buns",
    "Ana bakes rolls",
    "Ana bakes tarts",
]
BAKES = "Ana bakes all kinds of sweets"


async def merge_habits(services: Services, model: ScriptedModel, *, restored: bool = False) -> None:
    """Merge what five conversations said; somebody may have `restored` what the first one did."""
    ordinary = script(nothing, learning)

    def answer(request: ChatRequest) -> ChatAnswer:
        if request.consolidation:
            return ChatAnswer.of(memories=list(all_into(BAKES, type="fact")(request)))
        said = request.messages[0].content.rstrip("!") if request.messages else ""
        if said in HABITS:
            return ChatAnswer.of(new_memories=[new_memory(said, ["m1"], tags=[STYLE])])
        return ordinary(request)

    model.script = answer
    for day, habit in enumerate(HABITS):
        await tell(services, f"c{day}", habit, day=day)
    if restored:
        await take_back(services, conversation_id="c0")
        await restore(services, (await with_words(services, HABITS[0])).id)
    await consolidate(services, tag=STYLE)


async def baked(services: Services) -> set[str]:
    return {each.content for each in await memories(services)} & {BAKES, *HABITS}


@pytest.mark.parametrize("forgotten", [False, True])
async def test_row_72_what_repeats_an_original_later_undoes_no_merge(
    modelled: Services, model: ScriptedModel, forgotten: bool
) -> None:
    """Nor together with a request to forget the merged memory."""
    await merge_habits(modelled, model)
    before = await merged_memory(modelled)
    await tell(modelled, "again", f"{HABITS[0]}!", day=6)
    if forgotten:
        await tell(modelled, "again", f"Forget: {BAKES}", day=7)
        assert await baked(modelled) == set()
    await take_back(modelled, conversation_id="again")
    assert await baked(modelled) == {BAKES}
    after = await merged_memory(modelled)
    assert (after.id, list(after.sources)) == (before.id, list(before.sources))
    await take_back(modelled, conversation_id="c0")
    assert await baked(modelled) == {*HABITS[1:]}


async def test_row_72_a_request_that_is_taken_back_with_a_merge_leaves_its_originals(
    modelled: Services, model: ScriptedModel
) -> None:
    """The conversation of one original asked to forget the merged memory."""
    await merge_habits(modelled, model)
    await tell(modelled, "c0", f"Forget: {BAKES}", day=6)
    assert await baked(modelled) == set()
    await take_back(modelled, conversation_id="c0")
    assert await baked(modelled) == {*HABITS[1:]}


async def test_row_10_undoing_a_merge_brings_nothing_forgotten_back(
    modelled: Services, model: ScriptedModel
) -> None:
    """Somebody asked to forget the words of an original while the merged memory stood for it."""
    await merge_habits(modelled, model)
    other = (await save(modelled, "Ana bakes bread")).memory
    await update(modelled, other.id, "content", content=HABITS[0])
    await forget(modelled, other.id)
    merged = await merged_memory(modelled)
    undone = await ask(modelled, "UndoConsolidation", memory_id=merged.id)
    assert {each.content for each in undone.memories if each.superseded_by} == {HABITS[0]}
    assert await baked(modelled) == {*HABITS[1:]}
    await restore(modelled, other.id)
    assert await baked(modelled) == {*HABITS}


async def test_row_10_a_request_by_hand_outlives_the_one_before_it(
    modelled: Services, model: ScriptedModel
) -> None:
    """A conversation had asked to forget the same, and is taken back."""
    model.script = script(nothing, learning)
    await tell(modelled, "first", MEAT, day=0)
    await tell(modelled, "asked", f"Forget: {MEAT}", day=1)
    asked = await with_words(modelled, MEAT)
    again = await forget(modelled, asked.id)
    assert again.version == asked.version + 1
    assert (await forget(modelled, asked.id)).version == again.version
    await take_back(modelled, conversation_id="asked")
    assert await told(modelled) == set()
    # It is a request still: what was said before it stays forgotten.
    await tell(modelled, "late", f"{MEAT}!", day=2)
    assert await told(modelled) == set()
    await restore(modelled, asked.id)
    assert await told(modelled) == {MEAT}


async def test_row_10_a_request_by_hand_holds_for_what_was_taken_back(
    modelled: Services, model: ScriptedModel
) -> None:
    """Who says it elsewhere is not believed, unless later."""
    model.script = script(nothing, learning)
    await tell(modelled, "first", MEAT, day=0)
    await take_back(modelled, conversation_id="first")
    await forget(modelled, (await with_words(modelled, MEAT)).id)
    await tell(modelled, "late", f"{MEAT}!", day=1)
    assert await told(modelled) == set()


async def test_row_72_what_is_said_again_has_nothing_of_a_source_that_is_gone(
    modelled: Services, model: ScriptedModel
) -> None:
    """Its source was taken back while it was forgotten: it begins anew."""
    model.script = script(nothing, learning)
    await tell(modelled, "first", MEAT, day=0)
    await forget(modelled, (await with_words(modelled, MEAT)).id)
    await take_back(modelled, conversation_id="first")
    later = datetime.now(UTC)
    await learn(modelled, talk(MEAT, conversation="later", at=later))
    (held,) = [each for each in await memories(modelled) if each.content == MEAT]
    assert held.valid_from.ToDatetime(UTC) == later
    assert [each.conversation_id for each in held.sources] == ["later"]
    await take_back(modelled, conversation_id="later")
    assert await told(modelled) == set()


async def test_row_10_clearing_asks_to_forget_what_a_conversation_has_forgotten(
    modelled: Services, model: ScriptedModel
) -> None:
    """Also once that conversation is taken back. What was cleared is not cleared again."""
    model.script = script(nothing, learning)
    await tell(modelled, "first", MEAT, day=0)
    await tell(modelled, "asked", f"Forget: {MEAT}", day=1)
    for _ in range(2):
        cleared = await ask(modelled, "ClearMemories")
        assert cleared.counts["memories"] == 0
        assert (await with_words(modelled, MEAT)).version == 3
    await take_back(modelled, conversation_id="asked")
    assert await told(modelled) == set()


@pytest.mark.parametrize("encrypts", [True, False])
@pytest.mark.parametrize("forgotten", [True, False])
async def test_row_72_what_was_sealed_stays_so_if_it_is_said_again(
    modelled: Services,
    model: ScriptedModel,
    tenant_conninfo: str,
    forgotten: bool,
    encrypts: bool,
) -> None:
    """Its source was taken back; also if encryption was turned off since."""
    await choose(modelled, encrypt_sensitive=True)
    model.script = script(nothing, learning)
    await tell(modelled, "first", MEAT, day=0)
    held = await with_words(modelled, MEAT)
    await update(modelled, held.id, "sensitive", sensitive=True)
    if forgotten:
        await forget(modelled, held.id)
    await take_back(modelled, conversation_id="first")
    if not encrypts:
        await choose(modelled, encrypt_sensitive=False)
    await learn(modelled, talk(MEAT, conversation="later", at=datetime.now(UTC)))
    assert await told(modelled) == {MEAT}
    sealed = "SELECT sensitive, sealed IS NOT NULL FROM hitherto.memories"
    assert set(rows(tenant_conninfo, sealed)) == {(True, True)}
    await take_back(modelled, conversation_id="later")
    assert await told(modelled) == set()
    assert set(rows(tenant_conninfo, sealed)) == {(True, True)}


@pytest.mark.parametrize("other", ["late", "before"])
async def test_row_72_what_is_said_again_has_nothing_of_a_source_that_is_gone_beside_another(
    modelled: Services, model: ScriptedModel, other: str
) -> None:
    """Something else states what was forgotten: it was said late, or before."""
    model.script = script(nothing, learning)
    await tell(modelled, "first", MEAT, day=0)
    if other == "before":
        await tell(modelled, "before", f"{MEAT}!", day=1)
        await forget(modelled, (await with_words(modelled, MEAT)).id)
        await take_back(modelled, conversation_id="first")
    else:
        await take_back(modelled, conversation_id="first")
        await forget(modelled, (await with_words(modelled, MEAT)).id)
        await tell(modelled, "late", f"{MEAT}!", day=1)
    assert await told(modelled) == set()
    later = datetime.now(UTC)
    await learn(modelled, talk(MEAT, conversation="later", at=later))
    (held,) = [each for each in await memories(modelled) if each.content == MEAT]
    assert held.valid_from.ToDatetime(UTC) == later
    assert [each.conversation_id for each in held.sources] == ["later"]
    asking = talk(f"Forget: {MEAT}", conversation="asked", at=datetime.now(UTC))
    await learn(modelled, asking)
    assert await told(modelled) == set()
    await take_back(modelled, conversation_id="asked")
    (held,) = [each for each in await memories(modelled) if each.content == MEAT]
    assert [each.conversation_id for each in held.sources] == ["later"]
    await take_back(modelled, conversation_id="later")
    assert await told(modelled) == set()


async def test_row_10_clearing_changes_nothing_that_a_review_rejected(
    modelled: Services, model: ScriptedModel
) -> None:
    """That was a request to forget it too."""
    model.script = script(nothing, learning)
    await tell(modelled, "first", MEAT, day=0)
    claim = talk(("assistant", f"No longer: {MEAT}"), conversation="claim", at=NOON)
    await learn(modelled, claim)
    claimed = await with_words(modelled, "Ana has changed")
    rejected = await review(modelled, claimed.id, REJECT)
    assert (await ask(modelled, "ClearMemories")).counts["memories"] == 1
    assert (await forget(modelled, claimed.id)).version == rejected.version


@pytest.mark.parametrize("by", ["a join", "a correction"])
async def test_row_72_what_is_said_again_has_nothing_that_it_had_by(
    modelled: Services, model: ScriptedModel, by: str
) -> None:
    """A forgotten memory has the sources of what was joined to it, or of what was corrected."""
    model.script = script(nothing, learning)
    await tell(modelled, "first", MEAT, day=0)
    held = await with_words(modelled, MEAT)
    if by == "a join":
        await tell(modelled, "other", VEGETARIAN, day=1)
        await join(modelled, model, VEGETARIAN, MEAT, COMMUTE)
        model.script = script(nothing, learning)
        await forget(modelled, (await with_words(modelled, VEGETARIAN)).id)
    else:
        await correct(modelled, held.id, VEGETARIAN, carry_along=True)
    words = VEGETARIAN if by == "a join" else MEAT
    forgotten = await with_words(modelled, words)
    assert "first" in {each.conversation_id for each in forgotten.sources}
    await take_back(modelled, conversation_id="first")
    await learn(modelled, talk(words, conversation="later", at=datetime.now(UTC)))
    (again,) = [each for each in await memories(modelled) if each.content == words]
    assert "first" not in {each.conversation_id for each in again.sources}
