"""ImportUser (H2, G): export, erase, import, export is equal, whatever was exported."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any, cast
from uuid import uuid4

import grpc
import psycopg
import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hitherto.v1 import (
    document_pb2,
    extraction_service_pb2,
    job_pb2,
    memory_pb2,
    memory_service_pb2,
    privacy_service_pb2_grpc,
    search_pb2,
)
from hitherto.v1 import privacy_service_pb2 as pb
from hitherto.v1 import retrieval_service_pb2 as retrieval
from hitherto_extraction.handlers import incoming_export
from hitherto_extraction.restoring.catalogue import read_rules
from hitherto_extraction.restoring.importing import AT_ONCE
from hitherto_extraction.restoring.tables import COMPUTED, IMPORTED, LEFT_OUT, OWNERS
from hitherto_extraction.storage import exports, holdings
from hitherto_extraction.storage import settings as stored_settings
from hitherto_shared.database.pool import Database
from hitherto_shared.encryption.rows import BY_TABLE
from tests.e2e import privacy
from tests.e2e.conftest import Services, Shared
from tests.e2e.curating import change, checks, events, forget, plain, save, update
from tests.e2e.learning import ended, learn, memories, replies, rows, shown, submit, talk
from tests.e2e.leaving import Export, erase, export, reinstate, unannounced
from tests.e2e.methods import Refusal, ask, documented, read_refusal
from tests.e2e.privacy import choose
from tests.e2e.sealing import ENCRYPTING, change_profile
from tests.e2e.sessions import add, items, refusal_of
from tests.e2e.sessions import update as update_session
from tests.scripted_model import ChatAnswer, ChatRequest, ScriptedModel, canary_script
from tests.scripted_model.answers import memory, value
from tests.scripted_model.faults import Hang
from tests.tenants import ISSUED, Tenant
from tests.waiting import eventually

pytestmark = pytest.mark.usefixtures("frequent_sweeps")

FIRST = "Mình sống ở Huế với bà nội, làm ở 東京 và thích 🍵."
SECOND = "Mình đã chuyển tới Đà Nẵng. انتقلت إلى المدينة"
SECRET = "The user is treated for quxdisease."
BOUND = 120.0
PERSONAL = memory_pb2.MEMORY_TYPE_PERSONAL


def first(request: ChatRequest) -> dict[str, Any]:
    source = request.messages[0].local_id
    return {
        "new_memories": [
            memory(
                "The user lives in Huế.",
                [source],
                tags=["home"],
                keywords=["nhà", "家", "بيت"],
                entities=[{"name": "Huế", "type": "place"}, {"name": "東京", "type": "place"}],
                context={"mood": "vui 🍵"},
            ),
            memory("The user wants to learn the đàn tranh.", [source], type="goal"),
            memory(SECRET, [source], type="personal", tags=["health"]),
        ],
        "profile": {
            "summary": "Sống ở Huế.",
            "current_projects": ["東京 office"],
            "facts": {"personal": {"location": "Huế"}},
        },
        "conversation_summary": {
            "title": "Nhà ở Huế",
            "summary": "Nói về nhà ở Huế và 東京.",
            "key_topics": ["nhà"],
            "outcome": "ongoing",
            "followup_suggestions": ["Bà nội thế nào?"],
        },
    }


def second(request: ChatRequest) -> dict[str, Any]:
    source = request.messages[0].local_id
    return {
        "new_memories": [memory("The user lives in Đà Nẵng.", [source], tags=["home"])],
        "contradicted_memories": [
            {"id": shown(request, "lives in Huế"), "by": 0, "source_message_ids": [source]}
        ],
        "achieved_goals": [{"id": shown(request, "đàn tranh"), "source_message_ids": [source]}],
    }


async def live(services: Services, model: ScriptedModel) -> None:
    """Leave something in every table that is imported."""
    model.script = replies({"bà nội": first, "chuyển tới": second})
    await choose(services, retention_days=400, time_zone="Asia/Ho_Chi_Minh")
    spoken = talk(FIRST, ("assistant", "Nghe hay quá! 👩‍🍳"), conversation="trò chuyện 1")
    spoken.messages[0].name = "Thảo"
    spoken.messages[0].metadata.update({"kênh": "家", "số": 0.1})
    spoken.messages[1].context_item_ids.append("m1")
    await learn(services, spoken)
    await learn(services, talk(SECOND, conversation="c2"))
    saved = await save(
        services,
        "The user drinks trà sen.",
        tags=["tea"],
        metadata={"from": "phone 📱", "n": [1, {"deep": None}]},
    )
    await update(services, saved.memory.id, content="The user drinks trà sen at five.")
    gone = await save(services, "The user plays the organ.")
    await forget(services, gone.memory.id, reason="wrong")
    await save(services, "The user owes quxdebt.", type=PERSONAL, detail="quxdetail")
    await change_profile(services, summary="Sống ở Đà Nẵng.", facts={"health": {"a": "quxfact"}})
    await checks(services)
    await update_session(services, {"plan": {"bước": 1.0}}, recent=items("m1"))
    await add(services)
    handed = await services.extraction.IngestDocuments(
        extraction_service_pb2.IngestDocumentsRequest(
            user_id="ana",
            documents=[
                document_pb2.Document(
                    source_type="gmail",
                    source_id="thư 1",
                    title="Trà sen",
                    content="Linh gửi trà sen tới Đà Nẵng.\n\n" * 40,
                    author="linh@example.com",
                    expires_at=Timestamp(seconds=4_000_000_000),
                )
            ],
        )
    )
    await ended(services, handed.job.id)
    await services.memory.RecordFeedback(
        memory_service_pb2.RecordFeedbackRequest(
            user_id="ana", conversation_id="trò chuyện 1", message_id="trò chuyện 1-2", rating=5
        )
    )
    await ask(services, "SearchMemories", query="Where does the user live?")


async def bring(
    services: Services,
    data: bytes,
    user: str = "ana",
    *,
    piece: int = 10_000,
    key: str = "",
    token: str = "",
) -> pb.ImportUserResponse:
    """Import `data` in pieces of this size."""

    async def pieces() -> AsyncIterator[pb.ImportUserRequest]:
        for start in range(0, max(len(data), 1), piece):
            yield pb.ImportUserRequest(
                user_id=user, data=data[start : start + piece], idempotency_key=key
            )

    metadata = [("authorization", f"Bearer {token}")] if token else None
    return await services.privacy.ImportUser(pieces(), metadata=metadata)


def kept(found: Export) -> list[str]:
    """The records of an export that an import brings back, without what is computed anew."""
    return sorted(
        json.dumps(
            [
                table,
                {name: value for name, value in row.items() if name not in COMPUTED},
            ],
            sort_keys=True,
            ensure_ascii=False,
        )
        for table, row in found.rows
        if table in IMPORTED
    )


async def settled(services: Services, conninfo: str) -> Export:
    """An export once everything is counted and, where it is to be, sealed."""
    going = (
        "SELECT 1 FROM users WHERE to_seal > 0"
        " UNION ALL SELECT 1 FROM jobs WHERE finished_at IS NULL"
    )
    await eventually(lambda: rows(conninfo, "SELECT 1 FROM memory_access"), seconds=BOUND)
    await eventually(lambda: not rows(conninfo, going), seconds=BOUND)
    return await export(services)


SERVICE_SETTINGS = dict(ENCRYPTING)


@dataclass(frozen=True)
class Lived:
    """A user of a tenant of its own, and what was exported of it."""

    services: Services
    conninfo: str
    export: Export

    @property
    def data(self) -> bytes:
        return self.export.text.encode()


async def lived(shared: Shared, model: ScriptedModel, *, encrypt: bool) -> Lived:
    tenant = Tenant()
    services = shared.services.as_tenant(tenant)
    conninfo = tenant.rows_of(shared.superuser_conninfo)
    model.start_over(canary_script)
    if encrypt:
        await choose(services, encrypt_sensitive=True)
    await live(services, model)
    return Lived(services, conninfo, await settled(services, conninfo))


@pytest.fixture(scope="module")
async def clear(shared_modelled: Shared, shared_model: ScriptedModel) -> Lived:
    """Somebody without encryption."""
    return await lived(shared_modelled, shared_model, encrypt=False)


@pytest.fixture(scope="module")
async def sealed(shared_modelled: Shared, shared_model: ScriptedModel) -> Lived:
    """Somebody with encryption."""
    return await lived(shared_modelled, shared_model, encrypt=True)


@pytest.mark.parametrize("who", ["clear", "sealed"])
async def test_h2_export_erase_import_export_is_equal(
    shared_model: ScriptedModel, clear: Lived, sealed: Lived, who: str
) -> None:
    person = {"clear": clear, "sealed": sealed}[who]
    services = person.services
    assert IMPORTED.keys() - {"consolidation_groups"} == {
        table for table, _ in person.export.rows if table in IMPORTED
    }, "the test leaves something in every table"
    shown_before = await memories(services)
    await erase(services)
    assert await reinstate(services)
    asked = len(shared_model.chat_requests)
    reply = await bring(services, person.data)
    assert reply.consistency_token
    assert not reply.skipped_counts
    assert set(reply.left_out_counts) <= LEFT_OUT
    after = await settled(services, person.conninfo)
    assert kept(after) == kept(person.export)
    assert await memories(services) == shown_before
    assert len(shared_model.chat_requests) == asked, "no model was called"


async def test_h3_nothing_is_stored_in_clear_for_an_encrypting_user(
    modelled: Services, clear: Lived, tenant_conninfo: str
) -> None:
    """Who receives the export of somebody without encryption."""
    words = ["quxdisease", "quxdebt", "quxdetail", "quxfact", "bà nội", "Sống ở", "chuyển tới"]
    # It is gone before any sweep, and everything else is still told.
    gone = "quxreason"
    assert any(row["quote"] for row in clear.export.of("memory_sources"))
    source = {
        "path": ["facts", "health", "a"],
        "conversation_id": "trò chuyện 1",
        "message_id": "trò chuyện 1-1",
        "said_at": "2026-01-01T00:00:00+00:00",
        "memory_ids": [],
        "quote": "với bà nội",
    }
    assert all(word in clear.export.text for word in words)
    await choose(modelled, user="bo", encrypt_sensitive=True)
    doubt = {"because": str(uuid4()), "reason": gone, "since": source["said_at"]}
    lines = [json.loads(line) for line in clear.export.text.splitlines()]
    for line in lines:
        row = line["row"]
        if line["table"] == "profiles":
            row["sources"] = {"facts.health.a": source}
        elif line["table"] in ("memories", "memory_versions"):
            row["doubt"] = doubt
        elif line["table"] == "history" and row["subject"] == "memory":
            row["after"] = {**(row["after"] or {}), "doubt": doubt}
    await bring(modelled, "\n".join(map(json.dumps, lines)).encode(), "bo")
    assert (await privacy.settings(modelled, "bo")).encrypt_sensitive
    # A sealed quote could not go with its message.
    profile = await modelled.retrieval.GetProfile(retrieval.GetProfileRequest(user_id="bo"))
    assert profile.profile.sources["facts.health.a"].message_id == "trò chuyện 1-1"
    assert profile.profile.sources["facts.health.a"].quote == ""
    with psycopg.connect(tenant_conninfo, autocommit=True) as connection:
        names = connection.execute(
            "SELECT table_name::text FROM information_schema.tables"
            " WHERE table_schema = 'hitherto' AND table_type = 'BASE TABLE'"
        ).fetchall()
        told = {
            (table, word)
            for (table,) in names
            for (row,) in connection.execute(f"SELECT t::text FROM {table} AS t".encode())
            for word in (*words, gone)
            if word in str(row)
        }
    assert told == set()
    assert all(held.doubt.because_memory_id for held in await memories(modelled, user="bo"))
    opened = (await export(modelled, "bo")).text
    assert all(word in opened for word in words)
    assert {found.content for found in await memories(modelled, user="bo")} >= {SECRET}


async def test_everything_is_found_again(
    modelled: Services, clear: Lived, tenant_conninfo: str
) -> None:
    """By words, by the words of its source, by meaning; of documents, messages and summaries."""
    await bring(modelled, clear.data, "bo")
    waiting = (
        "SELECT 1 FROM memories WHERE embedding_state <> 'stored'"
        " UNION ALL SELECT 1 FROM document_chunks WHERE embedding_state <> 'stored'"
        " UNION ALL SELECT 1 FROM messages WHERE lexical_no IS NULL"
        " AND role IN ('user', 'assistant')"
    )
    await eventually(lambda: not rows(tenant_conninfo, waiting), seconds=BOUND)
    for query, scope in (
        ("Đà Nẵng", search_pb2.SEARCH_SCOPE_MEMORIES),
        ("chuyển tới", search_pb2.SEARCH_SCOPE_MEMORIES),
        ("bà nội", search_pb2.SEARCH_SCOPE_MESSAGES),
        ("nhà ở Huế", search_pb2.SEARCH_SCOPE_SUMMARIES),
        ("trà sen", search_pb2.SEARCH_SCOPE_DOCUMENTS),
    ):
        reply = await ask(modelled, "SearchMemories", user_id="bo", query=query, scopes=[scope])
        assert reply.results, query
        assert "keyword" in reply.results[0].matched_legs, (query, reply.results[0])
        assert "semantic" in reply.results[0].matched_legs, (query, reply.results[0])
    found = await ask(modelled, "FindEntities", user_id="bo", name="Huế")
    assert [entity.name for entity in found.entities] == ["Huế"]


async def test_twice_changes_nothing(
    modelled: Services, clear: Lived, tenant_conninfo: str
) -> None:
    data = clear.data
    once = await bring(modelled, data, key="k1")
    first_time = kept(await export(modelled))
    again = await bring(modelled, data, key="k1", piece=777)
    assert not again.imported_counts
    assert again.skipped_counts == once.imported_counts
    assert kept(await export(modelled)) == first_time
    # What has changed since stays.
    (tea,) = [held for held in await memories(modelled) if "trà sen" in held.content]
    await update(modelled, tea.id, content="The user drinks coffee.")
    await bring(modelled, data)
    assert "The user drinks coffee." in {held.content for held in await memories(modelled)}
    refusal = await refusal_of(bring(modelled, data, "bo", key="k1"))
    assert refusal.reason == "IDEMPOTENCY_KEY_REUSED"


async def test_interrupted_and_continued(
    modelled: Services, clear: Lived, tenant_conninfo: str
) -> None:
    """At any line: what was stored stays, and the whole file brings the rest."""
    whole = clear.export
    lines = whole.text.encode().splitlines(keepends=True)
    for share in (0.1, 0.5, 0.8):
        cut = b"".join(lines[: int(share * len(lines))]) + lines[int(share * len(lines))][:20]
        refusal = await refusal_of(bring(modelled, cut))
        assert refusal.code is grpc.StatusCode.INVALID_ARGUMENT
        assert "complete export" in refusal.message
    reply = await bring(modelled, b"".join(lines))
    assert reply.skipped_counts
    assert kept(await export(modelled)) == kept(whole)


async def test_what_is_learnt_before_an_import_is_continued_stands_in_nobody_s_way(
    modelled: Services, model: ScriptedModel, clear: Lived, tenant_conninfo: str
) -> None:
    """A crash ends an import; the chat goes on with the same names and sources; then it continues.

    What has a name of its own for the user keeps it: the records of the file refer to that.
    """
    lines = clear.export.text.encode().splitlines(keepends=True)
    tables = [table for table, _ in clear.export.rows]
    cut = min(tables.index("entities"), tables.index("documents"))
    assert "conversations" in tables[:cut]
    await refusal_of(bring(modelled, b"".join(lines[:cut])))
    place = {"name": "HUẾ", "type": "place"}
    model.script = replies(
        {
            "at last": lambda _: {
                "new_memories": [memory("Ana rests in Huế.", ["m1"], entities=[place])]
            }
        }
    )
    await learn(modelled, talk("at last", conversation="since"))
    handed = await modelled.extraction.IngestDocuments(
        extraction_service_pb2.IngestDocumentsRequest(
            user_id="ana",
            documents=[
                document_pb2.Document(
                    source_type="gmail", source_id="thư 1", title="Mới", content="Linh in Huế."
                )
            ],
        )
    )
    await ended(modelled, handed.job.id)
    for _ in range(2):
        reply = await bring(modelled, b"".join(lines))
    assert reply.left_out_counts["documents"] == 1
    found = await ask(modelled, "FindEntities", name="Huế")
    (entity,) = found.entities
    mentioned = {
        each.content for each in await memories(modelled) if "huế" in str(each.entities).lower()
    }
    assert "Ana rests in Huế." in mentioned
    told = rows(
        tenant_conninfo,
        "SELECT count(*), bool_and(m.memory_id IS NOT NULL) FROM entity_mentions AS em"
        " LEFT JOIN memories AS m USING (tenant_id, user_id, memory_id)"
        f" WHERE em.entity_id = '{entity.id}'",
    )
    assert told == [(2, True)]
    titles = rows(tenant_conninfo, "SELECT title FROM documents")
    assert titles == [("Mới",)]


async def test_no_message_is_lost_if_a_conversation_goes_on_before_it_is_imported(
    modelled: Services, model: ScriptedModel, clear: Lived, tenant_conninfo: str
) -> None:
    """As above, at the very beginning: its messages have the numbers of those in the file."""
    lines = clear.export.text.encode().splitlines(keepends=True)
    cut = [table for table, _ in clear.export.rows].index("conversations")
    await refusal_of(bring(modelled, b"".join(lines[:cut])))
    model.script = replies({})
    said = talk("at last", "and more", conversation="c2")
    for number, message in enumerate(said.messages):
        message.id = f"since-{number}"
    await learn(modelled, said)
    refusal = await refusal_of(bring(modelled, b"".join(lines)))
    assert (refusal.code, refusal.reason) == (
        grpc.StatusCode.FAILED_PRECONDITION,
        "USER_NOT_EMPTY",
    )
    assert "went on with a conversation" in refusal.message
    # What was said since is untouched.
    listed = rows(tenant_conninfo, "SELECT message_id FROM messages ORDER BY message_no")
    assert listed == [("since-0",), ("since-1",)]


async def test_a_user_who_is_not_empty_or_erased_is_refused(
    modelled: Services, clear: Lived, tenant_conninfo: str
) -> None:
    data = clear.data
    await save(modelled, "The user plays the cello.", user="bo")
    held = kept(await export(modelled, "bo"))
    refusal = await refusal_of(bring(modelled, data, "bo"))
    assert refusal.code is grpc.StatusCode.FAILED_PRECONDITION
    assert refusal.reason == "USER_NOT_EMPTY"
    assert kept(await export(modelled, "bo")) == held
    await choose(modelled, user="cleo", memory_enabled=False)
    assert (await refusal_of(bring(modelled, data, "cleo"))).reason == "MEMORY_DISABLED"
    await bring(modelled, data)
    await erase(modelled)
    assert (await refusal_of(bring(modelled, data))).reason == "USER_ERASED"
    assert not rows(tenant_conninfo, "SELECT 1 FROM memories WHERE user_id = 'ana'")


FROM_NOWHERE = {
    "subject": "profile",
    "action": "patched",
    "memory_id": None,
    "said": {
        "changes": [
            {
                "path": ["summary"],
                "value": "Sails.",
                "ended": False,
                "said_at": "2026-01-01T00:00:00+00:00",
                "source": {"path": ["summary"]},
            }
        ]
    },
}
"""A value of a profile whose source names no message."""

Spoil = Callable[[dict[str, Any]], object]
SPOILT: dict[str, tuple[str, Spoil]] = {
    "another user's": ("memories", lambda line: line["row"].update(user_id="eve")),
    "another tenant's": ("messages", lambda line: line["row"].update(tenant_id="others")),
    "an unknown table": ("memories", lambda line: line.update(table="pg_authid")),
    "a table to inject": ("memories", lambda line: line.update(table="memories; DROP TABLE users")),
    "an unknown column": ("memories", lambda line: line["row"].update(audit_key="\\x00")),
    "an unknown enum": ("memories", lambda line: line["row"].update(status="holy")),
    "a wrong type": ("memories", lambda line: line["row"].update(importance="0.5")),
    "out of range": ("memories", lambda line: line["row"].update(importance=7)),
    "no number": ("memories", lambda line: line["row"].update(importance=float("nan"))),
    "no id": ("memories", lambda line: line["row"].update(memory_id="1; --")),
    "nobody's": ("memory_sources", lambda line: line["row"].update(memory_id="0" * 32)),
    "too long": ("memories", lambda line: line["row"].update(content="x" * 9000)),
    "empty": ("memories", lambda line: line["row"].update(content=" ")),
    "with NUL": ("messages", lambda line: line["row"].update(content="a\x00b")),
    "with a surrogate": ("messages", lambda line: line["row"].update(content="\ud800")),
    "below a surrogate": (
        "memories",
        lambda line: line["row"].update(metadata={"\ud800": "a\x00"}),
    ),
    "in year 9999": (
        "memories",
        lambda line: line["row"].update(created_at="9999-01-01T00:00:00+00:00"),
    ),
    "without offset": ("history", lambda line: line["row"].update(recorded_at="2026-01-01")),
    "contradictory": (
        "memories",
        lambda line: line["row"].update(valid_to="1999-01-01T00:00:00+00:00"),
    ),
    "deep": ("memories", lambda line: line["row"].update(metadata=nested(40))),
    "very deep": ("memories", lambda line: line["row"].update(metadata=nested(400))),
    "large": ("memories", lambda line: line["row"].update(metadata={"a": "x" * 200_000})),
    "sources of another shape": (
        "profiles",
        lambda line: line["row"].update(sources={"facts.personal.name": {"quote": "Ana"}}),
    ),
    "null": ("conversations", lambda line: line["row"].update(watermark=None)),
    "ahead of its messages": ("conversations", lambda line: line["row"].update(watermark=10**6)),
    "huge": ("conversations", lambda line: line["row"].update(last_message_no=10**12)),
    "at the end of all numbers": (
        "memories",
        lambda line: line["row"].update(version=2**31 - 1),
    ),
    "a last message": (
        "conversations",
        lambda line: line["row"].update(last_message_no=2**31 - 1),
    ),
    "a version that cannot stand again": (
        "memory_versions",
        lambda line: line["row"].update(status="superseded", superseded_by=None),
    ),
    # What roll-backs, extraction and reads rely on in free-form JSON.
    "no words": ("statements", lambda line: line["row"].update(said={})),
    "no pairs": ("statements", lambda line: line["row"]["said"].update(entities=["x"])),
    "no time": ("statements", lambda line: line["row"]["said"].update(valid_from=7)),
    "no ends": ("statements", lambda line: line["row"]["said"].update(ended_by=[["a"]])),
    "no links": ("statements", lambda line: line["row"]["said"].update(may_replace=["x"])),
    "no source": ("statements", lambda line: line["row"].update(FROM_NOWHERE)),
    "an end by nobody": (
        "statements",
        lambda line: line["row"]["said"].update(ended_by=[["a", "2026-01-01T00:00:00Z"]]),
    ),
    "an end at no time": (
        "statements",
        lambda line: line["row"]["said"].update(ended_by=[[str(uuid4()), 7]]),
    ),
    "another action": ("statements", lambda line: line["row"].update(action="patched")),
    "no item": ("messages", lambda line: line["row"].update(context_items=[["a"]])),
    "no profile": ("profile_versions", lambda line: line["row"]["profile"].update(facts=7)),
    "no times": ("profiles", lambda line: line["row"].update(said_at={"summary": 7})),
    "unreadable times": ("profiles", lambda line: line["row"].update(said_at={"summary": "x"})),
    "no recent item": ("recent_items", lambda line: line["row"].update(items=[7])),
    # Columns that the checks of a whole row compare.
    "no status": ("memories", lambda line: line["row"].pop("status")),
    "no memory": ("memory_versions", lambda line: line["row"].pop("memory_id")),
    "no subject": ("statements", lambda line: line["row"].pop("subject")),
    "without a row": ("memories", lambda line: line.pop("row")),
    "a list": ("memories", lambda line: line.update(row=[1])),
}


def nested(depth: int) -> dict[str, Any]:
    """An object in an object, and so on."""
    found: dict[str, Any] = {}
    for _ in range(depth):
        found = {"a": found}
    return found


async def test_hostile_records_are_refused_by_number(
    modelled: Services, clear: Lived, tenant_conninfo: str
) -> None:
    """None of their group is stored, whatever is wrong, and the next, right file is."""
    whole = clear.export
    lines = whole.text.splitlines()
    refused: dict[str, Refusal] = {}
    for name, (table, spoil) in SPOILT.items():
        number = next(
            n
            for n, (held, row) in enumerate(whole.rows)
            if held == table and row.get("action", "said") in {"said", "created"}
        )
        line = json.loads(lines[number])
        spoil(line)
        spoilt = [*lines[:number], json.dumps(line), *lines[number + 1 :]]
        user = f"bo {name}"
        refused[name] = await refusal_of(bring(modelled, "\n".join(spoilt).encode(), user))
        assert refused[name].code is grpc.StatusCode.INVALID_ARGUMENT, name
        assert f"records[{number + 1}]" in refused[name].message, name
        stored = rows(
            tenant_conninfo,
            f"SELECT count(*) FROM {table} WHERE user_id = '{user.replace(chr(39), chr(39) * 2)}'",
        )
        assert stored == [(0,)], name
    assert (
        rows(tenant_conninfo, "SELECT DISTINCT user_id FROM memories WHERE user_id = 'eve'") == []
    )
    no_tables = (b'{"table": 1, "row": {}}', b'{"table": [], "row": {}}')
    for data in (b"\xff\xfe", b"[]", b"null", *no_tables, b"{" * 100_000):
        refusal = await refusal_of(bring(modelled, data, "bo"))
        assert refusal.code is grpc.StatusCode.INVALID_ARGUMENT
    assert (await bring(modelled, whole.text.encode(), "bo")).imported_counts["memories"]


PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.sampled_from([0, -1, 1, 0.5, 1e308, 2**31, 2**63, 10**400])
    | st.sampled_from(["", " ", "a\x00", "\ud800", "e\u0301", "Huế", "\u202e", "x" * 300, "\\x00"])
    | st.sampled_from(["1900-01-01T00:00:00Z", "infinity", "2026-02-30", "act_00000000", "a\nb"])
    | st.uuids().map(str),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)


@settings(
    max_examples=50,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
@given(data=st.data())
async def test_any_value_in_any_column_is_stored_or_refused(
    modelled: Services, clear: Lived, data: st.DataObject
) -> None:
    """One column of one record holds something else; nothing but a refusal comes of it."""
    lines = clear.export.text.splitlines()
    wanted = data.draw(st.sampled_from(sorted(IMPORTED)))
    numbers = [n for n, (table, _) in enumerate(clear.export.rows) if table == wanted]
    if not numbers:
        return
    line = json.loads(lines[numbers[0]])
    line["row"][data.draw(st.sampled_from(sorted(line["row"])))] = data.draw(PLAIN)
    sent = "\n".join([*lines[: numbers[0]], json.dumps(line)])
    try:
        await bring(modelled, sent.encode(), f"bo {uuid4()}")
    except grpc.aio.AioRpcError as error:
        refusal = documented(read_refusal(error))
        assert refusal.code is grpc.StatusCode.INVALID_ARGUMENT, refusal


async def test_order_and_size_of_lines(modelled: Services, tenant_conninfo: str) -> None:
    """The user comes first, a line has an end, and one export is one user's."""
    await save(modelled, "The user drinks trà sen.")
    found = await export(modelled)
    lines = found.text.splitlines()
    user = next(line for line in lines if json.loads(line)["table"] == "users")
    rest = [line for line in lines if line != user]
    refusal = await refusal_of(bring(modelled, "\n".join([*rest, user]).encode(), "bo"))
    assert "must come first" in refusal.message
    refusal = await refusal_of(bring(modelled, "\n".join([user, user]).encode(), "bo"))
    assert "second user" in refusal.message
    # What is left out is not checked, and may be anything.
    odd = json.dumps({"table": "jobs", "row": {"state": [], "range_from": 1}})
    assert (await bring(modelled, odd.encode(), "cleo")).left_out_counts["jobs"] == 1
    endless = b'{"table": "memories", "row": {"content": "' + b"x" * (17 << 20)
    refusal = await refusal_of(bring(modelled, endless, "bo", piece=1 << 20))
    assert refusal.code is grpc.StatusCode.INVALID_ARGUMENT
    assert "16777216 bytes" in refusal.message
    assert not rows(tenant_conninfo, "SELECT 1 FROM memories WHERE user_id = 'bo'")


async def test_a_silent_caller_does_not_keep_the_place_of_an_import(
    modelled: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(incoming_export, "PATIENCE_SECONDS", 0.5)
    await save(modelled, "The user drinks trà sen.")
    user = (await export(modelled)).text.splitlines()[0]

    async def silent() -> AsyncIterator[pb.ImportUserRequest]:
        yield pb.ImportUserRequest(user_id="bo", data=f"{user}\n".encode())
        await asyncio.Event().wait()

    def trickling() -> Iterator[pb.ImportUserRequest]:
        yield pb.ImportUserRequest(user_id="bo", data=f"{user}\n".encode())
        while True:
            time.sleep(0.1)
            yield pb.ImportUserRequest(user_id="bo", data=b"\n")

    def trickle() -> Refusal:
        # gRPC's asyncio client can report INTERNAL in place of the status that it received while
        # it was sending, and this caller never stops sending.
        with grpc.insecure_channel(
            modelled.extraction_address, [("grpc.enable_http_proxy", 0)]
        ) as channel:
            with pytest.raises(grpc.RpcError) as caught:
                privacy_service_pb2_grpc.PrivacyServiceStub(channel).ImportUser(
                    trickling(), metadata=(("authorization", f"Bearer {modelled.token}"),)
                )
            return read_refusal(cast(grpc.Call, caught.value))

    for refusal in (
        await refusal_of(modelled.privacy.ImportUser(silent())),
        await asyncio.to_thread(trickle),
    ):
        assert refusal.code is grpc.StatusCode.DEADLINE_EXCEEDED
        assert "nothing of the export came for 0.5 seconds" in refusal.message
    # It holds no place: the whole file comes in after it, however slow this machine is.
    monkeypatch.undo()
    assert (await bring(modelled, (await export(modelled)).text.encode(), "bo")).imported_counts


async def test_a_tenant_and_a_person_run_their_share_of_the_imports(
    modelled: Services, tenant: Tenant
) -> None:
    """Half of them are of one tenant, and one of them of one person."""
    again = asyncio.Event()

    async def slow(user: str) -> AsyncIterator[pb.ImportUserRequest]:
        yield pb.ImportUserRequest(user_id=user, data=b"\n")
        await again.wait()

    def begin(user: str, token: str = "") -> Any:
        metadata = [("authorization", f"Bearer {token}")] if token else None
        return modelled.privacy.ImportUser(slow(user), metadata=metadata)

    def ended_of(calls: list[Any]) -> list[Any]:
        return [call for call in calls if call.done()]

    own = ISSUED.token(sub="bo", tenant=tenant.tenant_id, scope="read write")
    mine = [begin("bo", own) for _ in range(3)]
    await eventually(lambda: len(ended_of(mine)) >= 2, seconds=BOUND)
    for call in ended_of(mine):
        assert "with this user's credential are running" in (await refusal_of(call)).message
    others = [begin(f"user {number}") for number in range(AT_ONCE)]
    await eventually(lambda: len(ended_of(others)) > AT_ONCE // 2, seconds=BOUND)
    for call in ended_of(others):
        assert "of this tenant are running" in (await refusal_of(call)).message
    assert len(ended_of(mine)) == 2
    again.set()
    for call in (*mine, *others):
        if call not in ended_of(mine) and call not in ended_of(others):
            await call


async def test_every_table_and_column_of_an_export_is_known(
    conninfo: str, superuser_conninfo: str
) -> None:
    """A later migration decides whether its table is imported; its columns then are."""
    database = Database(conninfo, "hitherto_write", application="test", max_size=1)
    await database.open()
    try:
        tables = await database.run(holdings.find_exported, timeout=10)
        rules = await database.run(read_rules, timeout=10)
    finally:
        await database.close()
    named = {table.name for table in tables} | {exports.CALLS, exports.CREDENTIALS}
    assert named == IMPORTED.keys() | LEFT_OUT
    assert rules.keys() == IMPORTED.keys()
    for table in tables:
        if table.name in IMPORTED:
            known = rules[table.name]
            # What only a sealed value holds is exported beside the columns.
            within = BY_TABLE[table.name].also if table.name in BY_TABLE else ()
            found = {*exports.shown_columns(table), *within}
            assert found == known.columns.keys() | known.ignored, table.name
            assert IMPORTED[table.name].keys() <= known.columns.keys(), table.name
    assert rules["users"].columns.keys() == {"created_at", *stored_settings.SETTINGS}
    assert rules["users"].ignored >= OWNERS


def changed(found: Export, table: str, **values: Any) -> bytes:
    """The export with other values in every row of a table."""
    lines = [json.loads(line) for line in found.text.splitlines()]
    for line in lines:
        if line["table"] == table:
            line["row"].update(values)
    return "\n".join(map(json.dumps, lines)).encode()


async def test_h4_rights_are_those_of_the_credential(
    modelled: Services,
    model: ScriptedModel,
    clear: Lived,
    tenant: Tenant,
) -> None:
    """A person imports only for that person, and gains no department and no operator's words."""

    def person(scope: str) -> str:
        return ISSUED.token(sub="ana", tenant=tenant.tenant_id, scope=scope)

    refusal = await refusal_of(bring(modelled, clear.data, "bo", token=person("read write")))
    assert refusal.reason == "USER_NOT_ALLOWED"
    refusal = await refusal_of(bring(modelled, clear.data, token=person("read")))
    assert refusal.reason == "SCOPE_MISSING"
    said = changed(clear.export, "memories", origin="operator")
    refusal = await refusal_of(bring(modelled, said, token=person("read write")))
    assert refusal.reason == "ORIGIN_NOT_ALLOWED"
    reserved = {"department": "sales", "access_level": "high"}
    lines = [json.loads(line) for line in clear.export.text.splitlines()]
    profiles = [
        line["row"]["profile"] if line["table"] == "profile_versions" else line["row"]
        for line in lines
        if line["table"] == "profiles"
        or (line["table"] == "profile_versions" and line["row"]["job_id"] is None)
    ]
    for each in profiles:
        each.update(reserved)
    managed = "\n".join(map(json.dumps, lines)).encode()
    reply = await bring(modelled, managed, token=person("read write"))
    assert len(profiles) > 1
    for name in reserved:
        assert reply.left_out_counts[f"profiles.{name}"] == len(profiles)
    await bring(modelled, managed, "cleo")
    # Neither now, nor at an earlier time, nor once a roll-back makes that time the present.
    sails = value("facts.personal.sport", "sailing", "I sail")
    model.script = replies({"I sail": lambda _: {"profile_changes": [sails]}})
    now = Timestamp()
    now.GetCurrentTime()
    for user, held in (("ana", ("", "standard")), ("cleo", ("sales", "high"))):
        told = await ask(modelled, "GetProfileHistory", user_id=user)
        newest = plain(told.events[0].after)
        assert (newest.get("department", ""), newest.get("access_level", "standard")) == held
        past = await ask(modelled, "GetContext", user_id=user, known_at=now)
        assert (past.profile.department, past.profile.access_level) == held
        await learn(modelled, talk("I sail", user=user, conversation="later"))
        done = await ask(modelled, "RollbackSource", user_id=user, conversation_id="later")
        assert done.counts["profile_fields"]
        reread = await modelled.retrieval.GetProfile(retrieval.GetProfileRequest(user_id=user))
        assert (reread.profile.department, reread.profile.access_level) == held


async def test_lost_records_are_left_out_with_what_belongs_to_them(
    modelled: Services, clear: Lived
) -> None:
    lines = [json.loads(line) for line in clear.export.text.splitlines()]
    memory_line = next(line for line in lines if line["table"] == "memories")
    profile = next(line for line in lines if line["table"] == "profiles")
    for line in (memory_line, profile):
        line["lost"] = True
    reply = await bring(modelled, "\n".join(map(json.dumps, lines)).encode(), "bo")
    assert reply.left_out_counts["memories"] == reply.left_out_counts["profiles"] == 1
    assert reply.left_out_counts["statements"] >= 1
    assert "profile_versions" not in reply.imported_counts
    assert reply.imported_counts["memories"] >= 1
    found = await export(modelled, "bo")
    gone = memory_line["row"]["memory_id"]
    assert gone not in {row.get("memory_id") for table, row in found.rows if table in IMPORTED}


async def test_h2_an_erasure_ends_an_import_that_goes_on(
    modelled: Services, clear: Lived, tenant_conninfo: str
) -> None:
    """Nothing of it comes back, also if the user is reinstated at once."""
    lines = clear.export.text.encode().splitlines(keepends=True)

    # A group is stored once a record of another table comes.
    tables = [table for table, _ in clear.export.rows]
    half = 1 + max(n for n, table in enumerate(tables) if table == "memory_sources")
    assert "memories" in tables[:half]
    erased = asyncio.Event()

    async def pieces() -> AsyncIterator[pb.ImportUserRequest]:
        yield pb.ImportUserRequest(user_id="ana", data=b"".join(lines[:half]))
        await erased.wait()
        yield pb.ImportUserRequest(user_id="ana", data=b"".join(lines[half:]))

    importing = asyncio.ensure_future(modelled.privacy.ImportUser(pieces()))
    await eventually(lambda: rows(tenant_conninfo, "SELECT 1 FROM memories"), seconds=BOUND)
    await erase(modelled)
    await reinstate(modelled)
    erased.set()
    refusal = await refusal_of(importing)
    assert refusal.code is grpc.StatusCode.FAILED_PRECONDITION
    assert refusal.reason == "USER_ERASED"
    assert not rows(tenant_conninfo, "SELECT 1 FROM memories")


async def test_h2_nobody_else_writes_while_a_user_is_imported(
    modelled: Services, model: ScriptedModel, clear: Lived, tenant_conninfo: str
) -> None:
    """Between two groups, what others write would take the place of records that follow."""
    model.script = replies({"at last": lambda _: {"new_memories": [memory("Ana rests.", ["m1"])]}})
    lines = clear.export.text.encode().splitlines(keepends=True)
    half = 1 + [table for table, _ in clear.export.rows].index("users")
    go_on = asyncio.Event()

    async def pieces() -> AsyncIterator[pb.ImportUserRequest]:
        yield pb.ImportUserRequest(user_id="ana", data=b"".join(lines[:half]))
        await go_on.wait()
        yield pb.ImportUserRequest(user_id="ana", data=b"".join(lines[half:]))

    def say() -> Awaitable[Any]:
        said = [talk("at last", user="ana", conversation="trò chuyện 1")]
        said[0].messages[0].id = "a new one"
        return modelled.extraction.SubmitTranscripts(
            extraction_service_pb2.SubmitTranscriptsRequest(transcripts=said)
        )

    def tell() -> Awaitable[Any]:
        return save(modelled, "The user drinks trà sen at five.")

    def edit() -> Awaitable[Any]:
        return change_profile(modelled, summary="Somebody else.")

    writes: list[Callable[[], Awaitable[Any]]] = [say, tell, edit]
    importing = asyncio.ensure_future(modelled.privacy.ImportUser(pieces()))
    begun = "SELECT 1 FROM users WHERE importing_until > now()"
    await eventually(lambda: rows(tenant_conninfo, begun), seconds=BOUND)
    for write in writes:
        refusal = await refusal_of(write())
        assert refusal.code is grpc.StatusCode.ABORTED
        assert (refusal.reason, refusal.retry_after) == ("WRITE_CONFLICT", 1.0)
    go_on.set()
    assert not (await importing).skipped_counts
    assert kept(await export(modelled)) == kept(clear.export)
    for write in writes:
        await write()
    stored = [each.content for each in await memories(modelled)]
    assert len(stored) == len(set(stored))


async def test_h2_a_job_that_is_open_waits_until_an_import_is_continued(
    modelled: Services, model: ScriptedModel, clear: Lived, tenant_conninfo: str
) -> None:
    """Its model's reply comes while the import goes on, and takes the place of no record."""
    lines = clear.export.text.encode().splitlines(keepends=True)
    cut = [table for table, _ in clear.export.rows].index("profiles")
    await refusal_of(bring(modelled, b"".join(lines[:cut])))
    asked, answered, go_on = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def answer(_: ChatRequest) -> ChatAnswer:
        asked.set()
        await asyncio.wait_for(answered.wait(), BOUND)
        summary = {"path": "summary", "value": "Ana rests.", "source_message_ids": ["m1"]}
        return ChatAnswer.of(
            new_memories=[memory("Ana rests.", ["m1"])],
            profile_changes=[{**summary, "quote": "at last"}],
        )

    async def pieces() -> AsyncIterator[pb.ImportUserRequest]:
        yield pb.ImportUserRequest(user_id="ana", data=b"".join(lines[:cut]))
        await go_on.wait()
        yield pb.ImportUserRequest(user_id="ana", data=b"".join(lines[cut:]))

    model.script = answer
    (job_id,) = await submit(modelled, talk("at last", conversation="since"))
    await asyncio.wait_for(asked.wait(), BOUND)
    importing = asyncio.ensure_future(modelled.privacy.ImportUser(pieces()))
    begun = "SELECT 1 FROM users WHERE importing_until > now()"
    await eventually(lambda: rows(tenant_conninfo, begun), seconds=BOUND)
    answered.set()
    over = f"SELECT 1 FROM jobs WHERE job_id = '{job_id}' AND state <> 'running'"
    await eventually(lambda: rows(tenant_conninfo, over), seconds=BOUND)
    assert not rows(tenant_conninfo, "SELECT 1 FROM profiles")
    go_on.set()
    assert "profiles" not in (await importing).skipped_counts
    job = await ended(modelled, job_id)
    assert job.state == job_pb2.JOB_STATE_SUCCEEDED, job.error
    assert "Ana rests." in {held.content for held in await memories(modelled)}
    (brought,) = clear.export.of("profiles")
    ((version, facts),) = rows(tenant_conninfo, "SELECT version, facts FROM profiles")
    assert (version, facts) == (brought["version"] + 1, brought["facts"])


async def test_c6_the_history_of_what_was_sealed_tells_its_words_when_it_is_in_clear(
    modelled: Services, sealed: Lived
) -> None:
    lines = [json.loads(line) for line in sealed.export.text.splitlines()]
    (user,) = (line["row"] for line in lines if line["table"] == "users")
    user["encrypt_sensitive"] = False
    await bring(modelled, "\n".join(map(json.dumps, lines)).encode())
    (secret,) = (each for each in await memories(modelled) if each.content == SECRET)
    reply = await ask(modelled, "GetMemoryHistory", memory_id=secret.id)
    created = plain(reply.events[-1].after)
    assert (created["content"], created["tags"]) == (SECRET, ["health"])
    profile = await ask(modelled, "GetProfileHistory")
    assert profile.events[0].after["summary"] == "Sống ở Đà Nẵng."


async def test_c6_the_history_of_an_earlier_release_is_told_by_the_versions(
    modelled: Services, clear: Lived, tenant_conninfo: str
) -> None:
    """Its entries repeat what the versions hold. Stored is what these do not: the entities."""
    lines = [json.loads(line) for line in clear.export.text.splitlines()]
    tea = next(
        line["row"]["memory_id"]
        for line in lines
        if line["table"] == "memories" and line["row"]["content"].endswith("trà sen at five.")
    )
    for line in lines:
        row = line["row"]
        if line["table"] == "history" and (row["memory_id"], row["version"]) == (tea, 2):
            row["before"] = {"content": "The user drinks trà sen.", "entities": []}
            row["after"] = {"content": "The user drinks trà sen at five.", "entities": ["Huế"]}
    await bring(modelled, "\n".join(map(json.dumps, lines)).encode())
    assert rows(tenant_conninfo, "SELECT before, after FROM history WHERE after IS NOT NULL") == [
        ({"entities": []}, {"entities": ["Huế"]})
    ]
    told = (await events(modelled, tea))[0]
    assert plain(told.before) == {"content": "The user drinks trà sen.", "entities": []}
    assert plain(told.after) == {
        "content": "The user drinks trà sen at five.",
        "entities": ["Huế"],
    }


async def test_h3_what_was_not_sealed_yet_when_it_was_exported_is_sealed(
    modelled: Services, clear: Lived, tenant_conninfo: str
) -> None:
    """Nothing that the sensitive memories mention is stored, so that no mention is left."""
    lines = [json.loads(line) for line in clear.export.text.splitlines()]
    for line in lines:
        if line["table"] == "users":
            line["row"]["encrypt_sensitive"] = True
        elif line["table"] == "memories":
            line["row"]["sensitive"] = True
    reply = await bring(modelled, "\n".join(map(json.dumps, lines)).encode())
    assert reply.imported_counts["memories"] == clear.export.manifest.counts["memories"]
    assert not rows(tenant_conninfo, "SELECT 1 FROM memories WHERE sealed IS NULL")
    assert clear.export.of("entity_mentions")
    assert not rows(tenant_conninfo, "SELECT 1 FROM entity_mentions")


async def test_a_document_that_expires_meanwhile_does_not_end_an_import(
    modelled: Services, clear: Lived, tenant_conninfo: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sweep deletes it before its parts come; everything else is imported."""
    monkeypatch.setattr(incoming_export, "PATIENCE_SECONDS", 600.0)
    lines = [json.loads(line) for line in clear.export.text.splitlines()]
    (document,) = (line["row"] for line in lines if line["table"] == "documents")
    document["expires_at"] = "2026-01-01T00:00:00+00:00"
    parts = [line["table"] for line in lines if line["row"].get("document_id")]
    assert {"document_chunks", "document_mentions"} <= set(parts)
    # A group is stored once a record of another table comes.
    half = 1 + next(n for n, line in enumerate(lines) if line["table"] == "document_chunks")
    swept = asyncio.Event()

    async def pieces() -> AsyncIterator[pb.ImportUserRequest]:
        for end, part in ((False, lines[:half]), (True, lines[half:])):
            if end:
                await swept.wait()
            data = "".join(json.dumps(line) + "\n" for line in part).encode()
            yield pb.ImportUserRequest(user_id="ana", data=data)

    importing = asyncio.ensure_future(modelled.privacy.ImportUser(pieces()))
    await eventually(lambda: rows(tenant_conninfo, "SELECT 1 FROM documents"), seconds=BOUND)
    await asyncio.to_thread(change, tenant_conninfo, "DELETE FROM documents")
    swept.set()
    reply = await importing
    for table in ("document_chunks", "document_mentions"):
        assert reply.left_out_counts[table] == parts.count(table)
        assert table not in reply.imported_counts
        assert table not in reply.skipped_counts
        assert not rows(tenant_conninfo, f"SELECT 1 FROM {table}")
    assert reply.imported_counts["memories"] == clear.export.manifest.counts["memories"]
    assert not rows(tenant_conninfo, "SELECT 1 FROM passage_postings WHERE corpus = 'documents'")


async def test_more_unread_conversations_than_are_remembered_are_refused(
    modelled: Services, clear: Lived, tenant_conninfo: str
) -> None:
    """Nothing that a job had not read is silently taken for learnt."""
    owner = {name: clear.export.of("conversations")[0][name] for name in OWNERS}
    unread = [
        {"table": "jobs", "row": {**owner, "state": "queued", "range_from": 1, **each}}
        for each in ({"conversation_id": f"c{number}"} for number in range(10_001))
    ]
    records = unannounced([json.loads(line) for line in clear.export.text.splitlines()])
    data = "\n".join(map(json.dumps, [*unread, *records])).encode()
    refusal = await refusal_of(bring(modelled, data, "bo", piece=1_000_000))
    assert refusal.code is grpc.StatusCode.INVALID_ARGUMENT
    assert refusal.fields.keys() == {"records[10001]"}
    assert not rows(tenant_conninfo, "SELECT 1 FROM users")


async def test_b3_what_a_job_had_not_read_is_learnt_again(
    modelled: Services, model: ScriptedModel, clear: Lived
) -> None:
    """A job that had not ended is not imported; its messages are not forgotten."""
    conversation = clear.export.of("conversations")[0]
    owner = {name: conversation[name] for name in OWNERS}
    job = {**owner, "state": "running", "range_from": 1, "done_to": None}
    job["conversation_id"] = conversation["conversation_id"]
    records = unannounced([json.loads(line) for line in clear.export.text.splitlines()])
    unread = [{"table": "jobs", "row": job}, *records]
    await bring(modelled, "\n".join(map(json.dumps, unread)).encode(), "bo")
    job_id = await modelled.extraction.EndConversation(
        extraction_service_pb2.EndConversationRequest(
            user_id="bo", conversation_id=conversation["conversation_id"]
        )
    )
    await ended(modelled, job_id.job.id)
    read = [message.content for asked in model.chat_requests for message in asked.messages]
    (said,) = [
        row["content"]
        for row in clear.export.of("messages")
        if (row["conversation_id"], row["message_no"]) == (job["conversation_id"], 1)
    ]
    assert any(said in words for words in read)


async def test_b3_a_document_that_no_job_had_read_is_read(
    modelled: Services, model: ScriptedModel
) -> None:
    """It was accepted: nobody has to send it again."""
    model.always(Hang(), endpoint="embeddings")
    sent = document_pb2.Document(
        source_type="gmail", source_id="1", content="Linh signed for the zeppelin."
    )
    handed = await ask(modelled, "IngestDocuments", documents=[sent])
    found = await export(modelled)
    assert not found.of("document_chunks")
    model.always(None, endpoint="embeddings")
    for _ in range(2):
        await bring(modelled, found.text.encode(), "bo")
    listed = await ask(modelled, "ListJobs", user_id="bo", kinds=[handed.job.kind])
    (job,) = listed.jobs
    assert (await ended(modelled, job.id)).result.counts["documents"] == 1
    reply = await modelled.retrieval.SearchMemories(
        retrieval.SearchMemoriesRequest(
            user_id="bo", query="zeppelin", scopes=[search_pb2.SEARCH_SCOPE_DOCUMENTS]
        )
    )
    assert [result.document_chunk.source_id for result in reply.results] == ["1"]
    # Sent again, it names no job of the user who was exported.
    again = await ask(modelled, "IngestDocuments", user_id="bo", documents=[sent])
    assert (again.job.id, again.job.user_id) == (job.id, "bo")
