"""Following many jobs at once until all have ended, with a bar or a line now and then."""

from __future__ import annotations

import queue
import threading
from collections import defaultdict
from collections.abc import Iterable

import grpc

from hitherto.v1 import job_pb2
from hitherto_client import Hitherto
from hitherto_client._sync.connection import Connection
from hitherto_client._sync.watch import FINAL, watch_job
from hitherto_client.command.output import Output
from hitherto_client.command.progress import Bar
from hitherto_client.errors import HithertoCallError

_WATCHERS = 8
"""How many jobs are watched at a time; the others' turn comes when these have ended."""


def follow(client: Hitherto, jobs: Iterable[job_pb2.Job], output: Output) -> list[job_pb2.Job]:
    """Watch jobs until every one is final and return them in the order given.

    Raises:
        HithertoCallError: A job is unknown, or the service stays away.
    """
    known = {job.id: job for job in jobs}
    waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
    for job_id in _turns(known.values()):
        waiting.put(job_id)
    heard: queue.SimpleQueue[job_pb2.Job | Exception] = queue.SimpleQueue()
    stop = threading.Event()
    # Asked for here: a watcher that starts late would ask a client that is closed.
    connection = client.connection
    watchers = [
        threading.Thread(target=_watch, args=(connection, waiting, heard, stop), daemon=True)
        for _ in range(min(_WATCHERS, waiting.qsize()))
    ]
    ended = False
    with Bar(output) as bar:
        _show(bar, known)
        for watcher in watchers:
            watcher.start()
        try:
            while any(job.state not in FINAL for job in known.values()):
                event = heard.get()
                if isinstance(event, Exception):
                    raise event
                known[event.id] = event
                _show(bar, known)
            ended = True
        finally:
            stop.set()
            if not ended:
                # The only way to end a stream that another thread reads.
                client.close()
            for watcher in watchers:
                watcher.join(timeout=5.0)
    return list(known.values())


def _watch(
    connection: Connection,
    waiting: queue.SimpleQueue[str],
    heard: queue.SimpleQueue[job_pb2.Job | Exception],
    stop: threading.Event,
) -> None:
    target = connection.target
    while not stop.is_set():
        try:
            job_id = waiting.get_nowait()
        except queue.Empty:
            return
        try:
            for job in watch_job(
                connection.extraction.WatchJob,
                target.extraction,
                target.retry,
                job_id,
                timeout=None,
            ):
                heard.put(job)
        except (HithertoCallError, grpc.RpcError, ValueError) as error:
            # ValueError: gRPC says it of a channel that was closed meanwhile.
            if not stop.is_set():
                heard.put(error)
            return


def _turns(jobs: Iterable[job_pb2.Job]) -> list[str]:
    """Unfinished jobs, the first one of each user first, then the second ones, and so on.

    Jobs of one user run one after another: watching several of them shows one that moves.
    """
    seen: defaultdict[str, int] = defaultdict(int)
    turns: list[tuple[int, str]] = []
    for job in jobs:
        if job.state not in FINAL:
            turns.append((seen[job.user_id], job.id))
            seen[job.user_id] += 1
    turns.sort(key=lambda turn: turn[0])
    return [job_id for _, job_id in turns]


def _show(bar: Bar, jobs: dict[str, job_pb2.Job]) -> None:
    done, total = measure(jobs.values())
    final = sum(job.state in FINAL for job in jobs.values())
    # Totals grow while jobs start; only when all have ended is everything done.
    share = done / total if total else final / max(len(jobs), 1)
    share = 1.0 if final == len(jobs) else min(share, 0.99)
    counts = f"{final} of {len(jobs)} jobs"
    if total:
        counts = f"{done} of {total} messages, {counts}"
    bar.show(share, counts)


def measure(jobs: Iterable[job_pb2.Job]) -> tuple[int, int]:
    """How many messages are read, and how many there are; a job that ended is done with its own."""
    done = total = 0
    for job in jobs:
        total += job.progress.messages_total
        ended = job.state in FINAL
        done += job.progress.messages_total if ended else job.progress.messages_done
    return done, total
