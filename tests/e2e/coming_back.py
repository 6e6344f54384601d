"""Reads of users who come back: each question is asked until what is held of them answers it.

The modules of `READ_TWICE` run twice: once as everybody's first reads are answered, by the
database, and once from snapshots. With the option `--reads=held`, every test whose services are the
fixtures `services` or `modelled` is answered from snapshots.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hitherto_shared.metrics import SNAPSHOT_LOOKUPS

if TYPE_CHECKING:
    from tests.e2e.conftest import Services

READ, HELD = "read", "held"
READ_TWICE = frozenset(
    {
        "test_context_evidence",
        "test_context_of_a_conversation",
        "test_doubtful_memories",
        "test_search",
        "test_search_scopes",
        "test_terse_questions",
    }
)
_TRIES = 5
"""The second call has a snapshot loaded. Some questions are never answered from one."""
_PAUSE_SECONDS = 0.02
_FROM_SNAPSHOTS = ("SearchMemories", "GetContext")


def coming_back(services: Services, how: str) -> Services:
    """The services as they are (`READ`), or with reads that snapshots answer (`HELD`)."""
    if how == READ:
        return services
    stub: Any = _Returning(services.retrieval)
    return replace(services, retrieval=stub)


class _Returning:
    def __init__(self, stub: Any) -> None:
        self._stub = stub

    def __getattr__(self, method: str) -> Any:
        call = getattr(self._stub, method)
        return _again(call) if method in _FROM_SNAPSHOTS else call


def _again(call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    async def until_held(request: Any, **given: Any) -> Any:
        reply = None
        for _ in range(_TRIES):
            before = _hits()
            reply = await call(request, **given)
            if _hits() > before:
                break
            await asyncio.sleep(_PAUSE_SECONDS)
        return reply

    return until_held


def _hits() -> float:
    # The registry would collect every metric of the process to find this one.
    (metric,) = SNAPSHOT_LOOKUPS.labels("hit").collect()
    return next(sample.value for sample in metric.samples if sample.name.endswith("_total"))
