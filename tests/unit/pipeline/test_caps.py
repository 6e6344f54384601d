"""How much one job may change (faults 29)."""

from __future__ import annotations

import pytest

from hitherto_extraction.pipeline.caps import allowed_changes


@pytest.mark.parametrize(
    ("active", "allowed"),
    [(0, 3), (14, 3), (15, 3), (19, 3), (20, 4), (24, 4), (49, 9), (50, 10), (1_000, 10)],
)
def test_a_fifth_of_the_active_between_three_and_ten(active: int, allowed: int) -> None:
    assert allowed_changes(active) == allowed
