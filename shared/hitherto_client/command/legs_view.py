"""How a read fared, leg by leg, and what may be missing from it."""

from __future__ import annotations

from collections.abc import Sequence

from hitherto.v1 import search_pb2
from hitherto_client.command.output import Output
from hitherto_client.command.values import word_of

_STATES = search_pb2.LegState.DESCRIPTOR
_MISSING = frozenset({search_pb2.LEG_STATE_TIMED_OUT, search_pb2.LEG_STATE_FAILED})


def show_legs(output: Output, legs: Sequence[search_pb2.LegReport], remark: str) -> None:
    """A table beside the output, and a remark below it."""
    if legs:
        rows = [
            (
                leg.name,
                word_of(_STATES, leg.state),
                f"{leg.duration.seconds * 1e3 + leg.duration.nanos / 1e6:.1f} ms",
                leg.candidates,
                leg.reason,
            )
            for leg in legs
        ]
        columns = ("leg", "state", "time", "found", "why")
        output.table(columns, rows, numbers=("time", "found"), on_stderr=True)
    output.note(remark)


def warn(output: Output, legs: Sequence[search_pb2.LegReport], *, degraded: bool) -> None:
    """Say which legs are missing from a degraded answer, and why."""
    if not degraded:
        return
    missing = [_missing(leg) for leg in legs if leg.state in _MISSING]
    told = "; ".join(missing) or "a leg failed or was too slow"
    output.note(f"the answer is degraded, something may be missing: {told}")


def _missing(leg: search_pb2.LegReport) -> str:
    ended = word_of(_STATES, leg.state).replace("-", " ")
    return f"{leg.name} {ended} ({leg.reason})" if leg.reason else f"{leg.name} {ended}"
