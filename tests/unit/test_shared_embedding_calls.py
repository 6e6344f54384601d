"""The cost of a call that embeds questions of several tenants: divided, and nothing of it lost."""

from __future__ import annotations

from collections import Counter
from typing import Any, cast

import pytest

from hitherto_retrieval.usage_counts import QueryUsageCounter
from hitherto_shared.database.pool import Database
from hitherto_shared.embeddings.protocol import EmbeddingBatch


def test_the_shares_of_the_tenants_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    counter = QueryUsageCounter(cast(Database, None))
    counted: dict[str, Counter[str]] = {}

    def add(tenant_id: str, counts: dict[Any, int]) -> None:
        counted[tenant_id] = Counter({what: number for (_, what), number in counts.items()})

    monkeypatch.setattr(counter._counts, "add", add)
    for lengths in (
        {"a": 3, "b": 3, "c": 3},
        {"a": 1, "b": 1, "c": 1, "d": 1},
        {"a": 50, "b": 1, "c": 7},
        {"a": 5},
    ):
        texts = [(tenant, "x" * length) for tenant, length in lengths.items()]
        for tokens in (0, 1, 2, 10, 11, 100, 101):
            case = (lengths, tokens)
            counted.clear()
            counter.embedded("m", EmbeddingBatch([], 1, tokens), texts)
            assert counted.keys() == lengths.keys(), case
            assert sum(each["calls"] for each in counted.values()) == 1, case
            assert sum(each["tokens"] for each in counted.values()) == tokens, case
            assert all(share["tokens"] >= 0 for share in counted.values()), case
