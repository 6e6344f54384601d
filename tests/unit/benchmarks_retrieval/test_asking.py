"""What the retrieval benchmark sends, and how it looks at the replies."""

from __future__ import annotations

import numpy as np

from benchmarks.retrieval.caller import RequestStream
from benchmarks.retrieval.recall import share_of_nearest
from hitherto.v1 import retrieval_service_pb2, search_pb2

USERS = ("p200-0", "p200-1")


def found(results: int, *, degraded: bool = False) -> bytes:
    return retrieval_service_pb2.SearchMemoriesResponse(
        results=[search_pb2.SearchResult(score=0.5)] * results, degraded=degraded
    ).SerializeToString()


def test_a_reply_that_is_degraded_or_short_is_a_fault() -> None:
    asking = RequestStream("search", USERS, "", 2)
    assert asking.fault(found(2)) == ""
    assert asking.fault(found(1)) == "too few"
    assert asking.fault(found(2, degraded=True)) == "degraded"
    floor = RequestStream("floor_search", USERS, "", 2)
    assert floor.fault(b"\0" * 32) == ""
    assert floor.fault(b"\0" * 16) == "too few"


COSINES = np.array([0.9, 0.8, 0.7, 0.2, -0.1, -0.3], dtype=np.float32)
ALL = np.ones(6, dtype=np.bool_)


def test_the_share_of_the_nearest() -> None:
    for allowed, returned, limit, share in [
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
    ]:
        assert share_of_nearest(COSINES, allowed, returned, limit) == share
