"""Tenant A's credential with everything that is tenant B's, over every RPC of the contract.

Row 60 of the fault catalogue: resource ids are NOT_FOUND, reads about a user are empty, idempotency
keys are independent, page tokens are INVALID_ARGUMENT, and nothing of tenant B changes. A new RPC,
a new field that holds an id and a new list fail here until they are listed.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from hitherto.v1 import conversation_pb2, job_pb2, profile_pb2
from hitherto.v1 import extraction_service_pb2 as extraction
from hitherto.v1 import maintenance_service_pb2 as maintenance
from hitherto.v1 import memory_service_pb2 as memory
from hitherto.v1 import session_service_pb2 as session
from tests.e2e.conftest import Services, StartServices
from tests.e2e.credentials import bearer, key
from tests.e2e.handing_over import document
from tests.e2e.learning import rows
from tests.e2e.masks import masked
from tests.e2e.methods import METHODS, OFFERED, Method, call, refused
from tests.e2e.requests import message, places, submit, transcript, valid
from tests.tenants import without_row_security
from tests.waiting import eventually

SAVE = METHODS["MemoryService/SaveMemory"]
REEMBED = METHODS["MaintenanceService/Reembed"]

EMPTY = "empty"
"""A read: it answers as for somebody nobody has heard of."""
OWN = "own"
"""A change: it takes effect in the caller's tenant, or finds nothing to change there."""

ANSWERS = {
    "RetrievalService/GetContext": EMPTY,
    "RetrievalService/SearchMemories": EMPTY,
    "RetrievalService/GetMemory": "MEMORY_NOT_FOUND",
    "RetrievalService/ListMemories": EMPTY,
    "RetrievalService/GetMemoryHistory": "MEMORY_NOT_FOUND",
    "RetrievalService/GetProfile": "PROFILE_NOT_FOUND",
    "RetrievalService/ListProfiles": EMPTY,
    "RetrievalService/GetProfileHistory": EMPTY,
    "RetrievalService/GetConversation": "CONVERSATION_NOT_FOUND",
    "RetrievalService/ListDocuments": EMPTY,
    "RetrievalService/GetDocument": "DOCUMENT_NOT_FOUND",
    "RetrievalService/ListConversations": EMPTY,
    "RetrievalService/GetRecentConversations": EMPTY,
    "RetrievalService/FindEntities": EMPTY,
    "RetrievalService/GetSuggestions": EMPTY,
    "RetrievalService/GetSession": EMPTY,
    "RetrievalService/WatchMemories": EMPTY,
    "ExtractionService/SubmitTranscripts": OWN,
    "ExtractionService/StreamTranscripts": OWN,
    "ExtractionService/AppendMessages": OWN,
    "ExtractionService/EndConversation": "CONVERSATION_NOT_FOUND",
    "ExtractionService/PreviewExtraction": EMPTY,
    "ExtractionService/IngestDocuments": OWN,
    "ExtractionService/DeleteDocument": "DOCUMENT_NOT_FOUND",
    "ExtractionService/GetJob": "JOB_NOT_FOUND",
    "ExtractionService/ListJobs": EMPTY,
    "ExtractionService/WatchJob": "JOB_NOT_FOUND",
    "ExtractionService/RetryJob": "JOB_NOT_FOUND",
    "ExtractionService/CancelJob": "JOB_NOT_FOUND",
    "MemoryService/StreamMemories": OWN,
    "MemoryService/SaveMemory": OWN,
    "MemoryService/UpdateMemory": "MEMORY_NOT_FOUND",
    "MemoryService/ForgetMemory": "MEMORY_NOT_FOUND",
    "MemoryService/RestoreMemory": "MEMORY_NOT_FOUND",
    "MemoryService/ReviewMemory": "MEMORY_NOT_FOUND",
    "MemoryService/UpdateProfile": OWN,
    "MemoryService/RecordFeedback": "MESSAGE_NOT_FOUND",
    "SessionService/UpdateSession": OWN,
    "SessionService/AddPendingAction": OWN,
    "SessionService/ResolvePendingAction": "PENDING_ACTION_NOT_FOUND",
    "MaintenanceService/Consolidate": OWN,
    "MaintenanceService/UndoConsolidation": "MEMORY_NOT_FOUND",
    "MaintenanceService/RunDecay": OWN,
    "MaintenanceService/RunRetention": OWN,
    "MaintenanceService/Reembed": "USER_NOT_ALLOWED",
    "MaintenanceService/ListSchedules": EMPTY,
    "MaintenanceService/GetUsage": EMPTY,
    "MaintenanceService/RollbackSource": OWN,
    "MaintenanceService/CreateWebhook": OWN,
    "MaintenanceService/ListWebhooks": EMPTY,
    "MaintenanceService/DeleteWebhook": "WEBHOOK_NOT_FOUND",
    "MaintenanceService/ListWebhookDeliveries": EMPTY,
    "MaintenanceService/RetryWebhookDelivery": "WEBHOOK_DELIVERY_NOT_FOUND",
    "PrivacyService/ReinstateUser": OWN,
    "PrivacyService/ExportUser": EMPTY,
    "PrivacyService/ImportUser": OWN,
    "PrivacyService/EraseUser": OWN,
    "PrivacyService/ClearMemories": OWN,
    "PrivacyService/DeleteConversation": "CONVERSATION_NOT_FOUND",
    "PrivacyService/GetUserSettings": EMPTY,
    "PrivacyService/UpdateUserSettings": OWN,
    "PrivacyService/ListAuditEvents": EMPTY,
}

THEIRS = {
    "user_id", "conversation_id", "memory_id", "document_id", "job_id", "session_id", "message_id",
    "before_message_id", "pending_action_id", "webhook_id", "delivery_id",
}  # fmt: skip
"""Fields that may name something of another tenant."""
CALLERS_NAMES = {
    "hitherto.v1.Message.id",
    "hitherto.v1.ContextItem.id",
    "hitherto.v1.Document.source_id",
}
"""Ids that the caller makes up for what it sends."""
IGNORED = {
    # Refused for another reason than the id beside it: tests/e2e/test_webhooks.py asks with it.
    "hitherto.v1.RetryWebhookDeliveryRequest.webhook_id",
    "hitherto.v1.Doubt.because_memory_id",
    "hitherto.v1.Document.id",
    "hitherto.v1.Memory.id",
    "hitherto.v1.Memory.job_id",
    "hitherto.v1.Memory.user_id",
    "hitherto.v1.Memory.conversation_id",
    "hitherto.v1.Message.conversation_id",
    "hitherto.v1.Profile.user_id",
    "hitherto.v1.SourceRef.conversation_id",
    "hitherto.v1.SourceRef.message_id",
}
"""Ids of a reply that stand in messages which requests have as well."""
LISTS = {
    "RetrievalService/ListMemories", "RetrievalService/GetMemoryHistory",
    "RetrievalService/ListProfiles", "RetrievalService/GetProfileHistory",
    "RetrievalService/ListDocuments", "RetrievalService/ListConversations",
    "ExtractionService/ListJobs", "MaintenanceService/ListSchedules", "MaintenanceService/GetUsage",
    "MaintenanceService/ListWebhooks", "MaintenanceService/ListWebhookDeliveries",
    "PrivacyService/ListAuditEvents",
}  # fmt: skip
"""What hands out page tokens."""
LAST = ("PrivacyService/EraseUser", "PrivacyService/ReinstateUser")
"""After these the user can be written about no more."""

_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}|act_[0-9a-f]{8}")
CANARY = "Porto"
_UNFINISHED = "SELECT 1 FROM hitherto.jobs WHERE tenant_id = 'b' AND finished_at IS NULL"
_UNTOLD = "SELECT 1 FROM hitherto.memory_changes WHERE position IS NULL"
_A_DELIVERY = "SELECT delivery_id::text FROM hitherto.webhook_deliveries LIMIT 1"
INTERNAL = (grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN)


@dataclass(frozen=True)
class Houses:
    """Both services, a key of each tenant, and what the second one has."""

    services: Services
    ours: str
    theirs: str
    ids: dict[str, str]
    """Ids of tenant B by field."""

    async def ask(self, text: str, method: Method, request: Message) -> Any:
        return (await call(self.services, method, request, metadata=bearer(text)))[-1]

    async def answer(self, text: str, method: Method, request: Message) -> Message | str:
        """The reply, or the reason of the refusal."""
        try:
            reply: Message = await self.ask(text, method, request)
        except grpc.aio.AioRpcError:
            refusal = await refused(self.services, method, request, metadata=bearer(text))
            assert refusal.code not in INTERNAL, method.name
            assert CANARY not in refusal.everything
            return refusal.reason
        return reply


def id_fields(message: Any, seen: tuple[Any, ...] = ()) -> Iterator[FieldDescriptor]:
    """Every field of a request, at any depth, that looks like an id."""
    for field in message.fields:
        if field.type == field.TYPE_STRING and (
            field.name in ("id", "ids") or field.name.endswith(("_id", "_ids"))
        ):
            yield field
        inner = field.message_type
        if inner is not None and inner.file.package == "hitherto.v1" and inner not in seen:
            yield from id_fields(inner, (*seen, inner))


def test_every_rpc_and_every_field_with_an_id_is_in_the_matrix() -> None:
    assert set(ANSWERS) == set(METHODS)
    paged = {
        name
        for name, method in METHODS.items()
        if "page_token" in method.request.DESCRIPTOR.fields_by_name
    }
    assert paged == LISTS
    listed = CALLERS_NAMES | IGNORED
    for method in METHODS.values():
        for field in id_fields(method.request.DESCRIPTOR):
            known = field.full_name in listed or field.name in THEIRS or field.is_repeated
            assert known, f"{field.full_name} is new: who may name what in it?"
            assert not field.is_repeated or field.full_name in {
                "hitherto.v1.Message.context_item_ids",
                "hitherto.v1.Message.pending_action_ids",
                "hitherto.v1.Memory.source_message_ids",
                "hitherto.v1.ProfileSource.memory_ids",
            }, f"{field.full_name} is new: who may name what in it?"


@pytest.fixture
async def houses(
    start_services: StartServices, conninfo: str, superuser_conninfo: str
) -> AsyncIterator[Houses]:
    """Tenant B knows ana well; tenant A has never heard of anybody.

    Only statements keep them apart: no policy hides what one forgets.
    """
    without_row_security(superuser_conninfo)
    async with start_services(auth="api-key") as services:
        houses = Houses(services, await key(conninfo, "a"), await key(conninfo, "b"), {})
        webhook_id = await add_webhooks(houses, superuser_conninfo)
        await furnish(houses)
        # What was changed by hand is looked at by jobs, which write too.
        await eventually(lambda: not rows(superuser_conninfo, _UNFINISHED), seconds=180)
        await eventually(lambda: not rows(superuser_conninfo, _UNTOLD), seconds=180)
        [[delivery_id]] = rows(superuser_conninfo, _A_DELIVERY)
        houses.ids.update(webhook_id=webhook_id, delivery_id=delivery_id)
        yield houses


async def add_webhooks(houses: Houses, conninfo: str) -> str:
    """Two webhooks of tenant B, which are disabled: their deliveries wait. The id of one."""
    method = METHODS["MaintenanceService/CreateWebhook"]
    for _ in range(2):
        made = await houses.ask(houses.theirs, method, valid(method))
    disabled = (
        "UPDATE hitherto.webhooks SET disabled_at = now(), disabled_reason = 'test' RETURNING 1"
    )
    assert len(rows(conninfo, disabled)) == 2
    return str(made.webhook.id)


async def furnish(houses: Houses) -> None:
    """Give tenant B two of everything that is listed, and one of everything that has an id."""

    async def ask(name: str, request: Message) -> Any:
        return await houses.ask(houses.theirs, METHODS[name], request)

    fine = conversation_pb2.Message(id="m2", role=conversation_pb2.ROLE_ASSISTANT, content="Fine.")
    talks = [
        transcript(message(line, id="m1"), fine, conversation=f"c{number}")
        for number, line in ((1, f"I live in {CANARY}."), (2, f"My dog {CANARY} likes tea."))
    ]
    accepted = await ask("ExtractionService/SubmitTranscripts", submit(*talks))
    jobs = [job.id for job in accepted.jobs]
    papers = [document(f"d{number}", title=CANARY) for number in (1, 2)]
    taken = await ask(
        "ExtractionService/IngestDocuments",
        extraction.IngestDocumentsRequest(user_id="ana", documents=papers),
    )
    for job_id in (*jobs, taken.job.id):
        watched = await ask("ExtractionService/WatchJob", extraction.WatchJobRequest(job_id=job_id))
        assert watched.job.state == job_pb2.JOB_STATE_SUCCEEDED
    saved = await ask(
        "MemoryService/SaveMemory",
        memory.SaveMemoryRequest(user_id="ana", content=f"Loves {CANARY}.", conversation_id="c1"),
    )
    updating = memory.UpdateMemoryRequest(user_id="ana", memory_id=saved.memory.id)
    updating.memory.content = f"Adores {CANARY}."
    updating.update_mask.paths.append("content")
    await ask("MemoryService/UpdateMemory", updating)
    for user, summary in (("ana", CANARY), ("ana", f"{CANARY}, still."), ("bo", CANARY)):
        profile = profile_pb2.Profile(summary=summary, department="sales")
        changing = memory.UpdateProfileRequest(user_id=user, profile=profile)
        await ask("MemoryService/UpdateProfile", masked(changing))
    updating_session = session.UpdateSessionRequest(user_id="ana", session_id="c1")
    updating_session.context["last_message"] = CANARY
    await ask("SessionService/UpdateSession", updating_session)
    action = await ask(
        "SessionService/AddPendingAction",
        session.AddPendingActionRequest(
            user_id="ana", session_id="c1", type="send_email", description=CANARY
        ),
    )
    houses.ids.update(
        user_id="ana",
        conversation_id="c1",
        memory_id=saved.memory.id,
        document_id=taken.document_ids[0],
        job_id=jobs[0],
        session_id="c1",
        message_id="m1",
        before_message_id="m2",
        pending_action_id=action.pending_action.id,
    )


def their_rows(conninfo: str) -> dict[str, list[str]]:
    """Every row of tenant B in every table, as text."""
    tables = rows(
        conninfo,
        "SELECT table_name FROM information_schema.columns"
        " WHERE table_schema = 'hitherto' AND column_name = 'tenant_id'",
    )
    every = "SELECT t::text FROM hitherto.{} AS t WHERE t.tenant_id = 'b' ORDER BY 1"
    return {table: [row[0] for row in rows(conninfo, every.format(table))] for (table,) in tables}


def variants(method: Method, ids: dict[str, str]) -> list[Message]:
    """A valid request; with each id of tenant B in it, one at a time; and with all of them."""
    found, together = [valid(method)], valid(method)
    for path, put in places(
        method, lambda field: field.name in THEIRS and field.full_name not in IGNORED
    ):
        single = valid(method)
        for request in (single, together):
            put(request, ids[path.rpartition(".")[2]])
        found.append(single)
    return [*found, together]


def without_echo(request: Message, reply: Message) -> str:
    """The reply as text without what the caller sent."""
    text = str(reply)
    for field, value in request.ListFields():
        if field.type == field.TYPE_STRING and not field.is_repeated:
            text = text.replace(str(value), "")
    return text


async def test_row_60_nothing_of_another_tenant_is_there(
    houses: Houses, superuser_conninfo: str
) -> None:
    """Three questions of one pair of houses, the one that lets tenant A hear of somebody late."""
    await their_user_is_somebody_nobody_has_heard_of(houses)
    await ids_open_nothing(houses, superuser_conninfo)
    await tokens_are_refused(houses)


async def ids_open_nothing(houses: Houses, superuser_conninfo: str) -> None:
    """Every RPC with every id of tenant B, and tenant B row for row as it was."""
    before = their_rows(superuser_conninfo)
    assert sum(map(len, before.values())) > 40
    # What tenant A makes itself it may see, so that changes come after all that must find nothing.
    for method in sorted(
        OFFERED, key=lambda method: (method.name in LAST, ANSWERS[method.name] == OWN)
    ):
        expected = ANSWERS[method.name]
        for request in variants(method, houses.ids):
            told = await houses.answer(houses.ours, method, request)
            if expected not in (EMPTY, OWN):
                assert told == expected, method.name
                continue
            if isinstance(told, str):
                assert expected == OWN, (method.name, told)
                continue
            text = without_echo(request, told)
            assert CANARY not in text, method.name
            theirs = {value for value in houses.ids.values() if _ID.fullmatch(value)}
            assert not theirs & set(_ID.findall(text)), method.name
    assert their_rows(superuser_conninfo) == before


async def their_user_is_somebody_nobody_has_heard_of(houses: Houses) -> None:
    """Reads about a user of tenant B: the reply is that for a name that no tenant has."""
    tried = 0
    for method in OFFERED:
        if (
            ANSWERS[method.name] != EMPTY
            or "user_id" not in method.request.DESCRIPTOR.fields_by_name
        ):
            continue
        tried += 1

        async def alike(method: Method = method) -> bool:
            replies = []
            for user in ("ana", "zoe"):
                request: Any = valid(method)
                request.user_id = user
                told = await houses.answer(houses.ours, method, request)
                assert isinstance(told, Message), (method.name, told)
                replies.append(str(told.DESCRIPTOR.full_name) + shape(told))
            return replies[0] == replies[1]

        if method.name == "PrivacyService/ListAuditEvents":
            # Reads are counted every second: of the last call perhaps for one of the two so far.
            await eventually(alike, "the same of both in the audit log")
        else:
            assert await alike(), method.name
    assert tried > 10


def shape(message: Message) -> str:
    """Which fields of a reply have a value and how many, without moments and random marks."""
    return " ".join(
        f"{field.name}:{len(value)}"
        if field.is_repeated
        else f"{field.name}({shape(value)})"
        if isinstance(value, Message)
        else field.name
        for field, value in message.ListFields()
    )


async def tokens_are_refused(houses: Houses) -> None:
    """Of pages, and of the state that a read must have seen."""
    saved = await houses.ask(houses.theirs, SAVE, valid(SAVE))
    for method in OFFERED:
        if "consistency_token" in method.request.DESCRIPTOR.fields_by_name:
            reading: Any = valid(method)
            reading.consistency_token = saved.consistency_token
            told = await houses.answer(houses.ours, method, reading)
            assert told == "INVALID_CONSISTENCY_TOKEN", method.name
    for method in OFFERED:
        if method.name not in LISTS:
            continue
        request: Any = valid(method)
        request.page_size = 1
        if method.name == "MaintenanceService/GetUsage":
            request.group_by.append(maintenance.USAGE_DIMENSION_KIND)
        for path, put in places(method, lambda field: field.name == "memory_id"):
            put(request, houses.ids[path])
        page = await houses.ask(houses.theirs, method, request)
        assert page.next_page_token, f"{method.name}: tenant B needs two of these"
        request.page_token = page.next_page_token
        await houses.ask(houses.theirs, method, request)
        told = await houses.answer(houses.ours, method, request)
        assert told == "INVALID_PAGE_TOKEN", method.name


async def test_row_60_idempotency_keys_are_each_tenants_own(houses: Houses) -> None:
    """The same key in both tenants, with the same body and with another one."""
    tried = 0
    for method in sorted(OFFERED, key=lambda method: method.name in LAST):
        keys = list(places(method, lambda field: field.name == "idempotency_key"))
        if not keys:
            continue
        tried += 1
        ((_, put_key),) = keys
        users = list(places(method, lambda f: f.name == "user_id" and f.full_name not in IGNORED))
        same, other = valid(method), valid(method)
        put_key(same, "same")
        put_key(other, "other")
        ids = []
        for text, user in ((houses.theirs, "zoe"), (houses.ours, "ana")):
            for _, put_user in users:
                put_user(other, user)
            told = await houses.answer(text, method, same)
            ids.append(set(_ID.findall(str(told))))
            assert CANARY not in str(told) or text == houses.theirs, method.name
            told = await houses.answer(text, method, other)
            assert told != "IDEMPOTENCY_KEY_REUSED", method.name
        assert not ids[0] & ids[1], method.name
    assert tried > 20


def steps() -> list[Message]:
    """A request for every phase, and one for none."""
    return [
        maintenance.ReembedRequest(phase=phase, model="offline-hash-1")
        for phase in maintenance.ReembedPhase.values()
    ]


@pytest.mark.parametrize("operator", ["default", "op"])
async def test_row_60_the_model_of_all_tenants_is_the_operators(
    operator: str, start_services: StartServices, conninfo: str
) -> None:
    """Reembed acts for everybody: another tenant is refused in every phase and told no counts."""
    given = {} if operator == "default" else {"operator_tenant": operator}
    async with start_services(auth="api-key", **given) as services:
        theirs = await key(conninfo, "b")
        houses = Houses(services, await key(conninfo, "a"), theirs, {})
        saving = memory.SaveMemoryRequest(user_id="ana", content=f"Loves {CANARY}.")
        await houses.ask(theirs, SAVE, saving)
        others = [houses.ours, theirs]
        if operator != "default":
            others.append(await key(conninfo, "default"))
        for bound in ({"user_id": "ana"}, {"departments": ["sales"]}):
            others.append(await key(conninfo, operator, **bound))
        before = models(services.conninfo)
        for text in others:
            for request in steps():
                refusal = await refused(services, REEMBED, request, metadata=bearer(text))
                assert refusal.code is grpc.StatusCode.PERMISSION_DENIED
                assert refusal.reason == "USER_NOT_ALLOWED"
                assert refusal.metadata == {"field": "user_id"}
                assert "offline" not in refusal.everything
                assert not re.search(r"[0-9]", refusal.message)
        assert models(services.conninfo) == before
        mine = await key(conninfo, operator, scopes=["maintenance"], capabilities=[])
        told = await houses.ask(
            mine, REEMBED, maintenance.ReembedRequest(phase=maintenance.REEMBED_PHASE_STATUS)
        )
        assert told.active_model.startswith("offline")
        lacking = await key(conninfo, operator, scopes=["read", "write", "admin"])
        assert await houses.answer(lacking, REEMBED, steps()[1]) == "SCOPE_MISSING"
    # Without authentication there is one tenant only, and the setting locks nobody out.
    async with start_services(auth="off", operator_tenant="op") as services:
        request = maintenance.ReembedRequest(phase=maintenance.REEMBED_PHASE_STATUS)
        (told,) = await call(services, REEMBED, request)
        assert told.active_model.startswith("offline")


def models(conninfo: str) -> list[tuple[Any, ...]]:
    """Which models there are and which is in force, and the jobs that change them."""
    return rows(
        conninfo,
        "SELECT t::text FROM hitherto.embedding_models AS t"
        " UNION ALL SELECT job_id::text FROM hitherto.jobs WHERE kind = 'reembedding' ORDER BY 1",
    )
