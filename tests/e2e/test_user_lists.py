"""Credentials that may act for a fixed list of users: lists of things, the audit log, leaving.

Row 61 of the fault catalogue, row 58 for what an export tells of keys, row 55 for what an erasure
leaves. The matrix of all calls stands in test_rights.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
from google.protobuf.message import Message

from hitherto.v1 import extraction_service_pb2 as extraction
from hitherto.v1 import maintenance_service_pb2 as maintenance
from hitherto.v1 import privacy_service_pb2 as privacy
from hitherto.v1 import retrieval_service_pb2 as retrieval
from hitherto_extraction.storage import erasure
from hitherto_shared.auth.api_keys import find_principal
from hitherto_shared.auth.principal import Principal
from hitherto_shared.database.embedded import EmbeddedPostgres
from hitherto_shared.models import Scope
from tests.conftest import as_superuser
from tests.e2e.conftest import Services
from tests.e2e.credentials import as_role, bearer, key
from tests.e2e.learning import rows
from tests.e2e.leaving import export
from tests.e2e.methods import METHODS, Refusal, call, refused
from tests.e2e.requests import message, submit, transcript
from tests.refusing import refusing
from tests.tenants import Tenant

GET_CONTEXT = METHODS["RetrievalService/GetContext"]
SUBMIT = METHODS["ExtractionService/SubmitTranscripts"]
LIST_JOBS = METHODS["ExtractionService/ListJobs"]
WATCH_JOB = METHODS["ExtractionService/WatchJob"]
GET_USAGE = METHODS["MaintenanceService/GetUsage"]
ERASE = METHODS["PrivacyService/EraseUser"]
AUDIT = METHODS["PrivacyService/ListAuditEvents"]


@dataclass(frozen=True)
class Guarded:
    """Both services with authentication on."""

    services: Services
    conninfo: str
    tenant: str

    async def key(self, tenant: str = "", **given: Any) -> str:
        return await key(self.conninfo, tenant or self.tenant, **given)

    async def ask(self, text: str, name: str, request: Message) -> Any:
        return (await call(self.services, METHODS[name], request, metadata=bearer(text)))[-1]

    async def refuse(self, text: str, name: str, request: Message) -> Refusal:
        return await refused(self.services, METHODS[name], request, metadata=bearer(text))

    async def holder(self, text: str) -> Principal | None:
        """The caller behind a key as it is now, without what a service remembers."""
        async with as_role(self.conninfo, "hitherto_read") as connection:
            return await find_principal(connection, text)


@pytest.fixture
def guarded(by_key: tuple[Services, str], tenant: Tenant) -> Guarded:
    return Guarded(*by_key, tenant.tenant_id)


async def test_jobs_and_usage_are_those_of_the_list(guarded: Guarded) -> None:
    """What is left out is refused: see the matrix of all calls."""
    service = await guarded.key()
    duo = await guarded.key(user_ids=["ana", "bo"])
    jobs = {}
    for user in ("ana", "bo", "cleo"):
        batch = submit(transcript(message(f"I am {user}."), user=user))
        jobs[user] = (await guarded.ask(service, SUBMIT.name, batch)).jobs[0].id
        watch = extraction.WatchJobRequest(job_id=jobs[user])
        await guarded.ask(service, WATCH_JOB.name, watch)
    for user in ("ana", "bo"):
        request = extraction.ListJobsRequest(user_id=user)
        listed = await guarded.ask(duo, LIST_JOBS.name, request)
        assert [job.id for job in listed.jobs] == [jobs[user]]
        assert listed.total_size == 1
        used = await guarded.ask(
            duo,
            GET_USAGE.name,
            maintenance.GetUsageRequest(user_id=user, group_by=[maintenance.USAGE_DIMENSION_USER]),
        )
        assert {row.user_id for row in used.rows} <= {user}
    # A page token of everybody's list shows nothing of others.
    first = await guarded.ask(service, LIST_JOBS.name, extraction.ListJobsRequest(page_size=1))
    request = extraction.ListJobsRequest(user_id="ana", page_token=first.next_page_token)
    assert (await guarded.refuse(duo, LIST_JOBS.name, request)).reason == "INVALID_PAGE_TOKEN"


async def test_reads_of_the_list_are_reads_of_others(guarded: Guarded) -> None:
    """H6: written down before the reply, by the id of the key without its name."""
    service = await guarded.key()
    await guarded.ask(service, SUBMIT.name, submit(transcript()))
    duo = await guarded.key(name="Ana and Bo", user_ids=["ana", "bo"])
    await guarded.ask(duo, GET_CONTEXT.name, retrieval.GetContextRequest(user_id="ana"))
    asked = privacy.ListAuditEventsRequest(user_id="ana", methods=[GET_CONTEXT.path])
    (event,) = (await guarded.ask(service, AUDIT.name, asked)).audit_events
    assert event.actor == f"key:{duo.split('_')[1]}"
    # Whoever erases needs the scope: the relief for oneself is not for a list.
    request = privacy.EraseUserRequest(user_id="ana")
    writer = await guarded.key(user_ids=["ana"], scopes=["write"])
    assert (await guarded.refuse(writer, ERASE.name, request)).reason == "SCOPE_MISSING"
    admin = await guarded.key(user_ids=["ana"], scopes=["admin"])
    theirs = privacy.EraseUserRequest(user_id="bo")
    assert (await guarded.refuse(admin, ERASE.name, theirs)).reason == "USER_NOT_ALLOWED"
    await guarded.ask(admin, ERASE.name, request)
    # With its last user it has ended.
    assert await guarded.holder(admin) is None


async def test_who_is_erased_is_on_no_list(guarded: Guarded, postgres: EmbeddedPostgres) -> None:
    """H2: the other users stay on theirs; a key without anybody ends and opens nothing."""
    office = await guarded.key()
    duo = await guarded.key(user_ids=["ana", "bo"])
    alone = await guarded.key(user_ids=["ana"])
    wide = await guarded.key(user_ids=["ana"], departments=["sales"])
    elsewhere = await guarded.key(f"{guarded.tenant}-b", user_ids=["ana"])
    plain = await guarded.key(user_ids=["bo"])
    await guarded.ask(office, SUBMIT.name, submit(transcript()))
    reply = await guarded.ask(office, ERASE.name, privacy.EraseUserRequest(user_id="ana"))
    assert reply.receipt.counts["api_keys"] == 3

    held = await guarded.holder(duo)
    assert held is not None
    assert (held.users, held.unbound) == (frozenset({"bo"}), False)
    assert await guarded.holder(alone) is None
    assert await guarded.holder(wide) is None
    theirs = await guarded.holder(elsewhere)
    assert theirs is not None
    assert theirs.users == frozenset({"ana"})
    assert await guarded.holder(plain) is not None
    left = rows(
        as_superuser(postgres, guarded.conninfo),
        "SELECT tenant_id, user_ids, revoked_at IS NULL FROM hitherto.api_keys"
        f" WHERE tenant_id ^@ '{guarded.tenant}' AND user_ids IS NOT NULL ORDER BY created_at",
    )
    assert [row[1:] for row in left if row[0] == guarded.tenant] == [
        (["bo"], True), ([], False), ([], False), (["bo"], True)
    ]  # fmt: skip
    assert [row[1:] for row in left if row[0] != guarded.tenant] == [(["ana"], True)]
    # Erased once more, nothing changes.
    again = await guarded.ask(office, ERASE.name, privacy.EraseUserRequest(user_id="ana"))
    assert again.receipt == reply.receipt


async def test_an_erasure_is_not_over_while_a_list_names_the_person(conninfo: str) -> None:
    """And the roles of the services cannot widen a list."""
    await key(conninfo, user_ids=["ana", "bo"])
    async with as_role(conninfo, "hitherto_removal") as connection:
        with pytest.raises(erasure.RowsRemain):
            await erasure.require_none_left(connection.of(Scope("a", "ana")), [])
        await erasure.require_none_left(connection.of(Scope("a", "cleo")), [])
        await erasure.require_none_left(connection.of(Scope("b", "ana")), [])
    for role in ("hitherto_read", "hitherto_write"):
        async with as_role(conninfo, role) as connection:
            with pytest.raises(psycopg.errors.InsufficientPrivilege), refusing(role):
                await connection.execute("UPDATE api_keys SET user_ids = NULL")


async def test_an_export_tells_of_lists_without_the_others(
    services: Services, conninfo: str
) -> None:
    """Row 58: which keys reach the person, and neither their secrets nor who else is on them."""
    text = await key(conninfo, "default", name="duo", user_ids=["ana", "kanari-bo"])
    await key(conninfo, "default", user_ids=["kanari-bo"])
    await key(conninfo, "other", user_ids=["ana"])
    own = await key(conninfo, "default", user_id="ana")
    found = await export(services, "ana")
    assert found.manifest.counts["api_keys"] == 2
    held = {row["key_id"]: row for row in found.of("api_keys")}
    listed = held[text.split("_")[1]]
    assert (listed["user_ids"], listed["name"], listed["user_id"]) == (["ana"], "duo", None)
    assert held[own.split("_")[1]]["user_ids"] is None
    assert all("secret_hash" not in row for row in held.values())
    assert "kanari-bo" not in found.text
