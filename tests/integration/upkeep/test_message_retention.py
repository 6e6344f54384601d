"""Retention of messages (requirement C3): they go with their words, what was learnt stays.

Row 57 of the fault catalogue: retention against a running extraction.
"""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from hitherto_extraction.provider.protocol import Completion, Prompt
from hitherto_extraction.queue.claims import ClaimLost
from hitherto_extraction.storage import keyword_index
from hitherto_extraction.storage.conversations import IncomingMessage
from hitherto_extraction.transcripts import IncomingTranscript
from hitherto_shared.identifiers import uuid7
from hitherto_shared.text.terms import count_terms
from tests.integration.queue.stage import staged
from tests.integration.upkeep.past import (
    ANA,
    CANARY,
    NOTHING,
    conversation,
    held_messages,
    message,
    postings_of,
    source,
    tables_with_the_canary,
)
from tests.integration.upkeep.stage import BOUND, TENANT, Stage


@pytest.mark.parametrize(
    ("given", "watermark", "goes"),
    [
        ({"said": "31 days"}, 9, True),
        ({"said": "29 days 23:59"}, 9, False),
        # Imported: old when it came.
        ({"said": "999 days", "accepted": "1 day"}, 9, True),
        # And still waiting to be read by a job.
        ({"said": "999 days", "accepted": "1 day"}, 0, False),
        ({"said": "31 days"}, 0, True),
        ({"said": "-5 days", "accepted": "31 days"}, 9, True),
    ],
)
async def test_which_messages_go(
    stage: Stage, given: dict[str, str], watermark: int, goes: bool
) -> None:
    """Raw messages may live shorter than what was learnt from them."""
    await conversation(stage, watermark=watermark)
    await message(stage, 1, **given)
    await stage.memory(conversation="c1")
    assert (await stage.planned_retention(0, 30, "ana"))["messages"] == int(goes)
    assert (await stage.retention(0, 30))["messages"] == int(goes)
    assert await held_messages(stage) == ([] if goes else [1])
    assert len(await stage.statuses()) == 1


JOB: dict[str, Any] = {
    "kind": "memory-extraction", "conversation_id": "c1", "range_from": 1, "range_to": 1,
    "max_attempts": 4,
}  # fmt: skip


@pytest.mark.parametrize("state", ["queued", "failed", "dead", "succeeded"])
async def test_a_message_that_a_job_has_yet_to_read_stays(stage: Stage, state: str) -> None:
    await conversation(stage)
    await message(stage, 1, said="999 days", accepted="1 day")
    ended = "0 s" if state in ("dead", "succeeded") else None
    await stage.put("jobs", **JOB, job_id=uuid7(), attempt=2, state=state, finished_at=ended)
    await stage.rows("UPDATE jobs SET run_after = now() + interval '1 hour'")
    assert (await stage.retention(0, 30))["messages"] == int(state == "succeeded")
    # Nothing is read after that long. A job that only waits has no attempt to hand back.
    await stage.rows("UPDATE messages SET accepted_at = now() - interval '31 days'")
    assert (await stage.retention(0, 30))["messages"] == int(state != "succeeded")
    attempts = "SELECT attempt FROM jobs WHERE kind = 'memory-extraction'"
    assert await stage.rows(attempts) == [(2,)]


async def test_nothing_is_left_of_a_message_but_what_was_learnt(stage: Stage) -> None:
    """C3: indexes are made anew without its words, source vectors and excerpts go."""
    await conversation(stage)
    await message(stage, 1, f"I said {CANARY}.")
    await message(stage, 2, "I said remainder.", said="1 day")
    learnt = await stage.memory("Learnt content.", lexical_no=1, conversation="c1")
    other = await stage.memory("Other content.", lexical_no=2)
    await stage.vector(learnt)
    await stage.vector(other)
    for number in (1, 2):
        await source(stage, learnt, number)
    text = count_terms("Learnt content.", f"I said {CANARY}.", "I said remainder.")
    async with stage.write.connection() as connection:
        await keyword_index.append(connection.of(ANA), {1: text, 2: count_terms("Other content.")})
    await stage.rows(
        "UPDATE users SET last_lexical_no = 2, lexical_documents = 2, lexical_terms = %s",
        text.total() + 2,
    )
    await stage.rows("UPDATE memories SET lexical_length = %s", 2)
    await stage.rows(
        "UPDATE memories SET lexical_length = %s WHERE memory_id = %s", text.total(), learnt
    )
    about = {"conversation_id": "c1", "title": "About something", "covers_to": 2}
    await stage.put("conversation_summaries", **about)
    done = {"range_to": 2, "job_id": learnt, "state": "succeeded", "finished_at": "0 s"}
    await stage.put("jobs", **{**JOB, **done})
    event = {"event_id": learnt, "subject": "memory", "action": "contradicted", "version": 2}
    said_so = {"actor": "extraction", "reason": f"because they said {CANARY}"}
    await stage.put("history", memory_id=other, job_id=learnt, **event, **said_so)
    await stage.put("unusable_replies", job_id=learnt, claim_no=1, sealed_reply=CANARY)
    edit = {"feedback_id": learnt, "original": CANARY, "edited": "shorter"}
    await stage.put("feedback", conversation_id="c1", message_id="m1", **edit)
    # The message of another conversation, whose sender gave it the same id.
    told = {"conversation_id": "c9", "message_id": "m1", "quote": "elsewhere"}
    await stage.put("memory_sources", memory_id=other, **told)
    await stage.put("profiles", summary="A baker", version=1, sources=Jsonb({"summary": told}))
    assert await tables_with_the_canary(stage) == {
        "feedback",
        "history",
        "messages",
        "postings",
        "unusable_replies",
    }
    counts = await stage.retention(0, 30)
    assert counts == {**NOTHING, "messages": 1, "memories_reindexed": 1}
    assert CANARY not in await stage.dump()
    assert await held_messages(stage) == [2]
    assert await stage.statuses() == {"Learnt content.": "active", "Other content.": "active"}
    assert await stage.rows("SELECT title FROM conversation_summaries") == [("About something",)]
    assert await stage.rows("SELECT memory_id FROM memory_source_embeddings") == [(other,)]
    assert await stage.value("SELECT count(*) FROM memory_embeddings") == 2
    # Where it came from is still known, and it is found by what is left.
    assert await stage.value("SELECT count(*) FROM memory_sources") == 3
    assert await stage.rows("SELECT quote FROM memory_sources WHERE conversation_id = 'c9'") == [
        ("elsewhere",)
    ]
    assert await stage.value("SELECT sources FROM profiles") == {"summary": told}
    expected = count_terms("Learnt content.", "I said remainder.")
    number, length = (
        await stage.rows(
            "SELECT lexical_no, lexical_length FROM memories WHERE memory_id = %s", learnt
        )
    )[0]
    assert length == expected.total()
    assert await postings_of(stage, number) == expected
    assert await postings_of(stage, 1) == {}
    assert await postings_of(stage, 2) == count_terms("Other content.")
    assert await stage.rows("SELECT lexical_documents, lexical_terms FROM users") == [
        (2, expected.total() + 2)
    ]


async def test_many_messages_go_in_several_steps(stage: Stage) -> None:
    await conversation(stage)
    await stage.rows(
        "INSERT INTO messages (tenant_id, user_id, conversation_id, message_no, message_id, role,"
        " content, said_at) SELECT %s, 'ana', 'c1', n, 'm' || n, 'user', 'Hello.',"
        " now() - interval '99 days' FROM generate_series(1, 1203) AS n",
        TENANT,
    )
    await stage.rows("UPDATE conversations SET last_message_no = 1203, watermark = 1203")
    assert (await stage.retention(0, 30))["messages"] == 1203


class SlowModel:
    """A model that answers when it is told to, with what it was asked about."""

    extractor = "openai"
    model = "slow"

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.go = asyncio.Event()

    async def complete(self, prompt: Prompt) -> Completion:
        """One memory with the words of the first message."""
        self.asked.set()
        await self.go.wait()
        item = {"type": "fact", "content": f"Learnt {CANARY}.", "source_message_ids": ["m1"]}
        return Completion(
            text=json.dumps({"new_memories": [item]}),
            model="slow",
            input_tokens=1,
            output_tokens=1,
            calls=1,
        )

    async def close(self) -> None:
        """Nothing to close."""


async def test_a_running_extraction_brings_nothing_back(
    stage: Stage, conninfo: str, superuser_conninfo: str
) -> None:
    """faults.md row 57: the job that has the words in hand loses its claim, and ends cleanly."""
    async with staged(conninfo, superuser_conninfo) as queue:
        said = IncomingMessage("m1", "user", "", f"I said {CANARY}.", datetime.now(UTC))
        await queue.submit(IncomingTranscript("ana", "c1", [said]))
        model = SlowModel()
        extraction = queue.extraction(model)
        (held,) = await queue.claim(1)
        running = asyncio.create_task(extraction.run(held))
        async with asyncio.timeout(BOUND):
            await model.asked.wait()
        await stage.rows("UPDATE messages SET accepted_at = now() - interval '31 days'")
        # The tenant's own job: a user's would wait for the extraction to end.
        assert (await stage.retention(0, 30))["messages"] == 1
        assert await stage.rows(
            "SELECT state, attempt FROM jobs WHERE job_id = %s", held.job_id
        ) == [("queued", 0)]
        model.go.set()
        with pytest.raises(ClaimLost):
            await running
        assert CANARY not in await stage.dump()
        (again,) = await queue.claim(1)
        assert again.job_id == held.job_id
        await extraction.run(again)
    assert (await stage.job(held)).state == "succeeded"
    assert await stage.statuses() == {}
