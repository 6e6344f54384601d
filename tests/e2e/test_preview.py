"""PreviewExtraction: what a transcript would teach, and that nothing of it stays (B15).

That it shows what the job then does: test_preview_of_recorded_talks.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import grpc
import psycopg
import pytest
from google.protobuf import json_format

from hitherto.v1 import conversation_pb2, extraction_service_pb2, memory_pb2, profile_pb2
from tests.e2e.conftest import Services
from tests.e2e.learning import echo, learn, rows, talk
from tests.e2e.methods import METHODS, refused
from tests.e2e.privacy import choose
from tests.e2e.sessions import refusal_of
from tests.scripted_model import ChatAnswer, EmbeddingFault, Hang, StatusFault
from tests.scripted_model.answers import memory, quoting
from tests.waiting import eventually

MARCH = datetime(2026, 3, 1, 12, tzinfo=UTC)
SERVICE_SETTINGS = {"batch_tokens": 200}
"""A few long messages are several calls."""
LINES = [f"Ana said {n} " + "word " * 60 for n in range(4)]
PREVIEW = METHODS["ExtractionService/PreviewExtraction"]
_MOVING = {
    "usage_ledger", "schedule_runs", "memory_access", "audit_read_counts", "change_positions",
}  # fmt: skip
"""What may change beside a preview: its cost, the scheduler's ticks, counters of reads, which are
written down some time after the read, and the last place in the stream of changes of everybody."""


async def at_rest(conninfo: str) -> dict[str, Any]:
    """`everything`, once what was changed before has its place in the stream of changes."""
    await eventually(
        lambda: not rows(conninfo, "SELECT 1 FROM memory_changes WHERE position IS NULL")
    )
    return everything(conninfo)


def personal(profile: profile_pb2.Profile) -> dict[str, Any]:
    return dict(json_format.MessageToDict(profile.facts)["personal"])


async def preview(
    services: Services, transcript: conversation_pb2.Transcript, *, timeout: float = 120.0
) -> extraction_service_pb2.PreviewExtractionResponse:
    return await services.extraction.PreviewExtraction(
        extraction_service_pb2.PreviewExtractionRequest(transcript=transcript), timeout=timeout
    )


def everything(conninfo: str) -> dict[str, Any]:
    """Every row of every table with its system columns, but for what moves by itself."""

    def read(connection: psycopg.Connection[Any]) -> Iterator[tuple[str, Any]]:
        tables = connection.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = 'hitherto' ORDER BY 1"
        ).fetchall()
        for (table,) in tables:
            if table not in _MOVING:
                statement = f"SELECT xmin::text, t::text FROM hitherto.{table} AS t ORDER BY 2"
                yield table, connection.execute(statement.encode()).fetchall()

    with psycopg.connect(conninfo, autocommit=True) as connection:
        return dict(read(connection))


async def test_b15_a_preview_of_somebody_unknown_writes_nothing_not_even_the_user(
    modelled: Services,
) -> None:
    modelled.model.script = lambda request: quoting(
        request,
        new_memories=[memory("Ana likes tea", entities=[{"name": "Porto", "type": "place"}])],
        profile={"summary": "Ana drinks tea."},
        conversation_summary={"title": "Tea", "key_topics": ["tea"]},
    )
    before = await at_rest(modelled.conninfo)
    seen = await preview(modelled, talk("I am Ana, I drink tea in Porto", at=MARCH))
    assert everything(modelled.conninfo) == before
    assert not before["users"]

    (only,) = seen.memories_created
    assert (only.id, only.job_id, only.content) == ("", "", "Ana likes tea")
    assert only.status == memory_pb2.MEMORY_STATUS_ACTIVE
    assert only.origin == memory_pb2.ORIGIN_USER
    assert list(only.source_message_ids) == ["c1-1"]
    assert only.valid_from.ToDatetime(UTC) == MARCH
    assert (seen.profile.summary, seen.profile.version) == ("Ana drinks tea.", 1)
    assert (seen.summary.title, seen.summary.message_count) == ("Tea", 1)
    assert [(e.id, e.name) for e in seen.entities] == [("", "Porto")]
    assert (seen.result.memories_created, seen.result.usage.llm_calls) == (1, 1)
    assert (seen.result.model, seen.result.extractor) == ("gpt-4o-mini", "openai")
    assert seen.result.prompt_version
    assert dict(modelled.model.calls) == {"chat": 1, "embeddings": 1}


async def test_b15_a_long_transcript_is_read_in_parts_that_see_one_another(
    modelled: Services,
) -> None:
    modelled.model.script = echo
    seen = await preview(modelled, talk(*LINES))
    assert [m.content for m in seen.memories_created] == [line.strip() for line in LINES]
    assert seen.result.usage.llm_calls == modelled.model.calls["chat"] == 4
    assert (seen.result.counts["messages_read"], seen.result.counts["messages_total"]) == (4, 4)
    # The last call was shown what the earlier ones had found.
    assert len(modelled.model.chat_requests[-1].memories) == 3
    assert rows(modelled.conninfo, "SELECT count(*) FROM memories") == [(0,)]
    # Time that is short shows the beginning.
    modelled.model.script = lambda request: (
        Hang() if "said 2" in request.messages[0].content else echo(request)
    )
    seen = await preview(modelled, talk(*LINES), timeout=15.0)
    assert len(seen.memories_created) == 2
    assert (seen.result.counts["messages_read"], seen.result.counts["messages_total"]) == (2, 4)
    # At the caller's deadline it ends.
    modelled.model.script = lambda request: Hang()
    refusal = await refusal_of(preview(modelled, talk("hello"), timeout=3.0))
    assert refusal.code == grpc.StatusCode.DEADLINE_EXCEEDED


async def test_b14_a_preview_is_on_the_bill_as_such(modelled: Services) -> None:
    modelled.model.script = echo
    await preview(modelled, talk("Ana likes tea"))
    await learn(modelled, talk("Ana likes tea", user="bo"))
    await preview(modelled, talk("Ana likes rum", user="bo", conversation="c2"))
    bill = rows(
        modelled.conninfo,
        "SELECT user_id, kind, stage, calls, input_tokens FROM usage_ledger"
        " WHERE kind = 'preview' ORDER BY user_id, stage",
    )
    # Nothing is held about Ana, and nothing begins to be.
    assert [row[:4] for row in bill] == [
        (user, "preview", stage, 1) for user in ("", "bo") for stage in ("embedding", "extraction")
    ]
    (cost,) = rows(modelled.conninfo, "SELECT sum(cost_usd) FROM usage_ledger")[0]
    assert cost > Decimal(0)


async def test_b15_the_embedder_may_be_away(modelled: Services) -> None:
    modelled.model.script = echo
    modelled.model.always(EmbeddingFault("nan"), endpoint="embeddings")
    seen = await preview(modelled, talk("Ana likes tea"))
    assert [m.content for m in seen.memories_created] == ["Ana likes tea"]
    assert seen.result.usage.embedding_calls == 0


async def test_b15_the_offline_extractor_previews_too(services: Services) -> None:
    seen = await preview(services, talk("My name is John"))
    assert personal(seen.profile)["name"] == "John"
    assert seen.result.extractor == "offline"


@pytest.mark.parametrize(
    ("fault", "code", "reason"),
    [
        (StatusFault(500), grpc.StatusCode.UNAVAILABLE, "MODEL_UNAVAILABLE"),
        (StatusFault(401), grpc.StatusCode.FAILED_PRECONDITION, "MODEL_REFUSED"),
        (ChatAnswer("no JSON"), grpc.StatusCode.FAILED_PRECONDITION, "MODEL_UNUSABLE"),
    ],
    ids=["outage", "refused", "prose"],
)
async def test_b15_what_is_wrong_with_the_model_is_told(
    modelled: Services, fault: Any, code: grpc.StatusCode, reason: str
) -> None:
    modelled.model.script = echo
    # Earlier failures of the model no longer keep calls from it.
    await learn(modelled, talk("hello", user="bo"))
    modelled.model.script = lambda request: fault
    before = await at_rest(modelled.conninfo)
    refusal = await refused(modelled, PREVIEW, PREVIEW.request(transcript=talk("hello")))
    assert (refusal.code, refusal.reason) == (code, reason)
    assert refusal.metadata["model"] == "gpt-4o-mini"
    assert (refusal.retry_after is not None) == (code == grpc.StatusCode.UNAVAILABLE)
    assert everything(modelled.conninfo) == before


async def test_h1_nothing_is_previewed_for_whom_memory_is_off(modelled: Services) -> None:
    await choose(modelled, memory_enabled=False)
    refusal = await refused(modelled, PREVIEW, PREVIEW.request(transcript=talk("hello")))
    assert refusal.reason == "MEMORY_DISABLED"
    assert modelled.model.calls["chat"] == 0


async def test_b15_a_preview_of_what_is_known_already_asks_nobody(modelled: Services) -> None:
    modelled.model.script = echo
    await learn(modelled, talk("Ana likes tea"))
    # Of something else, it writes nothing about a user who is known either.
    before = await at_rest(modelled.conninfo)
    seen = await preview(modelled, talk("Ana likes rum", conversation="c2"))
    assert everything(modelled.conninfo) == before
    assert [m.content for m in seen.memories_created] == ["Ana likes rum"]
    seen = await preview(modelled, talk("Ana likes tea"))
    assert (modelled.model.calls["chat"], list(seen.memories_created)) == (2, [])
    assert not seen.HasField("profile")
    assert seen.summary.title
    # Another content under a known id is refused, and so is nothing at all.
    refusal = await refused(modelled, PREVIEW, PREVIEW.request(transcript=talk("Ana likes rum")))
    assert refusal.reason == "MESSAGE_ID_REUSED"
    assert refusal.metadata["field"] == "transcript.messages[0].id"
    assert list((await refused(modelled, PREVIEW, PREVIEW.request())).fields) == ["transcript"]
