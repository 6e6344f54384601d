"""What is learnt from conversations: B6–B14, E1, E2, F1; faults.md row 27, ledger check L4."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from hitherto.v1 import job_pb2, memory_pb2
from tests.e2e.conftest import Services
from tests.e2e.curating import plain
from tests.e2e.learning import echo, ended, learn, memories, replies, rows, submit, talk
from tests.e2e.methods import ask
from tests.scripted_model import ChatAnswer, ChatRequest, StatusFault
from tests.scripted_model.answers import memory, quoting

MARCH = datetime(2026, 3, 1, 12, tzinfo=UTC)

SERVICE_SETTINGS = {"batch_tokens": 200}
"""A few long messages are several calls."""


async def profile(services: Services, user: str = "ana") -> Any:
    return (await ask(services, "GetProfile", user_id=user)).profile


async def summaries(services: Services) -> dict[str, Any]:
    listed = await ask(services, "ListConversations")
    return {summary.conversation_id: summary for summary in listed.conversations}


# --- one call ------------------------------------------------------------------------------------


async def test_b6_b10_a_transcript_takes_one_model_call_and_one_embedding_call(
    modelled: Services,
) -> None:
    modelled.model.script = lambda request: quoting(
        request,
        new_memories=[memory("Ana likes tea"), memory("Ana owns a boat", ["m2"])],
        profile={"summary": "Ana sails."},
        conversation_summary={"title": "Tea and boats"},
    )
    result = await learn(modelled, talk("I like tea", "I own a boat"))
    assert dict(modelled.model.calls) == {"chat": 1, "embeddings": 1}
    # Both statements, the messages, which are the words they came from, and the summary.
    assert sorted(modelled.model.embedding_requests[0].texts) == [
        "Ana likes tea", "Ana owns a boat", "I like tea", "I own a boat", "Tea and boats",
    ]  # fmt: skip
    usage = result.usage
    assert (result.memories_created, usage.llm_calls, usage.embedding_calls) == (2, 1, 1)
    assert (result.extractor, result.model) == ("openai", "gpt-4o-mini")
    assert result.prompt_version == "extraction_4"
    # Of nothing to remember, what was said is embedded: once, if the summary has the same words.
    modelled.model.script = replies({})
    assert (await learn(modelled, talk("hello", conversation="c2"))).memories_created == 0
    assert dict(modelled.model.calls) == {"chat": 2, "embeddings": 2}
    assert modelled.model.embedding_requests[1].texts == ["hello"]


async def test_b6_the_prompt_holds_profile_summary_and_relevant_memories(
    modelled: Services,
) -> None:
    modelled.model.script = lambda request: quoting(
        request,
        new_memories=[memory("Ana keeps bees")],
        profile={"summary": "Ana is a beekeeper."},
        conversation_summary={"title": "Bees"},
    )
    words = "I am Ana the beekeeper and keep bees"
    await learn(modelled, talk(words, at=MARCH), talk(words, at=MARCH, user="bo"))
    modelled.model.script = replies({})
    await learn(modelled, talk(words, "How are my bees?", at=MARCH))
    asked = modelled.model.chat_requests[-1]
    assert list(asked.sections) == [
        "CURRENT PROFILE", "CURRENT SUMMARY", "EXISTING MEMORIES", "CONVERSATION",
    ]  # fmt: skip
    assert "beekeeper" in asked.sections["CURRENT PROFILE"]
    assert "Bees" in asked.sections["CURRENT SUMMARY"]
    assert [(m.local_id, m.content) for m in asked.memories] == [("e1", "Ana keeps bees")]
    # The message that was extracted before is not part of the new range.
    assert [(m.local_id, m.content) for m in asked.messages] == [("m1", "How are my bees?")]
    assert asked.body["temperature"] <= 0.3


# --- profile, summary, entities ------------------------------------------------------------------


async def test_e2_the_profile_merges_and_its_versions_have_no_gap(modelled: Services) -> None:
    name = {"personal": {"name": "Ana"}}
    patches = [
        {"summary": "Ana sails.", "current_projects": ["boat"], "facts": name},
        {"current_projects": ["boat", "house"], "facts": {"personal": {"location": "Porto"}}},
        {"current_projects": [" house "], "summary": None, "preferences": {}},  # nothing new
        {"summary": "Ana sails and builds.", "department": "board", "access_level": "admin"},
    ]
    waiting = iter(patches)
    modelled.model.script = lambda request: quoting(request, profile=next(waiting))
    words = "I am Ana in Porto, I sail my boat and build a house"
    versions = [
        (await learn(modelled, talk(words, conversation=f"c{n}"))).profile_version
        for n in range(len(patches))
    ]
    assert versions == [1, 2, 0, 3]
    now = await profile(modelled)
    assert (now.version, now.summary) == (3, "Ana sails and builds.")
    assert list(now.current_projects) == ["boat", "house"]
    assert dict(now.facts["personal"]) == {"name": "Ana", "location": "Porto"}
    # E1: nothing that is said sets these.
    assert (now.department, now.access_level) == ("", "standard")
    # L4.
    kept = "SELECT version FROM profile_versions ORDER BY version"
    assert [version for (version,) in rows(modelled.conninfo, kept)] == [1, 2, 3]
    told = await ask(modelled, "GetProfileHistory", user_id="ana")
    assert [
        (each.version, plain(each.before).get("summary"), plain(each.after).get("summary"))
        for each in reversed(told.events)
    ] == [(1, None, "Ana sails."), (2, None, None), (3, "Ana sails.", "Ana sails and builds.")]


async def test_e2_concurrent_batches_lose_no_change_of_the_profile(modelled: Services) -> None:
    modelled.model.script = lambda request: quoting(
        request, profile={"current_projects": [request.messages[0].content]}
    )
    projects = [f"project {n}" for n in range(12)]
    batches = [submit(modelled, talk(p, conversation=p)) for p in projects]
    for (job_id,) in await asyncio.gather(*batches):
        assert (await ended(modelled, job_id)).state == job_pb2.JOB_STATE_SUCCEEDED
    now = await profile(modelled)
    assert (sorted(now.current_projects), now.version) == (sorted(projects), 12)
    versions = "SELECT count(*), max(version) FROM profile_versions"
    assert rows(modelled.conninfo, versions) == [(12, 12)]


async def test_f1_the_summary_is_merged_field_by_field(modelled: Services) -> None:
    modelled.model.script = replies(
        {
            "boats": lambda r: {
                "conversation_summary": {
                    "title": "Boats", "summary": "About boats.", "key_topics": ["boats"],
                    "outcome": "needs_followup", "followup_suggestions": ["Buy a sail?"],
                }
            },
            "sails": lambda r: {
                "conversation_summary": {
                    "title": "", "summary": "About boats and sails.",
                    "key_topics": ["boats", "sails"], "outcome": "wonderful",
                }
            },
        }
    )  # fmt: skip
    lines = ["Let us talk of boats", "and now of sails"]
    await learn(modelled, talk(lines[0]), talk(*lines), talk("a word", conversation="c2"))
    found = await summaries(modelled)
    first = found["c1"]
    assert (first.title, first.summary) == ("Boats", "About boats and sails.")
    assert list(first.key_topics) == ["boats", "sails"]
    assert list(first.followup_suggestions) == ["Buy a sail?"]
    assert (first.outcome, first.message_count) == (3, 2)
    # Every session has one, with a title, also if the model gave none.
    assert found["c2"].title == "a word"


async def test_entities_are_found_again_under_any_spelling_and_mentions_are_counted(
    modelled: Services,
) -> None:
    def tell(content: str, name: str) -> dict[str, Any]:
        entity = {"name": name, "type": "person"}
        return {"new_memories": [memory(content, entities=[entity, entity])]}

    modelled.model.script = replies(
        {
            "sister": lambda r: tell("Ana has a sister called Zoë", "Zoë"),
            "lawyer": lambda r: tell("Zoe is a lawyer", "zoe"),
        }
    )
    await learn(modelled, talk("my sister"), talk("a lawyer", conversation="c2"))
    assert rows(modelled.conninfo, "SELECT name, aliases, type, mention_count FROM entities") == [
        ("Zoë", ["zoe"], "person", 2)
    ]
    assert rows(modelled.conninfo, "SELECT count(*) FROM entity_mentions") == [(2,)]
    assert [list(m.entities) for m in await memories(modelled)] == [["Zoë"], ["Zoë"]]


# --- calls, batches and money --------------------------------------------------------------------


async def test_b14_the_ledger_is_the_jobs_usage_at_the_shipped_prices(modelled: Services) -> None:
    modelled.model.script = echo
    result = await learn(modelled, talk(*[f"Ana said {n} " + "word " * 60 for n in range(4)]))
    usage = result.usage
    assert usage.llm_calls == modelled.model.calls["chat"] > 1
    assert usage.embedding_calls == modelled.model.calls["embeddings"] == usage.llm_calls
    tokens = (100 * usage.llm_calls, 20 * usage.llm_calls)
    assert (usage.input_tokens, usage.output_tokens) == tokens
    ledger = {
        stage: numbers
        for stage, *numbers in rows(
            modelled.conninfo,
            "SELECT stage, model, kind, calls, input_tokens, output_tokens, cost_usd"
            " FROM usage_ledger",
        )
    }
    chat_cost = (tokens[0] * Decimal("0.15") + tokens[1] * Decimal("0.60")) / 10**6
    embedding_cost = usage.embedding_tokens * Decimal("0.02") / 10**6
    assert ledger == {
        "extraction": ["gpt-4o-mini", "memory-extraction", usage.llm_calls, *tokens, chat_cost],
        "embedding": [
            "text-embedding-3-small", "memory-extraction", usage.embedding_calls,
            usage.embedding_tokens, 0, embedding_cost,
        ],
    }  # fmt: skip
    assert usage.cost_usd == pytest.approx(float(chat_cost + embedding_cost))


async def test_b3_a_long_transcript_is_committed_call_by_call_and_resumed_where_it_broke(
    modelled: Services,
) -> None:
    lines = [f"Ana said {n} " + "word " * 60 for n in range(5)]
    outage = True

    def broken_at_the_third(request: ChatRequest) -> ChatAnswer | StatusFault:
        if outage and lines[2].strip() == request.messages[0].content.strip():
            return StatusFault(500)
        return echo(request)

    modelled.model.script = broken_at_the_third
    (job_id,) = await submit(modelled, talk(*lines))
    async with asyncio.timeout(180):
        await modelled.model.called(3)
    # What the first calls yielded is there while the third fails.
    assert [m.content for m in await memories(modelled)] == [line.strip() for line in lines[:2]]
    outage = False
    job = await ended(modelled, job_id)
    assert job.state == job_pb2.JOB_STATE_SUCCEEDED, job.error
    assert job.result.memories_created == 5
    assert (job.progress.messages_done, job.progress.messages_total) == (5, 5)
    assert [m.content for m in await memories(modelled)] == [line.strip() for line in lines]
    # A second failure in a row asks a harmless prompt too.
    said = (request.messages[0].content for request in modelled.model.chat_requests)
    asked = [words.split()[2] for words in said if words.startswith("Ana said")]
    # In order, each once, but for the one that failed.
    assert list(dict.fromkeys(asked)) == ["0", "1", "2", "3", "4"]
    assert [asked.count(key) for key in "0134"] == [1, 1, 1, 1]


async def test_row_27_a_cut_off_answer_splits_the_batch_and_is_paid_for(modelled: Services) -> None:
    modelled.model.script = lambda request: (
        ChatAnswer('{"new_memories": [{"type": "fa', finish_reason="length")
        if len(request.messages) > 2
        else echo(request)
    )
    lines = [f"Ana met person {n} today" for n in range(7)]
    result = await learn(modelled, talk(*lines))
    assert sorted(m.content for m in await memories(modelled)) == lines
    assert [len(request.messages) for request in modelled.model.chat_requests] == [
        7,
        3,
        1,
        2,
        4,
        2,
        2,
    ]
    calls = "SELECT calls FROM usage_ledger WHERE stage = 'extraction'"
    assert (result.usage.llm_calls, rows(modelled.conninfo, calls)) == (7, [(7,)])


# --- document 001, through the offline extractor -------------------------------------------------


async def test_i7_document_001_my_name_is_john(services: Services) -> None:
    result = await learn(services, talk("My name is John"))
    assert (result.extractor, result.usage.llm_calls) == ("offline", 0)
    assert (await profile(services)).facts["personal"]["name"] == "John"


async def test_i7_document_001_thanh_works_with_docker(services: Services) -> None:
    await learn(services, talk("Tôi tên Thanh, đang làm việc với Docker"))
    now = await profile(services)
    assert now.facts["personal"]["name"] == "Thanh"
    assert list(now.facts["technical_context"]["frameworks"]) == ["Docker"]
    types = {memory_pb2.MemoryType.Name(m.type) for m in await memories(services)}
    assert not types & {f"MEMORY_TYPE_{each}" for each in ("QUESTION", "PROBLEM", "LEARNING")}
    assert (await summaries(services))["c1"].outcome == 2  # OUTCOME_ONGOING
