"""A request to forget holds, whatever is taken back but the request (faults.md, rows 10 and 72).

What was joined to something forgotten, and what comes back in the words of something forgotten,
stay untold with it, now and at every earlier time; once the request is taken back, nothing is lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from hitherto.v1 import change_pb2
from tests.e2e.conftest import Services
from tests.e2e.merging import CASUAL, STYLE, all_into, consolidate, consolidations, merged_memory
from tests.e2e.merging import say as say_tagged
from tests.e2e.merging import script as merging
from tests.e2e.methods import ask
from tests.e2e.receiver import Receiver
from tests.e2e.stories import MERGED, NOON, WORDS, Teller, stories
from tests.e2e.travelling import contents_at
from tests.e2e.watching import Watcher
from tests.waiting import eventually

SERVICE_SETTINGS = {"reconcile": True, "webhook_private": True}

CHAIN = (
    "none 0: NONE; meat 1: MEAT; join NONE to MEAT;"
    " vegetarian 2: VEGETARIAN; join MEAT to VEGETARIAN; told: VEGETARIAN"
)
JOINED = "none 0: NONE; vegetarian 2: VEGETARIAN; join NONE to VEGETARIAN"


@stories(
    f"""
    row 10: what was joined by a chain stays forgotten:
        {CHAIN}; forget VEGETARIAN | asked 5: Forget: VEGETARIAN
        take back meat; told: nothing; take back vegetarian; told: nothing
        late 3: MEAT!; counted kept_forgotten: 1
        | take back late
        | take back asked
        told: nothing | told: NONE
    row 10: and comes back with it:
        {CHAIN}; asked 5: Forget: VEGETARIAN
        take back meat; take back asked; told: VEGETARIAN; VEGETARIAN of vegetarian none
        take back vegetarian; told: NONE
    row 10: whoever asked to forget the one of two that were joined asked for both:
        {JOINED}; forget VEGETARIAN | asked 5: Forget: VEGETARIAN
        take back the join; told: nothing
        restore VEGETARIAN | take back asked
        told: VEGETARIAN; take back the join; told: NONE VEGETARIAN
    row 72: a request and a join taken back at once leave both:
        none 0: NONE; vegetarian 2: VEGETARIAN; mark; join NONE to VEGETARIAN
        asked 5: Forget: VEGETARIAN; take back since the mark; told: NONE VEGETARIAN
    row 10: what was joined after a request parts with what let it join, unless they asked again:
        meat 0: MEAT; vegetarian 1: VEGETARIAN; forget MEAT; mark; again now: MEAT
        join VEGETARIAN to MEAT; told: MEAT; | forget MEAT
        take back since the mark; told: VEGETARIAN | told: nothing
    row 10: what comes back in words that somebody asked to forget meanwhile stays untold:
        first 0: MEAT; bad 1: No longer: MEAT; again 2: MEAT!
        forget MEAT | asked 3: Forget: MEAT
        take back bad; told: nothing; counted memories_restored: 0
        restore MEAT | take back asked
        told: MEAT; MEAT of first again; take back again; told: MEAT; MEAT of first
    row 72: who says it after a request is heard, whatever has changed of it since:
        first 0: MEAT; again 1: MEAT #once; forget MEAT; MEAT is version 3; mark
        take back again; MEAT is version 4
        later mark: MEAT; counted kept_forgotten: 0; told: MEAT
    row 72: what a correction says after a request comes back:
        none 0: NONE; remember NONE; first 0: MEAT; again 1: MEAT #once; forget MEAT
        correct NONE to MEAT; bad now: No longer: MEAT; told: nothing
        take back again; take back bad; told: MEAT; MEAT was NONE
    row 72: who repeats joined words rewords nothing, nor once what came after is taken back:
        {JOINED}; again 3: NONE!
        forgot 4: Forget: VEGETARIAN; told: nothing; take back forgot; told: VEGETARIAN
        ended 4: No longer: VEGETARIAN; told: nothing; take back ended; told: VEGETARIAN
        take back vegetarian; told: NONE
    row 72: nobody asks any more to forget what was taken back, in either order:
        first 0: MEAT; asked 2: Forget: MEAT
        take back first | take back asked
        take back asked | take back first
        late 1: MEAT!; counted kept_forgotten: 0; told: MEAT
    row 72: what was said of a merge outlives an ending that was taken back:
        {MERGED}; more 6: FRIENDS rewording: BAKES; rarely 7: RARELY; replace FRIENDS by RARELY
        FRIENDS is contradicted; take back rarely; told: FRIENDS
        undo the merge; told: FRIENDS CAKES PIES BUNS ROLLS TARTS
    """
)
async def test_a_request_holds(modelled: Services, story: Sequence[str]) -> None:
    await Teller(modelled).tell(story)


@pytest.mark.parametrize("asking", ["forget VEGETARIAN", "asked 5: Forget: VEGETARIAN"])
async def test_row_10_no_past_tells_what_was_joined_to_it(modelled: Services, asking: str) -> None:
    ana = Teller(modelled)
    await ana.tell(CHAIN)
    known_at = (await ana.one("VEGETARIAN")).created_at
    pasts: list[tuple[dict[str, Any], set[str]]] = [
        ({"as_of": NOON + timedelta(hours=12)}, {"NONE"}),
        ({"as_of": NOON + timedelta(hours=36)}, {"MEAT"}),
        ({"known_at": known_at}, {"MEAT", "VEGETARIAN"}),
    ]

    async def told_then() -> list[set[str]]:
        told = [await contents_at(modelled, **moment) for moment, _ in pasts]
        return [
            {name for name in ("MEAT", "NONE", "VEGETARIAN") if WORDS[name] in each}
            for each in told
        ]

    assert await told_then() == [names for _, names in pasts]
    await ana.tell(asking)
    assert await told_then() == [set(), set(), set()]
    if asking.startswith("asked"):
        await ana.tell("take back asked")
        assert await told_then() == [names for _, names in pasts]


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
    modelled: Services,
) -> None:
    ana = Teller(modelled)
    await ana.tell("none 0: NONE; again 1: NONE #once; third 2: NONE #once #twice")
    await ana.tell("vegetarian 3: VEGETARIAN; join NONE to VEGETARIAN")
    async with Receiver() as receiver, Watcher(modelled, include_content=True) as watcher:
        await ask(modelled, "CreateWebhook", url=receiver.url, include_content=True)
        for acts, words in (
            ("take back third", WORDS["NONE"]),
            ("forget VEGETARIAN; take back again", ""),
        ):
            joined = await ana.one("NONE")
            await ana.tell(acts)
            told = await told_of(watcher, receiver, joined.id, joined.version)
            assert told == (words, words)


async def test_a_merge_that_leaves_something_said_since_is_left_alone_once_undone(
    modelled: Services,
) -> None:
    """Its group was processed as it is in the end: no model is asked about it again."""
    modelled.model.script = merging(all_into(CASUAL[0]))
    await say_tagged(modelled, *CASUAL, "The user likes a casual tone")
    await consolidate(modelled, tag=STYLE)
    await say_tagged(modelled, CASUAL[0], conversation="c2")
    await ask(modelled, "UndoConsolidation", memory_id=(await merged_memory(modelled)).id)
    asked = len(consolidations(list(modelled.model.chat_requests)))
    await consolidate(modelled)
    assert len(consolidations(list(modelled.model.chat_requests))) == asked
