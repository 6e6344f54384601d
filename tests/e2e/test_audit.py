"""The audit log as it is written and read over the wire: requirement H6."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from datetime import UTC
from typing import Any
from uuid import UUID

import grpc
import psycopg
import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from hitherto.v1 import (
    job_pb2,
    memory_service_pb2,
    privacy_pb2,
    profile_pb2,
)
from hitherto.v1 import privacy_service_pb2 as pb
from hitherto_shared.database.embedded import EmbeddedPostgres
from hitherto_shared.identifiers import uuid7
from tests.conftest import as_superuser
from tests.e2e.conftest import Services, StartServices
from tests.e2e.credentials import bearer, key
from tests.e2e.curating import change
from tests.e2e.learning import ended, rows
from tests.e2e.masks import masked
from tests.e2e.methods import METHODS, OFFERED, SERVICES, ask, call, refused
from tests.e2e.requests import message, submit, transcript, valid
from tests.tenants import SUBJECT, Tenant
from tests.waiting import eventually

LIST = METHODS["PrivacyService/ListAuditEvents"]
SAVE = METHODS["MemoryService/SaveMemory"]
PROFILE = METHODS["RetrievalService/GetProfile"]
PROFILES = METHODS["RetrievalService/ListProfiles"]
SEARCH = METHODS["RetrievalService/SearchMemories"]
BOUND = 180.0
CANARY = "zq-heron-canary"

READS = {
    f"{service.name}/{method.name}"
    for service in SERVICES
    for method in service.methods
    if method.GetOptions().idempotency_level == 1
}
"""The calls that the contract declares free of side effects."""


_AT_THE_END = ("PrivacyService/EraseUser", "PrivacyService/ReinstateUser")


@pytest.fixture
def guarded(by_key: tuple[Services, str]) -> Services:
    """Both services with API keys required."""
    return by_key[0]


Keys = Callable[..., Awaitable[str]]


@pytest.fixture
def keys(by_key: tuple[Services, str], tenant: Tenant) -> Keys:
    """Makes keys of this test's tenant, which `guarded` admits."""
    return functools.partial(key, by_key[1], tenant.tenant_id)


@pytest.fixture
def keys_conninfo(by_key: tuple[Services, str], tenant: Tenant, postgres: EmbeddedPostgres) -> str:
    """The database of `guarded` without any other tenant."""
    return tenant.rows_of(as_superuser(postgres, by_key[1]))


async def log(services: Services, credential: str = "", **filters: Any) -> list[Any]:
    """The whole log, newest first, page by page."""
    found: list[privacy_pb2.AuditEvent] = []
    token = ""
    while True:
        (page,) = await call(
            services,
            LIST,
            pb.ListAuditEventsRequest(page_token=token, **filters),
            metadata=bearer(credential) if credential else (),
        )
        found += page.audit_events
        token = page.next_page_token
        if not token:
            return found


def dump(conninfo: str) -> str:
    """Every row of the tables of the audit log, as text."""
    tables = ("audit_events", "audit_read_counts", "audit_digests")
    return "\n".join(
        str(row) for table in tables for row in rows(conninfo, f"SELECT t::text FROM {table} AS t")
    )


async def save(
    services: Services, content: str, *, user: str = "ana", request_key: str = ""
) -> Any:
    return await ask(
        services, "SaveMemory", user_id=user, content=content, idempotency_key=request_key
    )


async def test_h6_every_change_is_in_the_log_and_nothing_that_was_refused(
    services: Services,
) -> None:
    """A new RPC that changes something and is not written down fails here."""
    changing = [method for method in OFFERED if method.name not in READS]
    # Who is erased can do nothing of the rest.
    changing.sort(key=lambda method: method.name in _AT_THE_END)
    assert len(changing) > 20
    done = set()
    for method in changing:
        request = valid(method)
        try:
            replies = await call(services, method, request)
        except grpc.aio.AioRpcError:
            assert not await log(services, methods=[method.path]), method.name
            continue
        if any(getattr(reply, "rejected_count", 0) for reply in replies):
            continue
        done.add(method.name)
        found = await log(services, methods=[method.path])
        assert found, method.name
        assert {event.actor for event in found} == {SUBJECT}
        assert all(event.count == 1 for event in found)
    # Of these it is known that a valid request alone succeeds.
    assert done >= {
        "ExtractionService/SubmitTranscripts",
        "ExtractionService/AppendMessages",
        "ExtractionService/IngestDocuments",
        "ExtractionService/StreamTranscripts",
        "MemoryService/SaveMemory",
        "MemoryService/StreamMemories",
        "MemoryService/UpdateProfile",
        "SessionService/UpdateSession",
        "MaintenanceService/RunDecay",
        "MaintenanceService/RunRetention",
        "MaintenanceService/Consolidate",
        "PrivacyService/UpdateUserSettings",
        "PrivacyService/ClearMemories",
        "PrivacyService/ImportUser",
        "PrivacyService/EraseUser",
    }, changing


async def test_h6_a_replayed_call_is_in_the_log_once_and_so_are_exports_and_erasures(
    services: Services,
) -> None:
    first = await save(services, "tea", request_key="k1")
    again = await save(services, "tea", request_key="k1")
    assert again.memory.id == first.memory.id
    (event,) = await log(services, methods=[SAVE.path])
    assert list(event.resource_ids) == [first.memory.id]
    assert UUID(event.id).version == 7
    async with asyncio.timeout(BOUND):
        replies = await asyncio.gather(
            *(save(services, "coffee", request_key="k2") for _ in range(8))
        )
    assert len({reply.memory.id for reply in replies}) == 1
    assert len(await log(services, methods=[SAVE.path])) == 2
    export = METHODS["PrivacyService/ExportUser"]
    await call(services, export, valid(export))
    (event,) = await log(services, methods=[export.path])
    assert len(event.user_hash) == 64
    erase = METHODS["PrivacyService/EraseUser"]
    for _ in range(2):
        await call(services, erase, pb.EraseUserRequest(user_id="ana"))
    assert len(await log(services, methods=[erase.path])) == 1


async def profile(
    services: Services, credential: str, request_key: str = "", **fields: Any
) -> None:
    """Change a profile, Ana's unless it is another `user`'s."""
    request = memory_service_pb2.UpdateProfileRequest(
        user_id=fields.pop("user", "ana"),
        profile=profile_pb2.Profile(**fields),
        idempotency_key=request_key,
    )
    await services.memory.UpdateProfile(masked(request), metadata=bearer(credential))


async def test_h6_a_replay_that_tells_of_others_is_a_read_of_them(
    guarded: Services, keys: Keys
) -> None:
    """What a repeated call is told may have been written by others since the first one."""
    manager = await keys(capabilities=["profiles.manage"])
    seller = await keys(departments=["sales"], capabilities=["profiles.manage"])
    office = await keys()

    async def noted() -> int:
        return len(await log(guarded, office, user_id="ana"))

    await profile(guarded, manager, department="sales")
    await profile(guarded, seller, "k", summary="Sells.")
    before = await noted()
    await profile(guarded, seller, "k", summary="Sells.")
    assert await noted() == before + 1
    await profile(guarded, manager, "m", summary="Sells more.")
    before = await noted()
    await profile(guarded, manager, "m", summary="Sells more.")
    assert await noted() == before


async def test_h6_what_is_rolled_back_is_not_in_the_log(
    services: Services, superuser_conninfo: str
) -> None:
    """The entry and the change are one transaction: where the log cannot be written, nothing is."""
    with psycopg.connect(superuser_conninfo, autocommit=True) as admin:
        admin.execute("REVOKE INSERT ON audit_events FROM hitherto_write")
    with pytest.raises(grpc.aio.AioRpcError):
        await save(services, "tea")
    assert rows(superuser_conninfo, "SELECT count(*) FROM memories") == [(0,)]


async def test_h6_a_batch_is_an_entry_for_each_user_with_that_users_jobs(
    services: Services,
) -> None:
    reply = await services.extraction.SubmitTranscripts(
        submit(transcript(), transcript(user="bo"), transcript(conversation="c2"))
    )
    by_user: dict[str, set[str]] = {}
    for job in reply.jobs:
        by_user.setdefault(job.user_id, set()).add(job.id)
    path = METHODS["ExtractionService/SubmitTranscripts"].path
    for user, jobs in by_user.items():
        (event,) = await log(services, methods=[path], user_id=user)
        assert set(event.resource_ids) == jobs
    assert len(await log(services, methods=[path])) == 2


async def test_h6_no_contents_and_no_ids_that_callers_chose(services: Services) -> None:
    """A user's own UUID is not kept as a resource either."""
    user, conversation = f"{CANARY}-user", f"{CANARY}-conversation"
    accepted = await services.extraction.SubmitTranscripts(
        submit(transcript(message(f"I like {CANARY} tea"), user=user, conversation=conversation))
    )
    await ended(services, accepted.jobs[0].id)
    await save(services, f"likes {CANARY}", user=user)
    update = METHODS["SessionService/UpdateSession"]
    own = "0195c0de-0000-7000-8000-00000000c0de"
    for who, session in ((user, f"{CANARY}-session"), (own, own)):
        await call(services, update, update.request(user_id=who, session_id=session))
    (event,) = await log(services, user_id=own)
    assert list(event.resource_ids) == []
    await ask(services, "DeleteConversation", user_id=user, conversation_id=conversation)
    await ask(services, "SearchMemories", user_id=user, query=CANARY)

    async def searched() -> bool:
        return bool(await log(services, methods=[SEARCH.path]))

    await eventually(searched, "the search to be counted", seconds=BOUND)
    text = dump(services.conninfo)
    assert "SearchMemories" in text
    assert "DeleteConversation" in text
    assert CANARY not in text
    assert own not in text


async def test_h6_filters_order_and_pages(services: Services, tenant: Tenant) -> None:
    for i in range(7):
        await save(services, f"fact number {i} about {'tea' * (i + 1)}")
    await save(services, "coffee", user="bo")
    ours = [SAVE.path]
    whole = await log(services, page_size=3, methods=ours)
    assert len(whole) == 8
    times = [event.created_at.ToDatetime(UTC) for event in whole]
    assert times == sorted(times, reverse=True)
    assert len({event.id for event in whole}) == 8
    of_ana = await log(services, user_id="ana", methods=ours)
    assert len(of_ana) == 7
    assert {event.user_hash for event in of_ana}.isdisjoint({whole[0].user_hash})
    assert await log(services, actor="nobody") == []
    assert len(await log(services, actor=SUBJECT, methods=ours)) == 8
    middle = Timestamp()
    middle.CopyFrom(whole[4].created_at)
    assert await log(services, created_after=middle, methods=ours) == whole[:5]
    assert await log(services, created_before=middle, methods=ours) == whole[5:]
    (page,) = await call(services, LIST, pb.ListAuditEventsRequest(page_size=2))
    for request, field in (
        (pb.ListAuditEventsRequest(page_token="broken"), "page_token"),
        (
            pb.ListAuditEventsRequest(page_token=page.next_page_token, user_id="ana"),
            "page_token",
        ),
        (pb.ListAuditEventsRequest(methods=["x" * 201]), "methods[0]"),
    ):
        assert set((await refused(services, LIST, request)).fields) == {field}
    # Those of one transaction have the same time.
    ids = [uuid7() for _ in range(5)]
    with psycopg.connect(services.conninfo) as connection:
        for event_id in ids:
            connection.execute(
                "INSERT INTO audit_events (tenant_id, event_id, created_at, actor, method,"
                " user_hash, resource_ids, count)"
                " VALUES (%s, %s, now(), 'test', 'Together', '', '{}', 1)",
                [tenant.tenant_id, event_id],
            )
    for size in (1, 2, 4):
        found = await log(services, page_size=size, methods=["Together"])
        assert [UUID(event.id) for event in found] == sorted(ids, reverse=True), size


async def test_h6_a_log_is_of_one_tenant_and_for_administrators(
    guarded: Services, keys: Keys, by_key: tuple[Services, str], tenant: Tenant
) -> None:
    """Row 60: another tenant's page token is refused too."""
    a, b = await keys(), await key(by_key[1], f"{tenant.tenant_id}-b", name="other")
    for _ in range(3):
        await call(guarded, SAVE, valid(SAVE), metadata=bearer(a))
    assert {
        event.actor.rpartition(":")[2] for event in await log(guarded, a, methods=[SAVE.path])
    } == {"test"}
    assert [event for event in await log(guarded, b) if event.method == SAVE.path] == []
    (page,) = await call(guarded, LIST, pb.ListAuditEventsRequest(page_size=1), metadata=bearer(a))
    assert page.next_page_token
    refusal = await refused(
        guarded,
        LIST,
        pb.ListAuditEventsRequest(page_size=1, page_token=page.next_page_token),
        metadata=bearer(b),
    )
    assert set(refusal.fields) == {"page_token"}
    reader = await keys(scopes=["read", "write", "maintenance"])
    assert (
        await refused(guarded, LIST, pb.ListAuditEventsRequest(), metadata=bearer(reader))
    ).reason == "SCOPE_MISSING"


async def test_h6_jobs_are_in_the_log_under_their_kind_and_name_the_users_they_changed(
    services: Services,
) -> None:
    accepted = await services.extraction.SubmitTranscripts(
        submit(transcript(message("My name is John and I work with Docker."), user="cy"))
    )
    job = accepted.jobs[0].id
    await ended(services, job)
    (event,) = await log(services, methods=["memory-extraction"])
    assert (event.actor, list(event.resource_ids)) == ("extraction", [job])
    assert (await log(services, user_id="cy", methods=["memory-extraction"])) == [event]

    async def decay() -> None:
        ran = await ask(services, "RunDecay", user_id="")
        assert (await ended(services, ran.job.id)).state == job_pb2.JOB_STATE_SUCCEEDED
        every = await log(services, methods=["decay"])
        of_run = [each.user_hash for each in every if list(each.resource_ids) == [ran.job.id]]
        assert of_run.count("") == 1

    await decay()
    for user in ("ana", "bo"):
        await save(services, f"minor thing of {user}", user=user)
    change(
        services.conninfo,
        "UPDATE memories SET importance = 0.1, created_at = created_at - interval '1 year',"
        " updated_at = updated_at - interval '1 year',"
        " valid_from = valid_from - interval '1 year' WHERE user_id <> 'cy'",
    )
    change(services.conninfo, "DELETE FROM memory_access")
    await decay()
    archived = rows(
        services.conninfo, "SELECT user_id FROM memories WHERE status = 'archived' ORDER BY 1"
    )
    assert archived == [("ana",), ("bo",)]
    for user, times in (("ana", 1), ("bo", 1), ("cy", 0)):
        assert len(await log(services, user_id=user, methods=["decay"])) == times


async def test_h6_reads_of_services_are_counted_by_key_call_user_and_hour(
    guarded: Services, keys: Keys, keys_conninfo: str
) -> None:
    service = await keys()
    for user in ("ana", "ana", "ana", "bo"):
        request = SEARCH.request(user_id=user, query="tea")
        await call(guarded, SEARCH, request, metadata=bearer(service))

    async def counted(**filters: Any) -> int:
        found = await log(guarded, service, methods=[SEARCH.path], **filters)
        return sum(event.count for event in found)

    async def all_counted() -> bool:
        return await counted() == 4

    await eventually(all_counted, "the reads to be counted", seconds=BOUND)
    assert (await counted(user_id="ana"), await counted(user_id="bo")) == (3, 1)
    hours = rows(keys_conninfo, "SELECT count(DISTINCT hour) FROM audit_read_counts")[0][0]
    kept = rows(
        keys_conninfo,
        "SELECT count(*) FROM audit_read_counts WHERE method LIKE '%/SearchMemories'",
    )[0][0]
    assert kept <= 2 * hours
    assert CANARY not in dump(keys_conninfo)


async def test_h6_what_a_person_reads_of_others_is_written_before_the_reply(
    start_services: StartServices, conninfo: str
) -> None:
    """Of a list, everybody whom it showed."""
    async with start_services(auth="api-key") as guarded:
        service = await key(conninfo)
        for user, department in (("ana", "sales"), ("bo", "sales"), ("cy", "law")):
            await profile(guarded, service, user=user, summary="x", department=department)
        person = bearer(await key(conninfo, scopes=["read"], user_id="ana", departments=["sales"]))

        async def read(user: str) -> None:
            await call(guarded, PROFILE, PROFILE.request(user_id=user), metadata=person)

        await read("ana")
        assert rows(
            guarded.conninfo, "SELECT count(*) FROM audit_events WHERE method LIKE '%/GetProfile'"
        ) == [(0,)]
        await read("bo")
        (shown,) = await call(guarded, PROFILES, PROFILES.request(), metadata=person)
        assert [each.user_id for each in shown.profiles] == ["ana", "bo"]
        for method in (PROFILE, PROFILES):
            (event,) = await log(guarded, service, methods=[method.path])
            assert event.count == 1
            assert [event] == await log(guarded, service, methods=[method.path], user_id="bo")
        with psycopg.connect(guarded.conninfo, autocommit=True) as admin:
            admin.execute("REVOKE INSERT ON audit_events FROM hitherto_read")
        told = await refused(guarded, PROFILE, PROFILE.request(user_id="bo"), metadata=person)
        assert (told.code, told.reason) == (grpc.StatusCode.UNAVAILABLE, "DATABASE_UNAVAILABLE")
        await read("ana")
