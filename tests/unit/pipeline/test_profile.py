"""How a profile grows (E1, E2, faults 31 and 38)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from hitherto_extraction.pipeline.free_json import Path
from hitherto_extraction.pipeline.profile import MAX_BYTES, MAX_LIST_ITEMS, said_path
from hitherto_extraction.pipeline.profile_changes import ProfileState, ValueChange
from hitherto_shared.models import Profile

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
EARLIER, LATER = NOON - timedelta(days=1), NOON + timedelta(days=1)
EMPTY = Profile(user_id="u1")
FIELDS = ("summary", "current_projects", "preferences", "frequent_intents", "facts", "metadata")


def merge(
    patch: dict[str, Any], at: datetime = NOON, onto: ProfileState | Profile = EMPTY
) -> ProfileState:
    """The state after all values of a patch, one by one."""
    held = ProfileState(onto, {}) if isinstance(onto, Profile) else onto
    state = ProfileState(held.profile, held.said_at)
    for path, value in values(patch):
        state.apply(ValueChange(path, value, False, at))
    return state


def values(patch: Mapping[str, Any], path: Path = ()) -> Iterator[tuple[Path, Any]]:
    for key, value in patch.items():
        if isinstance(value, dict):
            yield from values(value, (*path, key))
        else:
            yield (*path, key), value


def filled(*values: Any) -> dict[str, Any]:
    return dict(zip(FIELDS, values, strict=True))


def content(profile: Profile) -> dict[str, Any]:
    return {name: getattr(profile, name) for name in FIELDS}


def as_json(profile: Profile) -> str:
    """The content in a form in which false is not 0."""
    return json.dumps(content(profile), ensure_ascii=False)


def size(profile: Profile) -> int:
    return len(as_json(profile).encode())


def test_should_merge_facts_without_duplicates() -> None:
    """Document 001, "should merge facts without duplicates"."""
    first = merge(
        {
            "facts": {
                "personal": {"name": "John", "location": "Da Nang"},
                "preferences": {"languages": ["Python", "Go"], "topics": ["databases"]},
                "technical_context": {"frameworks": ["FastAPI"], "current_projects": ["chatbot"]},
            }
        }
    )
    second = merge(
        {
            "facts": {
                "personal": {"occupation": "engineer"},
                "preferences": {"languages": ["Go", " Python ", "Rust"]},
                "technical_context": {"frameworks": ["FastAPI", "React"]},
            },
            "current_projects": ["chatbot", "website"],
        },
        LATER,
        first,
    )
    assert second.profile.facts == {
        "personal": {"name": "John", "location": "Da Nang", "occupation": "engineer"},
        "preferences": {"languages": ["Python", "Go", "Rust"], "topics": ["databases"]},
        "technical_context": {"frameworks": ["FastAPI", "React"]},
    }
    assert (second.profile.current_projects, second.dropped) == (("chatbot", "website"), 0)


def test_only_a_value_that_differs_counts_as_changed() -> None:
    first = merge({"summary": "A nurse", "facts": {"a": 1, "b": [1, 2]}})
    assert list(first.changed) == ["summary", "facts.a", "facts.b"]
    same = merge({"summary": "A nurse ", "facts": {"a": 1.0, "b": [2]}}, LATER, first)
    assert not same.changed
    assert same.said_at["summary"] == LATER.isoformat()
    other = merge({"summary": "A doctor"}, LATER, same)
    assert list(other.changed) == ["summary"]


def test_what_says_nothing_changes_nothing() -> None:
    empty: list[Any] = [None, "", " \n", {}, []]
    for nothing in empty:
        held = merge(
            filled("A nurse", ["x"], {"tone": "dry"}, ["ask"], {"p": {"name": "Lan"}}, {"k": 1})
        )
        blank = dict.fromkeys(FIELDS, nothing)
        inner = {
            "facts": {"p": {"name": nothing}, "q": nothing},
            "current_projects": [nothing],
            "metadata": {"k": nothing},
        }
        for patch in (blank, inner):
            change = merge(patch, LATER, held)
            assert change.profile == held.profile, nothing
            assert (change.said_at, change.dropped) == (held.said_at, 0), nothing
            assert not change.changed, nothing


def test_a_list_without_a_usable_item_replaces_nothing() -> None:
    for items in [[None], [" "], ["x" * 1_000]]:
        known = merge({"facts": {"personal": {"city": "Huế"}}})
        change = merge({"facts": {"personal": {"city": items}}}, LATER, known)
        assert (change.profile, change.changed) == (known.profile, {}), items


def test_what_ends_goes_with_its_sources_and_those_of_its_parts() -> None:
    state = ProfileState(EMPTY, {})
    for path, value in ((("facts", "cat", "name"), "Mio"), (("facts", "catering"), "vegan")):
        source = {"path": [*path], "said_at": NOON.isoformat(), "memory_ids": []}
        state.apply(ValueChange(path, value, False, NOON, source))
    assert list(state.profile.sources) == ["facts.cat.name", "facts.catering"]
    state.apply(ValueChange(("facts", "cat"), None, True, LATER))
    assert state.profile.facts == {"catering": "vegan"}
    assert list(state.profile.sources) == ["facts.catering"]


def test_only_a_correction_by_hand_takes_a_value_that_the_new_words_lack() -> None:
    memory_id = UUID(int=1)
    source = {"path": ["facts", "city"], "memory_ids": [str(memory_id)]}
    for corrected, facts in (((), {"city": "Huế"}), ((memory_id,), {})):
        held = replace(EMPTY, facts={"city": "Huế"}, sources={"facts.city": source})
        state = ProfileState(held, {})
        state.drop_unsupported(lambda _: "The user lives by the sea", corrected=corrected)
        assert state.profile.facts == facts, corrected


def test_keys_with_dots_have_paths_of_their_own() -> None:
    assert said_path("facts", "a.b", "c") != said_path("facts", "a", "b.c")
    assert said_path("a\\", "b") != said_path("a\\.b")
    late = merge({"facts": {"a.b": "new"}}, LATER)
    change = merge({"facts": {"a": {"b": "other"}, "a.b": "old"}}, NOON, late)
    assert change.profile.facts == {"a.b": "new", "a": {"b": "other"}}


def test_what_a_hand_set_or_removed_is_overruled_only_by_later_words() -> None:
    for path in [("facts", "personal", "name"), ("facts", "personal"), ("facts",)]:
        said_at = {said_path(*path): NOON.isoformat()}
        patch = {"facts": {"personal": {"name": "Lan"}}}
        held = ProfileState(EMPTY, said_at)
        assert merge(patch, EARLIER, held).profile == EMPTY, path
        assert merge(patch, LATER, held).profile.facts == {"personal": {"name": "Lan"}}, path


def test_a_list_set_by_hand_takes_nothing_older() -> None:
    said_at = {"current_projects": NOON.isoformat()}
    held = ProfileState(Profile("u1", current_projects=("a",), version=1), said_at)
    patch = {"current_projects": ["b"]}
    assert merge(patch, EARLIER, held).profile.current_projects == ("a",)
    assert merge(patch, LATER, held).profile.current_projects == ("a", "b")


def test_an_equal_event_time_replaces_and_so_does_any_that_is_unreadable() -> None:
    local = NOON.astimezone(timezone(timedelta(hours=7)))
    change = merge({"summary": "B"}, local, merge({"summary": "A"}, NOON))
    assert change.profile.summary == "B"
    assert change.said_at == {"summary": "2026-03-01T12:00:00+00:00"}
    change = merge({"summary": "A"}, NOON, ProfileState(EMPTY, {"summary": "yesterday"}))
    assert change.profile.summary == "A"


def test_the_arguments_are_left_alone() -> None:
    held = Profile("u1", facts={"a": {"b": ["c"]}}, version=1)
    said_at: dict[str, str] = {}
    merge({"facts": {"a": {"b": ["d"], "e": 1}}}, NOON, ProfileState(held, said_at))
    assert (held.facts, said_at) == ({"a": {"b": ["c"]}}, {})


def test_where_kinds_clash_the_held_kind_stays() -> None:
    for held, said, after, dropped in [
        (["a"], "b", ["a", "b"], 0),
        (["a"], " a ", ["a"], 0),
        (["a"], {"k": 1}, ["a"], 1),
        # A value that has become several.
        ("a", ["b"], ["b"], 0),
        ("a", {"k": 1}, "a", 1),
        ({"k": 1}, "b", {"k": 1}, 1),
        ({"k": 1}, ["b"], {"k": 1}, 1),
        ("", {"k": 1}, {"k": 1}, 0),
        ([], {"k": 1}, {"k": 1}, 0),
        (None, ["b"], ["b"], 0),
        ({}, "b", "b", 0),
        (True, 1, 1, 0),
    ]:
        profile = Profile("u1", facts={"x": held}, version=3)
        change = merge({"facts": {"x": said}}, NOON, profile)
        assert change.profile.facts == {"x": after}, (held, said)
        assert type(change.profile.facts["x"]) is type(after), (held, said)
        assert change.dropped == dropped, (held, said)


def test_the_fields_themselves_keep_their_kinds() -> None:
    patch = filled(["a"], {"a": 1}, "a", 5, ["a"], "a")
    change = merge(patch)
    assert (change.profile, change.dropped) == (EMPTY, 6)
    change = merge({"current_projects": ["a", 1, {"b": 2}, ["c"]], "frequent_intents": "ask"})
    assert (change.profile.current_projects, change.profile.frequent_intents) == (("a",), ("ask",))
    assert change.dropped == 3


def test_projects_are_one_list_under_two_names() -> None:
    change = merge(
        {
            "current_projects": ["a"],
            "facts": {"technical_context": {"current_projects": ["a", "b"]}},
        }
    )
    assert (change.profile.current_projects, change.profile.facts) == (("a", "b"), {})
    assert list(change.changed) == ["current_projects"]
    change = merge({"current_projects": [" Ha\u0300 No\u0323\u0302i", "Hà Nội "]})
    assert change.profile.current_projects == ("Hà Nội",)
    change = merge({"facts": {"technical_context": {"current_projects": {"k": 1}}}})
    assert (change.profile, change.dropped) == (EMPTY, 1)


def test_what_cannot_be_stored_is_dropped_and_the_rest_is_kept() -> None:
    bad = ["a\x00b", "\ud800", float("nan"), float("inf"), 10**400, b"bytes", object()]
    change = merge(
        {
            "facts": {
                **{f"k{number}": value for number, value in enumerate(bad)},
                "\x00": "key",
                "k" * 201: "long key",
                5: "number as key",
                "list": [*bad, "good", {"deep": ["\ud800"]}],
                "good": "yes",
            }
        }
    )
    assert change.profile.facts == {"list": ["good"], "good": "yes"}
    assert change.dropped == len(bad) * 2 + 4


def test_lists_are_bounded_in_number_and_length() -> None:
    change = merge({"frequent_intents": [f"i{number}" for number in range(150)]})
    assert (len(change.profile.frequent_intents), change.dropped) == (MAX_LIST_ITEMS, 50)
    change = merge({"facts": {"x": ["a" * 500, "b" * 501, {"k": "c" * 500}]}})
    assert (change.profile.facts, change.dropped) == ({"x": ["a" * 500]}, 2)


def test_five_megabytes_do_not_make_a_profile_larger_than_its_cap() -> None:
    held = merge({"summary": "A nurse", "facts": {"personal": {"name": "Lan"}}})
    patch = {
        "summary": "x" * 5_000_000,
        "facts": {f"key {number}": "é" * 900 for number in range(200)},
        "metadata": {"lists": {f"l{number}": ["y" * 400] * 3 for number in range(100)}},
    }
    change = merge(patch, LATER, held)
    assert size(change.profile) <= MAX_BYTES
    assert size(change.profile) > MAX_BYTES * 0.9
    assert change.profile.summary == "A nurse"
    assert change.profile.facts["personal"] == {"name": "Lan"}
    assert change.dropped > 400


def test_a_profile_above_the_cap_can_still_shrink() -> None:
    held = Profile("u1", summary="x" * 2 * MAX_BYTES, version=1)
    change = merge({"summary": "A nurse"}, NOON, held)
    assert (change.profile.summary, change.dropped) == ("A nurse", 0)


def test_deep_nesting_is_cut_off() -> None:
    deep: Any = "x"
    for _ in range(900):
        deep = [deep]
    change = merge({"facts": {"deep": deep, "flat": "yes"}})
    assert (change.profile.facts, change.dropped) == ({"flat": "yes"}, 1)
    for depth, kept in ((15, True), (16, False), (900, False)):
        deep = "x"
        for _ in range(depth):
            deep = {"k": deep}
        assert bool(merge({"facts": deep}).profile.facts) is kept, depth


_keys = st.sampled_from(["a", "b", "c.d", "Ä"])
_scalars = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", " x ", "x", "y"])
_json = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_keys, inner, max_size=3),
    max_leaves=6,
)
_patches = st.fixed_dictionaries(
    {
        "summary": _json,
        "current_projects": _json,
        "preferences": _json,
        "facts": st.dictionaries(_keys, _json, max_size=4),
        "metadata": _json,
    }
)
_times = st.integers(0, 5).map(lambda hours: NOON + timedelta(hours=hours))


@given(st.lists(st.tuples(_patches, _times), max_size=3))
def test_merging_twice_changes_nothing_more(steps: list[tuple[dict[str, Any], datetime]]) -> None:
    change = ProfileState(EMPTY, {})
    for patch, at in steps:
        change = merge(patch, at, change)
        twice = merge(patch, at, change)
        assert (twice.profile, twice.said_at, twice.changed) == (change.profile, change.said_at, {})


@given(st.lists(st.tuples(_patches, _times), max_size=3))
def test_no_item_of_a_list_and_no_key_is_ever_removed(
    steps: list[tuple[dict[str, Any], datetime]],
) -> None:
    change = ProfileState(EMPTY, {})
    for patch, at in steps:
        after = merge(patch, at, change)
        assert _paths(content(change.profile)) <= _paths(content(after.profile))
        assert (as_json(after.profile) == as_json(change.profile)) is (not after.changed)
        change = after


def _paths(value: Any, path: tuple[Any, ...] = ()) -> set[tuple[Any, ...]]:
    """Where something is held; items of lists by their JSON, since lists only grow."""
    if isinstance(value, dict):
        return {found for key, inner in value.items() for found in _paths(inner, (*path, key))}
    if isinstance(value, list | tuple):
        items = {(*path, json.dumps(item, sort_keys=True)) for item in value}
        return {path, *items} if items else set()
    return set() if value in ("", None) else {path}


@given(
    st.dictionaries(_times, st.dictionaries(_keys, st.integers(0, 9), max_size=3), max_size=5),
    st.randoms(use_true_random=False),
)
def test_the_last_said_value_stays_whatever_the_order_of_arrival(
    said: dict[datetime, dict[str, int]], random: Any
) -> None:
    expected: dict[str, int] = {}
    for at in sorted(said):
        expected.update(said[at])
    order = list(said)
    random.shuffle(order)
    change = ProfileState(EMPTY, {})
    for at in order:
        change = merge({"facts": {"x": said[at]}}, at, change)
    assert change.profile.facts == ({"x": expected} if expected else {})
