"""Names of receivers whose servers never answer: they occupy the threads of their tenant only."""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import Any

import pytest

from hitherto.v1 import maintenance_service_pb2 as pb
from tests.e2e.conftest import Services
from tests.e2e.credentials import bearer
from tests.e2e.methods import METHODS, refused
from tests.tenants import Tenant
from tests.waiting import PATIENCE_SECONDS, eventually

CREATE = METHODS["MaintenanceService/CreateWebhook"]


async def test_names_that_are_never_resolved_keep_nobody_else_from_a_thread(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve, end = socket.getaddrinfo, threading.Event()
    stuck: list[str] = []

    def resolve_some(host: str, *args: Any, **given: Any) -> Any:
        if host.endswith(".stuck.example"):
            stuck.append(host)
            end.wait(PATIENCE_SECONDS)
            raise socket.gaierror(socket.EAI_AGAIN, "no answer")
        return resolve(host, *args, **given)

    monkeypatch.setattr(socket, "getaddrinfo", resolve_some)
    urls = [f"https://{number}.stuck.example/" for number in range(18)]
    creating = [
        asyncio.ensure_future(services.maintenance.CreateWebhook(pb.CreateWebhookRequest(url=url)))
        for url in urls
    ]
    try:
        await eventually(lambda: len(stuck) >= 2)
        # Nobody waits for an answer for ever, but the threads do.
        await asyncio.gather(*creating)
        private = pb.CreateWebhookRequest(url="https://localhost/")
        elsewhere = bearer(Tenant().token)
        refusal = await refused(services, CREATE, private, metadata=elsewhere)
        assert "is the name of an address of this machine" in refusal.fields["url"]
        # The keys of sealed memories are read in these.
        async with asyncio.timeout(PATIENCE_SECONDS / 2):
            await asyncio.to_thread(len, urls)
    finally:
        end.set()
