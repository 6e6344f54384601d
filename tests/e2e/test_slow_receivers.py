"""Receivers of webhooks that take long to answer: they have a share of the deliveries, no more."""

from __future__ import annotations

import asyncio

from aiohttp import web

from hitherto.v1 import maintenance_service_pb2 as pb
from hitherto.v1 import memory_service_pb2
from tests.e2e.conftest import Services
from tests.e2e.credentials import bearer
from tests.e2e.curating import save
from tests.e2e.methods import ask
from tests.e2e.receiver import Receiver
from tests.tenants import Tenant
from tests.waiting import eventually

SERVICE_SETTINGS = {"webhook_private": True, "webhook_timeout_seconds": 60.0}
"""Loopback is permitted, and whoever does not answer is waited for."""


class Busy:
    """Answers nobody until `end` is set.

    Attributes:
        now: How many wait for an answer.
        most: How many ever did at once.
    """

    def __init__(self) -> None:
        self.now = self.most = 0
        self.end = asyncio.Event()

    async def behave(self, _: web.Request) -> web.StreamResponse:
        """As a receiver does."""
        self.now += 1
        self.most = max(self.most, self.now)
        await self.end.wait()
        self.now -= 1
        return web.Response(status=204)


async def test_a_slow_receiver_does_not_make_others_wait(services: Services) -> None:
    busy = Busy()
    async with Receiver() as receiver, Receiver() as other:
        receiver.behave = busy.behave
        for who, user in ((receiver, "ana"), (other, "ben")):
            await ask(services, "CreateWebhook", url=who.url, user_id=user)
        for number in range(12):
            await save(services, f"Ana has {number} bees.")
        await eventually(lambda: busy.now == 4)
        await save(services, "Ben plays chess.", user="ben")
        await eventually(lambda: bool(other.received))
        assert len(receiver.received) == 4
        busy.end.set()
        await eventually(lambda: len(receiver.received) == 12)
        assert busy.most == 4


async def test_many_slow_receivers_of_a_tenant_do_not_make_another_tenant_wait(
    services: Services,
) -> None:
    """However many webhooks it has, a tenant has eight requests on their way at a time."""
    busy = Busy()
    elsewhere = bearer(Tenant().token)
    async with Receiver() as receiver, Receiver() as other:
        receiver.behave = busy.behave
        for _ in range(16):
            await ask(services, "CreateWebhook", user_id="", url=receiver.url)
        await services.maintenance.CreateWebhook(
            pb.CreateWebhookRequest(url=other.url), metadata=elsewhere
        )
        for number in range(3):
            await save(services, f"Ana has {number} bees.")
        await eventually(lambda: busy.now == 8)
        saved = memory_service_pb2.SaveMemoryRequest(user_id="ben", content="Ben plays chess.")
        await services.memory.SaveMemory(saved, metadata=elsewhere)
        await eventually(lambda: bool(other.received))
        assert len(receiver.received) == 8
        busy.end.set()
        await eventually(lambda: len(receiver.received) == 48)
        assert busy.most == 8
