"""Runs jobs: claims as many as there are free slots, renews their leases, records the outcome.

A job waits during an outage of the model or the database, or without budget; a bad reply costs an
attempt, and so does work that takes too long while the database waits for it. So does a standstill
of the whole process, which the job may have caused: time-outs then prove nothing about the model
and the database, and such a job would otherwise return for ever. Jobs of a whole tenant may run for
hours, and have one slot of their own in each process.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import random
import socket
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import KW_ONLY, dataclass, field

from hitherto_extraction.budget import SHARES, Budget, BudgetSpent
from hitherto_extraction.queue import attempts, claims
from hitherto_extraction.queue.claims import Claim, ClaimLost, OthersFirst
from hitherto_extraction.queue.jobs import RETRIED, JobSignals
from hitherto_extraction.queue.leases import LeaseRenewal
from hitherto_shared import metrics, tracing
from hitherto_shared.audit.trail import Trail
from hitherto_shared.database import faults
from hitherto_shared.database.faults import full_disk
from hitherto_shared.database.pool import Database
from hitherto_shared.database.signals import Watch
from hitherto_shared.database.tenancy import act_for
from hitherto_shared.errors import Conflict, WorkTooLong
from hitherto_shared.model_api import (
    ModelMisbehaved,
    ModelMisconfigured,
    ModelRefused,
    ModelUnavailable,
)
from hitherto_shared.telemetry import job_id_of_task, without_message
from hitherto_shared.work_record import begin_record, current_record

logger = logging.getLogger("hitherto.worker")

LOOK_AGAIN_SECONDS = 600.0
"""Interval of checking a job without budget again: there may be more by then."""
_STATEMENT_SECONDS = 10.0
_PAUSE_SECONDS = 1.0
_CLAIM_SECONDS = 0.01
"""Minimum time between two claims."""
_CLAIM_WIDE_SECONDS = 0.25
"""The same while no slot is free, when only a job about a whole tenant could start."""
_REST_SECONDS = 60.0
"""Time for which no further job of a tenant and kind is claimed after one found no budget, unless
jobs are retried by hand."""
_MIDNIGHT_JITTER_SECONDS = 30.0
_TENANT_WIDE = 1

_began: ContextVar[float] = ContextVar("hitherto_attempt_began")
"""When the attempt of this task began, by the monotonic clock."""

Runner = Callable[[Claim], Awaitable[None]]
"""Runs a claimed job to its end, or raises."""


@dataclass(eq=False)
class Worker:
    """Claims and runs jobs until it is stopped. The database role is hitherto_maintenance.

    After `standstill_seconds` without progress of the event loop, running jobs lose an attempt.
    """

    database: Database
    signals: JobSignals
    runners: Mapping[str, Runner]
    budget: Budget = field(default_factory=Budget)
    trail: Trail | None = None
    _: KW_ONLY
    concurrency: int
    lease_seconds: float
    backoff_seconds: float
    standstill_seconds: float = 5.0

    def __post_init__(self) -> None:
        self._resting: dict[tuple[str, str], float] = {}
        self._name = f"{socket.gethostname()}:{os.getpid()}"
        self._running: dict[asyncio.Task[None], Claim] = {}
        self._held_up: set[asyncio.Task[None]] = set()
        self._moved = time.monotonic()
        self._stopping = False
        self._claimed_at = -math.inf
        self._loops: list[asyncio.Task[None]] = []
        self._renewal = LeaseRenewal(self.database, self._running, self.lease_seconds)

    async def start(self) -> None:
        """Start claiming jobs in the background."""
        self._moved = time.monotonic()
        self._loops = [
            asyncio.create_task(self._claim_loop(), name="claim-loop"),
            asyncio.create_task(self._renewal.run(), name="renew-loop"),
            asyncio.create_task(self._clock_loop(), name="clock-loop"),
        ]

    async def stop(self, grace: float) -> None:
        """Claim nothing more; let running jobs finish for `grace` seconds, then hand them back."""
        self._stopping = True
        self.signals.wake()
        # A claim in progress may still succeed, and its jobs must be run or handed back.
        if self._loops:
            await asyncio.wait(self._loops[:1], timeout=_STATEMENT_SECONDS)
        if self._running:
            await asyncio.wait(set(self._running), timeout=grace)
        for task in list(self._running):
            task.cancel()
        if self._running:
            await asyncio.wait(set(self._running), timeout=_STATEMENT_SECONDS)
        ending = [*self._loops, *self._renewal.waiting]
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)

    async def _claim_loop(self) -> None:
        with self.signals.watching() as news, self.signals.watching(RETRIED) as retried:
            while not self._stopping:
                if retried.seen():
                    self._resting.clear()
                await self._claim_round(news)

    async def _claim_round(self, news: Watch) -> None:
        began = time.monotonic()
        wide = sum(held.user_id is None for held in self._running.values())
        room = self.concurrency - (len(self._running) - wide)
        if room > 0 or began > self._claimed_at + _CLAIM_WIDE_SECONDS:
            self._claimed_at = began
            for held in await self._claim(max(room, 0), max(_TENANT_WIDE - wide, 0)):
                task = asyncio.create_task(self._run(held), name=f"job-{held.job_id}")
                self._running[task] = held
                task.add_done_callback(self._done)
        # Nothing more could start; signals since then are not missed.
        await news.change()
        # Several signals announce one job, and each would cause a claim.
        await asyncio.sleep(max(0.0, began + _CLAIM_SECONDS - time.monotonic()))

    async def _claim(self, room: int, tenant_wide: int) -> list[Claim]:
        if not (room or tenant_wide):
            return []
        now = time.monotonic()
        self._resting = {what: until for what, until in self._resting.items() if until > now}
        try:
            return await self.database.run(
                lambda connection: claims.claim(
                    connection,
                    worker=self._name,
                    # Nothing that a model answers could be written to a full disk.
                    kinds=[k for k in self.runners if not (full_disk.is_full and k in SHARES)],
                    limit=room,
                    tenant_wide=tenant_wide,
                    lease_seconds=self.lease_seconds,
                    resting=list(self._resting),
                    trail=self.trail,
                ),
                timeout=_STATEMENT_SECONDS,
            )
        except Exception as error:
            fault = faults.translate(error)
            if isinstance(fault, Conflict):
                return []
            # Whatever the error, the loop continues: without it the process would look alive and
            # idle.
            if fault is None:
                logger.error("cannot claim jobs: unexpected %s", type(error).__name__)
            else:
                logger.warning("cannot claim jobs: %s", fault.message)
            await asyncio.sleep(_PAUSE_SECONDS)
            return []

    def _done(self, task: asyncio.Task[None]) -> None:
        self._running.pop(task, None)
        self._held_up.discard(task)
        self.signals.wake()
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("cannot record the outcome of a job: %s", type(error).__name__)

    async def _clock_loop(self) -> None:
        while True:
            self._look_at_the_clock()
            await asyncio.sleep(self.standstill_seconds / 5)

    def _look_at_the_clock(self) -> None:
        now = time.monotonic()
        if now - self._moved > self.standstill_seconds:
            logger.error("the process stood still for %.1f s", now - self._moved)
            self._held_up.update(self._running)
        self._moved = now

    def _was_held_up(self) -> bool:
        """Whether the process stood still while this job ran in it."""
        # The job may be the first task to continue after the standstill.
        self._look_at_the_clock()
        return asyncio.current_task() in self._held_up

    async def _run(self, held: Claim) -> None:
        job_id_of_task.set(str(held.job_id))
        _began.set(time.monotonic())
        begin_record()
        act_for(held.tenant_id)
        try:
            with metrics.JOB_SECONDS.labels(held.kind).time(), _span_of(held):
                await self._attempt(held)
        except asyncio.CancelledError:
            if self._stopping and self._was_held_up():
                await self._charge(held)
            elif self._stopping:
                await self._record(lambda c: attempts.release(c, held))
            raise

    async def _attempt(self, held: Claim) -> None:
        try:
            await self.budget.check(self.database, held.tenant_id, held.kind)
            await self.runners[held.kind](held)
            self._ended(held, "succeeded")
        except ClaimLost:
            self._ended(held, "lost")
            logger.info("the claim on the job was lost; nothing was written")
        except OthersFirst as others:
            self._ended(held, "others_first")
            seconds = others.seconds
            await self._record(lambda c: attempts.release(c, held, delay_seconds=seconds))
        except BudgetSpent as error:
            await self._pause(held, error)
        except ModelUnavailable as error:
            if self._was_held_up():
                await self._charge(held)
                return
            delay = self._backoff(1)
            if error.retry_after:
                # No sooner than requested, and not all jobs at once.
                delay = error.retry_after * random.uniform(1.0, 1.25)
            # What the circuit breaker has logged once is not logged again for every job.
            lasting = isinstance(error, ModelMisconfigured)
            logger.log(
                logging.WARNING if error.asked and not lasting else logging.INFO,
                "the model is unreachable; waiting at least %.1f s: %s",
                delay,
                error,
            )
            await self._end(
                held,
                "MODEL_MISCONFIGURED" if lasting else "MODEL_UNAVAILABLE",
                str(error),
                attempts.wait_out_outage,
                delay_seconds=delay,
                counts=error.asked and not lasting,
            )
        except (ModelRefused, ModelMisbehaved) as error:
            refused = isinstance(error, ModelRefused)
            await self._fail(held, "MODEL_REFUSED" if refused else "MODEL_UNUSABLE", str(error))
        except Exception as error:
            fault = faults.translate(error)
            if fault is None:
                about = without_message(error)
                logger.error("the job failed with an internal error", exc_info=about)
                await self._fail(held, "INTERNAL", type(error).__name__)
            elif self._was_held_up():
                await self._charge(held)
            elif isinstance(fault, WorkTooLong):
                await self._fail(held, fault.reason, fault.message)
            else:
                # Failures of the database, or of a user's key, are not the job's fault, however
                # long they last.
                logger.warning("the job waits: %s", fault.message, extra=faults.sqlstate_of(error))
                wait_out, delay = attempts.wait_out_outage, self._backoff(1)
                await self._end(
                    held, fault.reason, fault.message, wait_out, delay_seconds=delay, counts=False
                )

    def _ended(self, held: Claim, outcome: str) -> None:
        """Count and log an attempt that ended: `succeeded`, `lost`, or the reason of its error."""
        metrics.JOB_ATTEMPTS.labels(held.kind, outcome.lower()).inc()
        record = current_record()
        assert record is not None
        record.outcome = outcome.lower()
        facts: dict[str, object] = {
            "kind": held.kind,
            "attempt": held.attempt,
            "outcome": record.outcome,
            "seconds": round(time.monotonic() - _began.get(), 3),
            "model_seconds": round(record.seconds("model"), 3),
            "sql_seconds": round(record.seconds("sql"), 3),
            "tokens": dict(record.tokens),
            "counts": record.counts,
        }
        if self.trail is not None and held.user_id is not None:
            facts["user_hash"] = self.trail.hash(held.tenant_id, held.user_id)
        logger.info("attempt at a job ended", extra=facts)

    async def _charge(self, held: Claim) -> None:
        await self._fail(held, "WORKER_LOST", "the process stood still while the job ran")

    async def _pause(self, held: Claim, error: BudgetSpent) -> None:
        rest = min(_REST_SECONDS, error.seconds_left)
        self._resting[held.tenant_id, held.kind] = time.monotonic() + rest
        logger.warning("no budget left: %s", error)
        # Until midnight UTC; earlier, it looks whether there is more by then.
        look = LOOK_AGAIN_SECONDS * random.uniform(0.75, 1.0)
        jitter = _MIDNIGHT_JITTER_SECONDS * random.uniform(0.0, 1.0)
        await self._end(
            held,
            "BUDGET_EXHAUSTED",
            str(error),
            attempts.pause,
            delay_seconds=min(look, error.seconds_left + jitter),
        )

    async def _fail(self, held: Claim, reason: str, message: str) -> None:
        logger.warning("attempt %d failed: %s: %s", held.attempt, reason, message)
        delay = self._backoff(held.attempt)
        await self._end(held, reason, message, attempts.fail, delay_seconds=delay)

    async def _end(
        self,
        held: Claim,
        reason: str,
        message: str,
        write: Callable[..., Awaitable[None]],
        **how: float,
    ) -> None:
        """Log an attempt that ended for a reason, and write its outcome."""
        self._ended(held, reason)
        error = f"{reason}: {message}"
        await self._record(lambda c: write(c, held, error=error, reason=reason, **how))

    async def _record(self, write: Callable[..., Awaitable[None]]) -> None:
        """Write an outcome, fenced like any other write, as soon as the database is reachable.

        At shutdown there is no time for that: the expired lease has the same effect.
        """
        tries = 0
        while True:
            try:
                await self.database.run(write, timeout=_STATEMENT_SECONDS)
                return
            except Exception as error:
                if faults.translate(error) is None:
                    raise
                tries += 1
                logger.warning("retrying to record the outcome of a job: %s", type(error).__name__)
            if self._stopping:
                return
            await asyncio.sleep(min(self._backoff(tries), self.lease_seconds / 3))

    def _backoff(self, attempt: int) -> float:
        """Exponential in the attempt, with jitter, so that retries do not come in waves."""
        delay: float = self.backoff_seconds * 2.0 ** min(max(attempt - 1, 0), 10)
        return min(delay, attempts.MAX_BACKOFF_SECONDS) * random.uniform(0.75, 1.25)


@contextmanager
def _span_of(held: Claim) -> Iterator[None]:
    """The span of an attempt, if traces are on."""
    tracer = tracing.tracer()
    if tracer is None:
        yield
        return
    about: tracing.Attributes = {
        "hitherto.job.id": str(held.job_id),
        "hitherto.job.attempt": held.attempt,
    }
    span = tracer.job(held.kind, held.trace_parent, about)
    outcome = "stopped"
    try:
        yield
        if (record := current_record()) is not None:
            outcome = record.outcome
    finally:
        at_fault = outcome not in ("succeeded", "lost", "stopped", "others_first")
        failed = outcome.upper() if at_fault else ""
        span.end(failed, {"hitherto.job.outcome": outcome})
