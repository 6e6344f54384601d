"""Ourselves by the fastest of the peers, and the bars P1 and P2."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.peers.running import Measured
from benchmarks.retrieval.figures import SUBJECTS

SEARCH, SEMANTIC = SUBJECTS["search"], SUBJECTS["search_semantic"]
ONE, MANY = 1, 32

# By what is asked and how many memories a user has: times the speed of one call, and times the
# requests a second of many callers.
_BARS: Mapping[tuple[str, int], tuple[float, float]] = {
    (SEARCH, 200): (3.0, 6.0),
    (SEMANTIC, 200): (5.0, 10.0),
    (SEARCH, 2_000): (4.0, 8.0),
}


@dataclass(frozen=True, slots=True)
class PeerComparison:
    """One bar: what of ours, by which peer, how many times as fast, and how many times it must be.

    `figure` is "p50" for single calls or "requests/s" at many callers.
    """

    ours: str
    size: int
    figure: str
    peer: str
    times: float
    bar: float

    @property
    def met(self) -> bool:
        """Whether we are as much faster as we want to be."""
        return self.times >= self.bar


def compare(ours: Sequence[Measured], peers: Sequence[Measured]) -> list[PeerComparison]:
    """Every bar for which both sides were measured; the peer is the fastest one at that figure."""
    found = []
    for (name, size), (p50_bar, rate_bar) in _BARS.items():
        mine = _of(ours, size, ONE, name)
        others = _of(peers, size, ONE)
        if mine and others:
            fastest = min(others, key=lambda each: each.p50)
            times = fastest.p50 / mine[0].p50
            found.append(PeerComparison(name, size, "p50", fastest.name, round(times, 2), p50_bar))
        mine, others = _of(ours, size, MANY, name), _of(peers, size, MANY)
        if mine and others:
            fastest = max(others, key=lambda each: each.per_second)
            times = mine[0].per_second / fastest.per_second
            found.append(
                PeerComparison(name, size, "requests/s", fastest.name, round(times, 2), rate_bar)
            )
    return found


def _of(
    measured: Sequence[Measured], size: int, callers: int, name: str | None = None
) -> list[Measured]:
    return [
        each
        for each in measured
        if each.size == size and each.callers == callers and name in {None, each.name}
    ]
