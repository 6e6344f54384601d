"""One call from its arrival to its end: request id in logs, metrics, and a line if it is slow."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

import grpc

from hitherto_shared import tracing
from hitherto_shared.metrics import MeasuredCall
from hitherto_shared.rpc.call import maybe_current_call, name_request
from hitherto_shared.rpc.repeated_lines import call_lines
from hitherto_shared.work_record import begin_record


class ObservedCall:
    """Observes the call of the current task.

    Args:
        method: Path of the RPC.
        request_id: The id of the call in logs.
        slow_seconds: Time from which on it is logged with what it waited for; infinity for streams,
            whose callers decide how long they last.
        metadata: What the caller sent, which may name its span; None for a call without a span.
    """

    __slots__ = (
        *("_began", "_metadata", "_record", "_request_id", "_slow_seconds", "_span"),
        "measured",
    )

    def __init__(
        self,
        method: str,
        request_id: str,
        slow_seconds: float = math.inf,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        self.measured = MeasuredCall(method)
        self._request_id = request_id
        self._slow_seconds = slow_seconds
        self._metadata = metadata

    def __enter__(self) -> Self:
        self._began = time.perf_counter()
        name_request(self._request_id)
        self._record = begin_record()
        self.measured.__enter__()
        tracer = tracing.tracer()
        self._span: tracing.TraceSpan | None = None
        if tracer is not None and self._metadata is not None:
            self._span = tracer.call(
                self.measured.method,
                self._metadata.get("traceparent"),
                {"hitherto.request_id": self._request_id},
            )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.measured.__exit__(kind, error, trace)
        seconds = time.perf_counter() - self._began
        code = self.measured.code
        if self._span is not None:
            number = grpc.StatusCode[code].value[0]
            reason = {"hitherto.reason": self.measured.reason} if self.measured.reason else {}
            self._span.end("" if code == "OK" else code, {"rpc.grpc.status_code": number, **reason})
        if seconds >= self._slow_seconds:
            alike = {"method": self.measured.name, "code": code}
            if (call := maybe_current_call()) is not None:
                alike["tenant_id"] = call.principal.tenant_id
            facts = {"milliseconds": round(seconds * 1000, 1), "parts": self._record.parts()}
            call_lines.say(logging.WARNING, "slow call", alike, facts)
