"""Files of figures that a benchmark wrote with `--json`, and whether its machine was quiet.

Every benchmark notes the load average from before its run beside the number of cores, and asks here
before it says that a bar was met or missed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

LOAD_BEFORE = "load average before"
CORES = "cores"
QUIET = 0.5
"""The highest load average for each core before a run whose times are held to bars."""


def read_json(path: Path) -> Any:
    """What stands in a file.

    Raises:
        ValueError: It cannot be read or is no JSON; the text says what to do.
    """
    try:
        return json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ValueError(f"{path.name} cannot be read: {error.strerror}") from None
    except ValueError:
        raise ValueError(f"{path.name} is not JSON: write it anew with --json") from None


def not_ours(name: str) -> ValueError:
    """The complaint about a file that no run of this version wrote."""
    return ValueError(f"{name} is no result of this version: write it anew with --json")


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
