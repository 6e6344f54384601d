"""What a reply forgets: what it ends and may replace, what came later, and who names it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hitherto.v1 import job_pb2, memory_pb2
from hitherto_extraction.storage.ledger import changes_of_a_day
from hitherto_shared.database.pipeline_connection import PipelineConnection
from hitherto_shared.models import Scope
from tests.e2e import curating
from tests.e2e.conftest import Services
from tests.e2e.learning import ALL_STATUSES, learn, memories, replies, shown, talk
from tests.e2e.methods import ask
from tests.scripted_model import ChatAnswer, ChatRequest
from tests.scripted_model.answers import change, cited, memory
from tests.tenants import tenant_of

MARCH = datetime(2026, 3, 2, 9, tzinfo=UTC)
STATUS = memory_pb2.MemoryStatus
LEEDS, PORTO = "Ana lives in Leeds", "Ana lives in Porto"


async def by_content(services: Services) -> dict[str, memory_pb2.Memory]:
    return {each.content: each for each in await memories(services, statuses=ALL_STATUSES)}


async def leave_leeds(
    modelled: Services, homes: Sequence[str], ended: int, words: str, **forgotten: Any
) -> job_pb2.JobResult:
    """Ana moves from homes in Leeds to Porto, which ends some, and asks to forget something."""

    def leaves(request: ChatRequest) -> dict[str, Any]:
        known = [shown(request, home) for home in homes[:ended]]
        asked = forgotten or {"id": known[0]}
        return {
            "new_memories": [memory(PORTO)],
            "contradicted_memories": [
                change(each, "I left Leeds", by=0, reason="moved to Porto") for each in known
            ],
            "forgotten_memories": [{**asked, **cited(words)}],
        }

    modelled.model.script = replies(
        {"Porto": leaves, "Leeds": {"new_memories": [memory(home) for home in homes]}}
    )
    await learn(modelled, talk("Leeds, at number 0 1 2 3 4 5 6", at=MARCH))
    left = f"I left Leeds 0 1 2 3 4 5 6 for Porto; {words}"
    return await learn(modelled, talk(left, conversation="c2", at=MARCH + timedelta(days=1)))


@pytest.mark.parametrize(("wanted", "ends"), [(1, True), (6, False)])
async def test_what_is_forgotten_at_once_ends_the_old_and_stands_nowhere(
    wanted: int, ends: bool, modelled: Services
) -> None:
    homes = [f"{LEEDS}, at number {number}" for number in range(6)]
    words = "don't remember my address"
    result = await leave_leeds(modelled, homes, wanted, words, new=0)
    held = await by_content(modelled)
    assert held[PORTO].status == STATUS.MEMORY_STATUS_FORGOTTEN
    assert not held[PORTO].may_replace
    old = held[homes[0]]
    if not ends:
        # Above the limit of the job.
        why = "too many changes at once; nothing changes"
        assert {each.subject for each in result.refusals} == {why}
        assert old.status == STATUS.MEMORY_STATUS_ACTIVE
        return
    assert not result.refusals
    assert (old.status, old.superseded_by) == (STATUS.MEMORY_STATUS_CONTRADICTED, "")
    assert old.valid_to.ToDatetime(UTC) == MARCH + timedelta(days=1)
    history = await ask(modelled, "GetMemoryHistory", memory_id=old.id)
    assert "Porto" not in str(history)
    # What was stored as forgotten is no change of the day.
    async with await PipelineConnection.connect(modelled.conninfo, autocommit=True) as connection:
        ana = connection.of(Scope(tenant_of(modelled.conninfo), "ana"))
        assert await changes_of_a_day(ana) == (1, 0)
        # Nor is it one if what had ended before ends earlier.
        ended = "UPDATE memory_versions SET status = 'contradicted' WHERE memory_id = %(memory_id)s"
        curating.change(modelled.conninfo, ended, memory_id=old.id)
        assert await changes_of_a_day(ana) == (0, 0)


async def test_what_was_reached_is_forgotten_without_what_followed_it(modelled: Services) -> None:
    goal = "Ana wants to run a marathon"
    modelled.model.script = replies(
        {
            "forget": lambda r: {"forgotten_memories": [change(shown(r, goal), "forget")]},
            "I ran": lambda r: {
                "new_memories": [memory("Ana ran a marathon", ["m1"])],
                "achieved_goals": [change(shown(r, goal), "I ran", by=0)],
            },
            "marathon": lambda _: {"new_memories": [memory(goal, ["m1"], type="goal")]},
        }
    )
    followed = []
    for day, said in enumerate(("A marathon!", "I ran", "Please forget it")):
        told = talk(said, conversation=f"c{day}", at=MARCH + timedelta(days=day))
        await learn(modelled, told)
        held = (await by_content(modelled))[goal]
        followed.append((held.status, bool(held.superseded_by)))
    assert followed == [
        (STATUS.MEMORY_STATUS_ACTIVE, False),
        (STATUS.MEMORY_STATUS_ACHIEVED, True),
        (STATUS.MEMORY_STATUS_FORGOTTEN, False),
    ]


@pytest.mark.parametrize(("ended", "over"), [(6, False), (7, True)])
async def test_a_request_to_forget_holds_whatever_else_a_reply_changes(
    ended: int, over: bool, modelled: Services
) -> None:
    homes = [f"{LEEDS}, at number {number}" for number in range(ended)]
    result = await leave_leeds(modelled, homes, ended, "please forget number 0")
    held = await by_content(modelled)
    assert held[homes[0]].status == STATUS.MEMORY_STATUS_FORGOTTEN
    assert not held[homes[0]].superseded_by
    assert [each.reason for each in result.refusals] == ["refused_over_cap"] * 6 * over
    rest = STATUS.MEMORY_STATUS_ACTIVE if over else STATUS.MEMORY_STATUS_CONTRADICTED
    assert {held[home].status for home in homes[1:]} == {rest}


@pytest.mark.parametrize(
    ("sources", "later", "forgets"),
    [
        (["m2"], ("user", "I smoke, note it"), False),
        (["m1"], ("user", "What a day"), True),
        (["m1", "m2"], ("assistant", "I forget that you smoke"), True),
    ],
)
async def test_only_what_the_user_says_after_the_request_is_kept(
    sources: list[str], later: tuple[str, str], forgets: bool, modelled: Services
) -> None:
    request = {"new": 0, "source_message_ids": ["m1"], "quote": "forget that I smoke"}
    modelled.model.script = lambda _: ChatAnswer.of(
        new_memories=[memory("Ana smokes", sources)], forgotten_memories=[request]
    )
    told = talk("Please forget that I smoke", later, at=MARCH)
    told.messages[1].created_at.FromDatetime(MARCH + timedelta(minutes=5))
    result = await learn(modelled, told)
    smokes = (await by_content(modelled))["Ana smokes"]
    assert (smokes.status == STATUS.MEMORY_STATUS_FORGOTTEN) == forgets
    assert [each.reason for each in result.refusals] == ([] if forgets else ["refused_late"])


@pytest.mark.parametrize(
    ("told_before", "others"), [(True, []), (False, []), (True, ["Ana's sister lives in Toronto"])]
)
async def test_what_names_only_the_forgotten_is_not_told(
    others: list[str], told_before: bool, modelled: Services
) -> None:
    secret = "Ana had an interview in Toronto"
    toronto = {"name": "Toronto", "type": "place"}
    stated = memory(secret, entities=[toronto])

    def forget(request: ChatRequest) -> dict[str, Any]:
        quote = {"source_message_ids": ["m1"], "quote": "forget the interview"}
        if told_before:
            return {"forgotten_memories": [{"id": shown(request, "interview"), **quote}]}
        return {"new_memories": [stated], "forgotten_memories": [{"new": 0, **quote}]}

    modelled.model.script = replies(
        {
            "please": forget,
            "interview": [stated],
            "sister": {"new_memories": [memory(each) for each in others]},
        }
    )
    await learn(modelled, talk("my sister", conversation="c0", at=MARCH))
    if told_before:
        await learn(modelled, talk("I had an interview in Toronto", at=MARCH))
    asked = talk(
        "please forget the interview",
        ("assistant", "Done."),
        "What was it about TORONTO?",
        ("assistant", "Nothing that I know."),
        "What about Torontonians and the standup?",
        conversation="c2",
        at=MARCH + timedelta(days=1),
    )
    assert not (await learn(modelled, asked)).refusals
    query = "Toronto? TORONTO! The standup?"
    context = await ask(modelled, "GetContext", query=query, min_relevance=0)
    assert "interview" not in context.prompt_block
    assert "standup" in context.prompt_block
    assert ("TORONTO" in context.prompt_block) == bool(others)


async def test_a_name_goes_and_comes_back_with_what_mentions_it(modelled: Services) -> None:
    """C5: entities that only forgotten memories mention are not shown."""
    said, asked = "Ana had an interview in Toronto", "forget the interview"
    interview = [memory(said, entities=[{"name": "Toronto", "type": "place"}])]

    def forget(request: ChatRequest) -> dict[str, Any]:
        return {"forgotten_memories": [{"id": shown(request, said), **cited(asked)}]}

    modelled.model.script = replies({asked: forget, "Toronto": {"new_memories": interview}})
    for number, (words, shows) in enumerate(
        [("I had an interview in Toronto", 1), (asked, 0), ("In Toronto I had an interview", 1)]
    ):
        await learn(modelled, talk(words, conversation=f"c{number}", at=datetime.now(UTC)))
        found = await ask(modelled, "FindEntities", name="Toronto")
        assert len(found.entities) == shows, words
