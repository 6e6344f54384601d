"""C1 through the RPCs: when memories are merged, into what, and how it is undone."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from hitherto.v1 import job_pb2, memory_pb2
from hitherto_extraction.config import ExtractionSettings
from tests.e2e.conftest import Services
from tests.e2e.learning import ended, learn, memories, rows, shown, talk
from tests.e2e.merging import (
    ARCHIVED,
    CASUAL,
    ONE_CASUAL,
    ONE_STYLE,
    STYLE,
    STYLES,
    SUPERSEDED,
    all_into,
    consolidate,
    consolidations,
    contents,
    merged_memory,
    nothing,
    say,
    script,
)
from tests.e2e.methods import ask
from tests.e2e.sessions import refusal_of
from tests.e2e.stories import MERGED, Teller, stories
from tests.scripted_model import CONTENT_FAULTS, ChatAnswer, ChatRequest, ScriptedModel, StatusFault
from tests.scripted_model.answers import memory as new_memory
from tests.scripted_model.answers import merged, quoting

FOUR = "PIES BUNS ROLLS TARTS"
FIVE = f"CAKES {FOUR}"
ONE_MERGE = {
    "groups": 1, "merged": 1, "created": 1, "superseded": 5, "skipped_unchanged": 0, "dropped": 0,
}  # fmt: skip
SIXTH = "The user signs with a casual first name"
ATTEMPTS: int = ExtractionSettings.model_fields["job_max_retries"].default + 1


def calls(model: ScriptedModel) -> int:
    return len(consolidations(list(model.chat_requests)))


async def undo(services: Services, memory_id: str, user: str = "ana") -> list[memory_pb2.Memory]:
    response = await ask(services, "UndoConsolidation", user_id=user, memory_id=memory_id)
    return list(response.memories)


async def jobs_of(services: Services, user: str = "ana") -> list[job_pb2.Job]:
    listed = await ask(services, "ListJobs", user_id=user, kinds=["consolidation"])
    return list(listed.jobs)


async def the_job(services: Services, user: str = "ana") -> job_pb2.Job:
    """The one consolidation of a user, once it is over."""
    (job,) = await jobs_of(services, user)
    return await ended(services, job.id)


async def test_document_002_five_writing_style_memories_become_one(modelled: Services) -> None:
    modelled.model.script = script(all_into(ONE_STYLE))
    for number, style in enumerate(STYLES):
        await say(modelled, style, conversation=f"c{number}")
    job = await consolidate(modelled, tag=STYLE)
    assert dict(job.result.counts) == ONE_MERGE
    found = await merged_memory(modelled)
    originals = await memories(modelled, statuses=SUPERSEDED)
    assert await contents(modelled) == [ONE_STYLE]
    assert sorted(each.content for each in originals) == sorted(STYLES)
    assert {each.superseded_by for each in originals} == {found.id}
    assert set(found.supersedes) == {each.id for each in originals}
    assert found.tags == [STYLE]
    assert found.importance == pytest.approx(0.8)
    # Five conversations say so, none of them surely.
    assert found.confidence == memory_pb2.CONFIDENCE_HIGH
    assert sorted(found.source_message_ids) == [f"c{n}-1" for n in range(5)]
    begins = min(each.valid_from.ToNanoseconds() for each in originals)
    assert found.valid_from.ToNanoseconds() == begins
    assert found.job_id == job.id
    assert (job.result.memories_created, job.result.prompt_version) == (1, "consolidation_2")
    (request,) = consolidations(list(modelled.model.chat_requests))
    assert [each.local_id for each in request.memories] == ["e1", "e2", "e3", "e4", "e5"]
    assert request.body["response_format"]["json_schema"]["name"] == "consolidation"
    # B14: the call is charged.
    usage = job.result.usage
    assert (usage.llm_calls, usage.embedding_calls) == (1, 1)
    assert (usage.input_tokens, usage.output_tokens) == (100, 20)
    charged = (
        "SELECT stage, calls, input_tokens, cost_usd > 0 FROM hitherto.usage_ledger"
        " WHERE kind = 'consolidation' AND stage = 'consolidation'"
    )
    assert rows(modelled.conninfo, charged) == [("consolidation", 1, 100, True)]
    # Also without vectors, what says an original again says the merged one.
    modelled.model.always(StatusFault(400), endpoint="embeddings")
    await say(modelled, STYLES[1], conversation="c9")
    assert await contents(modelled) == [ONE_STYLE]


async def test_c1_nothing_is_merged_below_the_bounds(modelled: Services) -> None:
    """Without a tag above 5, with one from 5; a sixth of a tag sets it off by itself."""
    modelled.model.script = script(all_into(ONE_STYLE))
    await say(modelled, *STYLES)
    assert await jobs_of(modelled) == []
    assert (await consolidate(modelled)).result.counts["groups"] == 0
    await say(modelled, *STYLES[:4], tag="other", user="ben")
    assert (await consolidate(modelled, user="ben", tag="other")).result.counts["groups"] == 0
    assert calls(modelled.model) == 0
    # A dry run counts and asks nobody.
    counts = {"groups": 1, "memories": 5, "skipped_unchanged": 0}
    for user in ("ana", ""):
        told = await ask(modelled, "Consolidate", user_id=user, tag=STYLE, dry_run=True)
        assert dict(told.counts) == dict(told.job.result.counts) == counts
        assert told.job.state == job_pb2.JOB_STATE_SUCCEEDED
        assert told.job.consistency_token
    assert calls(modelled.model) == 0
    assert await contents(modelled) == sorted(STYLES)
    await say(modelled, SIXTH, conversation="c2")
    job = await the_last(modelled)
    assert job.state == job_pb2.JOB_STATE_SUCCEEDED, job.error
    assert job.result.counts["superseded"] == 6
    assert await contents(modelled) == [ONE_STYLE]


async def test_c1_a_second_run_changes_nothing_and_asks_nobody(modelled: Services) -> None:
    modelled.model.script = script(nothing)
    await say(modelled, *STYLES, SIXTH)
    assert (await the_job(modelled)).result.counts["groups"] == 1
    before = rows_of(await memories(modelled))
    job = await consolidate(modelled)
    assert job.result.counts["skipped_unchanged"] == 1
    assert job.result.usage.llm_calls == 0
    assert calls(modelled.model) == 1
    assert rows_of(await memories(modelled)) == before
    # Somebody who names the tag asks for another look.
    await consolidate(modelled, tag=STYLE)
    assert calls(modelled.model) == 2


async def test_c1_a_group_in_which_nothing_was_merged_is_not_asked_about_again(
    modelled: Services,
) -> None:
    """However often its tag grows by something else."""
    modelled.model.script = script(nothing)
    await say(modelled, *CASUAL, SIXTH)
    await the_job(modelled)
    asked = []
    for number, other in enumerate(("The ferry leaves at noon", "Bees need no fence")):
        await say(modelled, other, conversation=f"other-{number}")
        await consolidate(modelled)
        asked.append(calls(modelled.model))
    assert asked[0] > 1
    assert asked[1] == asked[0]


def rows_of(found: list[memory_pb2.Memory]) -> list[bytes]:
    return [each.SerializeToString(deterministic=True) for each in found]


async def test_c1_what_a_merge_leaves_is_not_looked_at_again(modelled: Services) -> None:
    """Two of nine become one: eight are left, still too many, and nothing more is to be said."""

    def pens(request: ChatRequest) -> list[dict[str, Any]]:
        ids = [each.local_id for each in request.memories if "pens" in each.content]
        return [merged("The user likes blue pens", ids)] if len(request.memories) == 9 else []

    modelled.model.script = script(pens)
    things = ["pens", "ink and pens", "cups", "mugs", "hats", "socks", "walls", "skies", "cars"]
    await say(modelled, *(f"The user likes blue {thing}" for thing in things), tag="blue")
    job = await the_job(modelled)
    assert job.result.counts["superseded"] == 2
    assert (await consolidate(modelled)).result.counts["skipped_unchanged"] == 1
    assert calls(modelled.model) == 1
    # One more is no reason to pay again; five more are.
    await say(modelled, "The user likes blue doors", tag="blue", conversation="c2")
    assert len(await jobs_of(modelled)) == 2
    more = (f"The user likes blue {thing}" for thing in ("shoes", "bikes", "tents", "lamps"))
    await say(modelled, *more, tag="blue", conversation="c3")
    assert len(await jobs_of(modelled)) == 3


async def test_c1_undo_brings_the_originals_back(modelled: Services) -> None:
    modelled.model.script = script(all_into(ONE_STYLE))
    await say(modelled, *STYLES)
    before = {each.id: each for each in await memories(modelled)}
    await consolidate(modelled, tag=STYLE)
    found = await merged_memory(modelled)
    # It is told once.
    undone = {"memory_id": found.id, "idempotency_key": "once"}
    first, again = [(await ask(modelled, "UndoConsolidation", **undone)).memories for _ in "12"]
    back = list(first)
    assert [each.id for each in back] == [each.id for each in again]
    assert {each.id for each in back} == set(before)
    for each in back:
        assert stated(each) == stated(before[each.id])
        assert each.version == before[each.id].version + 2
    assert await contents(modelled) == sorted(STYLES)
    assert await contents(modelled, ARCHIVED) == [ONE_STYLE]
    history = await ask(modelled, "GetMemoryHistory", memory_id=back[0].id)
    assert len(history.events) >= 3
    assert rows(
        modelled.conninfo,
        "SELECT action, count(*) FROM hitherto.history WHERE related_memory_id IS NOT NULL"
        " GROUP BY action ORDER BY action",
    ) == [("restored", 5), ("superseded", 5)]
    # There is nothing to undo any more, and nothing of another user.
    for user, memory_id, reason in (
        ("ana", found.id, "MEMORY_STATUS_CONFLICT"),
        ("ana", back[0].id, "MEMORY_STATUS_CONFLICT"),
        ("ben", found.id, "MEMORY_NOT_FOUND"),
    ):
        refusal = await refusal_of(undo(modelled, memory_id, user=user))
        assert refusal.reason == reason, (
            user,
            memory_id,
        )
    # Neither a run by itself nor a further memory merges them again.
    await consolidate(modelled)
    await say(modelled, SIXTH, conversation="c2")
    for job in await jobs_of(modelled):
        await ended(modelled, job.id)
    assert set(STYLES) < set(await contents(modelled))
    # What is said again is one of the originals, and not the merged memory.
    await say(modelled, STYLES[0], conversation="c3")
    assert (await contents(modelled)).count(STYLES[0]) == 1
    # Who names the tag wants it merged after all.
    await consolidate(modelled, tag=STYLE)
    assert await contents(modelled) == [ONE_STYLE]


@pytest.mark.parametrize("garbage", ["truncated_json", "wrong_schema"])
async def test_row_26_garbage_is_never_nothing_to_merge(modelled: Services, garbage: str) -> None:
    """Every kind of it: unit/consolidation/test_merging.py."""
    ordinary = script(nothing)
    reply = ChatAnswer(CONTENT_FAULTS[garbage])
    modelled.model.script = lambda request: reply if request.consolidation else ordinary(request)
    await say(modelled, *STYLES)
    begun = await ask(modelled, "Consolidate", tag=STYLE)
    job = await ended(modelled, begun.job.id)
    assert job.state == job_pb2.JOB_STATE_DEAD
    assert "MODEL_UNUSABLE" in job.error
    # An attempt asks twice. If the reply was cut off, it asked about the whole group before, and
    # then twice about half of it.
    assert calls(modelled.model) == (3 if garbage == "truncated_json" else 2) * ATTEMPTS
    # Nothing is taken for looked at: the next run asks again.
    modelled.model.script = script(all_into(ONE_STYLE))
    await consolidate(modelled, tag=STYLE)
    assert await contents(modelled) == [ONE_STYLE]


async def test_row_27_a_reply_that_was_cut_off_is_asked_for_in_halves(modelled: Services) -> None:
    """And an outage of the embedder leaves the merged memory to the back-fill."""
    modelled.model.script = script(all_into(ONE_CASUAL))
    await say(modelled, *CASUAL)
    modelled.model.queue(ChatAnswer('{"memories": [{"type"', finish_reason="length"))
    modelled.model.always(StatusFault(503), endpoint="embeddings")
    job = await consolidate(modelled, tag=STYLE)
    modelled.model.always(None, endpoint="embeddings")
    assert job.result.counts["groups"] == 2
    assert job.result.counts["superseded"] == 5
    assert job.result.usage.llm_calls == 3
    assert await contents(modelled) == [ONE_CASUAL] * 2
    found = await ask(modelled, "SearchMemories", query="casual tone")
    assert {each.memory.content for each in found.results} == {ONE_CASUAL}


class Held:
    """A merge that waits until it is let go: something else can happen during the call."""

    def __init__(self, content: str) -> None:
        self.asked = asyncio.Event()
        self.go_on = asyncio.Event()
        self._learn = script(all_into(content))

    async def answer(self, request: ChatRequest) -> ChatAnswer:
        if request.consolidation:
            self.asked.set()
            await asyncio.wait_for(self.go_on.wait(), 180)
        return self._learn(request)


async def test_row_39_an_original_that_changes_during_the_call_stays_as_it_became(
    modelled: Services,
) -> None:
    held = Held(ONE_STYLE)
    modelled.model.script = held.answer
    await say(modelled, *STYLES)
    begun = await ask(modelled, "Consolidate", tag=STYLE)
    # A run for one user tells at once what there is to do.
    assert dict(begun.counts) == {"groups": 1, "memories": 5, "skipped_unchanged": 0}
    await asyncio.wait_for(held.asked.wait(), 180)
    # No lock is held meanwhile: whoever writes does not wait for the model.
    changed = (
        "UPDATE hitherto.memories SET version = version + 1,"
        " content = 'The user changed their mind', updated_at = clock_timestamp()"
        " WHERE content LIKE '%formal language' RETURNING version"
    )
    assert rows(modelled.conninfo, changed) == [(2,)]
    held.go_on.set()
    job = await ended(modelled, begun.job.id)
    assert job.state == job_pb2.JOB_STATE_SUCCEEDED, job.error
    assert job.result.counts["superseded"] == 0
    assert job.result.counts["skipped_changed"] == 1
    assert "The user changed their mind" in await contents(modelled)
    assert len(await contents(modelled)) == 5
    # What was looked at is not what is there now: the next run looks again.
    await say(modelled, "The user likes a casual tone at work", conversation="c2")
    assert (await the_last(modelled)).result.counts["groups"] == 1


async def the_last(services: Services) -> job_pb2.Job:
    return await ended(services, (await jobs_of(services))[0].id)


async def test_row_22_runs_over_the_same_memories_never_deadlock(modelled: Services) -> None:
    """One for the tenant and one for the user, over two tags, each in its own order."""
    modelled.model.script = script(all_into(ONE_CASUAL))
    await say(modelled, *(f"{each} #other" for each in CASUAL))
    runs = (("ana", STYLE), ("", "other"), ("", STYLE), ("ana", "other"))
    begun = await asyncio.gather(
        *(ask(modelled, "Consolidate", user_id=user, tag=tag) for user, tag in runs)
    )
    for each in begun:
        job = await ended(modelled, each.job.id)
        assert job.state == job_pb2.JOB_STATE_SUCCEEDED, job.error
    assert await contents(modelled) == [ONE_CASUAL]
    assert rows(
        modelled.conninfo, "SELECT sum(cardinality(supersedes)) FROM hitherto.memories"
    ) == [(5,)]


async def test_a_run_over_the_tenant_goes_through_its_users(modelled: Services) -> None:
    """One without an answer holds up nobody: the next attempt asks about what is left.

    Whoever wants nothing learnt is not put before the model.
    """
    modelled.model.script = script(all_into(ONE_STYLE))
    for user in ("ana", "ben", "eva", "kim"):
        await say(modelled, *STYLES, user=user)
    await say(modelled, *STYLES[:3], user="joe")
    off = "UPDATE hitherto.users SET learning_enabled = false WHERE user_id = 'kim' RETURNING 1"
    rows(modelled.conninfo, off)
    begun = await ask(modelled, "Consolidate", user_id="kim", tag=STYLE)
    refused = await ended(modelled, begun.job.id)
    assert refused.state == job_pb2.JOB_STATE_CANCELLED
    assert "LEARNING_DISABLED" in refused.error
    modelled.model.queue(ChatAnswer("no"), ChatAnswer("no"))
    job = await consolidate(modelled, user="", tag=STYLE)
    assert (job.attempt, job.user_id) == (2, "")
    assert dict(job.result.counts) == {name: 3 * count for name, count in ONE_MERGE.items()}
    assert calls(modelled.model) == 5
    for user in ("ana", "ben", "eva"):
        assert await contents(modelled, user=user) == [ONE_STYLE]
    for user, left in (("joe", 3), ("kim", 5)):
        assert len(await contents(modelled, user=user)) == left


async def test_c4_the_nightly_run_merges_what_is_too_much_and_asks_once(modelled: Services) -> None:
    """The job that a schedule queues: of the tenant, and asked for by nobody."""

    async def nightly() -> job_pb2.Job:
        ((job_id,),) = rows(
            modelled.conninfo,
            "INSERT INTO jobs (job_id, tenant_id, kind, max_attempts) VALUES (gen_random_uuid(),"
            " current_setting('hitherto.tenant_id'), 'consolidation', 4) RETURNING job_id",
        )
        job = await ended(modelled, str(job_id))
        assert job.state == job_pb2.JOB_STATE_SUCCEEDED, job.error
        return job

    modelled.model.script = script(nothing)
    for user in ("ana", "ben"):
        await say(modelled, *STYLES, user=user)
    await say(modelled, SIXTH, conversation="c2")
    await the_job(modelled)
    modelled.model.script = script(all_into(ONE_STYLE))
    # One user has too few, the other's were looked at already.
    assert (await nightly()).result.counts["skipped_unchanged"] == 1
    assert calls(modelled.model) == 1
    await say(modelled, f"{STYLES[0]} always", conversation="c3")
    job = await nightly()
    # Only what is near the new one is looked at again.
    assert job.result.counts["groups"] == 1
    assert 2 <= job.result.counts["superseded"] < 7
    assert await contents(modelled, user="ben") == sorted(STYLES)


def stated(memory: memory_pb2.Memory) -> bytes:
    """All of a memory but the marks of having been changed."""
    kept = memory_pb2.Memory()
    kept.CopyFrom(memory)
    for name in ("version", "updated_at", "job_id"):
        kept.ClearField(name)
    return kept.SerializeToString(deterministic=True)


@stories(
    f"""
    what says a merged memory again strengthens it and doubles nothing:
        {MERGED}; again 6: CAKES; told: BAKES; BAKES is version 1
        BAKES of cakes pies buns rolls tarts again
        undo the merge; told: {FIVE}; CAKES of cakes again; PIES of pies
    row 72: a merge whose originals are forgotten is taken back:
        {MERGED}; forget CAKES; forget PIES; forget BUNS; forget ROLLS; forget TARTS
        take back the merge; counted memories_forgotten: 1; told: nothing
    row 72: what was said after a merge outlives it, and the words of the merge go:
        {MERGED}; remember BAKES; || again 6: PIES
        late 7: FRIENDS rewording: BAKES; | again 8: PIES |
        told: FRIENDS; undo the merge | undo the merge | take back the merge
        told: FRIENDS {FIVE}; FRIENDS was BAKES; FRIENDS of late; FRIENDS on its own
        FRIENDS may replace {FIVE}; PIES of pies | PIES of pies again | PIES of pies again
        take back late; told: {FIVE}
    row 72: nor does it go with a source of the merge:
        {MERGED}; remember BAKES; late 7: FRIENDS rewording: BAKES; | again 8: PIES
        take back cakes; told: FRIENDS {FOUR}; FRIENDS was BAKES; FRIENDS of late
        FRIENDS on its own; FRIENDS may replace {FOUR}; PIES of pies | PIES of pies again
        take back late; told: {FOUR}
    row 72: who repeats the merged words states them:
        {MERGED}; late 6: BAKES; undo the merge; told: BAKES {FIVE}; BAKES of late
        take back late; told: {FIVE}
    """
)
async def test_a_merge(modelled: Services, story: Sequence[str]) -> None:
    await Teller(modelled).tell(story)


async def test_row_72_words_that_an_original_has_too_are_one_memory_again(
    modelled: Services,
) -> None:
    modelled.model.script = script(all_into(STYLES[0]))
    await say(modelled, *STYLES)
    await consolidate(modelled, tag=STYLE)
    await say(modelled, STYLES[0], conversation="late")
    await undo(modelled, (await merged_memory(modelled)).id)
    assert await contents(modelled) == sorted(STYLES)
    left = await memories(modelled)
    (first,) = [each for each in left if each.content == STYLES[0]]
    assert {each.conversation_id for each in first.sources} == {"c1", "late"}
    assert [list(each.may_replace) for each in left] == [[]] * len(STYLES)


async def test_row_72_what_outlives_a_merge_mentions_what_its_own_words_name(
    modelled: Services,
) -> None:
    """Also if an original names it, and nothing else that an original names."""
    newer = "The user likes to write to Clara in a formal tone"

    def answer(request: ChatRequest) -> ChatAnswer:
        if request.consolidation:
            return script(all_into("The user likes to write to Clara and Dora"))(request)
        if any("formal" in said.content for said in request.messages):
            update = {"id": shown(request, "Clara and"), "content": newer}
            return quoting(request, updated_memories=[update | {"source_message_ids": ["m1"]}])
        named = [{"name": name, "type": "person"} for name in ("Clara", "Dora")]
        return ChatAnswer.of(
            new_memories=[
                new_memory(each.content, [each.local_id], tags=[STYLE], entities=named)
                for each in request.messages
            ]
        )

    modelled.model.script = answer
    days = ("Monday", "Tuesday", "Friday", "Saturday", "Sunday")
    told = [f"The user likes to write to Clara and Dora on {day}" for day in days]
    await learn(modelled, talk(*told))
    await consolidate(modelled, tag=STYLE)
    await learn(modelled, talk("I am formal with Clara", conversation="late"))
    assert await contents(modelled) == [newer]
    await undo(modelled, (await merged_memory(modelled)).id)
    assert list((await merged_memory(modelled)).entities) == ["Clara"]
