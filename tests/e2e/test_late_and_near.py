"""Older words that come late, and what near means: B6, B11; faults.md rows 32, 35, 38."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import permutations
from typing import Any

import pytest

from hitherto.v1 import (
    extraction_service_pb2,
    job_pb2,
    maintenance_service_pb2,
    memory_pb2,
    retrieval_service_pb2,
)
from tests.e2e.conftest import Services, StartServices, model_settings
from tests.e2e.curating import forget
from tests.e2e.learning import (
    ALL_STATUSES,
    ended,
    learn,
    memories,
    replies,
    rows,
    submit,
    talk,
)
from tests.e2e.leaving import erase, export, reinstate
from tests.e2e.test_import_user import bring
from tests.scripted_model import ChatAnswer, ChatRequest, ScriptedModel, StatusFault
from tests.scripted_model.answers import memory

CAFE = "Ana likes the quiet little cafe near the old harbour"


HOMES = {"Oslo": 3, "Rome": 5, "Bern": 6}
"""Where Ana said that she lives, and in which month of 2026."""


def month(number: int) -> datetime:
    return datetime(2026, number, 1, tzinfo=UTC)


def at_home(request: ChatRequest) -> ChatAnswer:
    """A model that learns each home, which contradicts whatever home it is shown."""
    return ChatAnswer.of(
        new_memories=[memory(request.messages[-1].content, ["m1"])],
        contradicted_memories=[{"id": each.local_id, "by": 0} for each in request.memories],
    )


async def homes(services: Services) -> dict[str, tuple[int, int | None]]:
    """The months in which Ana lived in each town, as the memories say."""
    return {
        found.content.split()[-1]: (
            found.valid_from.ToDatetime().month,
            found.valid_to.ToDatetime().month if found.HasField("valid_to") else None,
        )
        for found in await memories(services, statuses=ALL_STATUSES)
        if found.status != memory_pb2.MEMORY_STATUS_FORGOTTEN
    }


def say(*contents: str, kind: str = "fact") -> dict[str, Any]:
    return {"new_memories": [memory(content, ["m1"], type=kind) for content in contents]}


async def test_b11_neighbours_of_other_types_hide_no_duplicate(
    modelled: Services, model: ScriptedModel
) -> None:
    nearer = [f"{CAFE} today {n}" for n in range(12)]
    model.script = replies(
        {
            "again": lambda r: say(f"{CAFE} today"),
            "wishes": lambda r: say(*nearer, kind="preference"),
            "cafe": lambda r: say(CAFE),
        }
    )
    await learn(
        modelled,
        talk("a cafe"),
        talk("wishes", conversation="c2"),
        talk(f"again, {CAFE} today", conversation="c3"),
    )
    found = [m for m in await memories(modelled) if m.content in (CAFE, f"{CAFE} today")]
    assert [(m.content, m.version) for m in found] == [(f"{CAFE} today", 2)]


async def test_row_32_the_vector_of_words_that_were_rewritten_in_an_outage_answers_nothing(
    modelled: Services, model: ScriptedModel
) -> None:
    old = "Ana enjoys long quiet evenings with books at home"
    new = f"{old} about dancing"
    model.script = replies(
        {
            "dancing": lambda r: {"updated_memories": [{"id": "e1", "content": new}]},
            "again": lambda r: say(f"{old} now"),
            "books": lambda r: say(old),
        }
    )
    await learn(modelled, talk("books"))
    model.queue(StatusFault(500), endpoint="embeddings")
    await learn(modelled, talk("dancing", conversation="c2"))
    await learn(modelled, talk("again", conversation="c3"))
    assert sorted(m.content for m in await memories(modelled)) == [new, f"{old} now"]


async def test_row_35_vectors_of_another_model_are_never_compared(
    modelled: Services, model: ScriptedModel, tenant_conninfo: str
) -> None:
    model.script = replies({"again": lambda r: say(f"{CAFE} today"), "cafe": lambda r: say(CAFE)})
    await learn(modelled, talk("a cafe"))
    rows(
        tenant_conninfo,
        "INSERT INTO embedding_models (model, dimensions) VALUES ('other', 64) RETURNING 1",
    )
    rows(tenant_conninfo, "UPDATE memory_embeddings SET model = 'other' RETURNING 1")
    result = await learn(modelled, talk("again", conversation="c2"))
    assert (result.memories_created, result.memories_updated) == (1, 0)


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
    async with start_services(**model_settings(model), job_max_retries=0) as services:
        (first,) = await submit(services, talk("boats"))
        assert (await ended(services, first)).state == job_pb2.JOB_STATE_DEAD
        await learn(services, talk("boats", "sails"))
        broken = False
        await services.extraction.RetryJob(extraction_service_pb2.RetryJobRequest(job_id=first))
        assert (await ended(services, first)).state == job_pb2.JOB_STATE_SUCCEEDED
        listed = await services.retrieval.ListConversations(
            retrieval_service_pb2.ListConversationsRequest(user_id="ana")
        )
    (summary,) = listed.conversations
    assert (summary.title, summary.summary) == ("Sails", "Of sails.")
    # What nobody had said yet it may say; the outcome had been ongoing.
    assert list(summary.key_topics) == ["boats"]
    assert summary.outcome == 2


@pytest.mark.parametrize("order", list(permutations(HOMES)), ids="-".join)
async def test_row_38_a_statement_ends_where_the_next_one_begins_in_whichever_order_they_come(
    order: tuple[str, ...], modelled: Services, model: ScriptedModel
) -> None:
    model.script = at_home
    for town in order:
        said = f"Ana lives in {town}"
        await learn(modelled, talk(said, conversation=town, at=month(HOMES[town])))
    assert await homes(modelled) == {"Oslo": (3, 5), "Rome": (5, 6), "Bern": (6, None)}


@pytest.mark.parametrize("taken", list(permutations(HOMES)), ids="-".join)
@pytest.mark.parametrize("order", list(permutations(HOMES)), ids="-".join)
async def test_row_72_what_is_left_of_statements_ends_where_the_next_one_left_begins(
    order: tuple[str, ...],
    taken: tuple[str, ...],
    modelled: Services,
    model: ScriptedModel,
) -> None:
    model.script = at_home
    for town in order:
        said = f"Ana lives in {town}"
        await learn(modelled, talk(said, conversation=town, at=month(HOMES[town])))
    left = dict(HOMES)
    for town in taken:
        await modelled.maintenance.RollbackSource(
            maintenance_service_pb2.RollbackSourceRequest(user_id="ana", conversation_id=town)
        )
        del left[town]
        ends = [*left.values(), None][1:]
        held = zip(left.values(), ends, strict=True) if left else ()
        assert await homes(modelled) == dict(zip(left, held, strict=True))


async def test_row_72_an_imported_late_statement_ends_where_the_next_one_left_begins(
    modelled: Services, model: ScriptedModel
) -> None:
    """Rome names both that ended it: Bern, because the model said so, and Graz before."""
    model.script = at_home
    for town, number in {"Oslo": 3, "Bern": 7, "Graz": 6, "Rome": 5}.items():
        said = f"Ana lives in {town}"
        await learn(modelled, talk(said, conversation=town, at=month(number)))
    left = await export(modelled)
    await erase(modelled)
    assert await reinstate(modelled)
    await bring(modelled, left.text.encode())
    assert await homes(modelled) == {
        "Oslo": (3, 5),
        "Rome": (5, 6),
        "Graz": (6, 7),
        "Bern": (7, None),
    }
    await modelled.maintenance.RollbackSource(
        maintenance_service_pb2.RollbackSourceRequest(user_id="ana", conversation_id="Graz")
    )
    assert await homes(modelled) == {"Oslo": (3, 5), "Rome": (5, 7), "Bern": (7, None)}


@pytest.mark.parametrize("later", [False, True], ids=["in force", "ended"])
async def test_row_72_a_statement_stays_ended_by_one_that_another_source_still_states(
    later: bool, modelled: Services, model: ScriptedModel
) -> None:
    model.script = at_home
    said = [("Oslo", "Oslo", 3), ("Rome", "Rome", 4), ("again", "Rome", 5)]
    for conversation, town, number in [*said, *([("Bern", "Bern", 6)] if later else [])]:
        words = f"Ana lives in {town}"
        await learn(modelled, talk(words, conversation=conversation, at=month(number)))
    bern: dict[str, tuple[int, int | None]] = {"Bern": (6, None)} if later else {}
    end = 6 if later else None
    assert await homes(modelled) == {"Oslo": (3, 4), "Rome": (4, end), **bern}
    request = maintenance_service_pb2.RollbackSourceRequest(user_id="ana", conversation_id="Rome")
    await modelled.maintenance.RollbackSource(request)
    assert await homes(modelled) == {"Oslo": (3, 5), "Rome": (5, end), **bern}


async def test_row_67_what_challenged_a_statement_that_is_rolled_back_challenges_the_next_one(
    modelled: Services, model: ScriptedModel
) -> None:
    """The assistant's Rome contradicts the user's Bern as it did the user's Oslo."""
    model.script = at_home
    for town, role in {"Oslo": "user", "Rome": "assistant", "Bern": "user"}.items():
        said = (role, f"Ana lives in {town}")
        await learn(modelled, talk(said, conversation=town, at=month(HOMES[town])))

    async def statuses() -> dict[str, memory_pb2.MemoryStatus.ValueType]:
        found = await memories(modelled, statuses=ALL_STATUSES)
        return {each.content.split()[-1]: each.status for each in found}

    assert (await statuses())["Rome"] == memory_pb2.MEMORY_STATUS_QUARANTINED
    for town, becomes in (
        ("Oslo", memory_pb2.MEMORY_STATUS_QUARANTINED),
        ("Bern", memory_pb2.MEMORY_STATUS_ACTIVE),
    ):
        await modelled.maintenance.RollbackSource(
            maintenance_service_pb2.RollbackSourceRequest(user_id="ana", conversation_id=town)
        )
        assert (await statuses())["Rome"] == becomes


async def test_row_72_what_ended_a_statement_that_is_rolled_back_ends_only_what_it_contradicts(
    modelled: Services, model: ScriptedModel
) -> None:
    model.script = at_home
    said = {"Oslo": "Ana lives in Oslo", "Rome": "Ana lives in Rome", "no": "I left Rome"}
    for number, (conversation, words) in enumerate(said.items(), 3):
        await learn(modelled, talk(words, conversation=conversation, at=month(number)))
    found = await memories(modelled, statuses=ALL_STATUSES)
    assert {each.content: each.HasField("valid_to") for each in found} == {
        "Ana lives in Oslo": True,
        "Ana lives in Rome": True,
        "I left Rome": False,
    }
    await modelled.maintenance.RollbackSource(
        maintenance_service_pb2.RollbackSourceRequest(user_id="ana", conversation_id="Rome")
    )
    assert {each.content for each in await memories(modelled)} == {
        "Ana lives in Oslo",
        "I left Rome",
    }


@pytest.mark.parametrize("forgotten", [("Rome",), ("Rome", "Bern"), ("Bern", "Rome")], ids="-".join)
async def test_row_38_a_late_statement_ends_the_one_before_it_although_others_between_are_forgotten(
    forgotten: tuple[str, ...], modelled: Services, model: ScriptedModel
) -> None:
    model.script = at_home
    for town, number in {**HOMES, "Graz": 7}.items():
        said = f"Ana lives in {town}"
        await learn(modelled, talk(said, conversation=town, at=month(number)))
    held = {
        each.content.split()[-1]: each.id
        for each in await memories(modelled, statuses=ALL_STATUSES)
    }
    for town in forgotten:
        await forget(modelled, held[town])
    await learn(modelled, talk("Ana lives in Kyiv", conversation="Kyiv", at=month(4)))
    found = await homes(modelled)
    assert (found["Oslo"], found["Graz"]) == ((3, 4), (7, None))


async def test_row_29_a_statement_that_ends_earlier_counts_as_no_contradiction(
    modelled: Services, model: ScriptedModel
) -> None:
    model.script = at_home
    for town in ("Oslo", "Bern"):
        said = f"Ana lives in {town}"
        await learn(modelled, talk(said, conversation=town, at=month(HOMES[town])))
    late = talk("Ana lives in Rome", conversation="Rome", at=month(HOMES["Rome"]))
    preview = await modelled.extraction.PreviewExtraction(
        extraction_service_pb2.PreviewExtractionRequest(transcript=late)
    )
    assert [each.content for each in preview.memories_updated] == ["Ana lives in Oslo"]
    assert not preview.memories_contradicted
    result = await learn(modelled, late)
    # The late statement itself, which the known one contradicts.
    assert (result.memories_updated, result.memories_contradicted) == (1, 1)


async def test_row_29_a_statement_that_ends_earlier_uses_nothing_of_the_day_up(
    start_services: StartServices, model: ScriptedModel
) -> None:
    model.script = at_home
    async with start_services(**model_settings(model), daily_changes=2) as services:
        for town, number in (("Oslo", 3), ("Bern", 6), ("Rome", 5), ("Kyiv", 7)):
            said = f"Ana lives in {town}"
            await learn(services, talk(said, conversation=town, at=month(number)))
        found = await homes(services)
    assert found == {"Oslo": (3, 5), "Rome": (5, 6), "Bern": (6, 7), "Kyiv": (7, None)}


async def test_f1_a_summary_is_as_old_as_its_conversation(
    modelled: Services, model: ScriptedModel, tenant_conninfo: str
) -> None:
    model.script = replies({})
    await modelled.extraction.AppendMessages(
        extraction_service_pb2.AppendMessagesRequest(
            user_id="ana", conversation_id="c1", messages=talk("hello").messages
        )
    )
    await learn(modelled, talk("hello", "again"))
    assert rows(
        tenant_conninfo,
        "SELECT s.created_at = c.created_at FROM conversation_summaries AS s"
        " JOIN conversations AS c USING (tenant_id, user_id, conversation_id)",
    ) == [(True,)]


async def test_b7_relative_dates_are_meant_in_the_users_zone_unless_the_transcript_says(
    modelled: Services, model: ScriptedModel, tenant_conninfo: str
) -> None:
    model.script = replies({})
    at = datetime(2026, 3, 1, 20, tzinfo=UTC)
    zones = "SELECT time_zone FROM conversations WHERE conversation_id = '{}'"

    await learn(modelled, talk("hello", conversation="plain", at=at))
    assert rows(tenant_conninfo, zones.format("plain")) == [("UTC",)]

    stated = talk("hello", conversation="stated", at=at)
    stated.time_zone = "Europe/Berlin"
    await learn(modelled, stated)
    # Nobody says anything else: the conversation keeps its zone.
    await learn(modelled, talk("hello", "more", conversation="stated", at=at))
    assert rows(tenant_conninfo, zones.format("stated")) == [("Europe/Berlin",)]

    rows(tenant_conninfo, "UPDATE users SET time_zone = 'Asia/Ho_Chi_Minh' RETURNING 1")
    await learn(modelled, talk("hello", conversation="theirs", at=at))
    assert "2026-03-02T03:00:00+07:00" in model.chat_requests[-1].sections["CONVERSATION"]
    assert rows(tenant_conninfo, zones.format("theirs")) == [("Asia/Ho_Chi_Minh",)]


async def test_b9_an_event_stays_short_when_it_is_updated(
    modelled: Services, model: ScriptedModel
) -> None:
    long = "How do bees find the way home? " * 20
    model.script = replies(
        {
            "more": lambda r: {"updated_memories": [{"id": "e1", "content": long}]},
            "bees": lambda r: say("How do bees find home?", kind="question"),
        }
    )
    await learn(modelled, talk("bees"), talk("more of the way", conversation="c2"))
    (only,) = await memories(modelled)
    assert (only.version, len(only.content) <= 200) == (2, True)
    assert only.detail == long.strip()


async def test_b6_several_speakers_are_shown_by_name(
    modelled: Services, model: ScriptedModel
) -> None:
    model.script = replies({})
    transcript = talk("I like tea", "I like rum", ("assistant", "Noted"))
    transcript.messages[0].name, transcript.messages[1].name = "Ana", "Ben"
    await learn(modelled, transcript)
    asked = model.chat_requests[-1]
    assert [(m.role, m.name) for m in asked.messages] == [
        ("user", "Ana"),
        ("user", "Ben"),
        ("assistant", ""),
    ]
