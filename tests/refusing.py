"""Names the case of a table that should have been refused and was not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def refusing(case: object) -> Iterator[None]:
    """Within `pytest.raises`: fail with the case where the block raises nothing."""
    yield
    pytest.fail(f"not refused: {case!r:.200}")
