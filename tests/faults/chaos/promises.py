"""What is promised, how often that was tried, and how often it was lost; as a table."""

from __future__ import annotations

from collections import Counter, defaultdict

TEXTS = {
    "L1": "What was acknowledged is there",
    "L2": "A batch has its effects once",
    "L3": "Memories are those of their own user",
    "L4": "Versions of profiles have no gaps",
    "L5": "Nothing is left half done: jobs, sessions",
    "L6": "The history tells the state of every memory",
    "L7": "At most two model calls for an attempt",
    "key": "A repeated key gets the first answer",
    "order": "The jobs of a user run in their order",
    "dead": "A DEAD job has a reason and can be run again",
    "erased": "After an erasure nothing names the user, and nothing comes back",
    "reads": "Reads answer while only models, queues or the replica fail",
    "token": "A write is read back with its consistency token",
    "own": "A read shows one user's words only",
    "codes": "Faults are told as such: no INTERNAL, no UNKNOWN",
    "lives": "No process ends by itself",
    "drains": "SIGTERM ends a process in time, with 0",
    "returns": "Both services answer again after a fault",
    "quiet": "Logs have no words of users and no secrets",
}
"""The names L1 to L7 are those of the fault catalogue."""

MOST_SHOWN = 20


class Promises:
    """The score of one run.

    Attributes:
        during: What is going on, for what is told of a loss.
    """

    def __init__(self) -> None:
        self.tried: Counter[str] = Counter()
        self.lost: dict[str, list[str]] = defaultdict(list)
        self.during = "the start"

    def note(self, promise: str, kept: bool, what: str) -> None:
        """One trial; `what` happened if the promise was not kept."""
        assert promise in TEXTS
        self.tried[promise] += 1
        if not kept:
            self.lost[promise].append(f"{what} (during {self.during})")

    def add(self, tried: Counter[str], lost: dict[str, list[str]]) -> None:
        """Trials that were counted elsewhere."""
        self.tried.update(tried)
        for promise, what in lost.items():
            self.lost[promise] += what

    @property
    def complaints(self) -> str:
        """What was lost, in words; empty if nothing was."""
        shown = ((name, what) for name, lost in self.lost.items() for what in lost[:MOST_SHOWN])
        return "\n".join(f"{name}: {what}" for name, what in shown)

    def table(self) -> str:
        """A row for each promise that was tried."""
        rows = [
            f"| {text} | {self.tried[name]:,} | {len(self.lost[name]):,} |"
            for name, text in TEXTS.items()
            if self.tried[name]
        ]
        return "\n".join(["| Promise | Tried | Lost |", "|---|---:|---:|", *rows])


TABLES: list[tuple[str, str]] = []
"""Titles and texts for the end of the test run."""
