"""Older words that come late: B6, B7, E2, F1; faults.md rows 38, 72."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from google.protobuf import json_format

from hitherto.v1 import job_pb2
from tests.e2e.conftest import Services, StartServices
from tests.e2e.curating import change, forget, save
from tests.e2e.learning import ALL_STATUSES, ended, learn, memories, replies, rows, submit, talk
from tests.e2e.methods import ask
from tests.e2e.test_belief import profile_of
from tests.scripted_model import ChatAnswer, ChatRequest, ScriptedModel
from tests.scripted_model.answers import change as change_of
from tests.scripted_model.answers import memory, value


async def test_row_38_an_older_range_that_is_run_again_replaces_nothing_in_the_summary(
    start_services: StartServices, model: ScriptedModel
) -> None:
    broken = True

    def script(request: ChatRequest) -> ChatAnswer:
        if "boats" not in request.messages[0].content:
            return ChatAnswer.of(conversation_summary={"title": "Sails", "summary": "Of sails."})
        if broken:
            return ChatAnswer("no JSON")
        return ChatAnswer.of(
            conversation_summary={
                "title": "Boats", "summary": "Of boats.", "key_topics": ["boats"],
                "outcome": "resolved",
            }
        )  # fmt: skip

    model.script = script
    async with start_services(model, job_max_retries=0) as services:
        (first,) = await submit(services, talk("boats"))
        assert (await ended(services, first)).state == job_pb2.JOB_STATE_DEAD
        await learn(services, talk("boats", "sails"))
        broken = False
        await ask(services, "RetryJob", job_id=first)
        assert (await ended(services, first)).state == job_pb2.JOB_STATE_SUCCEEDED
        listed = await ask(services, "ListConversations")
    (summary,) = listed.conversations
    assert (summary.title, summary.summary) == ("Sails", "Of sails.")
    # What nobody had said yet it may say; the outcome had been ongoing.
    assert list(summary.key_topics) == ["boats"]
    assert summary.outcome == 2


async def test_b7_relative_dates_are_meant_in_the_users_zone_unless_the_transcript_says(
    modelled: Services,
) -> None:
    modelled.model.script = replies({})
    at = datetime(2026, 3, 1, 20, tzinfo=UTC)
    zones = "SELECT time_zone FROM conversations WHERE conversation_id = '{}'"

    plain = talk("hello", conversation="plain", at=at)
    await ask(modelled, "AppendMessages", conversation_id="plain", messages=plain.messages)
    await learn(modelled, talk("hello", "again", conversation="plain", at=at))
    assert rows(modelled.conninfo, zones.format("plain")) == [("UTC",)]
    # F1: a summary is as old as its conversation.
    assert rows(
        modelled.conninfo,
        "SELECT s.created_at = c.created_at FROM conversation_summaries AS s"
        " JOIN conversations AS c USING (tenant_id, user_id, conversation_id)",
    ) == [(True,)]

    stated = talk("hello", conversation="stated", at=at)
    stated.time_zone = "Europe/Berlin"
    await learn(modelled, stated)
    # Nobody says anything else: the conversation keeps its zone.
    await learn(modelled, talk("hello", "more", conversation="stated", at=at))
    assert rows(modelled.conninfo, zones.format("stated")) == [("Europe/Berlin",)]

    rows(modelled.conninfo, "UPDATE users SET time_zone = 'Asia/Ho_Chi_Minh' RETURNING 1")
    await learn(modelled, talk("hello", conversation="theirs", at=at))
    assert "2026-03-02T03:00:00+07:00" in modelled.model.chat_requests[-1].sections["CONVERSATION"]
    assert rows(modelled.conninfo, zones.format("theirs")) == [("Asia/Ho_Chi_Minh",)]


async def test_b6_several_speakers_are_shown_by_name(modelled: Services) -> None:
    modelled.model.script = replies({})
    transcript = talk("I like tea", "I like rum", ("assistant", "Noted"))
    transcript.messages[0].name, transcript.messages[1].name = "Ana", "Ben"
    await learn(modelled, transcript)
    asked = modelled.model.chat_requests[-1]
    named = [("user", "Ana"), ("user", "Ben"), ("assistant", "")]
    assert [(m.role, m.name) for m in asked.messages] == named


SAID_OF_ZEPPELINS = {
    "a": (datetime(2026, 5, 4, 9, tzinfo=UTC), "I have a zeppelin and a loom"),
    "b": (datetime(2026, 9, 3, 9, tzinfo=UTC), "No zeppelin any more"),
    "c": (datetime(2026, 6, 4, 9, tzinfo=UTC), "Still a zeppelin"),
    "d": (datetime(2026, 10, 4, 9, tzinfo=UTC), "A zeppelin again"),
}


@pytest.mark.parametrize("order", ["bac", "cba", "adcb"])
async def test_e2_what_has_ended_does_not_come_back_with_earlier_words(
    modelled: Services, order: str
) -> None:
    """In whatever order conversations arrive: an item of a list, a value, an unknown one."""

    def answer(request: ChatRequest) -> dict[str, Any]:
        said = request.messages[0].content
        ended = said.startswith("No")
        values = [
            value("current_projects", ["zeppelin"], said, ended=ended),
            value("facts.technical_context.tools", ["zeppelin"], said, ended=ended),
            value("facts.personal.vehicle", "zeppelin", said, ended=ended),
        ]
        if "loom" in said:
            values.append(value("current_projects", ["loom"], said))
        return {"profile_changes": values}

    modelled.model.script = replies({"zeppelin": answer})
    # What is taken back has ended nothing, also where there is no profile yet.
    for each in "bc":
        at, said = SAID_OF_ZEPPELINS[each]
        await learn(modelled, talk(said, user="ben", conversation=each, at=at))
        if each == "b":
            await ask(modelled, "RollbackSource", user_id="ben", conversation_id=each)
    told = (await ask(modelled, "GetProfile", user_id="ben")).profile
    assert list(told.current_projects) == ["zeppelin"]
    for each in order:
        at, said = SAID_OF_ZEPPELINS[each]
        await learn(modelled, talk(said, conversation=each, at=at))
    profile = await profile_of(modelled)
    held = {"zeppelin"} if "d" in order else set()
    assert set(profile.current_projects) == {"loom"} | held
    facts = json_format.MessageToDict(profile.facts)
    assert facts.get("technical_context", {}).get("tools", []) == list(held)
    assert facts.get("personal", {}).get("vehicle") == ("zeppelin" if held else None)
    if held:
        assert profile.sources["current_projects#zeppelin"].message_id == "d-1"
    # A roll-back of the end takes its moment back, too.
    await ask(modelled, "RollbackSource", conversation_id="b")
    await learn(modelled, talk("Still a zeppelin", conversation="e", at=SAID_OF_ZEPPELINS["c"][0]))
    assert set((await profile_of(modelled)).current_projects) == {"loom", "zeppelin"}


EXAM = "Ana has an exam this week."
SPRING, AUTUMN = datetime(2026, 5, 4, 9, tzinfo=UTC), datetime(2026, 11, 2, 9, tzinfo=UTC)


@pytest.mark.parametrize(
    "how", ["in the same words", "as the same", "forgotten before", "by hand", "late"]
)
async def test_b6_what_is_said_again_after_it_has_expired_is_told(
    modelled: Services, how: str
) -> None:
    """A statement says nothing about one that was over by then, and everything before does."""

    def again(request: ChatRequest) -> dict[str, Any]:
        same = {"same_as": request.memories[0].local_id} if how == "as the same" else {}
        words = EXAM if not same else "An exam awaits Ana this week."
        return {"new_memories": [memory(words, type="context", **same)]}

    first = memory(EXAM, type="context", expires_at="2026-05-10")
    modelled.model.script = replies({"exam in spring": [first], "exam again": again})
    await learn(modelled, talk("an exam in spring", conversation="c1", at=SPRING))
    assert not await memories(modelled)
    if how == "forgotten before":
        (known,) = await memories(modelled, statuses=ALL_STATUSES)
        await forget(modelled, known.id)
        change(modelled.conninfo, "UPDATE memories SET updated_at = '2026-06-01'")
    if how == "by hand":
        await save(modelled, EXAM, user="ana")
    else:
        at = SPRING + timedelta(days=1) if how == "late" else AUTUMN
        await learn(modelled, talk("an exam again", conversation="c2", at=at))
    found = [each.content for each in await memories(modelled)]
    assert len(found) == (0 if how == "late" else 1)
    if how == "forgotten before":
        # A roll-back puts it together again from what was said.
        third = memory(found[0], type="context", importance=0.9)
        modelled.model.script = replies({"once more": [third]})
        at = AUTUMN + timedelta(days=1)
        await learn(modelled, talk("an exam once more", conversation="c3", at=at))
        await ask(modelled, "RollbackSource", conversation_id="c3")
        assert [each.content for each in await memories(modelled)] == found


async def test_row_38_what_is_dated_in_the_future_is_no_newer_than_its_arrival(
    modelled: Services,
) -> None:
    """A clock that runs ahead, or a unit mistaken, leaves nothing that cannot be corrected."""

    def script(request: ChatRequest) -> ChatAnswer:
        said = request.messages[-1]
        place = said.content.split()[-1]
        before = [change_of(known.local_id, said.content, by=0) for known in request.memories]
        return ChatAnswer.of(
            new_memories=[memory(f"Ana lives in {place}")],
            contradicted_memories=before,
            profile_changes=[value("facts.home", place, said.content)],
        )

    modelled.model.script = script
    await learn(
        modelled,
        talk("I live in Oslo", conversation="ahead", at=datetime(2199, 1, 1, tzinfo=UTC)),
        talk("I live in Kiel", conversation="c2"),
    )
    assert [each.content for each in await memories(modelled)] == ["Ana lives in Kiel"]
    facts = json_format.MessageToDict((await profile_of(modelled)).facts)
    assert facts == {"home": "Kiel"}
