# Generated from ../_async/changes.py by tools/unasync.py. Do not edit.
"""Changes of memories and profiles: watched, or sent to webhooks."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator

import grpc

from hitherto.v1 import retrieval_service_pb2 as pb
from hitherto_client._sync.calling import Calling, Pages, pages, rpc
from hitherto_client.calls import countable
from hitherto_client.errors import HithertoCallError
from hitherto_client.results.changes import NewWebhook, WatchedChanges, Webhook, WebhookDelivery
from hitherto_client.wire import build, read
from hitherto_client.words import HistoryEventKind, WebhookDeliveryState

_PATIENCE_SECONDS = 60.0
"""How long a service that has answered before may stay away, as during a restart."""
_SILENCE_SECONDS = 60.0
"""A stream with heartbeats that says nothing for so long is opened anew."""
_HEARTBEAT_SECONDS = 15


class Watching(Calling):
    """Webhooks need a credential with the scope `admin` that may act for every user."""

    def watch_memories(
        self,
        user: str = "",
        *,
        after: str = "",
        kinds: Iterable[HistoryEventKind] = (),
        include_content: bool = False,
        timeout: float | None = None,
    ) -> Iterator[WatchedChanges]:
        """Changes as they happen, without an end; an interrupted stream goes on where it was.

        The first item comes at once, and others without changes from time to time: each has the
        token of its place. A change may come twice, and then has the version that it had before.

        Args:
            user: Whose changes. Empty: everybody's, or with a person's own credential that
                person's.
            after: The token of an item that was dealt with, to continue behind it. Empty: begin
                with the next change.
            kinds: Only these. Empty: all.
            include_content: Whether to get the memories too, as they are at that moment.
            timeout: Seconds until the iteration ends. Unset: no limit.

        Raises:
            HithertoCallError: The token is too old (`CHANGES_EXPIRED`): read the memories anew and
                watch without one. Or the service stays unreachable, or the call failed.
        """
        limit = countable(timeout)
        ends = math.inf if limit is None else time.monotonic() + limit
        endpoint, retry = self.connection.target.retrieval, self.connection.target.retry
        request = build(
            pb.WatchMemoriesRequest,
            user_id=user,
            after=after,
            kinds=tuple(kinds),
            include_content=include_content,
        )
        request.heartbeat.seconds = _HEARTBEAT_SECONDS
        failures, heard = 0, -math.inf
        while (left := ends - time.monotonic()) > 0:
            stream = self.connection.retrieval.WatchMemories(
                request, timeout=min(left, _SILENCE_SECONDS)
            )
            error: HithertoCallError | None = None
            begun = time.monotonic()
            try:
                with endpoint.ended():
                    for reply in stream:
                        failures, heard = 0, time.monotonic()
                        request.after = reply.token
                        for change in reply.changes:
                            self._tokens.note(change.user_id, reply.consistency_token)
                        yield read(WatchedChanges, reply)
            except grpc.RpcError as raised:
                error = endpoint.error(raised)
            finally:
                stream.cancel()
            now = time.monotonic()
            in_time = error is None or error.code is grpc.StatusCode.DEADLINE_EXCEEDED
            if now >= ends or (in_time and heard >= begun):
                # Streams end after a while, so that credentials are checked anew: the service ends
                # them, or their deadline does if its word arrives too late.
                continue
            if error is None:
                # Without the service, as that was reached.
                error = HithertoCallError(
                    grpc.StatusCode.UNAVAILABLE, "the service ended the stream without a message"
                )
            failures += 1
            wait = retry.wait_before_retry(error, failures, repeatable=True)
            away = error.code in (
                grpc.StatusCode.UNAVAILABLE,
                grpc.StatusCode.DEADLINE_EXCEEDED,
            )
            if wait is None and away and now - heard < _PATIENCE_SECONDS:
                wait = retry.longest_wait
            if wait is None:
                raise error
            time.sleep(min(wait, max(ends - now, 0.0)))

    @rpc("CreateWebhook")
    def create_webhook(
        self,
        url: str,
        *,
        user: str = "",
        kinds: Iterable[HistoryEventKind] = (),
        include_content: bool = False,
        idempotency_key: str = "",
        timeout: float | None = None,
    ) -> NewWebhook:
        """Let later changes be sent to an https address, as signed requests.

        These are changes of all kinds of everybody, or only those named. With `include_content`,
        the memories are sent too.

        Raises:
            HithertoCallError: The address is refused (`INVALID_FIELD`), there are too many webhooks
                (`TOO_MANY_WEBHOOKS`), or the call failed.
        """

    @pages("ListWebhooks")
    def webhooks(self, *, page_size: int = 200, timeout: float | None = None) -> Pages[Webhook]:
        """The webhooks, oldest first."""

    @rpc("DeleteWebhook")
    def delete_webhook(
        self, webhook_id: str, *, idempotency_key: str = "", timeout: float | None = None
    ) -> None:
        """Delete a webhook with its deliveries."""

    @pages("ListWebhookDeliveries")
    def webhook_deliveries(
        self,
        *,
        webhook_id: str = "",
        state: WebhookDeliveryState | None = None,
        page_size: int = 200,
        timeout: float | None = None,
    ) -> Pages[WebhookDelivery]:
        """Deliveries, newest first: to all webhooks or one, in any state or one."""

    @rpc("RetryWebhookDelivery", "retried")
    def retry_webhook_delivery(
        self,
        *,
        delivery_id: str = "",
        webhook_id: str = "",
        idempotency_key: str = "",
        timeout: float | None = None,
    ) -> int:
        """Send a delivery again, or all dead ones of a webhook, which is then enabled.

        Returns:
            How many deliveries are sent again.
        """
