"""ExportUser (H2; faults.md row 58): every table that holds the user, and a manifest of it."""

from __future__ import annotations

import json

import psycopg
import pytest

from recollect.v1 import privacy_service_pb2 as pb
from recollect_extraction.curation.exporting import PIECE_BYTES
from tests.e2e.canaries import SECRET, plant
from tests.e2e.conftest import Services, StartServices, model_settings
from tests.e2e.curating import save
from tests.e2e.learning import ended, learn, rows, submit, talk
from tests.e2e.leaving import erase, export, until
from tests.scripted_model import RawReply, ScriptedModel

USER = "kanari-person"


async def test_row_58_a_canary_in_every_column_comes_out(
    services: Services, superuser_conninfo: str
) -> None:
    """Every column of text of every table, by the catalogue; secrets of credentials never do."""
    planted = plant(superuser_conninfo, "default", USER)
    plant(superuser_conninfo, "other", USER)
    found = await export(services, USER)
    assert planted.words.keys() - planted.found_in(found.text) == set()
    assert planted.tables <= set(found.manifest.counts)
    assert "kanari-other" not in found.text
    (key,) = found.of("api_keys")
    assert "secret_hash" not in key
    (person,) = found.of("users")
    assert "audit_key" not in person
    assert SECRET * 8 not in json.dumps([key, person])


async def test_row_58_what_the_services_wrote_comes_out(
    start_services: StartServices, model: ScriptedModel, superuser_conninfo: str
) -> None:
    """Messages as they wait, what was learnt, history, costs, and the reply of a job that died."""
    model.queue(*(RawReply(b"not json: Hu\xe1\xba\xbf \xf0\x9f\x8f\xaf") for _ in range(8)))
    async with start_services(**model_settings(model), job_max_retries=0) as services:
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
        replies = rows(superuser_conninfo, "SELECT 1 FROM recollect.unusable_replies")
        assert replies
        assert len(found.of("unusable_replies")) == len(replies)
        assert all("Huế 🏯" in row["reply"] for row in found.of("unusable_replies"))
        for table in tables:
            assert all(row.get("tenant_id", "default") == "default" for row in found.of(table))


async def test_row_58_large_in_pieces_and_one_snapshot(
    services: Services, superuser_conninfo: str
) -> None:
    """No piece is above 256 KiB; what is written meanwhile is not half in it."""
    await learn(services, talk("I live in Lisbon."))
    with psycopg.connect(superuser_conninfo, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO messages (tenant_id, user_id, conversation_id, message_no, message_id,"
            " role, content, said_at)"
            " SELECT 'default', 'ana', 'c1', n, 'x' || n, 'user', repeat('Huế 🏯 ', 4000), now()"
            " FROM generate_series(1000, 1199) AS n"
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


async def test_a_caller_who_leaves_holds_nothing_up(
    services: Services, superuser_conninfo: str
) -> None:
    """Many begin and go; then an export comes whole, and no transaction is left open."""
    with psycopg.connect(superuser_conninfo, autocommit=True) as connection:
        connection.execute("INSERT INTO users (tenant_id, user_id) VALUES ('default', 'ana')")
        connection.execute(
            "INSERT INTO preferences (tenant_id, user_id, type, key, value, confidence)"
            " SELECT 'default', 'ana', 't', n::text, to_jsonb(repeat('x', 20000)), 0.5"
            " FROM generate_series(1, 400) AS n"
        )
    for _ in range(5):
        stream = services.privacy.ExportUser(pb.ExportUserRequest(user_id="ana"))
        await stream.read()
        stream.cancel()
    left = (
        "SELECT 1 FROM pg_stat_activity WHERE datname = current_database()"
        " AND state LIKE 'idle in transaction%'"
    )
    await until(lambda: not rows(superuser_conninfo, left))
    found = await export(services)
    assert found.manifest.counts["preferences"] == 400


@pytest.mark.parametrize("user", ["nobody", "Thảo 🍵"])
async def test_of_somebody_unknown(services: Services, user: str) -> None:
    """Reads of an unknown user are OK and empty."""
    found = await export(services, user)
    assert {table for table, _ in found.rows} <= {"audit_events"}


async def test_of_somebody_erased(services: Services) -> None:
    """Nothing but the manifest."""
    await save(services, "The user plays the cello.")
    await erase(services)
    found = await export(services)
    assert (found.text, found.manifest.total_bytes) == ("", 0)
