"""The stage on which upkeep is tried."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.integration.upkeep.stage import Stage, staged


@pytest.fixture
async def stage(conninfo: str, superuser_conninfo: str) -> AsyncIterator[Stage]:
    """Upkeep on a database of the test's own."""
    async with staged(conninfo, superuser_conninfo) as ready:
        yield ready
