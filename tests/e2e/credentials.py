"""API keys for tests, and the metadata that carries a credential."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from hitherto_shared.auth.api_keys import create_key
from hitherto_shared.auth.principal import CAPABILITIES
from hitherto_shared.database.connect import Role, with_role
from hitherto_shared.database.pipeline_connection import PipelineConnection
from hitherto_shared.database.pool import Connection

EVERYTHING = ["read", "write", "maintenance", "admin"]


@asynccontextmanager
async def as_role(conninfo: str, role: Role) -> AsyncIterator[Connection]:
    """A connection that plays `role`."""
    async with await PipelineConnection.connect(
        with_role(conninfo, role, application="test"), autocommit=True
    ) as connection:
        yield connection


async def key(conninfo: str, tenant: str = "a", **given: Any) -> str:
    """A new key with every scope and capability, unless `given` says otherwise."""
    async with as_role(conninfo, "hitherto_maintenance") as connection:
        return await create_key(
            connection,
            **{
                "tenant_id": tenant,
                "name": "test",
                "scopes": EVERYTHING,
                "capabilities": sorted(CAPABILITIES),
                **given,
            },
        )


def bearer(text: str) -> list[tuple[str, str]]:
    """The metadata of a call with this credential."""
    return [("authorization", f"Bearer {text}")]
