"""The stage on which the indexing of what jobs left behind is tried."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from hitherto_shared.embeddings.active_embedder import register
from hitherto_shared.embeddings.offline import OfflineEmbedder
from tests.integration.upkeep.stage import Stage, staged


@pytest.fixture
async def stage(conninfo: str, superuser_conninfo: str) -> AsyncIterator[Stage]:
    """Every role on a database of the test's own, whose active model is the offline one."""
    async with staged(conninfo, superuser_conninfo) as ready:
        async with ready.maintenance.connection() as connection:
            await register(connection, OfflineEmbedder())
        yield ready
