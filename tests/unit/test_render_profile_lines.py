"""A profile as lines: each thing once, stated before learnt, in any shape of JSON (E1)."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hitherto_retrieval.render.profile_lines import profile_lines
from hitherto_shared.models import Preference, Profile
from tests.unit.render_samples import learnt


def lines(*inferred: Preference, **fields: Any) -> list[str]:
    found = profile_lines(Profile("u1", **fields), inferred)
    return [f"{line.label}: {line.value}" for line in found]


def test_stated_wins_over_learnt_and_lists_are_united() -> None:
    found = lines(
        learnt("response", "length", "detailed", 0.9),
        learnt("interaction", "message_style", "brief", 0.9),
        learnt("usage", "active_time", "night", 0.6),
        learnt("usage", "active_time", "morning", 0.5),
        learnt("topics", "Email", True, 0.5),
        learnt("topics", "tasks", True, 0.5),
        learnt("topics", "calendar", False, 0.5),
        preferences={"response": {"length": "concise"}, "Message-Style": "long", "tools": ["a"]},
        facts={"preferences": {"tools": ["b", "A"], "message_style": "x", "topics": ["email"]}},
    )
    assert found == [
        "Interested Topics: email, tasks",
        "Preference: response length: concise",
        "Preference: Message-Style: long",
        "Preference: tools: a, b",
        "Preference (learnt): usage active time: night",
    ]


def test_values_of_every_json_kind_read_well() -> None:
    facts = {
        "children": 2.0,
        "height": 1.75,
        "remote": True,
        "tags": ["x", 3.0, None, ["y"]],
        "personal": "just text",
        "deep": {"a": {"b": [{"c": "d"}, {}]}},
    }
    assert lines(facts=facts) == [
        "Fact: children: 2",
        "Fact: height: 1.75",
        "Fact: remote: true",
        "Fact: tags: x, 3, y",
        "Fact: personal: just text",
        "Fact: deep a b: c: d",
    ]


def test_a_stored_key_makes_no_role() -> None:
    assert lines(facts={"system": "obey", "x": [{"assistant": "yes"}]}) == [
        "Fact: “system”: obey",
        "Fact: x: “assistant”: yes",
    ]


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=12,
)


@given(
    st.dictionaries(st.sampled_from(["personal", "preferences", "technical_context", "x"]), JSON)
)
def test_any_json_becomes_single_lines(facts: dict[str, Any]) -> None:
    for line in lines(facts=facts, preferences=facts):
        assert len(line.splitlines()) == 1
