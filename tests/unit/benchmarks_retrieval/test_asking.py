"""What the retrieval benchmark sends, and how it looks at the replies."""

from __future__ import annotations

from benchmarks.retrieval.caller import RequestStream
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
