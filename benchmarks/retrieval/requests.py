"""What is asked: the bytes of requests by kind, and whether a reply is what was to be expected."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import cycle

from benchmarks.floor import METHOD as FLOOR
from benchmarks.retrieval.plan import original_of
from benchmarks.retrieval.wording import Questions, vector
from hitherto.v1 import retrieval_service_pb2 as pb
from hitherto_retrieval.search.ranking.balanced import Balanced

_SERVICE = "/hitherto.v1.RetrievalService/"
# query_embedding: field 3, packed.
_VECTOR_TAG = b"\x1a"
_REPEATED = 16
SEMANTIC_ALONE = {name: float(name == "semantic") for name in Balanced.weights}
"""Weights with which the default ranking searches by vector only."""

KINDS = (
    "empty",
    "search",
    "search_repeated",
    "search_semantic",
    "search_vector",
    "context",
    "context_query",
)


@dataclass(frozen=True, slots=True)
class RequestStream:
    """What a caller sends, one request after another.

    Attributes:
        kind: One of `KINDS`: nothing at all; a search with a new query, with one of a few queries,
            with all weights but the semantic one at 0, or with the caller's own vector and no
            words; a context without or with a query.
        users: Who asks, in turn.
        seed: Other seeds give other questions.
        limit: How many results a search wants.
        floor: True sends it to a floor.
    """

    kind: str
    users: Sequence[str]
    seed: str
    limit: int
    floor: bool = False

    @property
    def method(self) -> str:
        """Which method is called."""
        if self.floor:
            return FLOOR
        return _SERVICE + ("GetContext" if self.kind.startswith("context") else "SearchMemories")

    def requests(self) -> Callable[[], bytes]:
        """Makes the next request each time it is called."""
        users = cycle(self.users)
        questions = Questions(self.seed)
        few = {user: _few(self.seed, user) for user in self.users} if self._repeats else {}

        def following() -> bytes:
            user = next(users)
            person = original_of(user)
            if self.kind == "empty":
                return b""
            if self.kind == "context":
                return pb.GetContextRequest(user_id=user).SerializeToString()
            if self.kind == "context_query":
                asked = pb.GetContextRequest(user_id=user, query=questions.ask(person))
                return asked.SerializeToString()
            request = pb.SearchMemoriesRequest(user_id=user, limit=self.limit)
            if self.kind == "search_vector":
                return request.SerializeToString() + _with_vector(questions.ask(person))
            request.query = next(few[user]) if self._repeats else questions.ask(person)
            if self.kind == "search_semantic":
                request.weights.update(SEMANTIC_ALONE)
            return request.SerializeToString()

        return following

    def fault(self, reply: bytes) -> str:
        """What is wrong with a reply; empty if nothing is."""
        if self.floor:
            return "" if self.kind != "search" or len(reply) == 16 * self.limit else "too few"
        if self.kind.startswith("context"):
            context = pb.GetContextResponse.FromString(reply)
            if context.degraded:
                return "degraded"
            wanting = not context.relevant and self.kind == "context_query"
            return "empty" if wanting or not context.memories else ""
        found = pb.SearchMemoriesResponse.FromString(reply)
        if found.degraded:
            return "degraded"
        return "" if len(found.results) == self.limit else "too few"

    @property
    def _repeats(self) -> bool:
        return self.kind == "search_repeated"


def _few(seed: str, user: str) -> cycle[str]:
    questions = Questions(f"{seed} {user}")
    return cycle([questions.ask(original_of(user)) for _ in range(_REPEATED)])


def _with_vector(text: str) -> bytes:
    """A query vector as it stands in a request; made by hand because a list of floats is slow."""
    numbers = vector(text).tobytes()
    return _VECTOR_TAG + _varint(len(numbers)) + numbers


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)
