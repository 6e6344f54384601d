"""Whether the machine had nothing else to do, so that a run's times may be held to bars.

Every benchmark notes the load average from before its run beside the number of cores, and asks here
before it says that a bar was met or missed.
"""

from __future__ import annotations

from collections.abc import Mapping

LOAD_BEFORE = "load average before"
CORES = "cores"
QUIET = 0.5
"""The highest load average for each core before a run whose times are held to bars."""


def noise(machine: Mapping[str, str | int | float]) -> str:
    """Why a run is held to no bars; empty for a machine that had nothing else to do.

    Args:
        machine: What the figures depend on, `LOAD_BEFORE` and `CORES` among it.
    """
    load, cores = float(machine.get(LOAD_BEFORE, 0.0)), float(machine.get(CORES, 1))
    if load <= QUIET * cores:
        return ""
    return (
        f"no bars: the load average before the run was {load:g} on {cores:g} cores, above "
        f"{QUIET:g} for each of them; measure again when nothing else runs"
    )
