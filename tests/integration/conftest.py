"""What tests of single rooms share: their work is that of one tenant."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hitherto_shared.database.tenancy import acting_for


@pytest.fixture(autouse=True)
def for_the_default_tenant() -> Iterator[None]:
    """Row-level security lets through what a call or a job of this tenant would see."""
    with acting_for("default"):
        yield
