"""What was acknowledged, written down after each OK, and held against the database at the end.

The rules have the names of the fault catalogue: L1 nothing acknowledged is missing, L2 what
succeeded took effect exactly once, L5 nothing is left half-way, L7 the model was not asked without
end.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections import Counter, defaultdict
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psycopg

_PENDING = ("queued", "failed", "running")
_ENDED = ("succeeded", "dead")
_CANARY = re.compile(r"canary:\w+")


@dataclass(frozen=True, slots=True)
class Entry:
    """One acknowledged batch."""

    user: str
    conversation: str
    canary: str
    key: str
    job_id: str


@dataclass(frozen=True, slots=True)
class _JobRow:
    """How a job ended, and how often a worker took it."""

    state: str
    claims: int


@dataclass
class Findings:
    """What a ledger held against a database came to.

    Attributes:
        states: The acknowledged jobs by state.
        tried: How often each rule was tried.
        broken: What broke a rule.
    """

    states: Counter[str] = field(default_factory=Counter)
    tried: Counter[str] = field(default_factory=Counter)
    broken: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def note(self, rule: str, kept: bool, what: str) -> None:
        """One trial of a rule; `what` happened if it was not kept."""
        self.tried[rule] += 1
        if not kept:
            self.broken[rule].append(what)


class Ledger:
    """Entries in a file, in the order of their acknowledgement.

    Args:
        file: Where they are kept; a line is complete before `note` returns.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._file.touch()

    def note(self, entry: Entry) -> None:
        """Write down that `entry` was answered with OK."""
        with self._file.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(asdict(entry)) + "\n")

    @property
    def entries(self) -> list[Entry]:
        """All that was acknowledged."""
        with self._file.open(encoding="utf-8") as lines:
            return [Entry(**json.loads(line)) for line in lines]

    async def settled(self, conninfo: str, *, seconds: float = 180.0) -> None:
        """Wait until no job waits or runs."""
        give_up = time.monotonic() + seconds
        while True:
            left = 0
            try:
                with _connect(conninfo) as connection:
                    row = connection.execute(
                        "SELECT count(*) FROM jobs WHERE state = ANY(%s)", [list(_PENDING)]
                    ).fetchone()
                left = row[0] if row else 0
                if left == 0:
                    return
            except psycopg.OperationalError:
                left = -1
            assert time.monotonic() < give_up, f"{left} jobs are unfinished after {seconds:.0f} s"
            await asyncio.sleep(0.1)

    def check(self, conninfo: str, *, chat_calls: int, batches_per_job: int = 1) -> Counter[str]:
        """Hold the ledger against a database at rest, and count the acknowledged jobs by state.

        Args:
            conninfo: The database, as its administrator sees it.
            chat_calls: How often the model was asked.
            batches_per_job: How many model calls an undisturbed job makes.

        Raises:
            AssertionError: A rule is broken; the text names all that are.
        """
        found = self.examine(conninfo, chat_calls=chat_calls, batches_per_job=batches_per_job)
        broken = [f"{rule}: {what}" for rule, whats in found.broken.items() for what in whats]
        assert not broken, "\n".join(broken)
        return found.states

    def examine(self, conninfo: str, *, chat_calls: int, batches_per_job: int = 1) -> Findings:
        """The same as `check`, which breaks of a rule do not end."""
        entries = self.entries
        with _connect(conninfo) as connection:
            jobs = _jobs(connection)
            active = _active_canaries(connection)
            idle = _half_way(connection)
        found = Findings()
        for entry in entries:
            state = jobs[entry.job_id].state if entry.job_id in jobs else "missing"
            found.states[state] += 1
            told = active[entry.user, entry.canary]
            found.note("L1", state in (*_ENDED, *_PENDING), f"{entry.canary}: its job is {state}")
            if state == "succeeded":
                found.note("L2", told == 1, f"{entry.canary}: in {told} active memories")
        owners = defaultdict(set)
        for (user, canary), times in active.items():
            found.note("L2", times == 1, f"{canary}: in several active memories")
            owners[canary].add(user)
        for canary, of in owners.items():
            found.note("L3", len(of) == 1, f"{canary}: of several users")
        for key, times in Counter(entry.key for entry in entries).items():
            found.note("L1", times == 1, f"{key}: acknowledged twice")
        for job_id, job in jobs.items():
            found.note("L5", job.state != "running", f"job {job_id} is still running")
        for what in idle:
            found.note("L5", False, what)
        claims = sum(job.claims for job in jobs.values())
        most = 2 * claims * batches_per_job
        found.note("L7", chat_calls <= most, f"{chat_calls} model calls for {claims} attempts")
        return found


def _connect(conninfo: str) -> psycopg.Connection[Any]:
    return psycopg.connect(conninfo, autocommit=True, connect_timeout=10)


def _jobs(connection: psycopg.Connection[Any]) -> dict[str, _JobRow]:
    rows = connection.execute("SELECT job_id::text, state, claim_no FROM jobs").fetchall()
    return {job_id: _JobRow(state, claim_no) for job_id, state, claim_no in rows}


def _active_canaries(connection: psycopg.Connection[Any]) -> Counter[tuple[str, str]]:
    rows = connection.execute(
        "SELECT user_id, content FROM memories WHERE status = 'active'"
    ).fetchall()
    return Counter(
        (user, canary) for user, content in rows for canary in set(_CANARY.findall(content))
    )


def _half_way(connection: psycopg.Connection[Any]) -> list[str]:
    rows = connection.execute(
        "SELECT application_name, state FROM pg_stat_activity"
        " WHERE datname = current_database() AND state LIKE 'idle in transaction%'"
        " AND state_change < clock_timestamp() - interval '3 seconds'"
    ).fetchall()
    return [f"a session of {name} is {state}" for name, state in rows]
