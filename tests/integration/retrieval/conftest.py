"""A reader on one connection, so that every statement meets the plans of those before it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from recollect_retrieval.storage.session import prepare_session
from recollect_shared.database.pool import Database


@pytest.fixture
async def reader(conninfo: str) -> AsyncIterator[Database]:
    database = Database(
        conninfo, "recollect_read", application="test", max_size=1, configure=prepare_session
    )
    await database.open()
    yield database
    await database.close()
