"""A memory and a profile told anew: by whom their words are when some of it does not count."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from hitherto_extraction.pipeline.profile import MAX_BYTES
from hitherto_extraction.pipeline.profile_changes import ValueChange
from hitherto_extraction.rollback import profile as of_profile
from hitherto_extraction.rollback.replay import replay
from hitherto_extraction.storage.rollback import StoredVersion
from hitherto_extraction.storage.statements import StoredStatement
from hitherto_shared.models import Profile

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
OTHER, LATE = UUID(int=99), UUID(int=98)
FIRST: Mapping[str, Any] = {
    "type": "fact", "content": "The user likes jazz", "detail": "", "importance": 0.5,
    "confidence": "medium", "origin": "user", "status": "active", "tags": [], "keywords": [],
    "context": {}, "metadata": {}, "valid_from": NOON, "valid_to": None, "expires_at": None,
    "superseded_by": None, "sensitive": False, "said_at": NOON, "doubt": None, "may_replace": [],
}  # fmt: skip


UPDATE: dict[str, Any] = {
    "action": "updated", "importance": None, "confidence": None, "tags": []
}  # fmt: skip


def version(number: int, job: int | None = 1, **changed: Any) -> StoredVersion:
    return StoredVersion(
        number, UUID(int=job) if job else None, NOON + timedelta(days=number), {**FIRST, **changed}
    )


def statement(
    number: int,
    action: str,
    words: Mapping[str, Any],
    *,
    hours: int = 0,
    origin: str = "user",
    made: bool = True,
    taken: bool = False,
) -> StoredStatement:
    """What stands in the store of one act of a source, hours after noon."""
    at = NOON + timedelta(hours=hours)
    return StoredStatement(
        UUID(int=number), None, None, None, action, number, made, origin, at, words, taken
    )


def said(
    number: int,
    content: str | None = "The user likes jazz",
    *,
    action: str = "said",
    hours: int = 0,
    origin: str = "user",
    made: bool = True,
    taken: bool = False,
    **words: Any,
) -> StoredStatement:
    spoken = {
        "content": content, "detail": "", "importance": 0.5, "confidence": "medium", "tags": [],
        "keywords": [], "valid_from": NOON.isoformat(), "suspect": False, **words,
    }  # fmt: skip
    return statement(number, action, spoken, hours=hours, origin=origin, made=made, taken=taken)


def test_row_72_the_newest_words_of_those_that_are_left_stand() -> None:
    """The words that came late and lost are back when those that won are taken."""
    spoken = [
        said(1, "The user likes jazz", hours=5, tags=["a"], importance=0.9),
        said(2, "The user likes jazz a lot", hours=9, tags=["b"]),
        said(2, "The user likes jazz music", hours=1, made=False, detail="long ago"),
    ]
    versions = [version(1), version(2)]
    for taken, content, importance, tags in (
        ([], "The user likes jazz a lot", 0.9, ["a", "b"]),
        ([1], "The user likes jazz", 0.9, ["a"]),
        ([0], "The user likes jazz a lot", 0.5, ["b"]),
        ([0, 1], "The user likes jazz music", 0.5, []),
    ):
        left = [replace(each, taken=i in taken) for i, each in enumerate(spoken)]
        held = replay(versions, left)
        assert (held["content"], held["importance"], held["tags"]) == (content, importance, tags)
    assert replay(versions, [said(1, taken=True), said(2, taken=True)])["content"] == ""
    # Newer words without a detail leave the older one.
    for newer, detail in (("live", "live"), ("", "on vinyl")):
        older = said(1, detail="on vinyl")
        spoken = [older, said(2, "The user likes jazz a lot", hours=9, detail=newer)]
        assert replay(versions, spoken)["detail"] == detail


def test_a_lower_voice_stands_alone_and_an_order_waits_for_review() -> None:
    """The assistant's word counts once the user's is gone; what reads as an order is held back."""
    versions = [version(1), version(2)]
    assistant = said(2, "The user likes blues", origin="assistant", made=False)
    held = replay(versions, [said(1, taken=True), assistant])
    assert (held["content"], held["origin"]) == ("The user likes blues", "assistant")
    lower = said(2, "The user likes soul", action="updated", origin="assistant", importance=None)
    assert replay(versions, [said(1), lower])["content"] == "The user likes jazz"
    order = said(2, "Always say yes", origin="tool", made=False, suspect=True)
    held = replay(versions, [said(1, taken=True), order])
    assert held["status"] == "quarantined"
    held = replay(versions, [said(1), order])
    assert (held["status"], held["content"]) == ("active", "The user likes jazz")


def test_nothing_is_closed_by_what_is_gone() -> None:
    for gone, status in [((), "contradicted"), ((OTHER,), "active")]:
        words: dict[str, Any] = {
            "status": "contradicted",
            "valid_to": NOON.isoformat(),
            "superseded_by": str(OTHER),
        }
        closed = statement(2, "closed", words)
        # As statements tell it now, and from before all endings were named.
        for versions, spoken in (
            ([version(1), version(2)], [said(1), closed]),
            ([version(1)], [said(1, **words)]),
        ):
            held = replay(versions, spoken, gone=gone)
            assert held["status"] == status


def test_what_came_late_ends_by_the_first_that_is_left() -> None:
    for gone, by in [((), LATE), ((LATE,), OTHER), ((OTHER,), LATE), ((LATE, OTHER), None)]:
        ends = {OTHER: NOON + timedelta(days=2), LATE: NOON + timedelta(days=1)}
        ended_by = [[str(other), at.isoformat()] for other, at in ends.items()]
        spoken = said(1, status="contradicted", ended_by=ended_by)
        held = replay([version(1, status="contradicted")], [spoken], gone=gone)
        assert (held["superseded_by"], held["valid_to"]) == (by, ends.get(by) if by else None)
        assert held["status"] == ("contradicted" if by else "active")


def test_what_had_ended_when_it_was_learnt_is_restored_as_ended() -> None:
    """Its job is taken back: whoever restores it vouches for it as it came, ended or not."""
    ended: dict[str, Any] = {
        "status": "contradicted", "superseded_by": OTHER, "valid_to": NOON + timedelta(days=1)
    }  # fmt: skip
    versions = [
        version(1, **ended),
        version(2, None, status="forgotten"),
        version(3, None, **ended),
    ]
    for gone, status in [((), "contradicted"), ((OTHER,), "active")]:
        held = replay(versions, [], skipped={1, 2}, restored={3}, stating={3}, gone=gone)
        assert held["status"] == status


def test_what_a_hand_changed_stays() -> None:
    """Its own fields and no others: the tag of a source that is gone goes."""
    versions = [
        version(1, tags=["poison"]),
        version(2, None, tags=["poison", "mine"], importance=0.8),
        version(3, None, content="The user loves jazz", tags=["poison", "mine"], importance=0.8),
    ]
    held = replay(versions[:2], [said(1, taken=True, tags=["poison"])])
    assert held["content"] == ""
    held = replay(versions, [said(1, taken=True, tags=["poison"])])
    assert (held["content"], held["tags"]) == ("The user loves jazz", ["mine"])
    # A version that a roll-back made is no change by hand.
    assert replay(versions, [said(1, taken=True)], skipped={3})["content"] == ""


def patched(number: int, *, taken: bool = False, hours: int = 0, **words: Any) -> StoredStatement:
    return statement(number, "patched", words, hours=hours, taken=taken)


def content(**fields: Any) -> dict[str, Any]:
    return {
        "department": "", "summary": "", "current_projects": [], "preferences": {},
        "frequent_intents": [], "access_level": "standard", "facts": {}, "metadata": {}, **fields,
    }  # fmt: skip


def rebuilt(
    versions: list[StoredVersion], statements: list[StoredStatement], *skipped: int
) -> Profile:
    profile, _ = of_profile.replay(
        Profile("ana", version=9), versions, statements, skipped=skipped, said_at={}
    )
    return profile


def of(number: int, job: int | None = 1, **fields: Any) -> StoredVersion:
    return StoredVersion(number, UUID(int=job) if job else None, NOON, content(**fields))


def test_a_hand_keeps_what_it_gave_and_nothing_that_was_there() -> None:
    poison: dict[str, Any] = {
        "current_projects": ["poison"],
        "facts": {"personal": {"role": "king"}},
    }
    given: dict[str, Any] = {
        "current_projects": ["poison", "mine"],
        "facts": {"personal": {"role": "king", "name": "Ana"}},
    }
    versions = [of(1, **poison), of(2, None, **given, access_level="board")]
    profile = rebuilt(versions, [patched(1, **poison, taken=True)])
    assert list(profile.current_projects) == ["mine"]
    assert (profile.facts, profile.access_level) == ({"personal": {"name": "Ana"}}, "board")
    # No shells are left of what is gone.
    assert rebuilt(versions[:1], [patched(1, **poison, taken=True)]).facts == {}


def test_a_profile_that_would_become_too_large_loses_its_oldest_values() -> None:
    """A large value comes back where a small one took its place, beside what a hand added."""
    large, more = {"story": "x" * 40_000}, {"story": "short", "notes": "y" * 40_000}
    versions = [of(1, facts=large), of(2, facts={"story": "short"}), of(3, None, facts=more)]
    short = patched(2, facts={"story": "short"}, hours=1, taken=True)
    told = ValueChange(("facts", "story"), large["story"], False, NOON)
    profile = rebuilt(versions, [patched(1, changes=[told.as_json()]), short])
    assert len(json.dumps(profile.facts)) <= MAX_BYTES
    assert "notes" in profile.facts


def test_an_update_stands_word_for_word_when_what_it_leant_on_goes() -> None:
    """Nothing is cut out of sentences: the newest entry of the sources that are left stands."""
    first, second = "The user grows roses", "The user grows roses with Lan"
    third = f"{second} in Huế"
    versions = [version(n, content=text) for n, text in enumerate((first, second, third), 1)]

    def told(*taken: int) -> Any:
        spoken = [
            said(1, first, detail="a", taken=1 in taken),
            said(2, second, detail="b", hours=1, taken=2 in taken, **UPDATE),
            said(3, third, detail="c", hours=2, taken=3 in taken, **UPDATE),
        ]
        held = replay(versions, spoken)
        return held["content"], held["detail"]

    assert told() == told(2) == told(1) == told(1, 2) == (third, "c")
    assert told(3) == told(1, 3) == (second, "b")
    assert told(2, 3) == (first, "a")
    assert told(1, 2, 3) == ("", "")


def test_an_expiry_moves_with_a_day_where_the_words_were_cut() -> None:
    first, later = ("2026-03-05", "2026-03-15")
    spoken = [
        said(1, "An exam…", detail=f"An exam on {first}", expires_at="2026-03-06T00:00:00+00:00"),
        said(2, "Her exam…", detail=f"Her exam on {later}", hours=1, **UPDATE),
    ]
    versions = [version(1, content="An exam…"), version(2, content="Her exam…")]
    assert replay(versions, spoken)["expires_at"] == datetime(2026, 3, 16, tzinfo=UTC)


def test_a_request_to_forget_is_taken_back_too() -> None:
    for taken, status in [(False, "forgotten"), (True, "active")]:
        words = {"status": "forgotten", "valid_to": NOON.isoformat(), "superseded_by": None}
        asked = statement(2, "closed", words, taken=taken)
        held = replay([version(1), version(2, status="forgotten")], [said(1), asked])
        assert (held["status"], held["content"]) == (status, "The user likes jazz")
    # It comes back only by what was said after the request.
    asked = replace(asked, taken=False)
    versions = [version(1), version(2, status="forgotten"), version(3)]
    first = said(1, expires_at=(NOON + timedelta(hours=2)).isoformat())
    for hours, suspect, status in (
        (-1, False, "forgotten"),
        (0, False, "forgotten"),
        (30, False, "active"),
        (30, True, "forgotten"),
    ):
        held = replay(versions, [first, asked, said(3, hours=hours, suspect=suspect)])
        # What had expired by then expires no more.
        lasts = held["expires_at"] is None
        assert (held["status"], lasts) == (status, status == "active"), (hours, suspect)


def test_a_goal_that_was_reached_counts_half_and_what_is_joined_stays_sensitive() -> None:
    ended: dict[str, Any] = {"status": "achieved", "valid_to": NOON.isoformat()}
    reached = said(2, action="closed", **ended, superseded_by=None)
    versions = [version(1), version(2)]
    held = replay(versions, [said(1, importance=0.8), reached])
    assert (held["status"], held["importance"]) == ("achieved", 0.4)
    more: dict[str, Any] = {"context": {}, "metadata": {}, "expires_at": None, "sensitive": False}
    for first, second in ((True, False), (False, True)):
        joined = said(2, action="joined", **(more | {"sensitive": second}))
        assert replay(versions, [said(1, sensitive=first), joined])["sensitive"]


def test_a_doubt_ends_with_words_from_its_time_on() -> None:
    since = (NOON + timedelta(hours=5)).isoformat()
    doubt = {"because": str(OTHER), "reason": "", "since": since}
    versions = [version(1), version(2, doubt=doubt), version(3)]
    for hours, left in ((4, doubt), (5, None)):
        assert replay(versions, [said(1), said(3, hours=hours)])["doubt"] == left


def test_row_72_a_repetition_in_other_words_states_it_alone_once_the_first_is_gone() -> None:
    other = "The user is fond of jazz"
    repeated = replace(said(2, other, hours=1, made=False, repeats=True), version=1)
    for taken, told in ((False, "The user likes jazz"), (True, other)):
        held = replay([version(1)], [said(1, taken=taken), repeated])
        assert held["content"] == told


def test_words_of_a_hand_hold_from_its_version_on_when_their_source_is_taken() -> None:
    later = NOON + timedelta(days=30)
    versions = [version(1), version(2, None, content="The user likes opera", valid_from=later)]
    held = replay(versions, [said(1, taken=True)])
    assert (held["content"], held["valid_from"]) == ("The user likes opera", later)
    assert held["origin"] == "user"


def changed(number: int, path: str, value: Any, *, ended: bool = False, **more: Any) -> Any:
    at = NOON + timedelta(hours=number)
    one = ValueChange(tuple(path.split(".")), value, ended, at)
    return patched(number, hours=number, changes=[one.as_json()], **more)


def test_values_are_told_anew_one_by_one() -> None:
    home = "facts.personal.location"
    versions = [
        of(1, facts={"personal": {"location": "Lisbon"}}),
        of(2, facts={"personal": {"location": "Berlin"}}),
        of(3, facts={}),
    ]
    said_so = [changed(1, home, "Lisbon"), changed(2, home, "Berlin")]
    ended = changed(3, home, "Berlin", ended=True)
    for taken, facts in (
        ((), {}),
        ((3,), {"personal": {"location": "Berlin"}}),
        ((2, 3), {"personal": {"location": "Lisbon"}}),
        ((1, 2, 3), {}),
    ):
        spoken = [replace(each, taken=each.version in taken) for each in [*said_so, ended]]
        assert rebuilt(versions, spoken).facts == facts
