"""One call from its arrival to its end: request id in logs, metrics, and a line if it is slow."""

from __future__ import annotations

import logging
import math
import time
from types import TracebackType
from typing import Self

from hitherto_shared.metrics import MeasuredCall
from hitherto_shared.rpc.call import name_request
from hitherto_shared.work_record import begin_record

logger = logging.getLogger("hitherto.rpc")


class ObservedCall:
    """Observes the call of the current task.

    Args:
        method: Path of the RPC.
        request_id: The id of the call in logs.
        slow_seconds: Time from which on it is logged with what it waited for; infinity for streams,
            whose callers decide how long they last.
    """

    __slots__ = ("_began", "_record", "_request_id", "_slow_seconds", "measured")

    def __init__(self, method: str, request_id: str, slow_seconds: float = math.inf) -> None:
        self.measured = MeasuredCall(method)
        self._request_id = request_id
        self._slow_seconds = slow_seconds

    def __enter__(self) -> Self:
        self._began = time.perf_counter()
        name_request(self._request_id)
        self._record = begin_record()
        self.measured.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.measured.__exit__(kind, error, trace)
        seconds = time.perf_counter() - self._began
        if seconds >= self._slow_seconds:
            logger.warning(
                "slow call",
                extra={
                    "method": self.measured.name,
                    "code": self.measured.code,
                    "milliseconds": round(seconds * 1000, 1),
                    "parts": self._record.parts(),
                },
            )
