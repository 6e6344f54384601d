"""Reports of the legs of a search, for the reply; a leg that did not run gives the reason."""

from __future__ import annotations

import time
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Leg:
    """One leg: `state` is ran, skipped, timed_out or failed; `seconds` is its wall time."""

    name: str
    state: str
    seconds: float = 0.0
    candidates: int = 0
    reason: str = ""


@dataclass(slots=True)
class Legs:
    """The legs of one call, in the order in which they first finished."""

    _by_name: dict[str, Leg] = field(default_factory=dict)

    def add(self, leg: Leg) -> None:
        """Report a leg; a read repeated on a new connection replaces its report."""
        self._by_name[leg.name] = leg

    @property
    def reports(self) -> list[Leg]:
        """One report per leg."""
        return list(self._by_name.values())

    @property
    def degraded(self) -> bool:
        """Whether a leg that should have run did not."""
        return any(leg.state in ("timed_out", "failed") for leg in self.reports)


class Stopwatch:
    """Measures seconds since its creation."""

    def __init__(self) -> None:
        self._started = time.monotonic()

    @property
    def seconds(self) -> float:
        """Seconds so far."""
        return time.monotonic() - self._started
