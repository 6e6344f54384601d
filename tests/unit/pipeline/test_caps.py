"""How much one job and one day may change (faults.md row 29)."""

from __future__ import annotations

from hitherto_extraction.pipeline.caps import ChangeAllowance, Changes, allowed_changes


def test_a_quarter_of_the_active_between_five_and_twenty() -> None:
    for active, allowed in [(0, 5), (23, 5), (24, 6), (79, 19), (80, 20), (1_000, 20)]:
        assert allowed_changes(active) == allowed


def test_what_a_job_and_a_day_may_change() -> None:
    for wanted, job, day, why in [
        (0, 99, 99, None), (5, 0, 0, None), (6, 0, 0, "refused_over_cap"), (3, 2, 2, None),
        (4, 2, 2, "refused_over_cap"), (5, 0, 15, None), (5, 0, 16, "refused_over_daily_cap"),
    ]:  # fmt: skip
        room = ChangeAllowance(10, job=Changes(closed=job), day=Changes(updated=day))
        assert room.refuses(wanted) == why, (wanted, job, day)


def test_endings_and_updates_have_a_limit_each() -> None:
    """A move with a new job and a goal reached is many true changes at once."""
    room = ChangeAllowance(10)
    assert room.refuses(5, 5) is None
    assert room.refuses(6, 0) == room.refuses(0, 6) == "refused_over_cap"
    assert ChangeAllowance(10, job=Changes(updated=3)).refuses(5, 2) is None
    assert ChangeAllowance(10, job=Changes(updated=3)).refuses(5, 3) == "refused_over_cap"
    # What the job has ended already was active before it.
    assert ChangeAllowance(23, job=Changes(closed=1)).refuses(5) is None
    assert ChangeAllowance(22, job=Changes(closed=1)).refuses(5) == "refused_over_cap"


def test_requests_to_forget_have_a_limit_of_their_own() -> None:
    room = ChangeAllowance(10, job=Changes(closed=5, updated=5))
    assert (room.refuses(0, 0, 5), room.refuses(0, 0, 6)) == (None, "refused_over_cap")
    later = ChangeAllowance(10, job=Changes(forgotten=5), day=Changes(forgotten=15))
    assert (later.refuses(5), later.refuses(0, 0, 1)) == (None, "refused_over_cap")
    assert later.refuses(4, 2) == "refused_over_daily_cap"


def test_many_memories_allow_more_a_day() -> None:
    room = ChangeAllowance(400, day=Changes(closed=60, updated=40))
    assert (room.refuses(15), room.refuses(16)) == (None, "refused_over_daily_cap")
