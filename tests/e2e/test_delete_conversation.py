"""DeleteConversation (F7): the words go, what was learnt stays, nothing brings them back."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import grpc
import psycopg
import pytest

from hitherto.v1 import (
    job_pb2,
    privacy_service_pb2,
)
from hitherto_extraction.pipeline import message_removal
from hitherto_shared.database.faults import no_answer_in_time
from tests.e2e.conftest import Services
from tests.e2e.curating import save
from tests.e2e.learning import ended, learn, memories, replies, rows, shown, submit, talk
from tests.e2e.leaving import export
from tests.e2e.methods import ask
from tests.e2e.privacy import choose
from tests.e2e.sealing import ENCRYPTING
from tests.e2e.sessions import refusal_of
from tests.e2e.test_belief import facts_of, profile_of
from tests.scripted_model import ChatAnswer, ChatRequest, Hang
from tests.scripted_model.answers import change, cited, memory, value

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)


SERVICE_SETTINGS = ENCRYPTING
"""With keys to encrypt with."""


async def delete(
    services: Services, conversation: str, **fields: Any
) -> privacy_service_pb2.DeleteConversationResponse:
    reply: privacy_service_pb2.DeleteConversationResponse
    reply = await ask(services, "DeleteConversation", conversation_id=conversation, **fields)
    return reply


async def remove(services: Services, how: str) -> None:
    """Delete the conversation `gone`, or let its messages outlive their time."""
    if how == "deleted":
        await delete(services, "gone")
        return
    await choose(services, mask=["message_retention_days"], message_retention_days=30)
    started = await ask(services, "RunRetention")
    assert (await ended(services, started.job.id)).result.counts["messages"] == 2


def everything(conninfo: str) -> str:
    with psycopg.connect(conninfo, autocommit=True) as connection:
        tables = connection.execute(
            "SELECT c.relname FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace"
            " WHERE n.nspname = 'hitherto' AND c.relkind = 'r'"
        ).fetchall()
        return "\n".join(
            str(row[0])
            for (table,) in tables
            for row in connection.execute(f"SELECT t::text FROM hitherto.{table} AS t")
        )


async def test_its_words_are_gone_and_what_was_learnt_stays(services: Services) -> None:
    """F7, with a word that only the messages hold."""
    await learn(
        services,
        talk("My favourite tea is jasmine tea. Zanzibarquux!", conversation="gone", at=NOON),
        talk("I live in Lisbon.", conversation="kept", at=NOON),
    )
    assert "anzibarquux" in everything(services.conninfo)

    response = await delete(services, "gone")

    assert dict(response.counts) == {
        "messages": 1,
        "summaries": 1,
        "jobs_cancelled": 0,
        "memories_kept": 1,
    }
    assert "anzibarquux" not in everything(services.conninfo).lower()
    found = {m.content: m for m in await memories(services)}
    (tea,) = [memory for content, memory in found.items() if "jasmine" in content]
    assert (tea.conversation_id, list(tea.sources)) == ("", [])
    listed = await ask(services, "ListConversations")
    assert [c.conversation_id for c in listed.conversations] == ["kept"]
    context = await ask(services, "GetContext", query="jasmine tea")
    assert [c.conversation_id for c in context.conversations] == ["kept"]
    assert [hit.memory.id for hit in context.relevant][:1] == [tea.id]


@pytest.mark.parametrize("how", ["deleted", "outlived", "sealed and outlived"])
async def test_c3_the_words_of_quotes_and_of_a_model_go_with_their_message(
    how: str, modelled: Services
) -> None:
    """They are copied from messages, as evidence of what changed a memory or the profile; or stand
    in a model's reason for a change, or in a reply that was of no use."""
    home = "facts.personal.location"
    words = "zanzibarquux, I moved"
    if how.startswith("sealed"):
        await choose(modelled, mask=["encrypt_sensitive"], encrypt_sensitive=True)

    def moved(request: ChatRequest) -> dict[str, Any]:
        update = {"id": shown(request, "Lisbon"), "content": "Ana lives in Porto."}
        sings = change(shown(request, "sings"), words, reason="Ana said zanzibarquux.")
        return {
            "updated_memories": [update | cited(words)],
            "contradicted_memories": [sings],
            "profile_changes": [value(home, "Porto", words)],
            "conversation_summary": {"title": "A move", "summary": "Ana moved."},
        }

    known = [memory("Ana lives in Lisbon."), memory("Ana sings.")]
    modelled.model.script = replies({"Lisbon": {"new_memories": known}, "zanzibarquux": moved})
    await learn(modelled, talk("I live in Lisbon.", conversation="kept", at=NOON))
    for _ in range(2):  # an attempt asks again once
        modelled.model.queue(ChatAnswer("Sorry, no JSON about zanzibarquux."), endpoint="chat")
    await learn(modelled, talk("zanzibarquux, I moved to Porto", conversation="gone", at=NOON))
    unusable = "SELECT 1 FROM unusable_replies"
    assert len(rows(modelled.conninfo, unusable)) == 1
    if not how.startswith("sealed"):
        assert rows(modelled.conninfo, "SELECT 1 FROM history WHERE reason ~ 'anzibarquux'")
        assert "anzibarquux" in everything(modelled.conninfo)
    await remove(modelled, how)
    assert "anzibarquux" not in everything(modelled.conninfo)
    assert rows(modelled.conninfo, unusable) == []
    (kept,) = await memories(modelled)
    assert (kept.content, list(kept.evidence)) == ("Ana lives in Porto.", [])
    told = await profile_of(modelled)
    assert (facts_of(told), told.sources[home].quote) == ({"personal": {"location": "Porto"}}, "")
    assert "anzibarquux" not in (await export(modelled)).text


async def test_a_second_time_there_is_nothing_and_the_name_begins_anew(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NOT_FOUND without a key; with one the first counts again (B4)."""
    await learn(services, talk("I live in Lisbon.", at=NOON))
    first = await delete(services, "c1", idempotency_key="k")
    assert dict((await delete(services, "c1", idempotency_key="k")).counts) == dict(first.counts)
    assert (await refusal_of(delete(services, "c1"))).reason == "CONVERSATION_NOT_FOUND"
    # What is said under the name afterwards is learnt as of any other conversation.
    again = talk("I work as a baker.", "Every day.", at=NOON)
    assert (await learn(services, again)).memories_created == 1
    # A repeated call deletes none of it, however long it is.
    monkeypatch.setattr(message_removal, "MESSAGES_AT_ONCE", 1)
    assert dict((await delete(services, "c1", idempotency_key="k")).counts) == dict(first.counts)
    listed = await ask(services, "ListConversations")
    assert [c.message_count for c in listed.conversations] == [2]


@pytest.mark.parametrize("cleared", ["deleted", "cleared"])
async def test_a_conversation_that_only_saved_memories_name(
    cleared: str, services: Services
) -> None:
    """F7: they stay, without its name. Its messages were never sent."""
    await save(services, "Ana likes jasmine tea", conversation_id="zanzibarquux")
    # The same words again: only a statement names this one.
    await save(services, "Ana likes jasmine tea", conversation_id="zanzibarquuxagain")

    if cleared == "deleted":
        response = await delete(services, "zanzibarquux")
        assert dict(response.counts) == {
            "messages": 0, "summaries": 0, "jobs_cancelled": 0, "memories_kept": 1,
        }  # fmt: skip
        await delete(services, "zanzibarquuxagain")
        assert [m.conversation_id for m in await memories(services)] == [""]
        refusal = await refusal_of(delete(services, "zanzibarquux"))
        assert refusal.reason == "CONVERSATION_NOT_FOUND"
    else:
        await ask(services, "ClearMemories", include_conversations=True)
    names = "SELECT conversation_id FROM {} WHERE conversation_id IS NOT NULL"
    for table in ("memories", "memory_sources", "statements"):
        assert rows(services.conninfo, names.format(table)) == []


async def test_a_job_that_is_asking_the_model_writes_nothing_more(modelled: Services) -> None:
    """Row 57's fence: the job is cancelled, cannot be run again, and its late answer is refused."""
    modelled.model.queue(Hang(), endpoint="chat")
    (job_id,) = await submit(modelled, talk("canary:late", conversation="gone", at=NOON))
    async with asyncio.timeout(180):
        await modelled.model.called(1)
    assert (await delete(modelled, "gone")).counts["jobs_cancelled"] == 1
    assert (await ended(modelled, job_id)).state == job_pb2.JOB_STATE_CANCELLED
    refusal = await refusal_of(ask(modelled, "RetryJob", job_id=job_id))
    assert refusal.reason == "JOB_STATE_CONFLICT"
    await learn(modelled, talk("canary:other", conversation="kept", at=NOON))
    assert [m.content for m in await memories(modelled) if "late" in m.content] == []
    assert rows(modelled.conninfo, "SELECT 1 FROM hitherto.messages WHERE content ~ 'late'") == []


@pytest.mark.parametrize(("how", "key"), [("deleted", ""), ("deleted", "k"), ("cleared", "k")])
async def test_a_long_conversation_goes_in_several_transactions(
    how: str, key: str, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a call cannot finish it keeps, and the next one does the rest."""
    monkeypatch.setattr(message_removal, "MESSAGES_AT_ONCE", 20)
    long = talk(*(f"I like fruit{n}." for n in range(45)), at=NOON)
    await learn(services, long, talk("I live in Lisbon.", conversation="kept", at=NOON))
    words = "SELECT 1 FROM passage_postings WHERE corpus = 'messages' AND term ~ '^fruit'"
    assert rows(services.conninfo, words)
    messages = "SELECT message_no FROM messages WHERE conversation_id = 'c1' ORDER BY message_no"

    async def go_on(timeout: float) -> Any:
        fields: dict[str, Any] = {"user_id": "ana", "idempotency_key": key}
        if how == "deleted":
            one = privacy_service_pb2.DeleteConversationRequest(conversation_id="c1", **fields)
            return await services.privacy.DeleteConversation(one, timeout=timeout)
        every = privacy_service_pb2.ClearMemoriesRequest(include_conversations=True, **fields)
        return await services.privacy.ClearMemories(every, timeout=timeout)

    async with await psycopg.AsyncConnection.connect(services.conninfo) as holder:
        await holder.execute(
            "SELECT FROM messages WHERE conversation_id = 'c1' AND message_no = 1 FOR UPDATE"
        )
        with pytest.raises(grpc.aio.AioRpcError):
            await go_on(10)
        await holder.rollback()
    left = [row[0] for row in rows(services.conninfo, messages)]
    assert left == list(range(1, 6))

    assert (await go_on(120)).counts["messages"] == (5 if how == "deleted" else 6)

    assert rows(services.conninfo, messages) == rows(services.conninfo, words) == []


async def test_nothing_is_learnt_from_what_an_interrupted_deletion_left(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No job has read it yet, and there is more of it than goes at once."""
    monkeypatch.setattr(message_removal, "MESSAGES_AT_ONCE", 5)
    waiting = talk(*(f"I live in Lisbon {n}." for n in range(8)), at=NOON).messages
    reply = await ask(services, "AppendMessages", conversation_id="c1", messages=waiting)
    assert reply.pending_messages == 8

    async def late(*_: object) -> None:
        raise no_answer_in_time()

    with monkeypatch.context() as interrupted:
        interrupted.setattr(message_removal, "require_named", late)
        assert (await refusal_of(delete(services, "c1"))).reason == "DEADLINE_EXCEEDED"
    assert rows(services.conninfo, "SELECT count(*) FROM messages") == [(3,)]
    # Of the conversation is learnt what is said from then on.
    more = talk("I work as a baker.", at=NOON).messages
    more[0].id = "later"
    await ask(services, "AppendMessages", conversation_id="c1", messages=more)
    ending = await ask(services, "EndConversation", conversation_id="c1")
    await ended(services, ending.job.id)
    (learnt,) = await memories(services)
    assert "baker" in learnt.content
