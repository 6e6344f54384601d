"""Starts re-embedding if the configured model differs from the active one."""

from __future__ import annotations

import logging

from hitherto_extraction.reembedding import phases
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.embeddings.registry import Embedders

logger = logging.getLogger("hitherto.reembedding")

_SECONDS = 30.0


async def move_to_configured(
    database: Database, embedders: Embedders, *, tenant_id: str, by_itself: bool, max_attempts: int
) -> None:
    """Back-fill the configured model and switch to it, or log how to do so.

    Args:
        database: With the role hitherto_maintenance.
        embedders: Knows the configured model.
        tenant_id: The operator's tenant, which can then see the job.
        by_itself: Whether to start (for the embedded database, which has no other users) or only to
            log the call to make.
        max_attempts: Of the job.
    """
    configured = embedders.configured

    async def start(connection: Connection) -> None:
        async with connection.transaction():
            active = (await phases.standing(connection)).active
            if active is None or active.name == configured.name:
                return
            if not by_itself:
                logger.warning(
                    "memories are embedded with %s and the configuration names %s: `hitherto "
                    "reembed start %s` moves to it",
                    active.name,
                    configured.name,
                    configured.name,
                )
                return
            job = await phases.start(
                connection,
                tenant_id,
                configured.name,
                configured.dimensions,
                max_attempts=max_attempts,
                switch=True,
            )
            logger.info(
                "changing the embedding model from %s to %s: job %s back-fills, then switches",
                active.name,
                configured.name,
                job.job_id,
            )

    await database.run(start, timeout=_SECONDS)
