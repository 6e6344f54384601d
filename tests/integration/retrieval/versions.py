"""Changing memories in the tables as the extraction service does: version by version, in time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import psycopg
from psycopg import sql

from tests.integration.retrieval.seed import TENANT, Fact, remember

_KEPT = (
    "type, content, detail, importance, confidence, origin, status, tags, keywords, context,"
    " metadata, valid_from, valid_to, expires_at, superseded_by, sensitive, said_at, supersedes,"
    " job_id, sealed"
)


class Story:
    """What happened to one user's memories, told in the order in which it was learnt.

    Args:
        conninfo: The administrator's way into the database.
        user: Whose memories; nothing is stored about this user yet.
    """

    def __init__(self, conninfo: str, user: str = "ana") -> None:
        self._conninfo = conninfo
        self._user = user

    async def learn(self, *facts: Fact, model: tuple[str, int] | None = None) -> Sequence[UUID]:
        """The first versions, each known from its `created_at` on."""
        ids = await remember(self._conninfo, self._user, facts, model=model)
        self.write("UPDATE memories SET updated_at = created_at")
        return ids

    def change(self, memory_id: UUID, at: datetime, **columns: Any) -> None:
        """Write the next version of a memory; new content is not indexed."""
        self.write(
            f"INSERT INTO memory_versions (tenant_id, user_id, memory_id, version, {_KEPT},"
            f" known_from, known_to) SELECT tenant_id, user_id, memory_id, version, {_KEPT},"
            " updated_at, %(at)s FROM memories WHERE memory_id = %(memory_id)s",
            memory_id=memory_id,
            at=at,
        )
        reworded = ", text_version = version + 1" if "content" in columns else ""
        self.write(
            "UPDATE memories SET version = version + 1, updated_at = %(at)s"
            + reworded
            + "".join(f", {name} = %({name})s" for name in columns)
            + " WHERE memory_id = %(memory_id)s",
            memory_id=memory_id,
            at=at,
            **columns,
        )

    def merge(self, merged: UUID, originals: Sequence[UUID], at: datetime) -> None:
        """Let a memory, learnt at `at`, take the place of others."""
        self.write(
            "UPDATE memories SET supersedes = %(originals)s, source = 'consolidation'"
            " WHERE memory_id = %(merged)s",
            originals=list(originals),
            merged=merged,
        )
        for original in originals:
            self.change(original, at, status="superseded", superseded_by=merged)

    def write(self, statement: str, **values: Any) -> None:
        with psycopg.connect(self._conninfo, autocommit=True) as connection:
            connection.execute(sql.SQL(statement), {"tenant_id": TENANT, **values})
