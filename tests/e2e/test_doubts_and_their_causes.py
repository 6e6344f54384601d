"""B18: a doubt lasts as long as its cause, whatever becomes of the two memories, in any order."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hitherto.v1 import memory_pb2
from tests.e2e.conftest import Services
from tests.e2e.curating import update
from tests.e2e.learning import learn, memories, talk
from tests.e2e.merging import consolidate
from tests.e2e.reconciling import (
    COMMUTE,
    MAY,
    NEW_HOME,
    SEPTEMBER,
    TAG,
    is_doubtful,
    move,
    named,
    nothing,
    reconciliations,
    script,
    settled,
    take_back,
    with_words,
    word_for_word,
)
from tests.e2e.stories import MERGED, WORDS, Teller, stories
from tests.scripted_model import ChatAnswer, ChatRequest
from tests.scripted_model.answers import change, merged

VIM, ZED = WORDS["VIM"], WORDS["ZED"]
STATUS = memory_pb2.MemoryStatus
COMMUTES = "home 0: OSLO; home 1: COMMUTE"
MOVED = "moved 90: ROME instead of: OSLO; settle"
MOVE = f"{COMMUTES}; will doubt COMMUTE because ROME; {MOVED}; COMMUTE in doubt because ROME"
"""Ana moves, which makes her commute uncertain."""
ANOTHER_HOME = f"{MOVE}; save FLAT; join ROME to FLAT; COMMUTE in doubt"
TWO_JOINED = (
    f"{COMMUTES}; home 2: ROAD; home 3: BIKES; will doubt COMMUTE ROAD because ROME; {MOVED};"
    " name it doubt; join COMMUTE to BIKES; join ROAD to BIKES; BIKES in doubt"
)
"""Two uncertain memories are joined, one after the other, to a certain one that says the same."""
UNSETTLED = "vim 0: VIM; zed 9: ZED perhaps instead of: VIM; settle; ZED may replace VIM"

SERVICE_SETTINGS = {"reconcile": True}
"""With reconciliation."""


@stories(
    f"""
    it goes when the cause is forgotten in a conversation, and returns without that:
        {MOVE}; asked 91: Forget: ROME; ROME is forgotten; COMMUTE certain
        take back asked; ROME is active; COMMUTE in doubt because ROME
    it goes when the update is taken back that caused it:
        {COMMUTES}; moved 90: ROME rewording: OSLO; doubt COMMUTE because ROME
        COMMUTE in doubt because ROME; take back moved; OSLO is active; COMMUTE certain
    it goes with the conversation that caused it:
        {MOVE}; take back moved; COMMUTE certain; OSLO is active
    it goes when what stands for the cause is forgotten:
        {ANOTHER_HOME}; forget FLAT; COMMUTE certain
    it stays with the memory that says the same:
        {COMMUTES}; home 2: BIKES; will doubt COMMUTE because ROME; {MOVED}; join COMMUTE to BIKES
        BIKES in doubt because ROME; take back the join; BIKES certain; COMMUTE in doubt
    it returns with its cause, also if that is said in another conversation:
        {MOVE}; forget ROME; COMMUTE certain; restore ROME; COMMUTE in doubt because ROME
        COMMUTE in doubt since moved
        forget ROME; again now: ROME; ROME is active; COMMUTE in doubt because ROME
    it stays when a later end of its cause is taken back:
        {MOVE}; away 91: BERN instead of: ROME; settle; ROME is contradicted
        take back away; ROME is active; COMMUTE in doubt because ROME
    what is in doubt is not merged into something certain:
        {MOVE.replace("1: COMMUTE", "1: COMMUTE #writing_style")}
        {MERGED}; COMMUTE is active; COMMUTE in doubt
    neither of two is merged while one may replace the other:
        vim 0: VIM #writing_style; zed 9: ZED #writing_style perhaps instead of: VIM; settle
        {MERGED}; VIM is active; ZED is active; ZED may replace VIM
    a joined memory hands on what it may replace:
        {UNSETTLED}; again 10: ZEDS; join ZED to ZEDS; ZEDS may replace VIM
    what it may replace goes with the source that said so, whether that said it first or not:
        vim 0: VIM; zed 9: ZED | link 9: ZED perhaps instead of: VIM
        link 9: ZED perhaps instead of: VIM | zed 9: ZED
        settle; ZED may replace VIM
        take back link; told: VIM ZED; ZED may replace nothing; VIM may replace nothing
    what it may replace returns with what somebody vouches for:
        {UNSETTLED}; take back zed; restore ZED; ZED may replace VIM
    it goes with the merge that caused it:
        {COMMUTES}; {MERGED}; doubt COMMUTE because BAKES; COMMUTE in doubt because BAKES
        undo the merge; BAKES is archived; COMMUTE certain
    it returns with a cause that is taken out of a forgotten merge:
        {MOVE.replace("90: ROME", "90: ROME #writing_style")}; {MERGED}; ROME is superseded
        COMMUTE in doubt; forget BAKES; COMMUTE certain
        undo the merge; ROME is active; COMMUTE in doubt because ROME
    it returns with a cause that is parted from what stood for it, which does so no longer:
        {ANOTHER_HOME}; forget FLAT; COMMUTE certain; restore ROME; ROME is active
        COMMUTE in doubt because ROME; forget ROME; restore FLAT; COMMUTE certain
    it stays gone while what stands for its cause is forgotten, though their join is taken back:
        {ANOTHER_HOME}; forget FLAT; take back the join; ROME is superseded; COMMUTE certain
        restore FLAT; take back the join; ROME is active; COMMUTE in doubt because ROME
    a joined memory takes its doubt back:
        {TWO_JOINED}; forget ROME; restore COMMUTE; COMMUTE certain; restore ROAD; ROAD certain
        restore ROME; COMMUTE in doubt because ROME; ROAD in doubt because ROME; BIKES certain
    one of two joined memories still makes the kept one uncertain:
        {TWO_JOINED}; restore COMMUTE | take back the join of ROAD
        COMMUTE is active | ROAD is active
        COMMUTE in doubt | ROAD in doubt
        BIKES in doubt; restore ROAD | take back the join of COMMUTE
        COMMUTE in doubt; COMMUTE is active; ROAD in doubt; ROAD is active; BIKES certain
    what a joined memory said after the move counts for the kept one:
        {MOVE}; later 150: BIKES; join BIKES to COMMUTE; COMMUTE certain
        bus 120: BUS instead of: COMMUTE; COMMUTE is active; BUS is contradicted
        restore BIKES | take back the join
        COMMUTE in doubt
    whoever calls the kept memory certain means both:
        {TWO_JOINED}; approve BIKES; restore COMMUTE; BIKES certain
    a doubt that was left to another goes with the job that cast it:
        {TWO_JOINED}; take back the doubt
        COMMUTE is superseded; BIKES certain; restore COMMUTE; COMMUTE certain
    what somebody has looked at stays certain, whatever they say:
        {MOVE}
        approve COMMUTE | approve COMMUTE, as what had made it uncertain was taken back
        forget ROME; restore ROME; COMMUTE certain
    it stays away once the job is taken back that cast it:
        {MOVE}; forget ROME; take back the job; restore ROME; COMMUTE certain
    two that are forgotten and restored in any order stand as before:
        {MOVE}; forget ROME | forget COMMUTE
        forget COMMUTE | forget ROME
        restore COMMUTE; COMMUTE certain; restore ROME; COMMUTE in doubt
        forget ROME | forget COMMUTE
        forget COMMUTE | forget ROME
        restore ROME; restore COMMUTE; COMMUTE in doubt because ROME
    it goes when all memories are cleared:
        {MOVE}; clear; restore COMMUTE; COMMUTE is active; COMMUTE certain
        restore ROME; COMMUTE in doubt because ROME
    """
)
async def test_b18_a_doubt(modelled: Services, story: Sequence[str]) -> None:
    await Teller(modelled).tell(story)


async def test_it_stays_when_its_cause_expires(modelled: Services) -> None:
    """That something has passed does not say that everything is as before."""
    cause = await move(modelled)
    await update(modelled, cause.id, expires_at=datetime.now(UTC) - timedelta(days=1))
    assert NEW_HOME not in {each.content for each in await memories(modelled)}
    doubt = (await with_words(modelled, COMMUTE)).doubt
    assert (doubt.because_memory_id, doubt.reason) == (cause.id, "moved to Kassel")


def linking(request: ChatRequest) -> dict[str, Any]:
    """The one editor may replace the other: nobody said the words of the quote."""
    unproven = change(named(request, VIM), "words that nobody said", "m1", by=0)
    return {**word_for_word(request), "contradicted_memories": [unproven]}


async def test_neither_is_merged_if_that_turns_out_during_the_call(modelled: Services) -> None:
    rides = [f"Ana's bike is {colour} in front" for colour in ("red", "blue", "green", "black")]
    modelled.model.script = script(nothing, word_for_word)
    await learn(modelled, talk(VIM, *rides, conversation="c1", at=MAY))
    asked, linked = asyncio.Event(), asyncio.Event()

    async def answer(request: ChatRequest) -> ChatAnswer:
        if not request.consolidation:
            return script(nothing, linking)(request)
        asked.set()
        await asyncio.wait_for(linked.wait(), 180)
        ids = [each.local_id for each in request.memories]
        return ChatAnswer.of(memories=[merged("Ana bikes", ids, type="fact")])

    modelled.model.script = answer
    # The job of all users, as at night: it delays nobody's own jobs.
    merging = asyncio.create_task(consolidate(modelled, user="", tag=TAG))
    await asyncio.wait_for(asked.wait(), 180)
    await learn(modelled, talk(ZED, conversation="c2", at=SEPTEMBER))
    linked.set()
    assert (await merging).result.counts["skipped_changed"] == 1
    older, newer = await with_words(modelled, VIM), await with_words(modelled, ZED)
    assert older.status == STATUS.MEMORY_STATUS_ACTIVE
    assert list(newer.may_replace) == [older.id]


async def test_what_it_may_replace_is_asked_about_through_the_memory_that_stands_for_it(
    modelled: Services,
) -> None:
    ana = Teller(modelled)
    await ana.tell(f"{UNSETTLED}; again 1: VIMS; join VIM to VIMS; replace VIMS by ZED")
    request = reconciliations(list(modelled.model.chat_requests))[-1]
    assert f"may replace {named(request, WORDS['VIMS'])}" in request.user
    await ana.tell("VIMS is contradicted")
    # Parted from what was replaced, it may still be replaced itself.
    await ana.tell("take back the join; VIM is active; ZED may replace VIM")


@pytest.mark.parametrize("shown", [True, False])
@pytest.mark.parametrize("ends", [(COMMUTE,), (NEW_HOME,), (COMMUTE, NEW_HOME)])
async def test_it_returns_with_what_a_conversation_had_ended_that_is_taken_back(
    ends: tuple[str, ...], shown: bool, modelled: Services
) -> None:
    """Whether extraction ended it, or the reconciliation, as the words for it were not found."""
    await move(modelled)
    tram = "Ana lives elsewhere and takes the tram"

    def leaving(request: ChatRequest) -> dict[str, Any]:
        quote = tram if shown else "words that nobody said"
        ended = [change(named(request, each), quote, "m1", by=0) for each in ends]
        return {**word_for_word(request), "contradicted_memories": ended}

    def settling(request: ChatRequest) -> dict[str, Any]:
        replaced = [{"old": named(request, each), "new": named(request, tram)} for each in ends]
        return {} if shown else {"replaced": replaced}

    modelled.model.script = script(settling, leaving)
    await learn(modelled, talk(tram, conversation="c3", at=SEPTEMBER + timedelta(days=9)))
    await settled(modelled)
    found = {(await with_words(modelled, each)).status for each in ends}
    assert found == {STATUS.MEMORY_STATUS_CONTRADICTED}
    await take_back(modelled, conversation_id="c3")
    assert await is_doubtful(modelled)
