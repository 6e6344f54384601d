"""The RPCs of MaintenanceService about webhooks and their deliveries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from yarl import URL

from hitherto.v1 import maintenance_service_pb2 as pb
from hitherto.v1 import maintenance_service_pb2_grpc, webhook_pb2
from hitherto_extraction.handlers.answering import Answering
from hitherto_extraction.once import IdempotentOperation
from hitherto_extraction.storage import deliveries, users, webhooks
from hitherto_extraction.storage.deliveries import StoredDelivery
from hitherto_extraction.storage.webhooks import StoredWebhook, WebhookRow
from hitherto_extraction.telling import addresses
from hitherto_extraction.telling.delivering import DeliveryLoop
from hitherto_extraction.telling.sending import WebhookSecrets
from hitherto_shared.changes import change_message
from hitherto_shared.convert import EVENT_KIND, EnumWords, timestamp
from hitherto_shared.database.pool import Connection
from hitherto_shared.errors import NotFound, WrongState
from hitherto_shared.identifiers import uuid7
from hitherto_shared.models import Scope
from hitherto_shared.rpc.call import Context, current_call
from hitherto_shared.validation import Checks

MOST_WEBHOOKS = 20
"""Of one tenant: each multiplies the work of every change."""
_MAX_URL = 2048
_RESOLVE_SECONDS = 2.0
_STATES = EnumWords(webhook_pb2.WebhookDeliveryState.DESCRIPTOR)


@dataclass(eq=False)
class WebhookCalls(maintenance_service_pb2_grpc.MaintenanceServiceServicer):
    """Implements them; if `private`, receivers may be in private networks."""

    answering: Answering
    secrets: WebhookSecrets
    delivering: DeliveryLoop
    private: bool

    async def CreateWebhook(
        self, request: pb.CreateWebhookRequest, context: Context
    ) -> pb.CreateWebhookResponse:
        """Store a webhook, and return its secret this once."""
        checks = Checks()
        url = checks.text("url", request.url, max_bytes=4 * _MAX_URL, required=True)
        if url and (why := await self._why_not(url)) is not None:
            checks.add("url", why)
        user_id = checks.identifier("user_id", request.user_id, required=False)
        actions = checks.all_of("kinds", request.kinds, EVENT_KIND)
        identity = self.answering.identity(checks, request)
        call = current_call()
        tenant = call.principal.tenant_id
        if request.include_content:
            call.principal.check_scope("read", call.method)
        webhook_id, secret = uuid7(), self.secrets.create()
        new = WebhookRow(
            tenant,
            user_id,
            webhook_id,
            url,
            self.secrets.seal(secret, tenant, webhook_id),
            list(dict.fromkeys(actions)),
            request.include_content,
        )

        async def change(connection: Connection) -> tuple[StoredWebhook, str]:
            if user_id:
                await users.hold_off_erase(connection.of(Scope(tenant, user_id)))
            if await webhooks.count(connection, tenant) >= MOST_WEBHOOKS:
                raise WrongState(
                    f"a tenant may have {MOST_WEBHOOKS} webhooks: delete one first",
                    reason="TOO_MANY_WEBHOOKS",
                    metadata={"limit": str(MOST_WEBHOOKS)},
                )
            await webhooks.insert(connection, new)
            return await _found(connection, tenant, webhook_id), secret

        async def again(connection: Connection, ids: Sequence[str]) -> tuple[StoredWebhook, str]:
            return await _found(connection, tenant, UUID(ids[0])), ""

        (webhook, shown), token = await self.answering.change(
            identity,
            IdempotentOperation(
                change,
                again,
                ids=lambda made: [str(made[0].webhook_id)],
                users=lambda _: [user_id] if user_id else [],
            ),
            context,
        )
        return pb.CreateWebhookResponse(
            webhook=_webhook_message(webhook), secret=shown, consistency_token=token
        )

    async def _why_not(self, url: str) -> str | None:
        why = addresses.why_not(url, private=self.private)
        if why is not None or self.private:
            return why
        host = URL(url).raw_host or ""
        if not addresses.is_literal(host) and await addresses.resolves_privately(
            host, timeout=_RESOLVE_SECONDS
        ):
            return f"is the name of {addresses.OF_THIS_NETWORK}"
        return None

    async def ListWebhooks(
        self, request: pb.ListWebhooksRequest, context: Context
    ) -> pb.ListWebhooksResponse:
        """The webhooks of the tenant, oldest first."""
        checks = Checks()
        tenant = current_call().principal.tenant_id
        page = self.answering.pages.open(checks, tenant, request)
        self.answering.admit_read(checks, request)

        async def work(connection: Connection) -> pb.ListWebhooksResponse:
            found = await webhooks.page(connection, tenant, after=page.after, limit=page.size + 1)
            more = len(found) > page.size
            return pb.ListWebhooksResponse(
                webhooks=[_webhook_message(each) for each in found[: page.size]],
                next_page_token=page.seal(str(found[page.size - 1].webhook_id) if more else None),
            )

        return await self.answering.read(work, context)

    async def DeleteWebhook(
        self, request: pb.DeleteWebhookRequest, context: Context
    ) -> pb.DeleteWebhookResponse:
        """Delete a webhook with its deliveries."""
        checks = Checks()
        webhook_id = checks.uuid("webhook_id", request.webhook_id)
        identity = self.answering.identity(checks, request)
        tenant = current_call().principal.tenant_id

        async def change(connection: Connection) -> None:
            if not await webhooks.delete(connection, tenant, webhook_id):
                raise _no_webhook(webhook_id)

        async def again(_connection: Connection, _ids: Sequence[str]) -> None:
            """It is deleted."""

        _, token = await self.answering.change(
            identity,
            IdempotentOperation(change, again, ids=lambda _: [str(webhook_id)]),
            context,
            database=self.answering.removal,
        )
        return pb.DeleteWebhookResponse(consistency_token=token)

    async def ListWebhookDeliveries(
        self, request: pb.ListWebhookDeliveriesRequest, context: Context
    ) -> pb.ListWebhookDeliveriesResponse:
        """Deliveries of the tenant, newest first."""
        checks = Checks()
        tenant = current_call().principal.tenant_id
        webhook_id = checks.uuid("webhook_id", request.webhook_id) if request.webhook_id else None
        state = checks.one_of("state", request.state, _STATES)
        page = self.answering.pages.open(checks, tenant, request)
        self.answering.admit_read(checks, request)

        async def work(connection: Connection) -> pb.ListWebhookDeliveriesResponse:
            found = await deliveries.page(
                connection,
                tenant,
                webhook_id=webhook_id,
                state=state,
                after=page.after,
                limit=page.size + 1,
            )
            more = len(found) > page.size
            return pb.ListWebhookDeliveriesResponse(
                deliveries=[_delivery_message(each) for each in found[: page.size]],
                next_page_token=page.seal(str(found[page.size - 1].delivery_id) if more else None),
            )

        return await self.answering.read(work, context)

    async def RetryWebhookDelivery(
        self, request: pb.RetryWebhookDeliveryRequest, context: Context
    ) -> pb.RetryWebhookDeliveryResponse:
        """Send a delivery again, or all dead ones of a webhook."""
        checks = Checks()
        kind = request.WhichOneof("target")
        if kind is None:
            checks.add("target", "is required: set delivery_id or webhook_id")
            checks.done()
        named = checks.uuid(str(kind), getattr(request, str(kind)))
        identity = self.answering.identity(checks, request)
        tenant = current_call().principal.tenant_id

        async def change(connection: Connection) -> int:
            if kind == "webhook_id":
                await _found(connection, tenant, named)
                await webhooks.enable(connection, tenant, named)
                return await deliveries.retry_dead(connection, tenant, named)
            webhook_id = await deliveries.webhook_of(connection, tenant, named)
            if webhook_id is None:
                raise NotFound(
                    "there is no such delivery, or its change is no longer kept",
                    reason="WEBHOOK_DELIVERY_NOT_FOUND",
                    metadata={"delivery_id": str(named)},
                )
            webhook = await _found(connection, tenant, webhook_id)
            if webhook.disabled_at is not None:
                raise WrongState(
                    f"the webhook of this delivery is disabled ({webhook.disabled_reason}): call "
                    "RetryWebhookDelivery with webhook_id, which enables it",
                    reason="WEBHOOK_DISABLED",
                    metadata={"webhook_id": str(webhook_id)},
                )
            return await deliveries.retry(connection, tenant, named)

        async def again(_connection: Connection, ids: Sequence[str]) -> int:
            return int(ids[1])

        made, token = await self.answering.change(
            identity,
            IdempotentOperation(change, again, ids=lambda retried: [str(named), str(retried)]),
            context,
        )
        self.delivering.wake()
        return pb.RetryWebhookDeliveryResponse(retried=made, consistency_token=token)


async def _found(connection: Connection, tenant_id: str, webhook_id: UUID) -> StoredWebhook:
    """A webhook of the tenant, which must be there."""
    webhook = await webhooks.find(connection, tenant_id, webhook_id)
    if webhook is None:
        raise _no_webhook(webhook_id)
    return webhook


def _no_webhook(webhook_id: UUID) -> NotFound:
    return NotFound(
        "there is no such webhook",
        reason="WEBHOOK_NOT_FOUND",
        metadata={"webhook_id": str(webhook_id)},
    )


def _webhook_message(webhook: StoredWebhook) -> webhook_pb2.Webhook:
    return webhook_pb2.Webhook(
        id=str(webhook.webhook_id),
        url=webhook.url,
        user_id=webhook.user_id,
        kinds=[EVENT_KIND.numbers[each] for each in webhook.actions],  # type: ignore[misc]
        include_content=webhook.include_content,
        created_at=timestamp(webhook.created_at),
        failing_since=timestamp(webhook.failing_since),
        disabled_at=timestamp(webhook.disabled_at),
        disabled_reason=webhook.disabled_reason,
    )


def _delivery_message(delivery: StoredDelivery) -> webhook_pb2.WebhookDelivery:
    return webhook_pb2.WebhookDelivery(
        id=str(delivery.delivery_id),
        webhook_id=str(delivery.webhook_id),
        change=change_message(delivery.change),
        state=_STATES.numbers[delivery.state],  # type: ignore[arg-type]
        attempts=delivery.attempts,
        next_attempt_at=timestamp(delivery.next_attempt_at),
        last_status=delivery.last_status,
        last_error=delivery.last_error,
        created_at=timestamp(delivery.created_at),
        finished_at=timestamp(delivery.finished_at),
    )
