"""The running service, from its first connection to the end of its drain."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from hitherto_extraction.config import ExtractionSettings
from hitherto_extraction.recovery import Recovery
from hitherto_extraction.wiring.base import open_base
from hitherto_extraction.wiring.calls import build_servicers
from hitherto_extraction.wiring.work import BackgroundWork
from hitherto_shared.auth.departments import Departments
from hitherto_shared.database.room import RoomWatch
from hitherto_shared.database.watch import DatabaseWatch
from hitherto_shared.rpc.server import Server
from hitherto_shared.startup import authentication

logger = logging.getLogger("hitherto.extraction")


@asynccontextmanager
async def running(
    settings: ExtractionSettings, conninfo: str, *, processes: int = 1
) -> AsyncIterator[Server]:
    """The running service on a database with a current schema; leaving the context drains it.

    With several `processes` it shares only its port with the others.

    Raises:
        ValueError: The settings name another hash key than the installation has.
    """
    async with AsyncExitStack() as stack:
        base = await open_base(stack, settings, conninfo)
        work = BackgroundWork(base)
        server = Server(
            settings,
            settings.extraction_listen,
            build_servicers(base, work),
            await stack.enter_async_context(
                authentication(settings, settings.extraction_listen, base.databases.write)
            ),
            departments=Departments(base.databases.write),
            shares_port=processes > 1,
        )
        stack.push_async_callback(base.signals.stop)
        await base.signals.start()
        recovery = Recovery(base.databases.maintenance, base.breakers, server.say_of)
        stack.push_async_callback(recovery.stop)
        await recovery.start()
        room = RoomWatch(
            base.databases.maintenance,
            server.say_of,
            settings.data_dir if settings.embedded else None,
        )
        stack.push_async_callback(room.stop)
        await room.start()
        watch = DatabaseWatch([base.databases.maintenance], server.say_of, writes=True)
        stack.push_async_callback(watch.stop)
        await watch.start()
        await work.worker.start()
        await work.placing.start()
        await work.delivering.start()
        work.scheduler.start()
        await server.start()
        logger.info(
            "serving on port %d",
            server.port,
            extra={
                "extractor": base.chat.extractor,
                "model": base.chat.model,
                "embedder": base.embedder.name,
                "database": "embedded" if settings.embedded else "DATABASE_URL",
            },
        )
        try:
            yield server
        finally:
            work.scheduler.stop()
            # Watchers of a job would otherwise hold the drain for as long as it lasts.
            base.signals.end()
            # Calls, jobs and requests to webhooks drain side by side, within the same time.
            await asyncio.gather(
                server.stop(settings.drain_seconds),
                work.worker.stop(settings.drain_seconds),
                work.delivering.stop(settings.drain_seconds),
            )
            # Last, so that what these have changed is told.
            await work.placing.stop()
