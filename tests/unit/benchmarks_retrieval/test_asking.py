"""What the retrieval benchmark sends, and how it looks at the replies."""

from __future__ import annotations

import asyncio
import urllib.request

import numpy as np
import pytest

from benchmarks.model_server import instant_model
from benchmarks.retrieval.caller import RequestStream
from benchmarks.retrieval.plan import FLOORS, SUBJECTS
from benchmarks.retrieval.recall import share_of_nearest
from benchmarks.retrieval.wording import Questions, vector
from hitherto.v1 import memory_pb2, retrieval_service_pb2, search_pb2
from hitherto_shared.embeddings.openai_api import OpenAIEmbedder
from hitherto_shared.model_server import ModelServer

USERS = ("p200-0", "p200-1")


def sent(kind: str, count: int) -> list[retrieval_service_pb2.SearchMemoriesRequest]:
    following = RequestStream(kind, USERS, "seed", 20).requests()
    return [
        retrieval_service_pb2.SearchMemoriesRequest.FromString(next(following))
        for _ in range(count)
    ]


def found(results: int, *, degraded: bool = False) -> bytes:
    return retrieval_service_pb2.SearchMemoriesResponse(
        results=[search_pb2.SearchResult(score=0.5)] * results, degraded=degraded
    ).SerializeToString()


def test_searches_are_of_all_users_in_turn_and_never_the_same() -> None:
    requests = sent("search", 100)
    assert [request.user_id for request in requests[:4]] == [*USERS, *USERS]
    assert len({request.query for request in requests}) == 100
    assert {request.limit for request in requests} == {20}
    assert not any(request.weights or request.query_embedding for request in requests)


def test_repeated_searches_are_few() -> None:
    assert len({request.query for request in sent("search_repeated", 200)}) == 32


def test_the_semantic_leg_alone_has_the_other_weights_at_nothing() -> None:
    weights = dict(sent("search_semantic", 1)[0].weights)
    assert weights.pop("semantic") == 1.0
    assert "keyword" in weights
    assert not any(weights.values())


def test_a_search_of_everything_has_the_scopes_of_a_context() -> None:
    assert set(sent("search_everything", 1)[0].scopes) == {
        search_pb2.SEARCH_SCOPE_MEMORIES,
        search_pb2.SEARCH_SCOPE_MESSAGES,
        search_pb2.SEARCH_SCOPE_SUMMARIES,
        search_pb2.SEARCH_SCOPE_DOCUMENTS,
    }
    assert not sent("search", 1)[0].scopes


def test_the_callers_own_vector_is_that_of_a_question() -> None:
    request = sent("search_vector", 1)[0]
    wanted = vector(Questions("seed").ask(USERS[0]))
    assert np.array(request.query_embedding, dtype=np.float32) == pytest.approx(wanted)
    assert (request.user_id, request.query, request.limit) == (USERS[0], "", 20)


def test_each_subject_goes_to_its_method() -> None:
    methods = {subject: RequestStream(subject, USERS, "", 20).method for subject in SUBJECTS}
    assert {methods.pop(floor) for floor in FLOORS} == {"/hitherto.benchmark.Floor/Take"}
    assert {methods.pop("context"), methods.pop("context_query")} == {
        "/hitherto.v1.RetrievalService/GetContext"
    }
    assert set(methods.values()) == {"/hitherto.v1.RetrievalService/SearchMemories"}


def test_a_reply_that_is_degraded_or_short_is_a_fault() -> None:
    asking = RequestStream("search", USERS, "", 2)
    assert asking.fault(found(2)) == ""
    assert asking.fault(found(1)) == "too few"
    assert asking.fault(found(2, degraded=True)) == "degraded"
    floor = RequestStream("floor_search", USERS, "", 2)
    assert floor.fault(b"\0" * 32) == ""
    assert floor.fault(b"\0" * 16) == "too few"


def test_a_context_without_what_was_asked_for_is_a_fault() -> None:
    context = retrieval_service_pb2.GetContextResponse(memories=[memory_pb2.Memory(id="m")])
    without = context.SerializeToString()
    assert RequestStream("context", USERS, "", 2).fault(without) == ""
    assert RequestStream("context_query", USERS, "", 2).fault(without) == "empty"
    assert RequestStream("context", USERS, "", 2).fault(b"") == "empty"
    context.degraded = True
    assert RequestStream("context", USERS, "", 2).fault(context.SerializeToString()) == "degraded"


async def test_the_embedder_counts_calls_and_is_as_late_as_it_is_told() -> None:
    async with instant_model(vector) as model:
        embedder = OpenAIEmbedder("m", 1536, server=ModelServer(model.base_url))
        try:
            given = (await embedder.embed(["one", "two"])).vectors
        finally:
            await embedder.close()
        assert given[1] == pytest.approx(vector("two"))
        told = [
            await asyncio.to_thread(_get, f"http://127.0.0.1:{model.port}{path}")
            for path in ("/calls", "/delay/150")
        ]
        assert told == [b'{"embeddings": 1}', b"{}"]
        assert model.delay == 0.15


def _get(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=10) as reply:
        return bytes(reply.read())


COSINES = np.array([0.9, 0.8, 0.7, 0.2, -0.1, -0.3], dtype=np.float32)
ALL = np.ones(6, dtype=np.bool_)


@pytest.mark.parametrize(
    ("allowed", "returned", "limit", "share"),
    [
        (ALL, [0, 1], 2, 1.0),
        (ALL, [0, 2], 2, 0.5),
        (ALL, [0, 0], 2, 0.5),
        (ALL, [], 2, 0.0),
        (np.array([False, True, True, True, True, True]), [1, 2], 2, 1.0),
        # The best one is not let through, so it counts for nothing.
        (np.array([False, True, True, True, True, True]), [0, 1], 2, 0.5),
        # Below 0 one is as good as another.
        (ALL, [0, 1, 2, 3, 5], 5, 1.0),
        (np.zeros(6, dtype=np.bool_), [], 2, 1.0),
    ],
)
def test_the_share_of_the_nearest(
    allowed: np.ndarray[tuple[int], np.dtype[np.bool_]],
    returned: list[int],
    limit: int,
    share: float,
) -> None:
    assert share_of_nearest(COSINES, allowed, returned, limit) == share
