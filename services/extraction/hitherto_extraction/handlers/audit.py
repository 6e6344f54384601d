"""ListAuditEvents of PrivacyService."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from hitherto.v1 import privacy_pb2
from hitherto.v1 import privacy_service_pb2 as pb
from hitherto_extraction.handlers.answering import Answering
from hitherto_extraction.storage import audit
from hitherto_extraction.storage.audit import AuditFilter
from hitherto_shared.convert import timestamp
from hitherto_shared.database.audit_log import AuditEvent
from hitherto_shared.database.pool import Connection
from hitherto_shared.paging import PageTokens
from hitherto_shared.rpc.call import Context, current_call
from hitherto_shared.validation import Checks

_MAX_METHODS = 100
_MAX_METHOD = 200
_MAX_ACTOR = 512


class AuditCalls:
    """Implements ListAuditEvents."""

    _answering: Answering
    _pages: PageTokens

    async def ListAuditEvents(
        self, request: pb.ListAuditEventsRequest, context: Context
    ) -> pb.ListAuditEventsResponse:
        """The tenant's audit log, newest first."""
        checks = Checks()
        tenant = current_call().principal.tenant_id
        trail = self._answering.trail
        user_id = checks.identifier("user_id", request.user_id, required=False)
        actor = checks.identifier("actor", request.actor, required=False, max_chars=_MAX_ACTOR)
        wanted = AuditFilter(
            user_hash=trail.hash(tenant, user_id) or None,
            actors=trail.actors(tenant, actor) if actor else None,
            methods=checks.texts(
                "methods", request.methods, maximum=_MAX_METHODS, max_chars=_MAX_METHOD
            )
            or None,
            since=checks.moment("created_after", request, "created_after"),
            until=checks.moment("created_before", request, "created_before"),
        )
        page = self._pages.open(checks, tenant, request)
        checks.done()
        self._answering.check_token(request.consistency_token)
        before = None
        if page.after is not None:
            before = (datetime.fromisoformat(page.after[0]), UUID(page.after[1]))

        async def work(connection: Connection) -> pb.ListAuditEventsResponse:
            found, following = await audit.page(
                connection, tenant, wanted, before=before, limit=page.size
            )
            place = None
            if following is not None:
                place = [following[0].isoformat(), str(following[1])]
            return pb.ListAuditEventsResponse(
                audit_events=map(_message, found), next_page_token=page.seal(place)
            )

        return await self._answering.read(work, context)


def _message(event: AuditEvent) -> privacy_pb2.AuditEvent:
    return privacy_pb2.AuditEvent(
        id=str(event.event_id),
        created_at=timestamp(event.created_at),
        actor=event.actor,
        method=event.method,
        user_hash=event.user_hash,
        resource_ids=map(str, event.resource_ids),
        count=event.count,
    )
