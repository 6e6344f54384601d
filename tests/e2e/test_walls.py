"""The walls: who is let in, what a key may do, and that tenants, users and roles stay apart.

Rows of the fault catalogue: 59 (credentials), 60 (other tenants), 61 (scopes and bound keys),
65 (reflection and health).
"""

from __future__ import annotations

import asyncio
import functools
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import grpc
import psycopg
import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from grpc_health.v1 import health_pb2, health_pb2_grpc

from hitherto.v1 import extraction_service_pb2 as extraction
from hitherto.v1 import privacy_service_pb2 as privacy
from hitherto.v1 import retrieval_service_pb2 as retrieval
from hitherto_retrieval import __main__ as retrieval_process
from hitherto_retrieval.config import RetrievalSettings
from hitherto_shared.auth.access import rules_of
from hitherto_shared.auth.api_keys import list_keys, revoke_key
from hitherto_shared.auth.authenticate import CACHE_SECONDS, ApiKeyAuthentication
from hitherto_shared.database.connect import Role
from hitherto_shared.startup import serve
from tests.e2e.conftest import Services, StartServices
from tests.e2e.credentials import EVERYTHING, as_role, bearer, key
from tests.e2e.methods import METHODS, SERVICES, Method, Refusal, ask, call, refused
from tests.e2e.requests import submit, transcript, valid
from tests.e2e.sessions import refusal_of
from tests.refusing import refusing

GET_CONTEXT = METHODS["RetrievalService/GetContext"]
SUBMIT = METHODS["ExtractionService/SubmitTranscripts"]
LIST_JOBS = METHODS["ExtractionService/ListJobs"]
WATCH_JOB = METHODS["ExtractionService/WatchJob"]

NEVER = (
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.UNIMPLEMENTED,
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.UNKNOWN,
)
"""How no call ends that a credential may make."""

RULES = rules_of(SERVICES)


@pytest.fixture
def guarded(by_key: tuple[Services, str]) -> Services:
    """Both services with authentication on, run by the tenant whose keys the tests make."""
    return by_key[0]


@pytest.fixture
def keys(by_key: tuple[Services, str]) -> str:
    """The database with the keys that `guarded` admits."""
    return by_key[1]


async def refused_with(services: Services, text: str, method: Method) -> Refusal:
    return await refused(services, method, valid(method), metadata=bearer(text))


async def called_with(services: Services, text: str, method: Method, request: Message) -> Any:
    return (await call(services, method, request, metadata=bearer(text)))[-1]


async def to_the_end(stream: Any) -> None:
    """Read a stream of replies until it ends, which raises how."""
    async with asyncio.timeout(60):
        while await stream.read() is not grpc.aio.EOF:
            pass


async def test_what_is_wrong_with_a_credential_is_not_told(guarded: Services, keys: str) -> None:
    """Row 59: nothing, garbage, revoked, expired, another's secret: one answer, for every RPC."""
    good, other = await key(keys), await key(keys)
    expired = await key(keys, expires_at=datetime.now(UTC) - timedelta(seconds=1))
    revoked = await key(keys)
    async with as_role(keys, "hitherto_maintenance") as connection:
        key_id = revoked.split("_")[1]
        assert await revoke_key(connection, tenant_id="a", key_id=key_id)
        assert not await revoke_key(connection, tenant_id="a", key_id=key_id)
        assert not await revoke_key(connection, tenant_id="b", key_id=good.split("_")[1])
    mixed = "_".join([*good.split("_")[:2], other.split("_", 2)[2]])
    values = [
        None,
        "",
        "Bearer ",
        f"Basic {good}",
        good,
        f"Bearer {expired}",
        f"Bearer {revoked}",
        f"Bearer {mixed}",
        f"Bearer {good[:-1]}",
        f"Bearer {good}x",
        f"Bearer {good} {good}",
        f"Bearer {good.upper()}",
        f"Bearer {good.rsplit('_', 1)[0]}",
        f"Bearer mk_{'a' * 12}_{'b' * 43}",
        "Bearer mk_';DROP TABLE_x",
        f"Bearer {'x' * 4000}",
    ]
    answers = set()
    for method in METHODS.values():
        # What is wrong is found for all RPCs in one place.
        for value in values if method in (GET_CONTEXT, SUBMIT, WATCH_JOB) else (None, values[6]):
            metadata = [] if value is None else [("authorization", value)]
            refusal = await refused(guarded, method, valid(method), metadata=metadata)
            assert refusal.reason == "CREDENTIAL_INVALID", method.name
            answers.add(refusal.everything)
    assert len(answers) == 1
    assert good not in answers.pop()
    await called_with(guarded, good, GET_CONTEXT, valid(GET_CONTEXT))
    # Only the hash of a key is stored.
    async with as_role(keys, "hitherto_maintenance") as connection:
        stored = await connection.execute("SELECT api_keys::text FROM api_keys")
        listed = str(stored.rows)
    secret = good.split("_", 2)[2]
    assert good.split("_")[1] in listed
    assert secret not in listed
    assert secret.encode().hex() not in listed


async def test_a_revoked_key_ends_within_the_cache_time(
    start_services: StartServices, conninfo: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr(
        "hitherto_shared.startup.ApiKeyAuthentication",
        functools.partial(ApiKeyAuthentication, monotonic=lambda: now[0]),
    )
    async with start_services(auth="api-key") as services:
        text = await key(conninfo)
        await called_with(services, text, GET_CONTEXT, valid(GET_CONTEXT))
        changes = services.retrieval.WatchMemories(
            retrieval.WatchMemoriesRequest(heartbeat=Duration(seconds=1)), metadata=bearer(text)
        )
        talks = services.extraction.StreamTranscripts(metadata=bearer(text))
        export = services.privacy.ImportUser(metadata=bearer(text))
        await changes.read()
        await talks.write(extraction.StreamTranscriptsRequest(transcript=transcript()))
        await export.write(privacy.ImportUserRequest(user_id="bo", data=b"\n"))
        async with as_role(conninfo, "hitherto_maintenance") as connection:
            assert await revoke_key(connection, tenant_id="a", key_id=text.split("_")[1])
            (listed,) = await list_keys(connection, tenant_id="a")
            assert listed.revoked_at is not None
        # Remembered: this is the price of not asking the database for every call.
        await called_with(services, text, GET_CONTEXT, valid(GET_CONTEXT))
        now[0] += CACHE_SECONDS + 0.01
        refusal = await refused_with(services, text, GET_CONTEXT)
        assert refusal.reason == "CREDENTIAL_INVALID"
        # Streams that began before it was revoked end too.
        assert (await refusal_of(to_the_end(changes))).code is grpc.StatusCode.UNAUTHENTICATED
        await talks.write(
            extraction.StreamTranscriptsRequest(transcript=transcript(conversation="late"))
        )
        await export.write(privacy.ImportUserRequest(user_id="bo", data=b"\n"))
        for stream in (talks, export):
            with pytest.raises(grpc.aio.AioRpcError) as ended:
                await stream
            assert ended.value.code() is grpc.StatusCode.UNAUTHENTICATED
            # An import needs all of its file again: the user comes first.
            told = "what was stored stays, and starting again from the beginning does no harm"
            assert told in str(ended.value.details())
        # A clock that goes back does not bring it back.
        now[0] -= CACHE_SECONDS
        assert (await refused_with(services, text, GET_CONTEXT)).reason == "CREDENTIAL_INVALID"


async def test_health_is_open_and_reflection_closed(guarded: Services) -> None:
    """Row 65; where reflection is on, it asks for a credential: see test_strangers.py."""
    for channel in (guarded.retrieval_channel, guarded.extraction_channel):
        health: Any = health_pb2_grpc.HealthStub(channel)
        reply = await health.Check(health_pb2.HealthCheckRequest())
        assert reply.status == health_pb2.HealthCheckResponse.SERVING
        path = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
        stream: Any = channel.stream_stream(path)
        asked = stream(iter([b""]))
        assert await asked.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_every_rpc_needs_its_scope(guarded: Services, keys: str) -> None:
    """Row 61: with each scope alone, exactly the calls that declare it are let through."""
    for scope in EVERYTHING:
        text = await key(keys, scopes=[scope])
        for method in METHODS.values():
            needed = RULES[method.path].scope
            if needed != scope:
                refusal = await refused_with(guarded, text, method)
                assert refusal.reason == "SCOPE_MISSING", (method.name, scope)
                assert refusal.metadata == {"scope": needed.upper(), "method": method.path}
                continue
            code = grpc.StatusCode.OK
            try:
                await call(guarded, method, valid(method), metadata=bearer(text))
            except grpc.aio.AioRpcError as error:
                code = error.code()
            assert code not in NEVER, method.name


async def test_a_call_without_a_rule_is_denied_to_everybody(
    start_services: StartServices, conninfo: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = {GET_CONTEXT.path, WATCH_JOB.path}
    monkeypatch.setattr(
        "hitherto_shared.rpc.admission.rules_of",
        lambda services: {
            path: rule for path, rule in rules_of(services).items() if path not in missing
        },
    )
    text = await key(conninfo)
    async with start_services(auth="api-key") as services:
        for method in (GET_CONTEXT, WATCH_JOB):
            refusal = await refused_with(services, text, method)
            assert refusal.code is grpc.StatusCode.PERMISSION_DENIED
        await called_with(services, text, LIST_JOBS, valid(LIST_JOBS))
    async with start_services() as services:  # also where everybody is let in
        refusal = await refused(services, GET_CONTEXT, valid(GET_CONTEXT))
        assert refusal.code is grpc.StatusCode.PERMISSION_DENIED


async def test_a_bound_key_may_spell_its_user_in_either_normal_form(
    guarded: Services, keys: str
) -> None:
    for given in ("Ho\u0302\u0300ng", "H\u1ed3ng"):
        text = await key(keys, user_id=given)
        for user in ("Ho\u0302\u0300ng", "H\u1ed3ng"):
            await called_with(guarded, text, GET_CONTEXT, retrieval.GetContextRequest(user_id=user))
            await called_with(guarded, text, SUBMIT, submit(transcript(user=user)))
        listed = await called_with(guarded, text, LIST_JOBS, extraction.ListJobsRequest())
        assert {job.user_id for job in listed.jobs} == {"H\u1ed3ng"}


async def test_memories_do_not_travel_in_clear_nor_to_whoever_asks(
    conninfo: str, tmp_path: Path
) -> None:
    """Without authentication on loopback only; for others with TLS, unless that is decided."""

    def settings(**given: Any) -> RetrievalSettings:
        return RetrievalSettings(database_url=conninfo, data_dir=tmp_path / "data", **given)

    for listen in ("0.0.0.0:0", ":0", "example.org:50051"):
        given = settings(auth="off", retrieval_listen=listen, insecure_listen=True)
        with pytest.raises(ValueError, match="loopback"), refusing(listen):
            await serve(given, listen, functools.partial(retrieval_process.running, given))
    clear: dict[str, Any] = {"retrieval_listen": "0.0.0.0:0", "auth": "api-key"}
    with pytest.raises(ValueError, match="HITHERTO_INSECURE_LISTEN"):
        async with retrieval_process.running(settings(**clear), conninfo):
            raise AssertionError("it listened")
    decided = settings(insecure_listen=True, **clear)
    async with retrieval_process.running(decided, conninfo) as server:
        assert server.port


_ROLES: list[Role] = ["hitherto_read", "hitherto_write", "hitherto_maintenance"]


async def test_services_play_a_role_that_is_no_superuser(
    services: Services, conninfo: str, superuser_conninfo: str
) -> None:
    """Every session of the services, and the login behind them."""
    await ask(services, "GetContext")
    async with await psycopg.AsyncConnection.connect(superuser_conninfo) as watcher:
        cursor = await watcher.execute(
            "SELECT DISTINCT s.application_name, r.rolname::text,"
            " r.rolsuper, r.rolcreaterole, r.rolbypassrls"
            " FROM pg_stat_activity s JOIN pg_roles r ON r.oid = s.usesysid"
            " WHERE s.datname = current_database() AND s.application_name ^@ 'hitherto'"
        )
        sessions = await cursor.fetchall()
        cursor = await watcher.execute(
            "SELECT count(*) FROM pg_roles WHERE rolname ^@ 'hitherto'"
            " AND (rolsuper OR rolcreatedb OR rolcreaterole OR rolbypassrls)"
        )
        powerful = await cursor.fetchone()
    # One login per role, and none that migrates.
    logins = {(session[0], session[1]) for session in sessions}
    assert logins == {
        ("hitherto-retrieval", "hitherto_read"),
        ("hitherto-retrieval-counters", "hitherto_read"),
        ("hitherto-retrieval-audit", "hitherto_read"),
        ("hitherto-extraction", "hitherto_write"),
        ("hitherto-extraction", "hitherto_maintenance"),
        ("hitherto-extraction", "hitherto_removal"),
    }
    assert all(not any(session[2:]) for session in sessions)
    assert powerful == (0,)
    for role in _ROLES:
        async with as_role(conninfo, role) as connection:
            answer = await connection.execute(
                "SELECT current_user, current_setting('is_superuser')"
            )
            assert answer.rows == [(role, "off")]


async def test_what_each_role_may_change(conninfo: str, superuser_conninfo: str) -> None:
    """Readers count accesses and write down who read; history and versions only grow; the owner
    alone deletes, but for idempotency keys that have had their day."""
    rights: dict[str, dict[str, set[str]]] = {}
    async with await psycopg.AsyncConnection.connect(superuser_conninfo) as connection:
        cursor = await connection.execute(
            "SELECT r.role, c.relname, p.privilege FROM pg_class c,"
            " unnest(%s::text[]) r(role),"
            " unnest(ARRAY['INSERT', 'UPDATE', 'DELETE', 'TRUNCATE']) p(privilege)"
            " WHERE c.relnamespace = 'hitherto'::regnamespace AND c.relkind IN ('r', 'p')"
            " AND has_table_privilege(r.role, c.oid, p.privilege)",
            [_ROLES],
        )
        for role, table, privilege in await cursor.fetchall():
            rights.setdefault(role, {}).setdefault(privilege, set()).add(table)
    assert rights["hitherto_read"] == {
        "INSERT": {"memory_access", "audit_events", "audit_read_counts", "query_usage"},
        "UPDATE": {"memory_access", "audit_read_counts", "query_usage"},
    }
    assert not rights["hitherto_write"].keys() & {"TRUNCATE"}
    assert not rights["hitherto_write"].get("UPDATE", set()) & {
        "history",
        "memory_versions",
        "profile_versions",
        "idempotency_keys",
        "api_keys",
    }
    assert "api_keys" not in rights["hitherto_write"]["INSERT"]
    content = {"memories", "messages", "conversations", "history", "profiles", "users", "jobs"}
    for role in _ROLES:
        assert not rights[role].get("DELETE", set()) & content
        assert "TRUNCATE" not in rights[role]


REFUSED: list[tuple[Role, str]] = [
    ("hitherto_read", "UPDATE memories SET content = 'x'"),
    ("hitherto_read", "SELECT * FROM idempotency_keys"),
    ("hitherto_write", "UPDATE history SET reason = 'x'"),
    ("hitherto_write", "CREATE TABLE hitherto.mine (n integer)"),
    ("hitherto_maintenance", "SET ROLE hitherto_admin"),
]


async def test_a_role_is_refused(conninfo: str) -> None:
    told = (psycopg.errors.InsufficientPrivilege, psycopg.errors.InvalidParameterValue)
    for role, statement in REFUSED:
        async with as_role(conninfo, role) as connection:
            with pytest.raises(told), refusing(statement):
                await connection.execute(statement)
