"""A reader on one connection, so that every statement meets the plans of those before it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from hitherto_retrieval.storage.connection_setup import prepare_session
from tests.integration.retrieval.questions import Reader
from tests.integration.retrieval.versions import Story


@pytest.fixture
async def reader(conninfo: str, superuser_conninfo: str) -> AsyncIterator[Reader]:
    database = Reader(
        conninfo, "hitherto_read", application="test", max_size=1, configure=prepare_session
    )
    database.superuser = superuser_conninfo
    await database.open()
    yield database
    await database.close()


@pytest.fixture
def story(superuser_conninfo: str) -> Story:
    """What happened to Ana's memories, to be told."""
    return Story(superuser_conninfo)
