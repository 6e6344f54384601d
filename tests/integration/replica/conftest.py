from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import Services, StartServices, start_services
from tests.integration.replica.servers import Servers

__all__ = ["start_services"]


@pytest.fixture
def servers() -> Iterator[Servers]:
    """A migrated primary and its standby. Not in tmp_path, which is closed to Postgres's user."""
    folder = Path(tempfile.mkdtemp(prefix="rr-"))
    folder.chmod(0o711)
    try:
        made = Servers(folder)
        try:
            yield made
        finally:
            made.close()
    finally:
        shutil.rmtree(folder)


@pytest.fixture
def conninfo(servers: Servers) -> str:
    """What the services know as `DATABASE_URL`: the primary."""
    return servers.primary.conninfo()


@pytest.fixture
def superuser_conninfo(servers: Servers) -> str:
    """The primary as its administrator sees it."""
    return servers.administrator_conninfo()


@pytest.fixture
async def services(start_services: StartServices, servers: Servers) -> AsyncIterator[Services]:
    """Both services; retrieval reads from the standby."""
    async with start_services(read_database_url=servers.standby_conninfo) as running:
        yield running
