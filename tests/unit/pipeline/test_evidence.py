"""Who said it and when (contract "Trust"; faults.md row 67)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from hitherto_extraction.pipeline.evidence import MAX_SOURCE_TEXT, Witnesses
from hitherto_extraction.storage.conversations import StoredMessage
from hitherto_shared.models import SourceRef

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def heard(*roles: str) -> Witnesses:
    """Messages m1, m2… of these roles, a minute apart, called c1 and a number by their caller."""
    return Witnesses(
        "talk",
        {
            f"m{n}": StoredMessage(n, f"c{n}", role, "", f"words {n}", NOON + timedelta(minutes=n))
            for n, role in enumerate(roles, 1)
        },
    )


@pytest.mark.parametrize(
    ("roles", "named", "declared", "origin"),
    [
        (["user"], ["m1"], None, "user"),
        (["user", "assistant"], ["m1"], None, "user"),
        (["user", "assistant"], ["m2"], None, "assistant"),
        (["user", "assistant"], ["m1", "m2"], None, "assistant"),
        (["user", "assistant", "tool"], ["m3", "m1"], None, "tool"),
        # What the model declares can only lower it.
        (["user"], ["m1"], "assistant", "assistant"),
        (["user"], ["m1"], "document", "document"),
        (["assistant"], ["m1"], "user", "assistant"),
        (["tool"], ["m1"], "operator", "tool"),
        # Without a valid source the least trusted of the batch.
        (["user", "assistant"], [], None, "assistant"),
        (["user"], [], None, "user"),
        (["user", "tool", "assistant"], ["m9"], "user", "tool"),
        # SYSTEM is no source.
        (["user", "system"], ["m2"], None, "user"),
        (["user", "system"], ["m1", "m2"], None, "user"),
        (["user", "assistant", "system"], ["m3"], None, "assistant"),
        (["system"], ["m1"], "user", "tool"),
        (["system"], [], None, "tool"),
    ],
)
def test_origin_of_a_new_memory(
    roles: list[str], named: list[str], declared: str | None, origin: str
) -> None:
    found = heard(*roles).for_new(named, declared)
    assert found.origin == origin
    assert found.trusted == (origin == "user")


@pytest.mark.parametrize(
    ("roles", "named", "origin"),
    [
        (["assistant", "user"], None, "user"),
        (["assistant", "user"], ["m1"], "assistant"),
        (["assistant", "user"], ["m2"], "user"),
        (["assistant", "tool"], None, "tool"),
        (["system"], None, "tool"),
    ],
)
def test_origin_of_a_change(roles: list[str], named: list[str] | None, origin: str) -> None:
    found = heard(*roles).for_change(named)
    assert found is not None
    assert found.origin == origin


@pytest.mark.parametrize("named", [[], ["m3"], ["m9"]])
def test_row_71_whoever_names_no_message_that_may_speak_has_no_evidence_of_a_change(
    named: list[str],
) -> None:
    assert heard("assistant", "user", "system").for_change(named) is None


def test_sources_are_the_callers_ids_of_what_was_named() -> None:
    found = heard("user", "system", "user").for_new(["m3", "m2", "m1"], None)
    assert found.sources == (SourceRef("talk", "c3"), SourceRef("talk", "c1"))
    assert found.text == "words 3\nwords 1"
    assert found.said_at == NOON + timedelta(minutes=3)


def test_unnamed_evidence_has_a_time_and_no_source() -> None:
    found = heard("user", "assistant").for_new([], None)
    assert (found.sources, found.text) == ((), "")
    assert found.said_at == NOON + timedelta(minutes=2)


def test_source_text_is_bounded() -> None:
    long = StoredMessage(1, "c1", "user", "", "x" * 10_000, NOON)
    assert len(Witnesses("talk", {"m1": long}).for_new(["m1"], None).text) == MAX_SOURCE_TEXT
