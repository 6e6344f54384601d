"""B18: a doubt goes and returns with its cause, in whatever order the two memories change."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from hitherto.v1 import memory_pb2
from hitherto.v1 import privacy_service_pb2 as privacy_pb
from tests.e2e.conftest import Services
from tests.e2e.curating import APPROVE, forget, restore, review, save
from tests.e2e.learning import learn, talk
from tests.e2e.methods import ask
from tests.e2e.reconciling import (
    COMMUTE,
    MAY,
    NEW_HOME,
    OLD_HOME,
    SEPTEMBER,
    doubting,
    is_doubtful,
    jobs,
    joining,
    move,
    moving,
    named,
    nothing,
    script,
    settled,
    take_back,
    with_words,
    word_for_word,
)
from tests.e2e.test_doubts_and_their_causes import STATUS, merge_rides
from tests.scripted_model import ChatRequest, ScriptedModel
from tests.scripted_model.answers import change

RIDES = "Ana bikes"
HOME = "Ana's home is in Kassel now"
ROAD = "Ana needs 12 minutes for the road to the university"
KEPT = "Ana bikes to the university, a commute of 12 minutes"


SERVICE_SETTINGS = {"reconcile": True}
"""With reconciliation."""


async def id_of(services: Services, words: str) -> str:
    return (await with_words(services, words)).id


async def undo(services: Services, words: str) -> None:
    await ask(services, "UndoConsolidation", memory_id=await id_of(services, words))


async def status_of(services: Services, words: str) -> Any:
    return (await with_words(services, words)).status


async def join_homes(services: Services, model: ScriptedModel) -> None:
    """Let another memory stand for the new home."""
    model.script = script(joining(HOME, NEW_HOME), word_for_word)
    await save(services, HOME)
    await settled(services)
    assert await status_of(services, NEW_HOME) == STATUS.MEMORY_STATUS_SUPERSEDED
    assert await is_doubtful(services)


async def test_it_goes_with_the_merge_that_caused_it(
    modelled: Services, model: ScriptedModel
) -> None:
    model.script = script(nothing, word_for_word)
    april = MAY - timedelta(days=30)
    await learn(modelled, talk(OLD_HOME, COMMUTE, conversation="c1", at=april))
    await merge_rides(modelled, model, but=(OLD_HOME, COMMUTE))
    model.script = script(doubting(COMMUTE, RIDES), word_for_word)
    await save(modelled, "Ana found a flat in Kassel")
    await settled(modelled)
    cause = await with_words(modelled, RIDES)
    assert (await with_words(modelled, COMMUTE)).doubt.because_memory_id == cause.id
    await undo(modelled, RIDES)
    assert await status_of(modelled, RIDES) == STATUS.MEMORY_STATUS_ARCHIVED
    assert not await is_doubtful(modelled)


async def test_it_returns_with_a_cause_that_is_taken_out_of_a_forgotten_merge(
    modelled: Services, model: ScriptedModel
) -> None:
    await move(modelled, model)
    assert NEW_HOME in await merge_rides(modelled, model)
    assert await is_doubtful(modelled)
    await forget(modelled, await id_of(modelled, RIDES))
    assert not await is_doubtful(modelled)
    await undo(modelled, RIDES)
    assert await status_of(modelled, NEW_HOME) == STATUS.MEMORY_STATUS_ACTIVE
    assert await is_doubtful(modelled)


async def test_it_returns_with_a_cause_that_is_parted_from_what_stood_for_it(
    modelled: Services, model: ScriptedModel
) -> None:
    await move(modelled, model)
    await join_homes(modelled, model)
    await forget(modelled, await id_of(modelled, HOME))
    assert not await is_doubtful(modelled)
    await restore(modelled, await id_of(modelled, NEW_HOME))
    assert await status_of(modelled, NEW_HOME) == STATUS.MEMORY_STATUS_ACTIVE
    assert await is_doubtful(modelled)
    # The other one stands for it no longer.
    await forget(modelled, await id_of(modelled, NEW_HOME))
    await restore(modelled, await id_of(modelled, HOME))
    assert not await is_doubtful(modelled)


async def test_it_stays_gone_while_what_stands_for_its_cause_is_forgotten(
    modelled: Services, model: ScriptedModel
) -> None:
    """Whoever asked to forget the one asked for both, though their join is taken back."""
    await move(modelled, model)
    await join_homes(modelled, model)
    join = (await jobs(modelled))[0].id
    await forget(modelled, await id_of(modelled, HOME))
    await take_back(modelled, job_id=join)
    assert await status_of(modelled, NEW_HOME) == STATUS.MEMORY_STATUS_SUPERSEDED
    assert not await is_doubtful(modelled)
    await restore(modelled, await id_of(modelled, HOME))
    await take_back(modelled, job_id=join)
    assert await status_of(modelled, NEW_HOME) == STATUS.MEMORY_STATUS_ACTIVE
    assert await is_doubtful(modelled)


async def test_a_joined_memory_takes_its_doubt_back(
    modelled: Services, model: ScriptedModel
) -> None:
    await join_commutes(modelled, model)
    cause = await id_of(modelled, NEW_HOME)
    await forget(modelled, cause)
    for joined in (COMMUTE, ROAD):
        await restore(modelled, await id_of(modelled, joined))
        assert not await is_doubtful(modelled, joined)
    await restore(modelled, cause)
    for joined in (COMMUTE, ROAD):
        assert (await with_words(modelled, joined)).doubt.because_memory_id == cause
    assert not await is_doubtful(modelled, KEPT)


async def join_commutes(services: Services, model: ScriptedModel) -> None:
    """Two uncertain memories are joined, one after the other, to a certain one that says the same.

    What ends with the oldest reconciliation is the doubts, with the next two the joins.
    """

    def both_in_doubt(request: ChatRequest) -> dict[str, Any]:
        items = [doubting(each, NEW_HOME)(request)["doubtful"][0] for each in (COMMUTE, ROAD)]
        return {"doubtful": items}

    model.script = script(both_in_doubt, moving)
    await learn(services, talk(OLD_HOME, COMMUTE, ROAD, KEPT, conversation="c1", at=MAY))
    await learn(services, talk(NEW_HOME, conversation="c2", at=SEPTEMBER))
    await settled(services)
    for other, saved in ((COMMUTE, "Ana's sister is called Marta"), (ROAD, "Ana plays chess")):
        model.script = script(joining(KEPT, other), moving)
        await save(services, saved)
        await settled(services)
        assert await status_of(services, other) == STATUS.MEMORY_STATUS_SUPERSEDED
    assert await is_doubtful(services, KEPT)


@pytest.mark.parametrize(("first", "by_hand"), [(COMMUTE, True), (ROAD, False)])
async def test_one_of_two_joined_memories_still_makes_the_kept_one_uncertain(
    first: str, by_hand: bool, modelled: Services, model: ScriptedModel
) -> None:
    await join_commutes(modelled, model)
    joins = dict(zip((ROAD, COMMUTE), (each.id for each in await jobs(modelled)), strict=False))
    second = ROAD if first == COMMUTE else COMMUTE
    for joined, left in ((first, True), (second, False)):
        if by_hand:
            await restore(modelled, await id_of(modelled, joined))
        else:
            await take_back(modelled, job_id=joins[joined])
        assert await status_of(modelled, joined) == STATUS.MEMORY_STATUS_ACTIVE
        assert await is_doubtful(modelled, joined)
        assert await is_doubtful(modelled, KEPT) == left


@pytest.mark.parametrize("by_hand", [True, False])
async def test_what_a_joined_memory_said_later_counts_for_the_kept_one(
    by_hand: bool, modelled: Services, model: ScriptedModel
) -> None:
    await move(modelled, model)
    model.script = script(joining(COMMUTE, KEPT), word_for_word)
    november = SEPTEMBER + timedelta(days=60)
    await learn(modelled, talk(KEPT, conversation="c3", at=november))
    await save(modelled, "Ana's sister is called Marta")
    await settled(modelled)
    assert await status_of(modelled, KEPT) == STATUS.MEMORY_STATUS_SUPERSEDED
    # The user has said it since the move.
    assert not await is_doubtful(modelled)

    def later(request: ChatRequest) -> dict[str, Any]:
        ended = change(named(request, COMMUTE), "Ana goes by bus", "m1", by=0)
        return {**word_for_word(request), "contradicted_memories": [ended]}

    model.script = script(nothing, later)
    october = SEPTEMBER + timedelta(days=30)
    await learn(modelled, talk("Ana goes by bus", conversation="c4", at=october))
    assert await status_of(modelled, COMMUTE) == STATUS.MEMORY_STATUS_ACTIVE
    assert await status_of(modelled, "by bus") == STATUS.MEMORY_STATUS_CONTRADICTED
    if by_hand:
        await restore(modelled, await id_of(modelled, KEPT))
    else:
        await take_back(modelled, job_id=(await jobs(modelled))[0].id)
    assert await is_doubtful(modelled)


async def test_whoever_calls_the_kept_memory_certain_means_both(
    modelled: Services, model: ScriptedModel
) -> None:
    await join_commutes(modelled, model)
    await review(modelled, await id_of(modelled, KEPT), APPROVE)
    await restore(modelled, await id_of(modelled, COMMUTE))
    assert not await is_doubtful(modelled, KEPT)


async def test_a_doubt_that_was_left_to_another_goes_with_the_job_that_cast_it(
    modelled: Services, model: ScriptedModel
) -> None:
    await join_commutes(modelled, model)
    await take_back(modelled, job_id=(await jobs(modelled))[-1].id)
    assert await status_of(modelled, COMMUTE) == STATUS.MEMORY_STATUS_SUPERSEDED
    assert not await is_doubtful(modelled, KEPT)
    await restore(modelled, await id_of(modelled, COMMUTE))
    assert not await is_doubtful(modelled)


@pytest.mark.parametrize("reason", ["", "what had made it uncertain was taken back"])
async def test_what_somebody_has_looked_at_stays_certain(
    reason: str, modelled: Services, model: ScriptedModel
) -> None:
    cause = await move(modelled, model)
    await review(modelled, await id_of(modelled, COMMUTE), APPROVE, reason=reason)
    await forget(modelled, cause.id)
    await restore(modelled, cause.id)
    assert not await is_doubtful(modelled)


async def test_it_stays_away_once_the_job_is_taken_back_that_cast_it(
    modelled: Services, model: ScriptedModel
) -> None:
    cause = await move(modelled, model)
    await forget(modelled, cause.id)
    await take_back(modelled, job_id=(await jobs(modelled))[0].id)
    await restore(modelled, cause.id)
    assert not await is_doubtful(modelled)


async def test_two_that_are_forgotten_and_restored_in_any_order_stand_as_before(
    modelled: Services, model: ScriptedModel
) -> None:
    cause = (await move(modelled, model)).id
    commute = await id_of(modelled, COMMUTE)
    for first, second in ((cause, commute), (commute, cause)):
        await forget(modelled, first)
        await forget(modelled, second)
        await restore(modelled, commute)
        assert not await is_doubtful(modelled)
        await restore(modelled, cause)
        assert await is_doubtful(modelled)
        await forget(modelled, first)
        await forget(modelled, second)
        await restore(modelled, cause)
        await restore(modelled, commute)
        assert await is_doubtful(modelled)


@pytest.mark.parametrize("shown", [True, False])
@pytest.mark.parametrize("ends", [(COMMUTE,), (NEW_HOME,), (COMMUTE, NEW_HOME)])
async def test_it_returns_with_what_a_conversation_had_ended_that_is_taken_back(
    ends: tuple[str, ...], shown: bool, modelled: Services, model: ScriptedModel
) -> None:
    """Whether extraction ended it, or the reconciliation, as the words for it were not found."""
    await move(modelled, model)
    tram = "Ana lives elsewhere and takes the tram"

    def leaving(request: ChatRequest) -> dict[str, Any]:
        quote = tram if shown else "words that nobody said"
        ended = [change(named(request, each), quote, "m1", by=0) for each in ends]
        return {**word_for_word(request), "contradicted_memories": ended}

    def settling(request: ChatRequest) -> dict[str, Any]:
        replaced = [{"old": named(request, each), "new": named(request, tram)} for each in ends]
        return {} if shown else {"replaced": replaced}

    model.script = script(settling, leaving)
    await learn(modelled, talk(tram, conversation="c3", at=SEPTEMBER + timedelta(days=9)))
    await settled(modelled)
    assert {await status_of(modelled, each) for each in ends} == {STATUS.MEMORY_STATUS_CONTRADICTED}
    await take_back(modelled, conversation_id="c3")
    assert await is_doubtful(modelled)


async def test_it_goes_when_all_memories_are_cleared(
    modelled: Services, model: ScriptedModel
) -> None:
    cause = await move(modelled, model)
    await modelled.privacy.ClearMemories(privacy_pb.ClearMemoriesRequest(user_id="ana"))
    await restore(modelled, await id_of(modelled, COMMUTE))
    held: memory_pb2.Memory = await with_words(modelled, COMMUTE)
    assert (held.status, held.HasField("doubt")) == (STATUS.MEMORY_STATUS_ACTIVE, False)
    await restore(modelled, cause.id)
    assert await is_doubtful(modelled)
