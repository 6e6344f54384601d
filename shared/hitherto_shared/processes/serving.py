"""Runs a service in one process, or in several below a parent."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace

from hitherto_shared.config import SharedSettings
from hitherto_shared.metrics import label_tenants, lag_measured, shown
from hitherto_shared.processes.child import ParentLink, ServingPlan
from hitherto_shared.processes.parent import Parent
from hitherto_shared.processes.port import require_sharing, shared_port, usable_cores
from hitherto_shared.rpc.server import end_signal
from hitherto_shared.startup import keep_what_stands, locate_unless_ended, serve

_AFTER_DRAIN_SECONDS = 10.0
"""Time for closing pools and caches after the calls have drained."""

Running = Callable[[ServingPlan], AbstractAsyncContextManager[object]]


@dataclass(frozen=True, slots=True)
class ProcessSpread:
    """The number of processes of a service (of `python -m module`), as a setting asks for it."""

    module: str
    variable: str
    asked: int

    @property
    def processes(self) -> int:
        """The actual number."""
        return self.asked or usable_cores()


async def serve_in_processes(
    settings: SharedSettings, listen: str, spread: ProcessSpread, running: Running
) -> None:
    """Run a service, in the configured number of processes, until it is stopped.

    Leaving the context of `running`, the service in one process, drains it.

    Raises:
        ValueError: Several processes cannot share `listen` here, or the port of the metrics is
            taken.
        ServerFailed: The port is in use.
        ServiceProcessFailed: A process did not start, or did not drain.
    """
    label_tenants(settings.metrics_tenants)
    link = ParentLink.inherited(sys.argv[1:])
    if link is not None:
        await _serve_as_child(settings, link, running)
        return
    with shown(settings.metrics_listen, processes=spread.processes):
        if spread.processes == 1:
            await serve(settings, listen, lambda conninfo: running(ServingPlan(conninfo, listen)))
        else:
            await _serve_as_parent(settings, ServingPlan("", listen, spread.processes), spread)


async def _serve_as_child(settings: SharedSettings, link: ParentLink, running: Running) -> None:
    end = end_signal()
    link.watch(end, settings.drain_seconds + _AFTER_DRAIN_SECONDS)
    async with running(link.place):
        keep_what_stands()
        link.serving()
        with lag_measured():
            await end.wait()


async def _serve_as_parent(
    settings: SharedSettings, place: ServingPlan, spread: ProcessSpread
) -> None:
    end = end_signal()
    require_sharing(place.listen, spread.variable)
    settings.auth_mode(place.listen)
    settings.check_listen(place.listen)
    with shared_port(place.listen) as reserved:
        located = await locate_unless_ended(settings, end)
        try:
            if not end.is_set():
                place = replace(place, conninfo=located.conninfo, listen=reserved)
                patience = settings.drain_seconds + _AFTER_DRAIN_SECONDS
                await Parent(spread.module, place, patience=patience).run(end)
        finally:
            await asyncio.to_thread(located.release)
