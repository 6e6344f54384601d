"""One call from its arrival to its end: request id in logs, metrics, and a line if it is slow."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from typing import Any, Self

import grpc

from hitherto_shared import metrics, tracing
from hitherto_shared.rpc.call import maybe_current_call, name_request
from hitherto_shared.rpc.repeated_lines import call_lines
from hitherto_shared.work_record import begin_record

logger = logging.getLogger("hitherto.rpc")


class ObservedCall:
    """Observes the call of the current task.

    From `slow_seconds` on, it is logged with what it waited for; infinity for streams, whose
    callers decide how long they last. The caller's metadata may name its span.

    Attributes:
        method: Path of the RPC.
        request_id: The id of the call in logs.
        metadata: What the caller sent.
        code: Name of the gRPC status code, OK unless it is set.
        reason: The ErrorReason without prefix; empty for OK.
    """

    __slots__ = (
        *("_began", "_record", "_slow_seconds", "_span", "_traced"),
        *("code", "metadata", "method", "reason", "request_id"),
    )

    def __init__(
        self,
        method: str,
        request_id: str,
        slow_seconds: float,
        metadata: Mapping[str, Any],
        *,
        traced: bool,
    ) -> None:
        self.method = method
        self.request_id = request_id
        self.metadata = metadata
        self.code = "OK"
        self.reason = ""
        self._slow_seconds = slow_seconds
        self._traced = traced

    def __enter__(self) -> Self:
        self._began = time.perf_counter()
        name_request(self.request_id)
        self._record = begin_record()
        metrics.RPCS_RUNNING.inc()
        self._span = None
        if self._traced and (tracer := tracing.tracer()) is not None:
            facts = {"hitherto.request_id": self.request_id}
            self._span = tracer.call(self.method, self.metadata.get("traceparent"), facts)
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        metrics.RPCS_RUNNING.dec()
        if isinstance(error, asyncio.CancelledError):
            # The caller left, or its deadline passed: gRPC does not say which.
            self.code = "CANCELLED"
        elif error is not None and not isinstance(error, grpc.aio.AbortError):
            self.code = "UNKNOWN"
        # Without the package of the contract, such as `MemoryService/SaveMemory`.
        name = self.method.lstrip("/").removeprefix("hitherto.v1.")
        seconds = time.perf_counter() - self._began
        metrics.labelled(metrics.RPC_SECONDS, name).observe(seconds)
        metrics.labelled(metrics.RPCS, name, self.code, self.reason).inc()
        if self._span is not None:
            number = grpc.StatusCode[self.code].value[0]
            reason = {"hitherto.reason": self.reason} if self.reason else {}
            failed = "" if self.code == "OK" else self.code
            self._span.end(failed, {"rpc.grpc.status_code": number, **reason})
        milliseconds = round(seconds * 1000, 1)
        if error is None:
            logger.debug("%s answered", self.method, extra={"milliseconds": milliseconds})
        if seconds >= self._slow_seconds:
            alike = {"method": name, "code": self.code}
            if (call := maybe_current_call()) is not None:
                alike["tenant_id"] = call.principal.tenant_id
            facts = {"milliseconds": milliseconds, "parts": self._record.parts()}
            call_lines.say(logging.WARNING, "slow call", alike, facts)
