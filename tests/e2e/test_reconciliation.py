"""B18: a background job settles what changes leave open, and its word can be taken back."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from hitherto.v1 import job_pb2, memory_pb2
from tests.e2e.conftest import Services
from tests.e2e.curating import APPROVE, events, plain, review, save, statement, stream, update
from tests.e2e.learning import ended, learn, memories, rows, submit, talk
from tests.e2e.methods import ask
from tests.e2e.privacy import choose
from tests.e2e.reconciling import (
    COMMUTE,
    MAY,
    NEW_HOME,
    NOTHING,
    OLD_HOME,
    SEPTEMBER,
    SISTER,
    doubting,
    jobs,
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
)
from tests.e2e.stories import Teller, stories
from tests.e2e.test_belief import facts_of, profile_of
from tests.scripted_model import ChatAnswer, ChatRequest
from tests.scripted_model.answers import change, memory, value

STATUS = memory_pb2.MemoryStatus
SERVICE_SETTINGS = {"reconcile": True}
"""With reconciliation."""


async def say(services: Services, at: datetime, *lines: str, conversation: str = "c1") -> None:
    """Let the user say something that is remembered word for word."""
    await learn(services, talk(*lines, conversation=conversation, at=at))


async def test_b9_what_was_said_later_replaces_what_it_may_replace(modelled: Services) -> None:
    modelled.model.script = script(replacing(OLD_HOME, NEW_HOME))
    await say(modelled, MAY, OLD_HOME, SISTER)
    # Without near or changed memories nothing is asked.
    assert await jobs(modelled) == []
    await save(modelled, NEW_HOME)
    result = await settled(modelled)
    # B14: the call is charged as a stage of its own.
    charged = "SELECT DISTINCT kind FROM usage_ledger WHERE stage = 'reconciliation'"
    assert rows(modelled.conninfo, charged) == [("reconciliation",)]
    assert (result.memories_contradicted, result.prompt_version) == (1, "reconciliation_2")
    old, new = await with_words(modelled, OLD_HOME), await with_words(modelled, NEW_HOME)
    assert (old.status, old.superseded_by) == (STATUS.MEMORY_STATUS_CONTRADICTED, new.id)
    assert (list(new.supersedes), old.valid_to) == ([old.id], new.valid_from)
    asked = reconciliations(list(modelled.model.chat_requests))[-1]
    assert [each.content for each in asked.changed] == [NEW_HOME]
    assert {OLD_HOME, SISTER} < {each.content for each in asked.memories}
    assert asked.body["response_format"]["json_schema"]["name"] == "reconciliation"
    # One call takes it back.
    await take_back(modelled, job_id=(await jobs(modelled))[0].id)
    assert {each.content for each in await memories(modelled)} == {OLD_HOME, NEW_HOME, SISTER}
    assert (await with_words(modelled, OLD_HOME)).superseded_by == ""
    assert not (await with_words(modelled, NEW_HOME)).supersedes


async def test_row_29_many_changes_at_once_are_settled_job_by_job_if_each_has_its_statement(
    modelled: Services,
) -> None:
    """A person tells of a whole summer. Without a statement for each: unit/reconciliation/.

    Some statements replace two memories: each of these ends with the other. A goal was reached.
    """
    places = ("the bank", "the choir", "the gym", "the team", "the club", "the shop", "the board")
    before = {f"Ana goes to {place} every week": f"Ana has left {place}" for place in places}
    before |= {f"Ana pays {place} monthly": f"Ana has left {place}" for place in places[4:]}
    goal = "Ana wants to leave the bank"
    before[goal] = "Ana has left the bank"
    after = list(dict.fromkeys(before.values()))

    def learning(request: ChatRequest) -> dict[str, Any]:
        if not request.memories:
            types = {goal: "goal"}
            learnt = [memory(each, type=types.get(each, "fact")) for each in before]
            return {"new_memories": learnt}
        ended = {
            old: change(named(request, old), "I have left", by=after.index(new))
            for old, new in before.items()
        }
        reached = [ended.pop(goal)]
        return {
            "new_memories": [memory(each) for each in after],
            "contradicted_memories": [*ended.values()],
            "achieved_goals": reached,
        }

    def all_of_them(request: ChatRequest) -> dict[str, Any]:
        pairs = [[named(request, each) for each in pair] for pair in before.items()]
        return {"replaced": [{"old": old, "new": new} for old, new in pairs if old != "e99" != new]}

    modelled.model.script = script(all_of_them, learning)
    await say(modelled, MAY, "every week: " + ", ".join(places))
    wanted = await with_words(modelled, goal)
    await say(modelled, SEPTEMBER, "I have left all: " + ", ".join(places), conversation="c2")
    for _ in range(3):
        await settled(modelled)
    results = [each.result for each in await jobs(modelled)]
    assert [each.memories_contradicted for each in results] == [2, 4, 4]
    assert [each.goals_achieved for each in results] == [0, 0, 1]
    assert {each.content for each in await memories(modelled)} == {*after, goal}
    reached = await with_words(modelled, goal)
    left = await with_words(modelled, before[goal])
    assert reached.status == memory_pb2.MEMORY_STATUS_ACHIEVED
    assert (reached.superseded_by, reached.importance) == (left.id, wanted.importance / 2)
    await ask(modelled, "RollbackSource", conversation_id="c2")
    again = await with_words(modelled, goal)
    assert (again.status, again.importance) == (wanted.status, wanted.importance)


@stories(
    """
    b9: the same in other words becomes one, and what somebody has undone is not done again:
        one 0: VEGETARIAN; two 90: NONE; join NONE to VEGETARIAN; counted joined: 1
        VEGETARIAN of one two; again 91: NONE; told: VEGETARIAN
        take back the join; told: VEGETARIAN NONE; VEGETARIAN of one again; NONE of two again
        vainly join NONE to VEGETARIAN; counted refused_undone: 1; told: VEGETARIAN NONE
    c5: restoring parts one joined memory and nothing else:
        one 0: VEGETARIAN; two 90: NONE; two 91: MEAT
        join NONE MEAT to VEGETARIAN; counted joined: 2; VEGETARIAN stands for NONE MEAT
        VEGETARIAN of one two two; VEGETARIAN confirmed by two; restore NONE; told: VEGETARIAN NONE
        NONE goes on; VEGETARIAN of one two; VEGETARIAN stands for MEAT; VEGETARIAN confirmed by two
        vainly join NONE to VEGETARIAN; counted refused_undone: 1
        take back two; VEGETARIAN unconfirmed
    b9: what was said later in joined words is not replaced, whoever of equal trust said it:
        diet 0: VEGETARIAN; diet 1: NONE; save MEAT as operator
        join MEAT to NONE; join NONE to VEGETARIAN
        steak 90: STEAK; replace VEGETARIAN by STEAK; counted refused_late: 1
    b9: what an assistant said later in joined words holds nothing up:
        diet 0: VEGETARIAN; save NONE as assistant; join NONE to VEGETARIAN
        steak 90: STEAK; replace VEGETARIAN by STEAK; told: STEAK
    b10: the model can call it certain, and that is taken back as well:
        home 0: OSLO; home 1: COMMUTE; will doubt COMMUTE because ROME
        moved 90: ROME instead of: OSLO; settle; COMMUTE in doubt
        call COMMUTE certain; counted certain: 1; COMMUTE certain; take back the job
        COMMUTE in doubt
    b8: an assistant's words end nothing of the user's:
        home 0: OSLO; will replace OSLO by ROME; save ROME as assistant
        counted refused_by_trust: 1; told: OSLO ROME
    """
)
async def test_what_is_settled(modelled: Services, story: Sequence[str]) -> None:
    await Teller(modelled).tell(story)


async def test_b10_a_change_makes_uncertain_what_rested_on_it_until_it_is_taken_back(
    modelled: Services,
) -> None:
    modelled.model.script = script(doubting(COMMUTE, NEW_HOME), moving)
    await say(modelled, MAY, OLD_HOME, COMMUTE, SISTER)
    await say(modelled, SEPTEMBER, NEW_HOME, conversation="c2")
    result = await settled(modelled)
    assert result.counts["doubted"] == 1
    asked = reconciliations(list(modelled.model.chat_requests))[-1]
    # What ended is shown, to tell what changed.
    assert [each.marks for each in asked.memories if each.content == OLD_HOME] == [
        ("ended 2026-09-03",)
    ]
    doubted, cause = await with_words(modelled, COMMUTE), await with_words(modelled, NEW_HOME)
    assert doubted.status == STATUS.MEMORY_STATUS_ACTIVE
    assert doubted.doubt.because_memory_id == cause.id
    assert doubted.doubt.reason == "moved to Kassel"
    assert doubted.doubt.since.ToDatetime(UTC) == SEPTEMBER
    assert not (await with_words(modelled, SISTER)).HasField("doubt")
    await take_back(modelled, job_id=(await jobs(modelled))[0].id)
    assert not (await with_words(modelled, COMMUTE)).HasField("doubt")


async def test_the_lines_name_the_days_of_the_user(modelled: Services) -> None:
    await choose(modelled, mask=["time_zone"], time_zone="Asia/Tokyo")
    modelled.model.script = script(nothing, moving)
    await say(modelled, MAY.replace(hour=20), OLD_HOME, COMMUTE)
    await say(modelled, SEPTEMBER.replace(hour=20), NEW_HOME, conversation="c2")
    await settled(modelled)
    asked = reconciliations(list(modelled.model.chat_requests))[-1]
    assert {(each.content, each.date, each.marks) for each in asked.memories} == {
        (OLD_HOME, "2026-05-05", ("ended 2026-09-04",)),
        (COMMUTE, "2026-05-05", ()),
        (NEW_HOME, "2026-09-04", ()),
    }


@pytest.mark.parametrize("how", ["said again later", "approved"])
async def test_b10_the_user_settles_a_doubt(modelled: Services, how: str) -> None:
    await move(modelled)
    doubted = await with_words(modelled, COMMUTE)
    then = Timestamp()
    then.GetCurrentTime()
    if how == "approved":
        reviewed = await review(modelled, doubted.id, APPROVE)
        assert reviewed.status == STATUS.MEMORY_STATUS_ACTIVE
    else:
        await say(modelled, datetime(2026, 9, 20, 9, tzinfo=UTC), COMMUTE, conversation="c3")
    certain = await with_words(modelled, COMMUTE)
    assert not certain.HasField("doubt")
    # That it was uncertain is still known, and the history tells since when it no longer is.
    lifted, cast, _ = await events(modelled, certain.id)
    assert (lifted.version, cast.version) == (certain.version, doubted.version)
    assert plain(cast.after)["doubt"]["reason"] == "moved to Kassel"
    assert (plain(lifted.before), plain(lifted.after)) == (plain(cast.after), {"doubt": None})
    earlier = await ask(modelled, "ListMemories", user_id="ana", known_at=then)
    assert doubted.doubt in [m.doubt for m in earlier.memories if m.content == COMMUTE]


async def test_b10_what_was_said_with_the_change_is_not_asked_about(modelled: Services) -> None:
    modelled.model.script = script(nothing, moving)
    await say(modelled, MAY, OLD_HOME, SISTER)
    await say(modelled, SEPTEMBER, NEW_HOME, COMMUTE, conversation="c2")
    await settled(modelled)
    (asked,) = reconciliations(list(modelled.model.chat_requests))
    assert {each.content for each in asked.memories} == {NEW_HOME, OLD_HOME, SISTER}


async def test_b9_what_replaces_another_and_is_in_doubt_itself_is_written_once(
    modelled: Services,
) -> None:
    def settling(request: ChatRequest) -> dict[str, Any]:
        if not any(SISTER in each.content for each in request.memories):
            return {}
        return {**replacing(OLD_HOME, NEW_HOME)(request), **doubting(NEW_HOME, SISTER)(request)}

    def learning(request: ChatRequest) -> dict[str, Any]:
        learnt = moving(request)
        for each in learnt.get("contradicted_memories", ()):
            each["quote"] = ""
        return learnt

    modelled.model.script = script(settling, learning)
    await say(modelled, MAY, OLD_HOME)
    await say(modelled, SEPTEMBER, NEW_HOME, conversation="c2")
    await settled(modelled)
    old, new = await with_words(modelled, OLD_HOME), await with_words(modelled, NEW_HOME)
    assert list(new.may_replace) == [old.id]
    sister = (await save(modelled, SISTER)).memory
    await settled(modelled)
    after = await with_words(modelled, NEW_HOME)
    assert (await with_words(modelled, OLD_HOME)).superseded_by == after.id
    assert (list(after.supersedes), list(after.may_replace)) == ([old.id], [])
    assert after.doubt.because_memory_id == sister.id
    assert after.version == new.version + 1
    await take_back(modelled, job_id=(await jobs(modelled))[0].id)
    before = await with_words(modelled, NEW_HOME)
    assert (list(before.supersedes), list(before.may_replace)) == ([], [old.id])
    assert not before.HasField("doubt")


FILTERED = ChatAnswer("", finish_reason="content_filter")
PROSE = ChatAnswer("I would rather talk about the weather.")


@pytest.mark.parametrize(
    ("poisoned", "reply", "joined", "why"),
    [
        ("changed", FILTERED, 3, ["refused_content"]),
        ("around", FILTERED, 4, []),
        ("changed", PROSE, 3, ["refused_unanswered"]),
    ],
    ids=["refuses a change", "refuses what is around", "has no usable reply to a change"],
)
async def test_row_26_what_the_model_refuses_holds_nothing_else_up(
    poisoned: str, reply: ChatAnswer, joined: int, why: list[str], modelled: Services
) -> None:
    refused = "Ana grows the forbidden plant"
    sails = "Every summer goes by in a dinghy"
    old = ["Ana keeps bees", "Ana is a vegetarian", "Ana plays chess", "Ana sails on a lake"]
    new = ["Beekeeping takes all Sundays", "No meat is eaten", "The club meets at home", sails]
    if poisoned == "changed":
        new[-1] += ", which is forbidden"

    def answer(request: ChatRequest) -> ChatAnswer:
        if not request.reconciliation:
            learnt = [memory(each.content, [each.local_id]) for each in request.messages]
            # No quote shows what ends: each stands beside the one that it may replace.
            unsettled = [
                {"id": named(request, words), "by": by, "source_message_ids": ["m1"]}
                for by, words in enumerate(old)
                if request.messages[0].content in new
            ]
            return ChatAnswer.of(new_memories=learnt, contradicted_memories=unsettled)
        if "forbidden" in request.user:
            return reply
        same = [
            {"keep": named(request, one), "others": [named(request, other)]}
            for one, other in zip(new, old, strict=True)
            if one in request.user
        ]
        return ChatAnswer.of(**{**NOTHING, "same": same})

    modelled.model.script = answer
    await say(modelled, MAY, *old, refused)
    await say(modelled, SEPTEMBER, *new, conversation="c2")
    result = await settled(modelled)
    assert (result.counts["joined"], result.dropped_items) == (joined, len(why))
    assert [each.reason for each in result.refusals] == why
    named_ids = [(await with_words(modelled, new[-1])).id for _ in why]
    assert [each.memory_id for each in result.refusals] == named_ids
    asked = len(reconciliations(list(modelled.model.chat_requests)))
    assert result.usage.llm_calls == asked <= (24 if reply is PROSE else 12)
    assert len(await memories(modelled)) == 9 - joined


async def test_row_73_a_model_without_usable_replies_fails_the_job_and_drops_little(
    modelled: Services,
) -> None:
    old = [f"Ana keeps {n} bees" for n in range(6)]

    def answer(request: ChatRequest) -> ChatAnswer:
        if request.reconciliation:
            return PROSE
        unsettled = [
            {"id": named(request, words), "by": by, "source_message_ids": ["m1"]}
            for by, words in enumerate(old)
        ]
        return ChatAnswer.of(
            new_memories=[memory(each.content, [each.local_id]) for each in request.messages],
            contradicted_memories=unsettled if "Kassel" in request.user else [],
        )

    modelled.model.script = answer
    await say(modelled, MAY, *old)
    new = [f"In Kassel, Ana keeps {n} bees" for n in range(6)]
    await say(modelled, SEPTEMBER, *new, conversation="c2")
    (job,) = [await ended(modelled, each.id) for each in await jobs(modelled)]
    assert job.state == job_pb2.JOB_STATE_DEAD
    assert job.error.startswith("MODEL_UNUSABLE")
    # Each attempt may give up one change, as long as nothing says that the model works.
    assert 0 < job.result.dropped_items <= job.attempt
    asked = len(reconciliations(list(modelled.model.chat_requests)))
    assert asked == job.result.usage.llm_calls <= 12 * job.attempt


async def test_b9_what_changes_again_while_its_job_stands_back_is_asked_about_again(
    modelled: Services,
) -> None:
    """The job has settled it already, and takes the second change up as a waiting job does."""
    old = [f"Ana keeps {n} bees" for n in range(6)]
    new = [f"In Kassel, Ana keeps {n} bees" for n in range(6)]
    settled_first: list[str] = []
    asked_since: list[str] = []

    def learning(request: ChatRequest) -> dict[str, Any]:
        if "no bees" in request.user:
            return {"contradicted_memories": [change(named(request, settled_first[0]), "no bees")]}
        unsettled = [
            {"id": named(request, words), "by": by, "source_message_ids": ["m1"]}
            for by, words in enumerate(old)
        ]
        return {
            "new_memories": [
                memory(each.content, [each.local_id], importance=0.9) for each in request.messages
            ],
            "contradicted_memories": unsettled if "Kassel" in request.user else [],
        }

    async def answer(request: ChatRequest) -> ChatAnswer:
        if not request.reconciliation:
            return ChatAnswer.of(**learning(request))
        asked = [each.content for each in request.changed]
        if len(asked) > 1 and not settled_first:
            return PROSE
        if not settled_first:
            settled_first.extend(asked)
            await submit(modelled, talk("Now there are no bees", conversation="c3"))
        else:
            asked_since.extend(asked)
        return ChatAnswer.of(**NOTHING)

    modelled.model.script = answer
    await say(modelled, MAY, *old)
    await say(modelled, SEPTEMBER, *new, conversation="c2")
    await settled(modelled)
    assert len(await jobs(modelled)) == 1
    assert {*settled_first} < {*new}
    assert sorted(asked_since) == sorted(new)


async def test_b9_a_burst_of_saved_memories_is_one_job_of_few_calls(modelled: Services) -> None:
    modelled.model.script = script(nothing)
    friends = (f"Ana's friend number {i} is called Friend{i}" for i in range(60))
    await stream(modelled, map(statement, friends))
    await settled(modelled)
    calls = reconciliations(list(modelled.model.chat_requests))
    assert all(len(each.memories) <= 40 for each in calls)
    found = await jobs(modelled)
    assert {each.state for each in found} == {job_pb2.JOB_STATE_SUCCEEDED}
    shown = {each.content for call in calls for each in call.changed}
    # The first of all had nothing beside it.
    assert len(shown) >= 59


async def test_b9_the_users_own_transcripts_go_first(modelled: Services) -> None:
    modelled.model.script = script(nothing)
    await say(modelled, MAY, OLD_HOME)
    await submit(
        modelled, *(talk(f"Ana likes tea number {i}", conversation=f"t{i}") for i in range(6))
    )
    await save(modelled, NEW_HOME)
    await settled(modelled)
    asked = [request.reconciliation for request in modelled.model.chat_requests]
    assert asked == sorted(asked)
    assert asked.count(False) == 7


@pytest.mark.parametrize("how", ["corrected", "replaced"])
async def test_a6_a_value_of_the_profile_goes_with_its_memory(modelled: Services, how: str) -> None:
    def learning(request: ChatRequest) -> dict[str, Any]:
        learnt = moving(request)
        if request.messages[0].content == OLD_HOME:
            learnt["profile_changes"] = [value("facts.personal.location", "Göttingen", OLD_HOME)]
        return learnt

    modelled.model.script = script(
        replacing(OLD_HOME, NEW_HOME) if how == "replaced" else nothing, learning
    )
    await say(modelled, MAY, OLD_HOME)
    assert facts_of(await profile_of(modelled))["personal"]["location"] == "Göttingen"
    home = await with_words(modelled, OLD_HOME)
    if how == "corrected":
        await update(modelled, home.id, content="Ana lives in Hannover")
    else:
        await save(modelled, NEW_HOME)
        await settled(modelled)
    now = await profile_of(modelled)
    assert "location" not in facts_of(now).get("personal", {})
    assert now.version == 2
    if how == "replaced":
        await take_back(modelled, job_id=(await jobs(modelled))[0].id)
        assert facts_of(await profile_of(modelled))["personal"]["location"] == "Göttingen"
