"""RollbackSource: everything that one conversation or job taught is taken back (R2, section 3)."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from google.protobuf import json_format

from hitherto.v1 import conversation_pb2, history_pb2, job_pb2, memory_pb2
from tests.e2e.conftest import Services
from tests.e2e.curating import restore, save
from tests.e2e.importing import bring
from tests.e2e.learning import (
    ALL_STATUSES,
    altering,
    ended,
    learn,
    memories,
    replies,
    rows,
    shown,
    submit,
    talk,
)
from tests.e2e.leaving import export
from tests.e2e.merging import ONE_STYLE, STYLE, STYLES, all_into, consolidate, say, script
from tests.e2e.methods import ask
from tests.e2e.sessions import refusal_of
from tests.scripted_model import ChatAnswer, ChatRequest, canary_script
from tests.scripted_model.answers import change, quoting, value
from tests.scripted_model.answers import memory as new_memory

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
_EVERY = 10
"""Appended messages that start a job."""
_LONG = " and so on" * 2_000
"""What a message ends with that the model is asked about by itself."""


async def take_back(services: Services, **fields: Any) -> dict[str, int]:
    reply = await ask(services, "RollbackSource", **{"user_id": "ana", **fields})
    return dict(reply.counts)


async def profile_of(services: Services, user: str = "ana") -> dict[str, Any]:
    found = await ask(services, "GetContext", user_id=user)
    return dict(json_format.MessageToDict(found.profile.facts))


GOOD = "good words: I am Ana, I live in Lisbon and bake bread"
BAD = "bad words: my two cats hate people, I live in Atlantis, king of all gold"


@pytest.fixture
async def poisoned(modelled: Services) -> Services:
    """What the user said, and a conversation that contradicts, rewords, adds and repeats it."""
    modelled.model.script = replies(
        {
            "good words": {
                "new_memories": [
                    new_memory("The user lives in Lisbon."),
                    new_memory("The user has two cats."),
                    new_memory("The user bakes bread."),
                ],
                "profile": {
                    "facts": {"personal": {"name": "Ana", "location": "Lisbon"}},
                    "current_projects": ["bread"],
                },
            },
            "bad words": lambda request: {
                "new_memories": [
                    new_memory("The user lives in Atlantis."),
                    new_memory("The user bakes bread.", importance=1.0),
                ],
                "contradicted_memories": [change(shown(request, "Lisbon"), BAD, by=0)],
                "updated_memories": [
                    change(
                        shown(request, "cats"),
                        BAD,
                        content="The user has two cats and they hate people.",
                    )
                ],
                "profile": {
                    "facts": {"personal": {"location": "Atlantis", "role": "king"}},
                    "current_projects": ["gold"],
                },
            },
        }
    )
    bad = talk(BAD, conversation="bad", at=NOON + timedelta(days=1))
    await learn(modelled, talk(GOOD, conversation="good", at=NOON), bad)
    return modelled


async def test_a_conversation_is_taken_back(poisoned: Services) -> None:
    """What only it states is forgotten, what it changed is as before, the profile too."""
    before = {m.content: m for m in await memories(poisoned)}
    assert set(before) == {
        "The user lives in Atlantis.",
        "The user has two cats and they hate people.",
        "The user bakes bread.",
    }
    counts = await take_back(poisoned, conversation_id="bad")
    assert counts["memories_forgotten"] == 1
    assert counts["memories_restored"] == 3
    after = {m.content: m for m in await memories(poisoned)}
    assert set(after) == {
        "The user lives in Lisbon.",
        "The user has two cats.",
        "The user bakes bread.",
    }
    lisbon = after["The user lives in Lisbon."]
    assert (lisbon.superseded_by, lisbon.HasField("valid_to")) == ("", False)
    bread = after["The user bakes bread."]
    assert bread.importance < 1.0
    assert {source.conversation_id for source in bread.sources} == {"good"}
    assert await profile_of(poisoned) == {"personal": {"name": "Ana", "location": "Lisbon"}}
    every = {m.content: m for m in await memories(poisoned, statuses=ALL_STATUSES)}
    assert every["The user lives in Atlantis."].status == memory_pb2.MEMORY_STATUS_FORGOTTEN
    assert not every["The user lives in Atlantis."].supersedes
    history = await ask(poisoned, "GetMemoryHistory", memory_id=lisbon.id)
    assert [event.kind for event in history.events] == [
        history_pb2.HISTORY_EVENT_KIND_ROLLED_BACK,
        history_pb2.HISTORY_EVENT_KIND_CONTRADICTED,
        history_pb2.HISTORY_EVENT_KIND_CREATED,
    ]
    found = await ask(poisoned, "SearchMemories", query="hate people", limit=3)
    assert not [hit for hit in found.results if "hate" in hit.memory.content]


async def test_what_comes_back_from_a_merge_is_counted(modelled: Services) -> None:
    """One of the five that were merged goes, and four are current again."""
    modelled.model.script = script(all_into(ONE_STYLE))
    for number, words in enumerate(STYLES):
        await say(modelled, words, conversation=f"c{number}")
    await consolidate(modelled, tag=STYLE)
    assert [each.content for each in await memories(modelled)] == [ONE_STYLE]
    counts = await take_back(modelled, conversation_id="c1")
    assert len(await memories(modelled)) == 4
    told = {name: counts[name] for name in ("consolidations_undone", "memories_restored")}
    assert told == {"consolidations_undone": 1, "memories_restored": 4}
    assert counts["memories_forgotten"] == 1


async def test_a_name_that_others_mention_stays_known(modelled: Services) -> None:
    """Also if what is taken back was forgotten before."""
    belfry = [{"name": "Belfry", "type": "project"}]
    modelled.model.script = lambda request: quoting(
        request, new_memories=[new_memory(request.messages[0].content, entities=belfry)]
    )
    for word in ("roof", "bell"):
        await learn(modelled, talk(f"The user mends the {word} of Belfry.", conversation=word))
    (roof,) = [each for each in await memories(modelled) if "roof" in each.content]
    await ask(modelled, "ForgetMemory", memory_id=roof.id)
    await take_back(modelled, conversation_id="roof")
    found = await ask(modelled, "FindEntities")
    assert [(each.name, each.mention_count) for each in found.entities] == [("Belfry", 1)]


async def test_a_conversation_of_which_only_saved_memories_are_known(services: Services) -> None:
    """An assistant may save what it hears and never send the conversation."""
    saved = await save(services, "The user lives in Atlantis.", conversation_id="bad")
    await save(services, "The user bakes bread.", conversation_id="good")
    told = await take_back(services, conversation_id="bad", dry_run=True)
    assert await take_back(services, conversation_id="bad") == told
    assert told["memories_forgotten"] == 1
    assert {m.content for m in await memories(services)} == {"The user bakes bread."}
    assert set((await take_back(services, conversation_id="bad")).values()) == {0}
    await restore(services, saved.memory.id)
    assert "The user lives in Atlantis." in {m.content for m in await memories(services)}


async def test_sources_that_are_none(services: Services) -> None:
    nobody = "01890000-0000-7000-8000-000000000000"
    cases: list[tuple[dict[str, Any], str]] = [
        ({"conversation_id": "nothing"}, "CONVERSATION_NOT_FOUND"),
        ({"job_id": nobody}, "JOB_NOT_FOUND"),
        ({"document_id": nobody}, "DOCUMENT_NOT_FOUND"),
        ({}, "INVALID_FIELD"),
        ({"job_id": "x"}, "INVALID_FIELD"),
    ]
    for fields, reason in cases:
        assert (await refusal_of(take_back(services, **fields))).reason == reason, fields


async def test_a_job_of_another_user_is_none(modelled: Services) -> None:
    """Its id tells nothing, and nothing of either user is taken back."""
    modelled.model.script = replies(
        {
            "Oslo": [new_memory("Ana lives in Oslo")],
            "Bern": [new_memory("Ana lives in Bern")],
        }
    )
    said = talk("Ana lives in Oslo", conversation="Oslo", user="bo")
    (job_id,) = await submit(modelled, said)
    await ended(modelled, job_id)
    await learn(modelled, talk("Ana lives in Bern", conversation="Bern"))
    for dry_run in (True, False):
        refusal = await refusal_of(take_back(modelled, job_id=job_id, dry_run=dry_run))
        assert refusal.reason == "JOB_NOT_FOUND"
    assert {m.content for m in await memories(modelled, user="bo")} == {"Ana lives in Oslo"}
    assert {m.content for m in await memories(modelled)} == {"Ana lives in Bern"}


async def test_a_value_stays_when_the_memory_of_its_message_has_its_words_again(
    modelled: Services,
) -> None:
    """A value rests on all memories of its message, also on those that do not hold it."""
    modelled.model.script = replies(
        {
            "Ana here": {
                "new_memories": [new_memory("The user bakes bread.")],
                "profile_changes": [value("facts.personal.name", "Ana", "Ana here")],
            },
            "It rains": altering(
                "updated_memories", "bakes bread", "It rains today", content="Nothing of it."
            ),
        }
    )
    await learn(modelled, talk("Ana here, I bake bread", conversation="good", at=NOON))
    later = NOON + timedelta(days=1)
    await learn(modelled, talk("It rains today", conversation="bad", at=later))
    assert {m.content for m in await memories(modelled)} == {"Nothing of it."}
    await take_back(modelled, conversation_id="bad")
    assert {m.content for m in await memories(modelled)} == {"The user bakes bread."}
    assert (await profile_of(modelled))["personal"]["name"] == "Ana"


async def test_a_value_stays_whose_memory_was_replaced_before(modelled: Services) -> None:
    """It rests on the memory that has replaced its own in the end."""

    def moved(before: str, after: str, said: str) -> Any:
        return lambda request: {
            "new_memories": [new_memory(after)],
            "contradicted_memories": [change(shown(request, before), said, by=0)],
        }

    modelled.model.script = replies(
        {
            "Ana here": {
                "new_memories": [new_memory("Ana works at Acme.")],
                "profile_changes": [value("facts.personal.name", "Ana", "Ana here")],
            },
            "Now I am at Umbra": moved("Acme", "Ana works at Umbra.", "Now I am at Umbra"),
            "Now I am at Zenith": moved("Umbra", "Ana works at Zenith.", "Now I am at Zenith"),
            "It rains": altering("forgotten_memories", "Zenith", "It rains today"),
        }
    )
    for day, said in enumerate(
        ("Ana here, I am at Acme", "Now I am at Umbra", "Now I am at Zenith", "It rains today")
    ):
        at = NOON + timedelta(days=day)
        await learn(modelled, talk(said, conversation=f"c{day}", at=at))
    assert not await memories(modelled)
    assert "personal" not in await profile_of(modelled)
    await take_back(modelled, conversation_id="c3")
    assert {m.content for m in await memories(modelled)} == {"Ana works at Zenith."}
    assert (await profile_of(modelled))["personal"]["name"] == "Ana"


@pytest.mark.parametrize("named", ["job", "time"])
async def test_what_was_imported_is_taken_back_as_where_it_was_learnt(
    poisoned: Services, named: str
) -> None:
    """An export holds no jobs: what they taught names them."""
    (poison,) = [m for m in await memories(poisoned) if "Atlantis" in m.content]
    await bring(poisoned, (await export(poisoned)).text.encode(), "bo")
    # A job that taught until then is not of the time before.
    taught = (
        f"SELECT min(recorded_at), max(recorded_at) FROM history WHERE job_id = '{poison.job_id}'"
    )
    ((since, until),) = rows(poisoned.conninfo, taught)
    early = await take_back(poisoned, user_id="bo", since=since, until=until, dry_run=True)
    assert set(early.values()) == {0}
    sources: dict[str, dict[str, Any]] = {
        "job": {"job_id": poison.job_id},
        "time": {"since": poison.created_at},
    }
    told = {}
    for user in ("ana", "bo"):
        counts = await take_back(poisoned, user_id=user, **sources[named])
        told[user] = (
            {name: count for name, count in counts.items() if name != "sources_removed"},
            await profile_of(poisoned, user),
            [
                (m.content, m.status, m.importance, m.valid_to)
                for m in await memories(poisoned, user=user, statuses=ALL_STATUSES)
            ],
        )
    assert told["bo"] == told["ana"]
    assert told["bo"][1] == {"personal": {"name": "Ana", "location": "Lisbon"}}


def canary(word: str, *others: str) -> conversation_pb2.Transcript:
    """Messages of the conversation `bad`, of which the first teaches a word."""
    transcript = talk(f"canary:{word}", *others, conversation="bad", at=NOON)
    for number, message in enumerate(transcript.messages):
        message.id = f"{word}-{number}"
    return transcript


async def learnt(services: Services) -> list[str]:
    found = [m.content for m in await memories(services)]
    return sorted(content.partition("canary:")[2].rstrip(".") for content in found)


@pytest.mark.parametrize("job_waits", [False, True])
async def test_what_has_yet_to_be_learnt_from_a_conversation_teaches_nothing_afterwards(
    modelled: Services, job_waits: bool
) -> None:
    """Jobs that run, that wait, and messages with or without a job; RetryJob learns from them."""
    go = asyncio.Event()

    async def slow(request: ChatRequest) -> ChatAnswer:
        await go.wait()
        return canary_script(request)

    modelled.model.script = slow
    running, waiting = canary("running"), canary("waiting")
    appended = canary("appended", *["Hm."] * (_EVERY - 1 if job_waits else 0))
    job_ids = await submit(modelled, running)
    async with asyncio.timeout(180):
        await modelled.model.called(1)
    job_ids += await submit(modelled, waiting)
    told = await ask(modelled, "AppendMessages", conversation_id="bad", messages=appended.messages)
    job_ids += [told.job.id] if job_waits else []
    rehearsed = await take_back(modelled, conversation_id="bad", dry_run=True)
    assert await take_back(modelled, conversation_id="bad") == rehearsed
    assert rehearsed["jobs_cancelled"] == len(job_ids)
    assert set((await take_back(modelled, conversation_id="bad")).values()) == {0}
    go.set()
    for job_id in job_ids:
        assert (await ended(modelled, job_id)).state == job_pb2.JOB_STATE_CANCELLED
    cancelled = {job.id: job for job in (await ask(modelled, "ListJobs")).jobs}
    assert len(cancelled) == 3
    assert {job.max_attempts for job in cancelled.values()} == {4}
    assert {*(await submit(modelled, running, waiting, appended))} == {*cancelled}
    await learn(modelled, canary("later"))
    assert await learnt(modelled) == ["later"]
    for job_id in cancelled:
        await ask(modelled, "RetryJob", job_id=job_id)
        assert (await ended(modelled, job_id)).state == job_pb2.JOB_STATE_SUCCEEDED
    assert await learnt(modelled) == ["appended", "later", "running", "waiting"]


async def test_a_job_that_is_taken_back_teaches_nothing_afterwards(modelled: Services) -> None:
    """One that has read half of its messages, and one that waits; RetryJob reads the rest."""
    go = asyncio.Event()

    async def slow(request: ChatRequest) -> ChatAnswer:
        if "canary:second" in [each.content for each in request.messages]:
            await go.wait()
        return canary_script(request)

    modelled.model.script = slow
    said = canary("first", "canary:second")
    said.messages[0].content += _LONG
    (half_done,) = await submit(modelled, said)
    async with asyncio.timeout(180):
        await modelled.model.called(2)
    appended = canary("appended", *["Hm."] * (_EVERY - 1)).messages
    told = await ask(modelled, "AppendMessages", conversation_id="bad", messages=appended)
    for job_id in (told.job.id, half_done):
        assert (await take_back(modelled, job_id=job_id))["jobs_cancelled"] == 1
        assert set((await take_back(modelled, job_id=job_id)).values()) == {0}
    go.set()
    for job_id in (half_done, told.job.id):
        assert (await ended(modelled, job_id)).state == job_pb2.JOB_STATE_CANCELLED
    await learn(modelled, canary("later"))
    assert await learnt(modelled) == ["later"]
    for job_id, words in ((half_done, "canary:second"), (told.job.id, "canary:appended")):
        await ask(modelled, "RetryJob", job_id=job_id)
        assert (await ended(modelled, job_id)).state == job_pb2.JOB_STATE_SUCCEEDED
        assert modelled.model.chat_requests[-1].messages[0].content == words
    assert await learnt(modelled) == ["appended", "later", "second"]
