"""ImportUser (H2, G): export, erase, import, export is equal, and what is no export is refused."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from typing import Any
from uuid import uuid4

import grpc
import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hitherto.v1 import document_pb2, privacy_pb2, search_pb2
from hitherto_extraction.restoring.catalogue import read_rules
from hitherto_extraction.restoring.tables import IMPORTED, LEFT_OUT, OWNERS
from hitherto_extraction.storage import exports, holdings
from hitherto_shared.database.pool import Database
from hitherto_shared.encryption.rows import BY_TABLE
from tests.e2e import privacy
from tests.e2e.conftest import Services, Shared, StartServices
from tests.e2e.curating import events, plain, save, update
from tests.e2e.importing import (
    BOUND,
    SECRET,
    Lived,
    bring,
    kept,
    lived,
    packed,
    records,
    settled,
)
from tests.e2e.learning import ended, learn, memories, replies, rows, talk
from tests.e2e.leaving import erase, export, reinstate, unannounced
from tests.e2e.methods import ask, documented, read_refusal
from tests.e2e.privacy import choose
from tests.e2e.sealed_memories import in_clear
from tests.e2e.sealing import ENCRYPTING
from tests.e2e.sessions import refusal_of
from tests.e2e.spoilt_records import SPOILT
from tests.scripted_model import ScriptedModel
from tests.scripted_model.answers import value
from tests.scripted_model.faults import Hang
from tests.tenants import ISSUED, Tenant
from tests.waiting import eventually

pytestmark = pytest.mark.usefixtures("frequent_sweeps")


SERVICE_SETTINGS = dict(ENCRYPTING)


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
    # Since which version a memory has its words: what a block says of it depends on that.
    worded = "SELECT memory_id, text_version FROM hitherto.memories WHERE sealed IS NULL ORDER BY 1"
    before = rows(person.conninfo, worded)
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
    assert rows(person.conninfo, worded) == before
    assert any(since > 1 for _, since in before)
    assert len(shared_model.chat_requests) == asked, "no model was called"


async def test_h3_nothing_is_stored_in_clear_for_an_encrypting_user(
    modelled: Services, clear: Lived
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
    lines = records(clear.export)
    for line in lines:
        row = line["row"]
        if line["table"] == "profiles":
            row["sources"] = {"facts.health.a": source}
        elif line["table"] in ("memories", "memory_versions"):
            row["doubt"] = doubt
        elif line["table"] == "history" and row["subject"] == "memory":
            row["after"] = {**(row["after"] or {}), "doubt": doubt}
    await bring(modelled, packed(lines), "bo")
    assert (await privacy.settings(modelled, "bo")).encrypt_sensitive
    # A sealed quote could not go with its message.
    profile = (await ask(modelled, "GetProfile", user_id="bo")).profile
    assert profile.sources["facts.health.a"].message_id == "trò chuyện 1-1"
    assert profile.sources["facts.health.a"].quote == ""
    assert in_clear(modelled.conninfo, *words, gone) == {}
    assert all(held.doubt.because_memory_id for held in await memories(modelled, user="bo"))
    opened = (await export(modelled, "bo")).text
    assert all(word in opened for word in words)
    assert {found.content for found in await memories(modelled, user="bo")} >= {SECRET}


async def test_everything_is_found_again(modelled: Services, clear: Lived) -> None:
    """By words, by the words of its source, by meaning; of documents, messages and summaries."""
    await bring(modelled, clear.data, "bo")
    waiting = (
        "SELECT 1 FROM memories WHERE embedding_state <> 'stored'"
        " UNION ALL SELECT 1 FROM document_chunks WHERE embedding_state <> 'stored'"
        " UNION ALL SELECT 1 FROM messages WHERE lexical_no IS NULL"
        " AND role IN ('user', 'assistant')"
    )
    await eventually(lambda: not rows(modelled.conninfo, waiting), seconds=BOUND)
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


async def test_interrupted_continued_and_repeated(modelled: Services, clear: Lived) -> None:
    """At any line: what was stored stays, the whole file brings the rest, and again nothing."""
    lines = clear.data.splitlines(keepends=True)
    for share in (0.1, 0.5, 0.8):
        services = modelled.as_tenant(Tenant())
        end = int(share * len(lines))
        refusal = await refusal_of(bring(services, b"".join(lines[:end]) + lines[end][:20]))
        assert refusal.code is grpc.StatusCode.INVALID_ARGUMENT, share
        assert "complete export" in refusal.message, share
        once = await bring(services, clear.data, key="k1")
        assert kept(await export(services)) == kept(clear.export), share
    assert once.skipped_counts
    again = await bring(services, clear.data, piece=777)
    assert not again.imported_counts
    for table, count in once.imported_counts.items():
        assert again.skipped_counts[table] == once.skipped_counts[table] + count
    assert not (await bring(services, clear.data, key="k1")).imported_counts
    assert kept(await export(services)) == kept(clear.export)
    # What has changed since stays.
    (tea,) = [held for held in await memories(services) if "trà sen" in held.content]
    await update(services, tea.id, content="The user drinks coffee.")
    await bring(services, clear.data)
    assert "The user drinks coffee." in {held.content for held in await memories(services)}
    refusal = await refusal_of(bring(services, clear.data, "bo", key="k1"))
    assert refusal.reason == "IDEMPOTENCY_KEY_REUSED"


async def test_a_user_who_is_not_empty_or_erased_is_refused(
    modelled: Services, clear: Lived
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
    assert not rows(modelled.conninfo, "SELECT 1 FROM memories WHERE user_id = 'ana'")


async def test_h1_where_memory_is_off_only_who_chose_it_is_imported(
    start_services: StartServices, clear: Lived
) -> None:
    """Their choice may be in the export, or was made here before."""
    lines = records(clear.export)
    [row] = [line["row"] for line in lines if line["table"] == "users"]
    async with start_services(memory_enabled=False, **ENCRYPTING) as services:
        assert row["memory_enabled"] is None
        refusal = await refusal_of(bring(services, packed(lines)))
        assert refusal.reason == "MEMORY_DISABLED"
        assert not rows(services.conninfo, "SELECT 1 FROM hitherto.users")
        await choose(services, user="bo", memory_enabled=True)
        assert (await bring(services, packed(lines), "bo")).imported_counts["memories"]
        row["memory_enabled"] = True
        assert (await bring(services, packed(lines), "cleo")).imported_counts["memories"]


async def test_h2_an_export_that_was_cut_or_changed_is_refused(services: Services) -> None:
    """Its last line is a manifest of those before it."""

    async def refused(sent: list[str], user: str = "bo") -> str:
        refusal = await refusal_of(bring(services, "".join(sent).encode(), user))
        assert refusal.code is grpc.StatusCode.INVALID_ARGUMENT
        return refusal.message

    for statement in ("The user drinks trà sen.", "The user lives in Huế.", "The user rows."):
        await save(services, statement)
    found = await export(services)
    lines = found.text.splitlines(keepends=True)
    first, *between, last = records(found)
    assert first["manifest"] is True
    assert not any("manifest" in record for record in between)
    assert (last["table"], last["row"]["counts"]) == (
        "manifest",
        Counter(record["table"] for record in (first, *between)),
    )
    assert last["row"]["sha256"] == hashlib.sha256("".join(lines[:-1]).encode()).hexdigest()

    for cut in (1, 2, 5):
        message = await refused(lines[:-cut])
        assert "was cut off before its manifest" in message
        assert message.startswith(f"records[{len(lines) - cut + 1}]")
    assert "of other records" in await refused([*lines[:-3], *lines[-2:]])
    assert "follows the manifest" in await refused([*lines, lines[1]], "cleo")
    of_others: tuple[Any, ...] = (None, 3, [], {"memories": "3"}, {"memories": True})
    for counts in of_others:
        spoilt = last | {"row": last["row"] | {"counts": counts}}
        assert "of other records" in await refused([*lines[:-1], json.dumps(spoilt)], "dee")
    # What the refusal says to do helps; an export of an earlier version has no manifest.
    whole = await bring(services, found.text.encode(), "bo")
    assert sum(whole.imported_counts.values()) + sum(whole.skipped_counts.values())
    earlier = packed(unannounced(records(found)))
    assert (await bring(services, earlier, "eve")).imported_counts["memories"] == 3


async def test_hostile_records_are_refused_by_number(modelled: Services, clear: Lived) -> None:
    """None of their group is stored, whatever is wrong, and the next, right file is."""
    whole = clear.export
    lines = whole.text.splitlines()
    for name, (table, spoil) in SPOILT.items():
        number = next(
            n
            for n, (held, row) in enumerate(whole.rows)
            if held == table and row.get("action", "said") in {"said", "created"}
        )
        line = json.loads(lines[number])
        spoil(line)
        spoilt = packed([*lines[:number], line, *lines[number + 1 :]])
        user = "bo " + name.replace("'", "")
        refusal = await refusal_of(bring(modelled, spoilt, user))
        assert refusal.code is grpc.StatusCode.INVALID_ARGUMENT, name
        assert f"records[{number + 1}]" in refusal.message, name
        stored = f"SELECT count(*) FROM {table} WHERE user_id IN ('{user}', 'eve')"
        assert rows(modelled.conninfo, stored) == [(0,)], name
    no_tables = (b'{"table": 1, "row": {}}', b'{"table": [], "row": {}}')
    for data in (b"\xff\xfe", b"[]", b"null", *no_tables, b"{" * 100_000):
        refusal = await refusal_of(bring(modelled, data, "bo"))
        assert refusal.code is grpc.StatusCode.INVALID_ARGUMENT
    assert (await bring(modelled, clear.data, "bo")).imported_counts["memories"]


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
    try:
        await bring(modelled, packed([*lines[: numbers[0]], line]), f"bo {uuid4()}")
    except grpc.aio.AioRpcError as error:
        refusal = documented(read_refusal(error))
        assert refusal.code is grpc.StatusCode.INVALID_ARGUMENT, refusal


async def test_order_and_size_of_lines(modelled: Services) -> None:
    """The user comes first, a line has an end, and one export is one user's."""
    await save(modelled, "The user drinks trà sen.")
    found = await export(modelled)
    lines = found.text.splitlines()
    user = next(line for line in lines if json.loads(line)["table"] == "users")
    rest = [line for line in lines if line != user]
    refusal = await refusal_of(bring(modelled, packed([*rest, user]), "bo"))
    assert "must come first" in refusal.message
    refusal = await refusal_of(bring(modelled, packed([user, user]), "bo"))
    assert "second user" in refusal.message
    # What is left out is not checked, and may be anything.
    odd = {"table": "jobs", "row": {"state": [], "range_from": 1}}
    assert (await bring(modelled, packed([odd]), "cleo")).left_out_counts["jobs"] == 1
    endless = b'{"table": "memories", "row": {"content": "' + b"x" * (17 << 20)
    refusal = await refusal_of(bring(modelled, endless, "bo", piece=1 << 20))
    assert refusal.code is grpc.StatusCode.INVALID_ARGUMENT
    assert "16777216 bytes" in refusal.message
    assert not rows(modelled.conninfo, "SELECT 1 FROM memories WHERE user_id = 'bo'")


async def test_every_table_and_column_of_an_export_is_known(conninfo: str) -> None:
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
    settings = privacy_pb2.UserSettings.DESCRIPTOR.fields_by_name
    assert rules["users"].columns.keys() == {"created_at", *settings} - {"erased"}
    assert rules["users"].ignored >= OWNERS


async def test_h4_rights_are_those_of_the_credential(
    modelled: Services, clear: Lived, tenant: Tenant
) -> None:
    """A person imports only for that person, and gains no department and no operator's words."""

    def person(scope: str) -> str:
        return ISSUED.token(sub="ana", tenant=tenant.tenant_id, scope=scope)

    refusal = await refusal_of(bring(modelled, clear.data, "bo", token=person("read write")))
    assert refusal.reason == "USER_NOT_ALLOWED"
    refusal = await refusal_of(bring(modelled, clear.data, token=person("read")))
    assert refusal.reason == "SCOPE_MISSING"
    lines = records(clear.export)
    for line in lines:
        if line["table"] == "memories":
            line["row"]["origin"] = "operator"
    refusal = await refusal_of(bring(modelled, packed(lines), token=person("read write")))
    assert refusal.reason == "ORIGIN_NOT_ALLOWED"
    reserved = {"department": "sales", "access_level": "high"}
    lines = records(clear.export)
    profiles = [
        line["row"]["profile"] if line["table"] == "profile_versions" else line["row"]
        for line in lines
        if line["table"] == "profiles"
        or (line["table"] == "profile_versions" and line["row"]["job_id"] is None)
    ]
    for each in profiles:
        each.update(reserved)
    managed = packed(lines)
    reply = await bring(modelled, managed, token=person("read write"))
    assert len(profiles) > 1
    for name in reserved:
        assert reply.left_out_counts[f"profiles.{name}"] == len(profiles)
    await bring(modelled, managed, "cleo")
    # Who may set a department sets none but their own.
    office = ISSUED.token(
        sub="office",
        tenant=tenant.tenant_id,
        scope="read write",
        hitherto_user_scope=["dora"],
        departments=["hr"],
        hitherto_capabilities=["profiles.manage"],
    )
    reply = await bring(modelled, managed, "dora", token=office)
    left_out = {name: n for name, n in reply.left_out_counts.items() if "profiles." in name}
    assert left_out == {"profiles.department": len(profiles)}
    # Neither now, nor at an earlier time, nor once a roll-back makes that time the present.
    sails = value("facts.personal.sport", "sailing", "I sail")
    modelled.model.script = replies({"I sail": {"profile_changes": [sails]}})
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
        reread = (await ask(modelled, "GetProfile", user_id=user)).profile
        assert (reread.department, reread.access_level) == held


async def test_lost_records_are_left_out_with_what_belongs_to_them(
    modelled: Services, clear: Lived
) -> None:
    lines = records(clear.export)
    memory_line = next(line for line in lines if line["table"] == "memories")
    profile = next(line for line in lines if line["table"] == "profiles")
    for line in (memory_line, profile):
        line["lost"] = True
    reply = await bring(modelled, packed(lines), "bo")
    assert reply.left_out_counts["memories"] == reply.left_out_counts["profiles"] == 1
    assert reply.left_out_counts["statements"] >= 1
    assert "profile_versions" not in reply.imported_counts
    assert reply.imported_counts["memories"] >= 1
    found = await export(modelled, "bo")
    gone = memory_line["row"]["memory_id"]
    assert gone not in {row.get("memory_id") for table, row in found.rows if table in IMPORTED}


async def test_c6_the_history_of_what_was_sealed_tells_its_words_when_it_is_in_clear(
    modelled: Services, sealed: Lived
) -> None:
    lines = records(sealed.export)
    (user,) = (line["row"] for line in lines if line["table"] == "users")
    user["encrypt_sensitive"] = False
    await bring(modelled, packed(lines))
    (secret,) = (each for each in await memories(modelled) if each.content == SECRET)
    reply = await ask(modelled, "GetMemoryHistory", memory_id=secret.id)
    created = plain(reply.events[-1].after)
    assert (created["content"], created["tags"]) == (SECRET, ["health"])
    profile = await ask(modelled, "GetProfileHistory")
    assert profile.events[0].after["summary"] == "Sống ở Đà Nẵng."


async def test_c6_the_history_of_an_earlier_release_is_told_by_the_versions(
    modelled: Services, clear: Lived
) -> None:
    """Its entries repeat what the versions hold. Stored is what these do not: the entities."""
    lines = records(clear.export)
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
    await bring(modelled, packed(lines))
    assert rows(modelled.conninfo, "SELECT before, after FROM history WHERE after IS NOT NULL") == [
        ({"entities": []}, {"entities": ["Huế"]})
    ]
    told = (await events(modelled, tea))[0]
    assert plain(told.before) == {"content": "The user drinks trà sen.", "entities": []}
    assert plain(told.after) == {
        "content": "The user drinks trà sen at five.",
        "entities": ["Huế"],
    }


_NAMES_OF_MEMORIES = """
SELECT name FROM entities WHERE entity_id NOT IN (SELECT entity_id FROM document_mentions)
UNION ALL SELECT '' FROM entity_mentions
"""


async def test_h3_what_was_not_sealed_yet_when_it_was_exported_is_sealed(
    modelled: Services, clear: Lived
) -> None:
    """The names that only sensitive memories mention are gone after the sweep."""
    lines = records(clear.export)
    for line in lines:
        if line["table"] == "users":
            line["row"]["encrypt_sensitive"] = True
        elif line["table"] == "memories":
            line["row"]["sensitive"] = True
    reply = await bring(modelled, packed(lines))
    assert reply.imported_counts["memories"] == clear.export.manifest.counts["memories"]
    assert not rows(modelled.conninfo, "SELECT 1 FROM memories WHERE sealed IS NULL")
    assert clear.export.of("entity_mentions")
    assert not reply.skipped_counts
    await eventually(lambda: not rows(modelled.conninfo, _NAMES_OF_MEMORIES))


async def test_b3_what_jobs_had_not_read_is_learnt_again_up_to_a_bound(
    modelled: Services, clear: Lived
) -> None:
    """A job that had not ended is not imported; its messages are not forgotten, nor silently taken
    for learnt."""
    first = clear.export.of("conversations")[0]
    job = {**{name: first[name] for name in OWNERS}, "state": "running", "range_from": 1}
    rest = unannounced(records(clear.export))
    many = ({**job, "conversation_id": f"c{number}"} for number in range(10_001))
    unread = [{"table": "jobs", "row": each} for each in many]
    refusal = await refusal_of(bring(modelled, packed([*unread, *rest]), "bo", piece=1_000_000))
    assert refusal.code is grpc.StatusCode.INVALID_ARGUMENT
    assert refusal.fields.keys() == {"records[10001]"}
    assert not rows(modelled.conninfo, "SELECT 1 FROM users")

    named = {"conversation_id": first["conversation_id"]}
    # Of two, that which has read less.
    lines = [{"table": "jobs", "row": {**job, **named, "done_to": done}} for done in (None, 99)]
    await bring(modelled, packed([*lines, *rest]), "bo")
    begun = await ask(modelled, "EndConversation", user_id="bo", **named)
    await ended(modelled, begun.job.id)
    read = [message.content for asked in modelled.model.chat_requests for message in asked.messages]
    (said,) = [
        row["content"]
        for row in clear.export.of("messages")
        if (row["conversation_id"], row["message_no"]) == (first["conversation_id"], 1)
    ]
    assert any(said in words for words in read)


async def test_b3_a_document_that_no_job_had_read_is_read(modelled: Services) -> None:
    """It was accepted: nobody has to send it again."""
    modelled.model.always(Hang(), endpoint="embeddings")
    sent = document_pb2.Document(
        source_type="gmail", source_id="1", content="Linh signed for the zeppelin."
    )
    handed = await ask(modelled, "IngestDocuments", documents=[sent])
    found = await export(modelled)
    assert not found.of("document_chunks")
    modelled.model.always(None, endpoint="embeddings")
    for _ in range(2):
        await bring(modelled, found.text.encode(), "bo")
    listed = await ask(modelled, "ListJobs", user_id="bo", kinds=[handed.job.kind])
    (job,) = listed.jobs
    assert (await ended(modelled, job.id)).result.counts["documents"] == 1
    scopes = [search_pb2.SEARCH_SCOPE_DOCUMENTS]
    reply = await ask(modelled, "SearchMemories", user_id="bo", query="zeppelin", scopes=scopes)
    assert [result.document_chunk.source_id for result in reply.results] == ["1"]
    # Sent again, it names no job of the user who was exported.
    again = await ask(modelled, "IngestDocuments", user_id="bo", documents=[sent])
    assert (again.job.id, again.job.user_id) == (job.id, "bo")
