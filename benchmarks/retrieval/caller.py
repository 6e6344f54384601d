"""What is asked, and the process that asks: callers that send when their last reply is there.

`work` runs in a process of its own. Every caller has a connection of its own, as callers in
different processes have. Replies are neither read nor kept but for a few, which are looked at once
the clock has stopped.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import cycle
from typing import Any

import grpc
import uvloop

from benchmarks.floor import METHOD as FLOOR
from benchmarks.retrieval.plan import FLOORS, original_of
from benchmarks.retrieval.wording import Questions, vector
from hitherto.v1 import retrieval_service_pb2 as pb
from hitherto.v1 import search_pb2
from hitherto_retrieval.search.ranking.balanced import Balanced

_SERVICE = "/hitherto.v1.RetrievalService/"
# query_embedding: field 3, packed, of 1,536 numbers.
_VECTOR_HEAD = b"\x1a\x80\x30"
_CALL_SECONDS = 30.0
_LOOKED_AT = 8
"""Of so many replies one is looked at."""
SEMANTIC_ALONE = {name: float(name == "semantic") for name in Balanced.weights}
"""Weights with which the default ranking searches by vector only."""
EVERYTHING = [scope for scope in search_pb2.SearchScope.values() if scope]


@dataclass(frozen=True, slots=True)
class RequestStream:
    """What a caller sends, one request after another.

    It is a search with a new query, with all weights but the semantic one at 0, in all scopes as a
    context does, or with the caller's own vector and no words; a context without or with a query;
    or what a floor takes: a search, or nothing at all.
    """

    subject: str  # one of `SUBJECTS`
    users: Sequence[str]  # who asks, in turn
    seed: str  # other seeds give other questions
    limit: int  # how many results a search wants

    @property
    def method(self) -> str:
        """Which method is called."""
        if self.subject in FLOORS:
            return FLOOR
        context = self.subject.startswith("context")
        return _SERVICE + ("GetContext" if context else "SearchMemories")

    def requests(self) -> Iterator[bytes]:
        """The requests, without end."""
        questions = Questions(self.seed)
        for user in cycle(self.users):
            if self.subject in ("floor_echo", "floor_select"):
                yield b""
            elif self.subject == "context":
                yield pb.GetContextRequest(user_id=user).SerializeToString()
            else:
                yield self._about(user, questions.ask(original_of(user)))

    def _about(self, user: str, query: str) -> bytes:
        if self.subject == "context_query":
            return pb.GetContextRequest(user_id=user, query=query).SerializeToString()
        # As many results each time, however well they answer: else no two calls are of one size.
        request = pb.SearchMemoriesRequest(user_id=user, limit=self.limit, min_relevance=0.0)
        if self.subject == "search_vector":
            # Made by hand, because a list of floats is slow.
            return request.SerializeToString() + _VECTOR_HEAD + vector(query).tobytes()
        request.query = query
        if self.subject == "search_semantic":
            request.weights.update(SEMANTIC_ALONE)
        if self.subject == "search_everything":
            request.scopes.extend(EVERYTHING)
        return request.SerializeToString()

    def fault(self, reply: bytes) -> str:
        """What is wrong with a reply; empty if nothing is."""
        if self.subject in FLOORS:
            enough = self.subject != "floor_search" or len(reply) == 16 * self.limit
            return "" if enough else "too few"
        if self.subject.startswith("context"):
            context = pb.GetContextResponse.FromString(reply)
            if context.degraded:
                return "degraded"
            # A question is made of random words: a few in a thousand have nothing above the floor.
            answered = bool(context.relevant) or context.nothing_relevant
            wanting = self.subject == "context_query" and not answered
            return "empty" if wanting or not context.memories else ""
        found = pb.SearchMemoriesResponse.FromString(reply)
        if found.degraded:
            return "degraded"
        return "" if len(found.results) == self.limit else "too few"


@dataclass(frozen=True, slots=True)
class CallerResult:
    """What came of some callers' work."""

    ms: Sequence[float]  # how long each call took, in no order
    seconds: float  # from the first request to the last reply
    # CPU seconds that each process spent on it; that of the callers is `caller`.
    cpu: Mapping[str, float]
    looked_at: int  # how many replies were looked at
    faults: Mapping[str, int]  # how many of these were not as they should be, by what was wrong
    error: str = ""  # the first call that failed, if one did; nothing is sent after it


def work(port: int, asking: RequestStream, callers: int, seconds: float, key: str) -> CallerResult:
    """Send for so long, and wait for the last reply; `key` is sent along if there is one."""
    return _runner().run(_work(port, asking, callers, seconds, key))


async def _work(
    port: int, asking: RequestStream, callers: int, seconds: float, key: str
) -> CallerResult:
    requests = asking.requests()
    metadata = [("authorization", f"Bearer {key}")] if key else []
    ms: list[float] = []
    kept: list[bytes] = []
    errors: list[str] = []

    async def call_again_and_again(call: Callable[..., Any]) -> None:
        while time.perf_counter() < end and not errors:
            request = next(requests)
            before = time.perf_counter()
            try:
                reply = await call(request, metadata=metadata, timeout=_CALL_SECONDS)
            except grpc.aio.AioRpcError as error:
                errors.append(f"{error.code().name}: {error.details()}")
                return
            ms.append(1_000 * (time.perf_counter() - before))
            if len(ms) % _LOOKED_AT == 0:
                kept.append(reply)

    calls: list[Callable[..., Any]] = [
        _channel(port, number).unary_unary(asking.method) for number in range(callers)
    ]
    spent, began = time.process_time(), time.perf_counter()
    end = began + seconds
    await asyncio.gather(*(call_again_and_again(call) for call in calls))
    seconds = time.perf_counter() - began
    cpu = {"caller": time.process_time() - spent}
    faults = Counter(fault for reply in kept if (fault := asking.fault(reply)))
    return CallerResult(ms, seconds, cpu, len(kept), faults, *errors[:1])


@cache
def _runner() -> asyncio.Runner:
    return asyncio.Runner(loop_factory=uvloop.new_event_loop)


@cache
def _channel(port: int, _: int) -> grpc.aio.Channel:
    """The connection of one caller, kept between pieces of work."""
    return grpc.aio.insecure_channel(
        f"127.0.0.1:{port}",
        options=[
            # Otherwise all callers would share one connection.
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.max_receive_message_length", -1),
        ],
    )
