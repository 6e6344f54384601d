"""Sends due deliveries, several at a time, and decides what an answer means.

Any process may send any delivery: a claim has a lease, and a process that dies leaves its
deliveries to others. So a receiver may get a change twice, but never not at all.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from uuid import UUID

from google.protobuf.json_format import MessageToDict

from hitherto.v1 import memory_pb2
from hitherto_extraction.storage import deliveries, editing, superseded, users, webhooks
from hitherto_extraction.storage.deliveries import ClaimedDelivery
from hitherto_extraction.storage.webhooks import OpenReceiver
from hitherto_extraction.telling.sending import ReceiverAnswer, Sender, WebhookSecrets
from hitherto_shared import tasks
from hitherto_shared.changes import change_message, told_kind
from hitherto_shared.convert import memory_message
from hitherto_shared.database import faults
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.database.tenancy import acting_for
from hitherto_shared.encryption.failures import KeyUnavailable
from hitherto_shared.models import Scope

logger = logging.getLogger("hitherto.webhooks")

_AT_ONCE = 32
_OF_EACH = 4
"""Of each webhook at a time, so that a slow receiver leaves room for others."""
_OF_EACH_TENANT = 8
"""Of each tenant at a time, so that many slow receivers of one leave room for other tenants."""
_LOOK_SECONDS = 1.0
_STATEMENT_SECONDS = 10.0
_LEASE_SECONDS = 30.0
"""In addition to the time of a request."""
_JITTER = 0.2


def read_schedule(setting: str) -> Sequence[float]:
    """The seconds to wait after each failed attempt, from a setting such as `5 30 120`.

    Raises:
        ValueError: It is something else.
    """
    seconds = [float(word) for word in setting.split()]
    if not 1 <= len(seconds) <= 20 or not all(0 < each <= 86_400 for each in seconds):
        raise ValueError("must be 1 to 20 numbers of seconds, each of a day at most")
    return seconds


@dataclass(frozen=True, slots=True)
class DeliveryRules:
    """How often a delivery is tried.

    Attributes:
        waits: Seconds to wait after each failed attempt; after the attempt that follows the last
            wait, the delivery is dead.
        most_dead: Dead deliveries in a row that disable a webhook.
    """

    waits: Sequence[float]
    most_dead: int
    timeout: float
    memory_enabled: bool

    def wait(self, attempts: int) -> float | None:
        """Seconds until the next attempt after this many; None: there is none."""
        if attempts > len(self.waits):
            return None
        return self.waits[attempts - 1] * (1 + _JITTER * random.random())


@dataclass(eq=False)
class DeliveryLoop:
    """Sends until it is stopped."""

    maintenance: Database
    write: Database
    sender: Sender
    secrets: WebhookSecrets
    rules: DeliveryRules

    def __post_init__(self) -> None:
        self._news = asyncio.Event()
        self._running: set[asyncio.Task[None]] = set()
        self._sending: Counter[tuple[str, UUID]] = Counter()
        self._loop: asyncio.Task[None] | None = None

    def wake(self) -> None:
        """There are deliveries that are due."""
        self._news.set()

    async def start(self) -> None:
        """Start in the background."""
        self._loop = asyncio.create_task(self._run(), name="delivery-loop")

    async def stop(self, grace: float) -> None:
        """Claim no more, and let requests end for `grace` seconds; others send the rest."""
        await tasks.cancel(self._loop)
        if self._running:
            await asyncio.wait(set(self._running), timeout=grace)
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        await self.sender.close()

    async def _run(self) -> None:
        while True:
            self._news.clear()
            claimed: Sequence[tuple[OpenReceiver, ClaimedDelivery]] = ()
            free = _AT_ONCE - len(self._running)
            if free:
                with faults.Tolerated(logger, "webhooks are called later"):
                    claimed = await self._claim(free)
            for receiver, delivery in claimed:
                to = (receiver.tenant_id, receiver.webhook_id)
                self._sending[to] += 1
                task = asyncio.create_task(self._deliver(receiver, delivery))
                self._running.add(task)
                task.add_done_callback(partial(self._ended, to))
            if not claimed:
                with suppress(TimeoutError):
                    async with asyncio.timeout(_LOOK_SECONDS):
                        await self._news.wait()

    async def _claim(self, limit: int) -> list[tuple[OpenReceiver, ClaimedDelivery]]:
        async def work(connection: Connection) -> list[tuple[OpenReceiver, ClaimedDelivery]]:
            receivers = {
                (each.tenant_id, each.webhook_id): each
                for each in await webhooks.open_now(connection)
            }
            if not receivers:
                return []
            of_tenants = Counter[str]()
            for (tenant_id, _), count in self._sending.items():
                of_tenants[tenant_id] += count
            claimed = await deliveries.claim(
                connection,
                {each: self._sending[each] for each in receivers},
                of_tenants,
                limit=limit,
                of_each=_OF_EACH,
                of_each_tenant=_OF_EACH_TENANT,
                lease_seconds=self.rules.timeout + _LEASE_SECONDS,
            )
            return [(receivers[each.tenant_id, each.webhook_id], each) for each in claimed]

        return await self.maintenance.transact(work, timeout=_STATEMENT_SECONDS)

    def _ended(self, to: tuple[str, UUID], task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._sending[to] -= 1
        if not self._sending[to]:
            del self._sending[to]
        self.wake()

    async def _deliver(self, receiver: OpenReceiver, delivery: ClaimedDelivery) -> None:
        # What fails here is sent again when the lease has ended.
        with faults.Tolerated(logger, "a delivery is repeated later"):
            answer = await self._send(receiver, delivery)
            await self.maintenance.transact(
                lambda connection: self._settle(connection, delivery, answer),
                timeout=_STATEMENT_SECONDS,
            )

    async def _send(self, receiver: OpenReceiver, delivery: ClaimedDelivery) -> ReceiverAnswer:
        secret = self.secrets.open(receiver.secret_token, receiver.tenant_id, receiver.webhook_id)
        if secret is None:
            return ReceiverAnswer(
                0,
                "the webhook's secret cannot be opened, because the installation has another "
                "secret file: create the webhook anew",
            )
        body = await self._body(delivery, include_content=receiver.include_content)
        # Whose share of the threads resolves the name.
        with acting_for(receiver.tenant_id):
            return await self.sender.send(receiver.url, secret, str(delivery.delivery_id), body)

    async def _body(self, delivery: ClaimedDelivery, *, include_content: bool) -> bytes:
        change = delivery.change
        message = change_message(change)
        if include_content and change.memory_id is not None:
            memory = await self._memory(Scope(delivery.tenant_id, change.user_id), change.memory_id)
            if memory is not None:
                message.memory.CopyFrom(memory)
        subject = "profile" if change.memory_id is None else "memory"
        return json.dumps(
            {
                "id": str(delivery.delivery_id),
                "type": f"{subject}.{told_kind(change.action)}",
                "change": MessageToDict(message),
            },
            ensure_ascii=False,
            separators=(",", ":"),
        ).encode()

    async def _memory(self, scope: Scope, memory_id: UUID) -> memory_pb2.Memory | None:
        """The memory as it is now; None if it is sealed, untold or gone."""

        async def read(connection: Connection) -> memory_pb2.Memory | None:
            user = connection.of(scope)
            state = await users.read_user(user)
            if users.why_not_storing(state, self.rules.memory_enabled) is not None:
                return None
            # No key is at hand here, so that nothing sealed leaves the installation.
            with suppress(KeyUnavailable):
                found = await editing.read(user, [memory_id])
                if found and not await superseded.untold(user, found):
                    return memory_message(found[memory_id].memory)
            return None

        with acting_for(scope.tenant_id):
            return await self.write.run(read, timeout=_STATEMENT_SECONDS, repeatable=True)

    async def _settle(
        self, connection: Connection, delivery: ClaimedDelivery, answer: ReceiverAnswer
    ) -> None:
        tenant_id, webhook_id = delivery.tenant_id, delivery.webhook_id
        ended = answer.arrived or answer.gone
        wait = None if ended else self.rules.wait(delivery.attempts)
        held = await deliveries.settle(
            connection, delivery, status=answer.status, error=answer.error, wait_seconds=wait
        )
        if answer.arrived:
            await webhooks.note_success(connection, tenant_id, webhook_id)
        if answer.arrived or not held:
            return
        disabled = await webhooks.note_failure(
            connection,
            tenant_id,
            webhook_id,
            died=wait is None,
            gone=answer.gone,
            rest_seconds=self.rules.waits[0],
            most_dead=self.rules.most_dead,
        )
        if disabled:
            logger.warning(
                "a webhook is disabled: %s", disabled, extra={"webhook_id": str(webhook_id)}
            )
