"""Metrics of a service in Prometheus' format: what is counted, and the port that shows it.

Everything is counted always; `HITHERTO_METRICS_LISTEN` only opens the port. No label names a user,
and the label `tenant` is empty unless the operator asks for it. If a service runs in several
processes, each writes its numbers to files in a folder of the parent, which shows the sum.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, multiprocess

from hitherto_shared.metrics_page import served_page
from hitherto_shared.model_api import (
    ModelMisbehaved,
    ModelMisconfigured,
    ModelRefused,
    ModelUnavailable,
)
from hitherto_shared.work_record import Waiting, current_record

_FILES_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
"""Where the processes of one service write their numbers; the name is prometheus_client's."""
_LAG_SECONDS = 0.5
"""How often the lag of the event loop is measured."""

_CALL_BUCKETS = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0),
)
_JOB_BUCKETS = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
_LAG_BUCKETS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 10.0)

REGISTRY = CollectorRegistry()
_counter = partial(Counter, registry=REGISTRY)
_histogram = partial(Histogram, registry=REGISTRY)
# What a gauge shows if a service runs in several processes.
_sum = partial(Gauge, registry=REGISTRY, multiprocess_mode="livesum")
_largest = partial(Gauge, registry=REGISTRY, multiprocess_mode="livemax")
_smallest = partial(Gauge, registry=REGISTRY, multiprocess_mode="livemin")

RPCS = _counter(
    "hitherto_rpcs",
    "Calls that ended, by RPC, gRPC status code and error reason.",
    ["method", "code", "reason"],
)
RPC_SECONDS = _histogram(
    "hitherto_rpc_duration_seconds",
    "Time from the arrival of a call to its end, by RPC. Long for streams.",
    ["method"],
    buckets=_CALL_BUCKETS,
)
RPCS_RUNNING = _sum(
    "hitherto_rpcs_in_progress", "Calls that are being answered, health checks included."
)
SEARCH_LEGS = _counter(
    "hitherto_search_legs",
    "Legs of searches and contexts, by how they ended: ran, skipped, timed_out or failed.",
    ["leg", "state"],
)
MESSAGES_CUT = _counter(
    "hitherto_messages_cut",
    "Messages of more than 64 KiB that were stored cut.",
)
SECRETS_REDACTED = _counter(
    "hitherto_secrets_redacted",
    "Secrets in incoming texts that were replaced by a marker, by kind.",
    ["kind"],
)
DEGRADED_REPLIES = _counter(
    "hitherto_degraded_replies", "Replies that lack a leg because it failed or was too slow."
)
SNAPSHOT_LOOKUPS = _counter(
    "hitherto_snapshot_lookups",
    "Reads that looked for a snapshot of the user, by result: hit or miss.",
    ["result"],
)
SNAPSHOT_LOADS = _counter("hitherto_snapshot_loads", "Snapshots of users loaded.")
SNAPSHOT_BYTES = _sum(
    "hitherto_snapshot_bytes", "Approximate size of all snapshots of users in memory."
)
SNAPSHOTS = _sum("hitherto_snapshots", "Users whose snapshot is in memory.")
JOBS = _largest(
    "hitherto_jobs",
    "Unfinished and dead jobs of the installation, by kind and state. All replicas show the same.",
    ["kind", "state"],
)
OLDEST_JOB_SECONDS = _largest(
    "hitherto_oldest_job_seconds",
    "Age of the oldest job in a state, by kind and state. All replicas show the same.",
    ["kind", "state"],
)
JOB_ATTEMPTS = _counter(
    "hitherto_job_attempts",
    "Attempts at jobs that ended, by kind and outcome: succeeded, lost, or an error reason.",
    ["kind", "outcome"],
)
JOB_SECONDS = _histogram(
    "hitherto_job_attempt_duration_seconds",
    "Duration of attempts at jobs, by kind.",
    ["kind"],
    buckets=_JOB_BUCKETS,
)
MODEL_CALLS = _counter(
    "hitherto_model_calls",
    "Calls of model servers, by kind (chat or embedding) and outcome: ok, unavailable, "
    "misconfigured, refused, misbehaved, failed (a defect of the service), or cancelled because "
    "nobody waits any more.",
    ["kind", "outcome"],
)
MODEL_SECONDS = _histogram(
    "hitherto_model_call_duration_seconds",
    "Duration of calls of model servers, by kind.",
    ["kind"],
    buckets=_CALL_BUCKETS,
)
MODEL_TOKENS = _counter(
    "hitherto_model_tokens",
    "Tokens of model servers, by kind of call and direction: input or output.",
    ["kind", "direction"],
)
MODEL_TOKENS_ESTIMATED = _counter(
    "hitherto_model_tokens_estimated",
    "Those tokens that the service estimated from the texts because the server reported none, by "
    "kind of call and direction.",
    ["kind", "direction"],
)
QUALITY_CHECKS = _counter(
    "hitherto_quality_checks",
    "Checks of new memories in the first conversations after an installation or a new prompt "
    "version, by check (grounding or duplicate) and outcome: passed or failed.",
    ["check", "outcome"],
)
CONNECTION_WAITS = _histogram(
    "hitherto_database_connection_wait_seconds",
    "Time a borrower waited for a database connection, of those who had to wait.",
    buckets=_CALL_BUCKETS,
)
CONNECTIONS_REFUSED = _counter(
    "hitherto_database_connections_refused",
    "Borrowers who got no database connection: too many waited, or none became free in time.",
)
CONNECTIONS_LENT = _sum(
    "hitherto_database_connections_lent", "Database connections in use, by database role.", ["role"]
)
CONNECTIONS_LIMIT = _sum(
    "hitherto_database_connections_limit",
    "Database connections that the pools may open at most, by database role.",
    ["role"],
)
DATABASE_REACHABLE = _smallest(
    "hitherto_database_reachable",
    "Whether reads use a database: 1, or 0 while it is unreachable or, for a replica, no longer "
    "follows the primary; by database: primary or replica. Only of the retrieval service.",
    ["database"],
)
REPLICA_LAG_SECONDS = _largest(
    "hitherto_replica_lag_seconds",
    "Age of the newest transaction that a replica shows, 0 if it shows everything it has received; "
    "NaN while it does not answer. Absent without a replica.",
    ["database"],
)
CERTIFICATE_EXPIRY = _smallest(
    "hitherto_tls_certificate_expiry_timestamp_seconds",
    "When the first certificate of a file expires, as Unix time, by file: server or client_ca. "
    "Absent without TLS.",
    ["file"],
)
RATE_LIMITS = _counter(
    "hitherto_rate_limits",
    "Calls beyond a rate limit, by limit and effect: refused, or delayed for items of a stream.",
    ["limit", "effect", "tenant"],
)
ERASURES = _counter(
    "hitherto_erasures",
    "Erasures that ended, by what was erased: user or conversation.",
    ["subject"],
)
CHARGED_USD = _counter(
    "hitherto_charged_usd",
    "US dollars charged for calls of models, by stage of the work.",
    ["stage", "tenant"],
)
CHARGED_TOKENS = _counter(
    "hitherto_charged_tokens",
    "Tokens charged for calls of models, by stage of the work and direction: input or output.",
    ["stage", "direction", "tenant"],
)
BUDGET_LEFT_USD = _smallest(
    "hitherto_budget_left_usd",
    "What is left of today's budget, in US dollars, of the tenant with the least, or of each "
    "tenant if the label is on. Absent without a budget. All replicas show the same.",
    ["tenant"],
)
LOOP_LAG_SECONDS = _histogram(
    "hitherto_event_loop_lag_seconds",
    "How much later than planned the event loop ran a timer, measured twice a second.",
    buckets=_LAG_BUCKETS,
)


Labelled = TypeVar("Labelled", Counter, Histogram)
_labelled: dict[tuple[object, ...], Any] = {}


def labelled(metric: Labelled, *values: str) -> Labelled:
    """The series of a metric with these values of its labels; the next time, it is at hand."""
    key = (metric, *values)
    found: Labelled | None = _labelled.get(key)
    if found is None:
        found = _labelled[key] = metric.labels(*values)
    return found


class _TenantLabel:
    def __init__(self) -> None:
        self.shown = False


_tenant_label = _TenantLabel()


def label_tenants(shown: bool) -> None:
    """Choose whether the label `tenant` names tenants from now on, or stays empty."""
    _tenant_label.shown = shown


def tenants_are_labelled() -> bool:
    """Whether the label `tenant` names tenants."""
    return _tenant_label.shown


def tenant_label(tenant_id: str) -> str:
    """The value of the label `tenant`."""
    return tenant_id if _tenant_label.shown else ""


class ModelCall:
    """A call of a model server; `kind` is chat or embedding."""

    __slots__ = ("_kind", "_waiting")

    def __init__(self, kind: str, waiting: Waiting) -> None:
        self._kind = kind
        self._waiting = waiting

    def used(self, direction: str, tokens: int, estimated: bool) -> int:
        """Count the tokens of the call and return them; `direction` is input or output."""
        labelled(MODEL_TOKENS, self._kind, direction).inc(tokens)
        if estimated:
            labelled(MODEL_TOKENS_ESTIMATED, self._kind, direction).inc(tokens)
        if (record := current_record()) is not None:
            record.tokens[f"{self._kind}_{direction}"] += tokens
        self._waiting.note(f"gen_ai.usage.{direction}_tokens", tokens)
        return tokens


# The narrower before the wider.
_MODEL_OUTCOMES = {
    ModelMisconfigured: "misconfigured",
    ModelUnavailable: "unavailable",
    ModelRefused: "refused",
    ModelMisbehaved: "misbehaved",
}


@contextmanager
def measured_model_call(kind: str, model: str) -> Iterator[ModelCall]:
    """Measure a call of a model server; `kind` is chat or embedding, `model` is as configured."""
    began = time.perf_counter()
    outcome = "cancelled"
    try:
        with Waiting("model", kind, {"gen_ai.request.model": model}) as waiting:
            yield ModelCall(kind, waiting)
        outcome = "ok"
    except Exception as error:
        outcome = next(
            (said for kin, said in _MODEL_OUTCOMES.items() if isinstance(error, kin)), "failed"
        )
        raise
    finally:
        labelled(MODEL_CALLS, kind, outcome).inc()
        labelled(MODEL_SECONDS, kind).observe(time.perf_counter() - began)


@contextmanager
def shown(listen: str | None, *, processes: int = 1) -> Iterator[None]:
    """Show the metrics of this process at `http://listen/metrics`, or those of its children.

    None: nowhere. A process that will start several `processes` of the service shows their sum.

    Raises:
        ValueError: The address cannot be used; something else may listen there.
    """
    if listen is None:
        yield
        return
    if processes == 1:
        with served_page(listen, REGISTRY):
            yield
        return
    folder = tempfile.mkdtemp(prefix="hitherto-metrics-")
    os.environ[_FILES_VARIABLE] = folder
    try:
        registry = CollectorRegistry()
        multiprocess.MultiProcessCollector(registry, path=folder)  # type: ignore[no-untyped-call]
        with served_page(listen, registry):
            yield
    finally:
        del os.environ[_FILES_VARIABLE]
        shutil.rmtree(folder, ignore_errors=True)


def forget_process(pid: int) -> None:
    """Drop the gauges of a child that has ended; its counters stay in the sum."""
    if _FILES_VARIABLE in os.environ:
        multiprocess.mark_process_dead(pid)  # type: ignore[no-untyped-call]


@contextmanager
def lag_measured() -> Iterator[None]:
    """Measure meanwhile how late timers of the running event loop are."""

    async def measure() -> None:
        while True:
            due = time.perf_counter() + _LAG_SECONDS
            await asyncio.sleep(_LAG_SECONDS)
            LOOP_LAG_SECONDS.observe(max(0.0, time.perf_counter() - due))

    task = asyncio.create_task(measure(), name="loop-lag")
    try:
        yield
    finally:
        task.cancel()
