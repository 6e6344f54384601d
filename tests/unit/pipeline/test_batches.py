"""A range of messages becomes model calls at message borders, in order (B6)."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from hitherto_extraction.pipeline.model_call import split
from hitherto_extraction.storage.conversations import StoredMessage
from hitherto_shared.model_api import estimate_tokens

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def said(*contents: str) -> list[StoredMessage]:
    return [StoredMessage(n, f"m{n}", "user", "", c, NOON) for n, c in enumerate(contents, 1)]


def test_a_message_above_the_budget_stands_alone() -> None:
    short, long, last = said("a", "x" * 9000, "b")
    assert split([short, long, last], 200) == [[short], [long], [last]]


def test_tokens_are_estimated_from_bytes() -> None:
    for text, tokens in [("", 0), ("abc", 1), ("abcd", 2), ("Hà Nội", 3)]:
        assert estimate_tokens(text) == tokens


@given(st.lists(st.text(max_size=400), max_size=30), st.integers(30, 400))
def test_every_message_once_in_order_within_the_budget(contents: list[str], budget: int) -> None:
    contents = [c.encode("utf-8", "ignore").decode() for c in contents]
    messages = said(*contents)
    batches = split(messages, budget)
    assert [message for batch in batches for message in batch] == messages
    for batch in batches:
        assert batch
        assert len(batch) == 1 or sum(estimate_tokens(m.content) for m in batch) <= budget
