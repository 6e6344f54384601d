"""The stage on which intake, queue and worker are tried."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.integration.queue.stage import Stage, staged


@pytest.fixture
async def stage(conninfo: str, superuser_conninfo: str) -> AsyncIterator[Stage]:
    """Intake, queue and worker on a database of the test's own."""
    async with staged(conninfo, superuser_conninfo) as ready:
        yield ready
