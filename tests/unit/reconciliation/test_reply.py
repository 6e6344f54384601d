"""Reading what a reconciliation proposes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hitherto_extraction.provider.reply_text import UnusableAnswer
from hitherto_extraction.reconciliation.reply import Proposals, read_reply
from tests.refusing import refusing

SHOWN = ("e1", "e2", "e3")


def read(**lists: Any) -> Proposals:
    """Read a reply with these lists."""
    return read_reply(json.dumps(lists), SHOWN)


def test_ids_may_stand_in_brackets() -> None:
    found = read(
        same=[{"keep": "[e1]", "others": ["e2"]}],
        replaced=[{"old": "e2", "new": "[ e3 ]"}],
        doubtful=[{"id": "e1", "because": "e3", "reason": " moved\nto Kassel "}],
        certain=["[e2]", "e2"],
    )
    assert (found.same[0].keep, found.same[0].others) == ("e1", ("e2",))
    assert (found.replaced[0].old, found.replaced[0].new) == ("e2", "e3")
    assert found.doubtful[0].reason == "moved to Kassel"
    assert (found.certain, found.dropped) == (("e2",), 0)


def test_a_bad_item_is_dropped_and_costs_no_other() -> None:
    for item in [
        {"keep": "e1", "others": ["e9"]},
        {"keep": "e1", "others": ["e1"]},
        {"keep": "e9", "others": ["e1"]},
        {"keep": "e1", "others": "e2"},
        "e1",
        None,
    ]:
        found = read(same=[item, {"keep": "e1", "others": ["e2"]}])
        assert (len(found.same), found.dropped) == (1, 1), item


def test_a_reply_without_anything_usable_is_asked_for_again() -> None:
    for text in [
        "",
        "nothing",
        "{}",
        "[]",
        '{"same": {}}',
        '{"replaced": [{"old": "e8", "new": "e1"}]}',
    ]:
        with pytest.raises(UnusableAnswer), refusing(text):
            read_reply(text, SHOWN)
