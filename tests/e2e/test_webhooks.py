"""Webhooks (G9): signed, repeated until they arrive, given up in the end, and never led astray."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from aiohttp import web

from hitherto.v1 import history_pb2, webhook_pb2
from hitherto.v1 import maintenance_service_pb2 as pb
from tests.e2e.conftest import Services, StartServices
from tests.e2e.credentials import bearer
from tests.e2e.curating import change, forget, save, update
from tests.e2e.learning import rows
from tests.e2e.leaving import erase
from tests.e2e.methods import METHODS, ask, refused
from tests.e2e.privacy import choose
from tests.e2e.receiver import (
    Receiver,
    accept,
    answer_at_length,
    fail,
    hang,
    leave,
    redirect,
)
from tests.e2e.sessions import refusal_of
from tests.tenants import ISSUED, Tenant
from tests.waiting import eventually

CREATE = METHODS["MaintenanceService/CreateWebhook"]
DEAD = webhook_pb2.WEBHOOK_DELIVERY_STATE_DEAD
DELIVERED = webhook_pb2.WEBHOOK_DELIVERY_STATE_DELIVERED
PENDING = webhook_pb2.WEBHOOK_DELIVERY_STATE_PENDING


SERVICE_SETTINGS = {
    "webhook_private": True,
    "webhook_retry_seconds": "0.05 0.05",
    "webhook_timeout_seconds": 3.0,
    "webhook_disable_after": 2,
}
"""Loopback is permitted, and nothing waits long."""


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with Receiver() as running:
        yield running


async def create(services: Services, receiver: Receiver, **given: Any) -> pb.CreateWebhookResponse:
    request = pb.CreateWebhookRequest(url=receiver.url, **given)
    return await services.maintenance.CreateWebhook(request)


async def deliveries(services: Services, state: int = 0) -> list[webhook_pb2.WebhookDelivery]:
    """The deliveries in a state, or all, oldest first."""
    reply = await ask(
        services,
        "ListWebhookDeliveries",
        state=webhook_pb2.WebhookDeliveryState.ValueType(state),
        page_size=200,
    )
    return list(reply.deliveries)[::-1]


async def until_states(services: Services, *states: int) -> list[webhook_pb2.WebhookDelivery]:
    """The deliveries, once they have these states."""
    found: list[webhook_pb2.WebhookDelivery] = []

    async def have_them() -> bool:
        found[:] = await deliveries(services)
        return [each.state for each in found] == list(states)

    await eventually(have_them, f"deliveries in the states {states}")
    return found


async def test_a_change_arrives_signed_and_with_contents_only_if_asked(
    services: Services, receiver: Receiver
) -> None:
    created = await create(services, receiver)
    assert created.secret.startswith("whsec_")
    forgotten = [history_pb2.HISTORY_EVENT_KIND_FORGOTTEN]
    whole = await create(services, receiver, user_id="ana", include_content=True)
    picky = await create(services, receiver, kinds=2 * forgotten)
    assert picky.webhook.kinds == forgotten
    saved = await save(services, "Ana lives in Leith.")
    await save(services, "Ben plays chess.", user="ben")
    await eventually(lambda: len(receiver.received) == 3)
    for each in receiver.received:
        assert each.headers["Content-Type"] == "application/json"
        assert each.data["type"] == "memory.created"
        assert each.data["id"] == each.headers["Hitherto-Delivery"]
    by_secret = {
        name: [each for each in receiver.received if each.signed_with(secret)]
        for name, secret in (("all", created.secret), ("ana", whole.secret), ("p", picky.secret))
    }
    assert {name: len(found) for name, found in by_secret.items()} == {"all": 2, "ana": 1, "p": 0}
    assert not any("memory" in each.data["change"] for each in by_secret["all"])
    change = by_secret["ana"][0].data["change"]
    assert change["memory"]["content"] == "Ana lives in Leith."
    assert (change["userId"], change["memoryId"], change["version"]) == ("ana", saved.memory.id, 1)
    # What is forgotten by then is not told again, nor anything of whom no memory is kept.
    await choose(services, memory_enabled=False)
    await ask(services, "RetryWebhookDelivery", delivery_id=by_secret["ana"][0].data["id"])
    await eventually(lambda: len(receiver.received) == 4)
    await choose(services, memory_enabled=True)
    await forget(services, saved.memory.id)
    await eventually(lambda: len(receiver.received) == 7)
    assert not any("memory" in each.data["change"] for each in receiver.received[3:])
    assert not any(b"Leith" in each.body for each in receiver.received[3:])
    assert sum(each.signed_with(picky.secret) for each in receiver.received[3:]) == 1


async def test_misbehaviour_is_borne_repeated_and_given_up(
    services: Services, receiver: Receiver
) -> None:
    created = await create(services, receiver)
    for behaviour, status, error in (
        (fail, 500, "answered with 500"),
        (redirect, 307, "redirects are not followed"),
        (hang, 0, "no answer within 3 s"),
    ):
        receiver.received.clear()
        receiver.behave = behaviour
        await save(services, f"Ana knows {error}.")
        dead = (await until_states(services, DEAD))[0]
        assert (dead.attempts, dead.last_status) == (3, status)
        assert error in dead.last_error
        assert {each.path for each in receiver.received} == {"/changes"}
        assert len({each.headers["Hitherto-Delivery"] for each in receiver.received}) == 1
        # Taken as soon as the status is there, however long the body goes on; and again by hand.
        receiver.behave = answer_at_length
        retried = await ask(services, "RetryWebhookDelivery", delivery_id=dead.id)
        assert retried.retried == 1
        (delivered,) = await until_states(services, DELIVERED)
        assert (delivered.attempts, delivered.last_status, delivered.last_error) == (1, 200, "")
        await ask(services, "DeleteWebhook", webhook_id=created.webhook.id)
        assert await deliveries(services) == []
        created = await create(services, receiver)
    change(services.conninfo, "UPDATE webhooks SET secret_token = 'of another installation'")
    await save(services, "Ana knows nothing of it.")
    dead = (await until_states(services, DEAD))[0]
    assert "create the webhook anew" in dead.last_error


async def test_a_receiver_that_fails_is_disabled_and_can_be_enabled(
    services: Services, receiver: Receiver
) -> None:
    created = await create(services, receiver)

    async def late(request: web.Request) -> web.StreamResponse:
        taken = "UPDATE webhook_deliveries SET attempts = attempts + 1, next_attempt_at = now()"
        change(services.conninfo, f"{taken} WHERE state = 'pending'")
        receiver.behave = accept
        return await leave(request)

    receiver.behave = fail
    first = (await save(services, "Ana lives in Leith.")).memory.id
    await until_states(services, DEAD)
    (failing,) = (await ask(services, "ListWebhooks")).webhooks
    await update(services, first, "importance", importance=0.9)
    await until_states(services, DEAD, DEAD)
    (webhook,) = (await ask(services, "ListWebhooks")).webhooks
    assert webhook.HasField("disabled_at")
    assert webhook.HasField("failing_since")
    assert webhook.failing_since == failing.failing_since
    assert "deliveries failed for good" in webhook.disabled_reason
    # What changes meanwhile waits.
    sent = len(receiver.received)
    await update(services, first, "importance", importance=0.8)
    found = await until_states(services, DEAD, DEAD, PENDING)
    refusal = await refusal_of(ask(services, "RetryWebhookDelivery", delivery_id=found[0].id))
    assert refusal.reason == "WEBHOOK_DISABLED"
    assert len(receiver.received) == sent
    receiver.behave = accept
    once = {"webhook_id": webhook.id, "idempotency_key": "once"}
    for _ in range(2):
        assert (await ask(services, "RetryWebhookDelivery", **once)).retried == 2
    found = await until_states(services, DELIVERED, DELIVERED, DELIVERED)
    assert [each.attempts for each in found] == [1, 1, 1]
    assert all(each.HasField("finished_at") for each in found)
    listed: list[str] = []
    token = ""
    for _ in found:
        page = await ask(services, "ListWebhookDeliveries", page_size=1, page_token=token)
        listed += [each.id for each in page.deliveries]
        token = page.next_page_token
    assert (listed, token) == ([each.id for each in reversed(found)], "")
    assert all(each.signed_with(created.secret) for each in receiver.received)
    # Only failures in a row disable it, and not what an attempt hears after its lease has ended.
    states = 3 * [DELIVERED]
    for behaviour, state, importance in (
        (fail, DEAD, 0.7),
        (accept, DELIVERED, 0.6),
        (fail, DEAD, 0.5),
        (late, DELIVERED, 0.4),
    ):
        receiver.behave = behaviour
        await update(services, first, "importance", importance=importance)
        states.append(state)
        await until_states(services, *states)
    # A receiver that says so itself is left alone at once.
    receiver.behave = leave
    await update(services, first, "importance", importance=0.3)
    assert (await until_states(services, *states, DEAD))[-1].attempts == 1
    (webhook,) = (await ask(services, "ListWebhooks")).webhooks
    assert "410" in webhook.disabled_reason


async def test_erasure_takes_the_deliveries_and_webhooks_of_a_person(
    services: Services, receiver: Receiver
) -> None:
    receiver.behave = fail
    await create(services, receiver)
    await choose(services, memory_enabled=True)
    await create(services, receiver, user_id="ana", idempotency_key="of ana")
    await save(services, "Ana lives in Leith.")
    await save(services, "Ben plays chess.", user="ben")
    await eventually(lambda: len(rows(services.conninfo, "SELECT 1 FROM webhook_deliveries")) == 3)
    counts = (await erase(services)).counts
    assert (counts["webhook_deliveries"], counts["webhooks"], counts["memory_changes"]) == (2, 1, 1)
    assert not rows(services.conninfo, "SELECT 1 FROM idempotency_keys WHERE key = 'of ana'")
    left = "SELECT DISTINCT user_id FROM webhook_deliveries"
    assert rows(services.conninfo, left) == [("ben",)]
    listed = (await ask(services, "ListWebhooks")).webhooks
    assert [each.user_id for each in listed] == [""]
    refusal = await refusal_of(ask(services, "CreateWebhook", url=receiver.url))
    assert refusal.reason == "USER_ERASED"


async def test_walls_of_webhooks(services: Services, receiver: Receiver, tenant: Tenant) -> None:
    """Another tenant finds none of them; a person's credential and a reader's may not look."""
    created = await create(services, receiver, idempotency_key="one")
    repeated = await create(services, receiver, idempotency_key="one")
    assert (repeated.webhook.id, repeated.secret) == (created.webhook.id, "")
    await save(services, "Ana lives in Leith.")
    (delivery,) = await until_states(services, DELIVERED)
    elsewhere = bearer(Tenant().token)
    whose = {"sub": "svc", "tenant": tenant.tenant_id, "hitherto_user_scope": "any"}
    reader = bearer(ISSUED.token(scope="read write maintenance", **whose))
    person = bearer(ISSUED.token(sub="ana", tenant=tenant.tenant_id, scope="read write admin"))
    listing = await services.maintenance.ListWebhooks(pb.ListWebhooksRequest(), metadata=elsewhere)
    assert list(listing.webhooks) == []
    calls = {
        "DeleteWebhook": pb.DeleteWebhookRequest(webhook_id=created.webhook.id),
        "RetryWebhookDelivery": pb.RetryWebhookDeliveryRequest(delivery_id=delivery.id),
        "ListWebhooks": pb.ListWebhooksRequest(),
        "ListWebhookDeliveries": pb.ListWebhookDeliveriesRequest(),
    }
    for name, request in calls.items():
        method = METHODS[f"MaintenanceService/{name}"]
        assert (await refused(services, method, request, metadata=reader)).reason == "SCOPE_MISSING"
        refusal = await refused(services, method, request, metadata=person)
        assert refusal.reason == "USER_NOT_ALLOWED"
        if not name.startswith("List"):
            refusal = await refused(services, method, request, metadata=elsewhere)
            assert refusal.code == grpc.StatusCode.NOT_FOUND
    retry = pb.RetryWebhookDeliveryRequest(webhook_id=created.webhook.id)
    method = METHODS["MaintenanceService/RetryWebhookDelivery"]
    refusal = await refused(services, method, retry, metadata=elsewhere)
    assert refusal.reason == "WEBHOOK_NOT_FOUND"
    assert [each.state for each in await deliveries(services)] == [DELIVERED]


async def test_nothing_is_sent_into_this_network_unless_permitted(
    start_services: StartServices, receiver: Receiver
) -> None:
    async with start_services(webhook_private=True) as permitting:
        await create(permitting, receiver)
        named = pb.CreateWebhookRequest(url=f"http://localhost:{receiver.port}/changes")
        await permitting.maintenance.CreateWebhook(named)
        # Nothing would arrive there: aiohttp asks no resolver about these, and cannot read them.
        for host in ("127.1", "2130706433", "127.0.0.1."):
            short = pb.CreateWebhookRequest(url=f"http://{host}:{receiver.port}/changes")
            refusal = await refused(permitting, CREATE, short)
            assert "in full" in refusal.fields["url"], host
        await save(permitting, "Ana lives in Leith.")
        await eventually(lambda: len(receiver.received) == 2)
    async with start_services(webhook_private=False, webhook_retry_seconds="3600") as services:
        await save(services, "Ana plays the cello.")
        found: list[webhook_pb2.WebhookDelivery] = []

        async def tried() -> bool:
            found[:] = await deliveries(services, PENDING)
            return len([each for each in found if each.last_error]) == 2

        await eventually(tried, "both deliveries to be tried")
        assert all(each.last_error.startswith("refused: ") for each in found)
        assert len(receiver.received) == 2
        for url in (
            receiver.url,
            "https://localhost/",
            "https://127.0.0.1/",
            "https://[::1]:8443/",
            "https://[::ffff:10.0.0.1]/",
            "https://[64:ff9b::a9fe:a9fe]/",
            "https://[2002:7f00:1::]/",
            "https://[fec0::1]/",
            "https://169.254.169.254/latest/meta-data",
            "https://192.168.1.1/",
            "https://0.0.0.0/",
            "https://2130706433/",
            "https://127.1/",
            "https://127.0.0.1./",
            "https://name:word@example.com/",
            "https://:word@example.com/",
            "ftp://example.com/",
            "https://",
            "nonsense",
            "https://example.com/" + "x" * 3000,
        ):
            refusal = await refused(services, CREATE, pb.CreateWebhookRequest(url=url))
            assert set(refusal.fields) == {"url"}, url
        for url in ("https://receiver.invalid/changes", "https://[64:ff9b::808:808]/changes"):
            await ask(services, "CreateWebhook", user_id="", url=url)
