"""Recall and nDCG of one answer."""

from __future__ import annotations

import math

import pytest

from benchmarks.locomo.answers import behind, score
from hitherto.v1 import conversation_pb2, memory_pb2, search_pb2
from hitherto_client.results import SearchResult
from hitherto_client.wire import read


def test_recall_counts_gold_messages_behind_the_first_results() -> None:
    results = [["a"], ["x"], ["x"], ["x"], ["x"], ["b", "c"], ["a"], ["x"], ["x"], ["x"], ["d"]]
    found = score({"a", "b", "c", "d"}, results)
    assert found.recall_5 == 0.25
    assert found.recall_10 == 0.75


def test_ndcg_rewards_what_stands_in_front() -> None:
    assert score({"a"}, [["a"]]).ndcg_10 == 1.0
    assert score({"a"}, [["x"], ["a"]]).ndcg_10 == pytest.approx(1 / math.log2(3))
    ideal = 1 + 1 / math.log2(3)
    assert score({"a", "b"}, [["x"], ["x"], ["b"]]).ndcg_10 == pytest.approx(0.5 / ideal)


def test_a_message_stands_for_itself_and_a_memory_for_what_it_came_from() -> None:
    message = search_pb2.SearchResult(message=conversation_pb2.Message(id="m1"))
    memory = search_pb2.SearchResult(memory=memory_pb2.Memory(source_message_ids=["m1", "m2"]))
    assert list(behind(read(SearchResult, message))) == ["m1"]
    assert list(behind(read(SearchResult, memory))) == ["m1", "m2"]
