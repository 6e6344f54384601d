"""ExportUser (H2; faults.md row 58): every table that holds the user, and a manifest of it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import grpc
import pytest

from hitherto.v1 import privacy_service_pb2 as pb
from hitherto_extraction.curation import exporting
from hitherto_extraction.curation.exporting import PIECE_BYTES, Manifest
from tests.e2e.canaries import SECRET, plant
from tests.e2e.conftest import Services, StartServices
from tests.e2e.curating import change, save
from tests.e2e.learning import ended, learn, rows, submit, talk
from tests.e2e.leaving import erase, export, reinstate
from tests.e2e.methods import ask
from tests.e2e.sessions import refusal_of
from tests.scripted_model import RawReply, ScriptedModel
from tests.tenants import tenant_of
from tests.waiting import eventually

USER = "kanari-person"


def hold_much(conninfo: str, *users: str) -> None:
    """Give each of these users more than gRPC takes ahead of a caller, about 16 MB."""
    for user in users:
        whose = {"tenant": tenant_of(conninfo), "user": user}
        change(
            conninfo,
            "INSERT INTO users (tenant_id, user_id) VALUES (%(tenant)s, %(user)s)",
            **whose,
        )
        change(
            conninfo,
            "INSERT INTO preferences (tenant_id, user_id, type, key, value, confidence)"
            " SELECT %(tenant)s, %(user)s, 't', n::text, to_jsonb(repeat('x', 20000)), 0.5"
            " FROM generate_series(1, 800) AS n",
            **whose,
        )


async def begin(services: Services, user: str) -> Any:
    """An export of which one piece was taken."""
    stream: Any = services.privacy.ExportUser(pb.ExportUserRequest(user_id=user))
    assert (await stream.read()).data
    return stream


async def breaks_off(stream: Any) -> tuple[grpc.StatusCode, str]:
    """How an export ends before its manifest."""

    async def read() -> None:
        while (part := await stream.read()) is not grpc.aio.EOF:
            assert not part.HasField("manifest")

    refusal = await refusal_of(read())
    return refusal.code, refusal.reason


async def test_row_58_a_canary_in_every_column_comes_out(
    services: Services, superuser_conninfo: str
) -> None:
    """Every column of text of every table, by the catalogue; secrets of credentials never do."""
    planted = plant(superuser_conninfo, "default", USER)
    plant(superuser_conninfo, "other", USER)
    found = await export(services, USER)
    # Hashes of credentials stay here, and where and how changes are sent.
    kept = {("idempotency_keys", "subject"), ("webhooks", "secret_token"), ("webhooks", "url")}
    assert planted.words.keys() - planted.found_in(found.text) == kept
    assert planted.tables <= set(found.manifest.counts)
    assert "kanari-other" not in found.text
    (key,) = found.of("api_keys")
    assert "secret_hash" not in key
    (person,) = found.of("users")
    assert "audit_key" not in person
    assert SECRET * 8 not in json.dumps([key, person])


async def test_row_58_what_the_services_wrote_comes_out(
    start_services: StartServices, model: ScriptedModel
) -> None:
    """Messages as they wait, what was learnt, history, costs, and the reply of a job that died."""
    model.queue(*(RawReply.saying("not json: Huế 🏯") for _ in range(8)))
    async with start_services(model, job_max_retries=0) as services:
        (dead,) = await submit(services, talk("canary:dead 🍵", conversation="c0"))
        await ended(services, dead)
        model.queue()
        await save(services, "The user plays the cello.", user="ana")
        await save(services, "The user plays the organ.", user="bo")
        found = await export(services)
        tables = {table for table, _ in found.rows}
        assert {"users", "messages", "jobs", "memories", "history", "usage_ledger"} <= tables
        assert "canary:dead 🍵" in found.text
        assert [row["job_id"] for row in found.of("jobs") if row["state"] == "dead"] == [dead]
        assert "organ" not in found.text
        replies = rows(services.conninfo, "SELECT 1 FROM hitherto.unusable_replies")
        assert replies
        assert len(found.of("unusable_replies")) == len(replies)
        assert all("Huế 🏯" in row["reply"] for row in found.of("unusable_replies"))
        for table in tables:
            assert all(row.get("tenant_id", "default") == "default" for row in found.of(table))


async def test_row_58_large_in_pieces_and_one_snapshot(services: Services) -> None:
    """No piece is above 256 KiB; what is written meanwhile is not half in it."""
    await learn(services, talk("I live in Lisbon."))
    change(
        services.conninfo,
        "INSERT INTO messages (tenant_id, user_id, conversation_id, message_no, message_id, role,"
        " content, said_at) SELECT %(tenant)s, 'ana', 'c1', n, 'x' || n, 'user',"
        " repeat('Huế 🏯 ', 4000), now() FROM generate_series(1000, 1199) AS n",
        tenant=tenant_of(services.conninfo),
    )
    stream = services.privacy.ExportUser(pb.ExportUserRequest(user_id="ana"))
    parts = aiter(stream)
    size = len((await anext(parts)).data)
    await save(services, "The user plays the organ.")
    rest = [part async for part in parts]
    assert all(len(part.data) <= PIECE_BYTES for part in rest)
    assert b"organ" not in b"".join(part.data for part in rest)
    assert rest[-1].manifest.counts["messages"] == 201
    assert size + sum(len(part.data) for part in rest) == rest[-1].manifest.total_bytes
    found = await export(services)
    assert max(found.pieces) <= PIECE_BYTES
    assert len(found.pieces) > 4
    assert "organ" in found.text


async def test_of_somebody_unknown_or_erased(services: Services) -> None:
    """Reads of an unknown user are OK and empty; of who was erased, nothing but the manifest."""
    found = await export(services, "Thảo 🍵")
    assert {table for table, _ in found.rows} <= {"audit_events", "manifest"}
    await save(services, "The user plays the cello.")
    await erase(services)
    found = await export(services)
    assert (found.text, found.manifest.total_bytes) == ("", 0)


async def test_of_a_batch_for_several_only_the_own_jobs(services: Services) -> None:
    """Which jobs the others of one call got is theirs; what is no job at all stays."""
    whose = (("ana", "c1"), ("bo", "c1"), ("ana", "c2"))
    talks = [talk("I live in Lisbon.", user=user, conversation=name) for user, name in whose]
    reply = await ask(services, "SubmitTranscripts", transcripts=talks, idempotency_key="both")
    first, others, second = [job.id for job in reply.jobs]
    memory = (await save(services, "The user plays the cello.", idempotency_key="one")).memory.id
    found = await export(services)
    made = {row["key"]: row["resource_ids"] for row in found.of("idempotency_keys")}
    assert made["both"] == [first, second]
    assert memory in "".join(made["one"])
    assert others not in found.text


async def test_one_export_of_a_person_at_a_time_and_none_that_nobody_takes(
    services: Services, superuser_conninfo: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever stalls or leaves makes room for others, and for the same person once it is over."""
    hold_much(superuser_conninfo, "ana", "bo")
    await save(services, "The user plays the organ.", user="cleo")
    monkeypatch.setattr(exporting, "TURN_SECONDS", 0.2)
    held = await begin(services, "ana")
    again = services.privacy.ExportUser(pb.ExportUserRequest(user_id="ana"))
    assert await breaks_off(again) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "OVERLOADED")
    assert "organ" in (await export(services, "cleo")).text
    held.cancel()
    monkeypatch.setattr(exporting, "TURN_SECONDS", 30.0)
    # Many begin and go; then an export comes whole.
    for _ in range(3):
        (await begin(services, "ana")).cancel()
    assert (await export(services)).manifest.counts["preferences"] == 800

    # Callers who stay and stop reading free their places, and are told so when they read on.
    monkeypatch.setattr(exporting, "PATIENCE_SECONDS", 0.2)
    stalled = [await begin(services, user) for user in ("ana", "bo")]
    # Between two fetches it is idle, during one it is active: no transaction is left open.
    reading = (
        "SELECT 1 FROM pg_stat_activity WHERE datname = current_database()"
        " AND pid <> pg_backend_pid() AND xact_start IS NOT NULL"
    )
    await eventually(lambda: not rows(superuser_conninfo, reading))
    monkeypatch.setattr(exporting, "PATIENCE_SECONDS", 30.0)
    assert "organ" in (await export(services, "cleo")).text
    assert (await export(services, "bo")).manifest.counts["preferences"] == 800
    for stream in stalled:
        ended_by = await breaks_off(stream)
        assert ended_by == (grpc.StatusCode.DEADLINE_EXCEEDED, "DEADLINE_EXCEEDED")


async def test_h2_an_erase_ends_an_export_that_goes_on(services: Services) -> None:
    """After the receipt only what was under way comes, also if the user is reinstated at once."""
    for back in ("", "back", "back and written"):
        user = f"user {back}"
        hold_much(services.conninfo, user)
        stream = await begin(services, user)
        await erase(services, user)
        if back:
            assert await reinstate(services, user)
        if back == "back and written":
            await save(services, "The user plays the organ.", user=user)
        assert await breaks_off(stream) == (grpc.StatusCode.FAILED_PRECONDITION, "USER_ERASED")


async def test_h2_who_is_erased_before_the_end_is_told_of_no_whole_export(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if everything was sent by then, and the user is back at once."""
    monkeypatch.setattr(exporting, "_SILENCE_SECONDS", 120.0)
    put, all_sent = exporting._Going.put, asyncio.Event()

    async def erasing(going: exporting._Going, piece: bytes | Manifest) -> None:
        if isinstance(piece, Manifest):
            await all_sent.wait()
            await erase(services)
            assert await reinstate(services)
        await put(going, piece)

    monkeypatch.setattr(exporting._Going, "put", erasing)
    await save(services, "The user plays the organ.")
    stream = await begin(services, "ana")
    all_sent.set()
    assert await breaks_off(stream) == (grpc.StatusCode.FAILED_PRECONDITION, "USER_ERASED")
