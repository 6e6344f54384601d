"""Upkeep: consolidation, decay, retention, re-embedding, schedules, cost, roll-back, health."""

from __future__ import annotations

import time
from collections.abc import Iterable
from datetime import datetime
from typing import Any

import grpc
from google.protobuf.wrappers_pb2 import Int32Value, StringValue

from hitherto_client._async.calling import AsyncCalling, AsyncPages, pages, rpc
from hitherto_client.calls import Endpoint, countable
from hitherto_client.errors import read_error
from hitherto_client.results.jobs import Job
from hitherto_client.results.memories import Memory
from hitherto_client.results.upkeep import Health, Reembedding, Schedule, UpkeepStart, UsageReport
from hitherto_client.words import ReembedPhase, UsageDimension

_HEALTH_SECONDS = 5.0
_STATUSES = ("UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN")
_NEEDED = {
    "extraction": ("database", "writes", "language-model", "embedder", "storage"),
    "retrieval": ("database", "storage"),
}
"""What a service reports the health of beside its own."""


class AsyncUpkeep(AsyncCalling):
    """What operators do; the credential needs the scope `maintenance`.

    A user limits upkeep to one person; without one, it concerns everybody of the tenant.
    """

    @rpc("Consolidate")
    async def consolidate(
        self,
        user: str = "",
        *,
        tag: str = "",
        dry_run: bool = False,
        idempotency_key: str = "",
        timeout: float | None = None,
    ) -> UpkeepStart:
        """Merge memories that share a tag; the originals become superseded.

        Without a `tag`, every one that enough memories share. `dry_run` only counts what would be
        merged.
        """

    @rpc("UndoConsolidation", "memories")
    async def undo_consolidation(
        self,
        user: str,
        memory_id: str,
        *,
        idempotency_key: str = "",
        timeout: float | None = None,
    ) -> tuple[Memory, ...]:
        """Archive a memory that consolidation made, and return its originals, active again."""

    @rpc("RunDecay")
    async def run_decay(
        self,
        user: str = "",
        *,
        dry_run: bool = False,
        idempotency_key: str = "",
        timeout: float | None = None,
    ) -> UpkeepStart:
        """Archive unimportant memories that were not used; `dry_run` only counts them."""

    @rpc("RunRetention")
    async def run_retention(
        self,
        user: str = "",
        *,
        dry_run: bool = False,
        idempotency_key: str = "",
        timeout: float | None = None,
    ) -> UpkeepStart:
        """Remove content that is past its retention, for good; `dry_run` only counts it."""

    @rpc("Reembed")
    async def reembed(
        self,
        phase: ReembedPhase,
        *,
        model: str = "",
        dimensions: int = 0,
        idempotency_key: str = "",
        timeout: float | None = None,
    ) -> Reembedding:
        """Move the installation to another embedding model, step by step.

        `start` embeds everything with the new `model` in the background, whose vectors have so many
        dimensions (0: its own number). `switch` lets reads use it, `rollback` lets them use the old
        one again, and `status` only reports.

        Raises:
            HithertoCallError: The new model is not ready, or there is no old one
                (`REEMBEDDING_NOT_READY`), or the credential is not the operator's
                (`USER_NOT_ALLOWED`).
        """

    @pages("ListSchedules")
    def schedules(
        self, *, page_size: int = 200, timeout: float | None = None
    ) -> AsyncPages[Schedule]:
        """The upkeep that runs by itself, by name, with its last and next runs."""

    @rpc("GetUsage")
    async def get_usage(
        self,
        user: str = "",
        *,
        kinds: Iterable[str] = (),
        since: datetime | None = None,
        until: datetime | None = None,
        group_by: Iterable[UsageDimension] = (),
        page_size: int = 200,
        page_token: str = "",
        timeout: float | None = None,
    ) -> UsageReport:
        """What work cost, in one row or grouped, with the day's budget.

        Only work of these `kinds` counts, from `since` on and before `until`; days (UTC) count in
        full. `page_size` is at most 200, `page_token` the `next_page_token` of the report before.
        """

    @rpc("RollbackSource", "counts")
    async def rollback_source(
        self,
        user: str,
        *,
        conversation: str = "",
        document_id: str = "",
        job: Job | str = "",
        model: str = "",
        prompt_version: str = "",
        since: datetime | None = None,
        until: datetime | None = None,
        dry_run: bool = False,
        idempotency_key: str = "",
        timeout: float | None = None,
    ) -> dict[str, int]:
        """Revert everything that one source, or the models of some time, taught.

        The source is a conversation, a document, a job, a language model or a version of the
        prompt. Only what models taught from `since` on and before `until` is meant: these stand
        alone, or with a model or a version. `dry_run` only counts what would be reverted.

        Returns:
            What changed, by name, such as `memories_forgotten`.

        Raises:
            ValueError: Not exactly one source is named, nor a time.
            HithertoCallError: It does not exist, or the call failed.
        """

    async def health(self, *, timeout: float | None = None) -> dict[str, Health]:
        """The answer of each service, by its name; an outage is an answer too.

        `timeout` is the client's, else 5 seconds, for each check.
        """
        seconds = countable(timeout) or self._target.timeout or _HEALTH_SECONDS
        found = {}
        for endpoint in (self._target.retrieval, self._target.extraction):
            # Straight on the channel: a check that is repeated would hide what it is to show.
            channel = self.connection.channels[endpoint.service]
            found[endpoint.service] = await _check(channel, endpoint, seconds)
        return found


async def _check(channel: grpc.aio.Channel, endpoint: Endpoint, seconds: float) -> Health:
    # The fields of HealthCheckRequest and HealthCheckResponse have the numbers and types of these
    # messages, which come with protobuf.
    call = channel.unary_unary(
        "/grpc.health.v1.Health/Check",
        request_serializer=StringValue.SerializeToString,
        response_deserializer=Int32Value.FromString,
    )
    started = time.monotonic()
    status = await _status(call, "", seconds)
    took = time.monotonic() - started
    serving = status == "SERVING"
    without = []
    for name in _NEEDED.get(endpoint.service, ()) if serving else ():
        if await _status(call, name, seconds) == "NOT_SERVING":
            without.append(name)
    return Health(endpoint.service, endpoint.address, serving, status, took, tuple(without))


async def _status(call: Any, name: str, seconds: float) -> str:
    try:
        reply = await call(StringValue(value=name), timeout=seconds)
    except grpc.RpcError as error:
        return read_error(error).code.name
    return _STATUSES[reply.value] if reply.value in range(len(_STATUSES)) else str(reply.value)
