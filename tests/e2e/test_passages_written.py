"""Messages and summaries are indexed by words and by vector (D3, F2): once, and wholly removed."""

from __future__ import annotations

import asyncio

import pytest

from hitherto.v1 import job_pb2
from tests.e2e.conftest import Services, StartServices, model_settings
from tests.e2e.indexed import (
    MESSAGE_STATES,
    backfill,
    check_words,
    filled,
    grow_old,
    is_vector_of,
    message_vectors,
    summary_vectors,
)
from tests.e2e.learning import echo, ended, learn, rows, submit, talk
from tests.e2e.methods import ask
from tests.scripted_model import CONTENT_FAULTS, ChatAnswer, Hang, ScriptedModel

pytestmark = pytest.mark.usefixtures("frequent_sweeps")


CANARY = "zanzibarquux"
SUMMARIES = "SELECT title, embedding_state, text_version, lexical_no FROM conversation_summaries"
VIETNAMESE = "Tôi đang học ở Hà Nội"
CHINESE = "我喜欢在北京喝茶"


def titled(title: str, **more: object) -> ChatAnswer:
    return ChatAnswer.of(new_memories=[], conversation_summary={"title": title, **more})


async def test_d3_what_was_said_and_what_it_was_about_is_indexed_once(modelled: Services) -> None:
    """User and assistant, in any language; not system and tool; P5: one embedding call."""
    modelled.model.script = lambda request: titled("Trà ở Bắc Kinh 🍵", key_topics=["tea"])
    said = talk(
        VIETNAMESE,
        ("assistant", CHINESE),
        ("system", "You are terse."),
        ("tool", "tool output"),
        "👍🏽",
        ("assistant", "ok"),
        "Ha\u0300 Nội 🍜!",
        "?!?",
    )
    said.messages[0].name = "Lan"
    result = await learn(modelled, said)
    assert result.usage.embedding_calls == modelled.model.calls["embeddings"] == 1
    states = {
        content: (state, no) for content, state, no in rows(modelled.conninfo, MESSAGE_STATES)
    }
    assert {content: state for content, (state, _) in states.items()} == {
        VIETNAMESE: "stored", CHINESE: "stored", "Hà Nội 🍜!": "stored", "?!?": "stored",
        "You are terse.": "none", "tool output": "none", "👍🏽": "none", "ok": "none",
    }  # fmt: skip
    assert {content for content, (_, no) in states.items() if no is None} == {
        "You are terse.",
        "tool output",
    }
    vectors = message_vectors(modelled.conninfo)
    assert {content for content, (state, _) in states.items() if state == "stored"} == set(vectors)
    assert is_vector_of(vectors[VIETNAMESE], f"Lan: {VIETNAMESE}")
    assert is_vector_of(vectors[CHINESE], CHINESE)
    (vector,) = summary_vectors(modelled.conninfo).values()
    assert is_vector_of(vector, "Trà ở Bắc Kinh 🍵\ntea")
    assert rows(modelled.conninfo, SUMMARIES) == [("Trà ở Bắc Kinh 🍵", "stored", 1, 1)]
    check_words(modelled.conninfo)
    found = rows(
        modelled.conninfo,
        "SELECT DISTINCT corpus, term FROM passage_postings WHERE term IN"
        " ('lan', 'hà', 'ha', '北京', '🍜', '👍', '🍵', 'tea', 'terse', 'tool')",
    )
    assert set(found) == {
        ("messages", "lan"), ("messages", "hà"), ("messages", "ha"), ("messages", "北京"),
        ("messages", "🍜"), ("messages", "👍"), ("summaries", "🍵"), ("summaries", "tea"),
    }  # fmt: skip


async def test_running_a_range_again_doubles_nothing(modelled: Services) -> None:
    """Row 26's range that ended DEAD is not indexed by its job; RetryJob indexes it, once."""
    modelled.model.queue(*[ChatAnswer(CONTENT_FAULTS["not_json"])] * 8)
    (job_id,) = await submit(modelled, talk("I like tea", ("assistant", "Noted, tea")))
    assert (await ended(modelled, job_id)).state == job_pb2.JOB_STATE_DEAD
    assert rows(modelled.conninfo, "SELECT 1 FROM passage_postings") == []
    await ask(modelled, "RetryJob", job_id=job_id)
    assert (await ended(modelled, job_id)).state == job_pb2.JOB_STATE_SUCCEEDED
    check_words(modelled.conninfo)
    before = rows(modelled.conninfo, MESSAGE_STATES)
    assert [state for _, state, _ in before] == ["stored", "stored"]
    # The job that covers them is no longer kept: the same range as a new job.
    rows(modelled.conninfo, "DELETE FROM jobs RETURNING 1")
    await learn(modelled, talk("I like tea", ("assistant", "Noted, tea")))
    assert rows(modelled.conninfo, MESSAGE_STATES) == before
    assert len(message_vectors(modelled.conninfo)) == 2
    check_words(modelled.conninfo)


async def test_what_no_job_has_indexed_is_indexed_all_the_same(
    modelled: Services, superuser_conninfo: str, conninfo: str
) -> None:
    """A message of a DEAD or CANCELLED job was accepted: it is findable a quarter of an hour after
    it came, and its job passes it over should it run later. One that was appended is at once."""
    modelled.model.queue(*[ChatAnswer(CONTENT_FAULTS["not_json"])] * 8)
    (dead,) = await submit(modelled, talk("I like dead tea", conversation="dead"))
    assert (await ended(modelled, dead)).state == job_pb2.JOB_STATE_DEAD
    modelled.model.queue(Hang(), endpoint="chat")
    asked = modelled.model.calls["chat"]
    (cancelled,) = await submit(modelled, talk("I like late tea", conversation="cancelled"))
    # Cancelled before that, it would leave the hanging call to the next job.
    async with asyncio.timeout(180):
        await modelled.model.called(asked + 1)
    await ask(modelled, "CancelJob", job_id=cancelled)
    assert (await ended(modelled, cancelled)).state == job_pb2.JOB_STATE_CANCELLED
    opened = talk("I like open tea", ("tool", "not this"), conversation="open").messages
    await ask(modelled, "AppendMessages", conversation_id="open", messages=opened)
    async with backfill(conninfo, modelled.model) as filling:
        await filled(filling, superuser_conninfo)
        # What was appended is indexed at once, what a job was to read is not.
        numbers = {content: no for content, _, no in rows(superuser_conninfo, MESSAGE_STATES)}
        assert [content for content, no in numbers.items() if no] == ["I like open tea"]
        grow_old(superuser_conninfo)
        await filled(filling, superuser_conninfo)
    indexed = rows(superuser_conninfo, MESSAGE_STATES)
    assert [(content, state) for content, state, _ in indexed] == [
        ("I like dead tea", "stored"),
        ("I like late tea", "stored"),
        ("I like open tea", "stored"),
        ("not this", "none"),
    ]
    check_words(superuser_conninfo)
    modelled.model.script = lambda request: titled("Tea")
    for job_id in (dead, cancelled):
        await ask(modelled, "RetryJob", job_id=job_id)
        assert (await ended(modelled, job_id)).state == job_pb2.JOB_STATE_SUCCEEDED
    assert modelled.model.embedding_requests[-1].texts == ["Tea"]
    assert rows(superuser_conninfo, MESSAGE_STATES) == indexed
    check_words(superuser_conninfo)


async def test_a_summary_is_found_by_its_present_words_only(modelled: Services) -> None:
    """The words of before leave the index, and a vector says which wording it is of."""
    modelled.model.script = lambda request: titled(f"About {CANARY}", summary="Long talk")
    await learn(modelled, talk("one"))
    assert rows(modelled.conninfo, SUMMARIES) == [(f"About {CANARY}", "stored", 1, 1)]
    # What is not searched does not count as another wording.
    modelled.model.script = lambda request: titled(f"About {CANARY}", outcome="resolved")
    await learn(modelled, talk("one", "two"))
    assert rows(modelled.conninfo, SUMMARIES) == [(f"About {CANARY}", "stored", 1, 1)]
    assert modelled.model.embedding_requests[-1].texts == ["two"]
    modelled.model.script = lambda request: titled("About boats")
    await learn(modelled, talk("one", "two", "three"))
    assert rows(modelled.conninfo, SUMMARIES) == [("About boats", "stored", 2, 2)]
    (vector,) = summary_vectors(modelled.conninfo).values()
    assert is_vector_of(vector, "About boats\nLong talk")
    assert rows(modelled.conninfo, f"SELECT 1 FROM passage_postings WHERE term = '{CANARY}'") == []
    check_words(modelled.conninfo)


async def test_f7_nothing_is_left_of_a_deleted_conversation(modelled: Services) -> None:
    """DeleteConversation takes words and vectors of messages and summary along; RollbackSource the
    summary alone: what was said stays findable."""
    modelled.model.script = lambda request: titled(
        f"About {CANARY}" if "milk" not in request.messages[0].content else "About milk"
    )
    await learn(
        modelled,
        talk("I like tea", conversation="taken back"),
        talk("I like milk", conversation="kept"),
        talk(f"I like {CANARY} tea", ("assistant", f"{CANARY} it is"), conversation="gone"),
    )
    with_canary = f"SELECT DISTINCT corpus FROM passage_postings WHERE term ~ '{CANARY}'"
    assert sorted(rows(modelled.conninfo, with_canary)) == [("messages",), ("summaries",)]
    response = await ask(modelled, "DeleteConversation", conversation_id="gone")
    assert (response.counts["messages"], response.counts["summaries"]) == (2, 1)
    assert rows(modelled.conninfo, with_canary) == [("summaries",)]
    response = await ask(modelled, "RollbackSource", conversation_id="taken back")
    assert response.counts["summaries_removed"] == 1
    assert rows(modelled.conninfo, with_canary) == []
    summaries = rows(modelled.conninfo, "SELECT conversation_id FROM summary_embeddings")
    assert summaries == [("kept",)]
    assert set(message_vectors(modelled.conninfo)) == {"I like tea", "I like milk"}
    check_words(modelled.conninfo)
    # A conversation of the same name begins anew.
    await learn(modelled, talk("I like juice", conversation="gone"))
    assert set(message_vectors(modelled.conninfo)) == {"I like tea", "I like milk", "I like juice"}
    check_words(modelled.conninfo)


async def test_without_message_vectors_messages_are_found_by_their_words(
    start_services: StartServices, model: ScriptedModel, conninfo: str
) -> None:
    """HITHERTO_MESSAGE_VECTORS=false: no message is sent to the embedder, and none waits."""
    model.script = lambda request: titled("Tea")
    settings = {**model_settings(model), "message_vectors": False}
    async with start_services(**settings) as services:
        await learn(services, talk("I like tea", ("assistant", "Noted")))
        assert [request.texts for request in model.embedding_requests] == [["Tea"]]
        more = talk("More tea", conversation="c2").messages
        await ask(services, "AppendMessages", conversation_id="c2", messages=more)
        grow_old(services.conninfo)
        async with backfill(conninfo, model, message_vectors=False) as filling:
            await filled(filling, services.conninfo)
    states = rows(services.conninfo, MESSAGE_STATES)
    assert {state for _, state, _ in states} == {"none"}
    assert None not in {no for _, _, no in states}
    check_words(services.conninfo)


async def test_jobs_at_once_keep_their_numbers_apart(modelled: Services) -> None:
    """Two conversations of one user and another user's, all under way together."""
    modelled.model.script = echo
    batch = [
        talk(*(f"{user} {name} says tea {n}" for n in range(4)), user=user, conversation=name)
        for user in ("ana", "bo")
        for name in ("c1", "c2", "c3")
    ]
    for job_id in await submit(modelled, *batch):
        assert (await ended(modelled, job_id)).state == job_pb2.JOB_STATE_SUCCEEDED
    assert sorted(rows(modelled.conninfo, "SELECT user_id, lexical_no FROM messages")) == [
        (user, number) for user in ("ana", "bo") for number in range(1, 13)
    ]
    assert len(message_vectors(modelled.conninfo)) == 24
    check_words(modelled.conninfo)


@pytest.mark.parametrize("characters", [4_000, 20_000])
async def test_the_beginning_of_a_long_message_is_embedded(
    modelled: Services, characters: int
) -> None:
    """Every word of it is indexed all the same, up to the bound of a text. A preview indexes
    nothing, and embeds no more than the showing takes."""
    modelled.model.script = echo
    said = talk("I like tea", ("assistant", "Noted, tea"))
    await ask(modelled, "PreviewExtraction", transcript=said)
    assert [request.texts for request in modelled.model.embedding_requests] == [["I like tea"]]
    assert rows(modelled.conninfo, "SELECT 1 FROM passage_postings") == []
    modelled.model.script = lambda request: titled("Tea")
    await learn(modelled, talk("tea " * (characters // 4 - 1) + CANARY[:4]))
    assert max(map(len, modelled.model.embedding_requests[1].texts)) == 4_000
    check_words(modelled.conninfo)
