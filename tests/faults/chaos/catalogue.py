"""The faults of a run. Each does its harm, waits a while that is drawn, and takes it back."""

from __future__ import annotations

import asyncio
import random
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from tests.faults.chaos.stage import NAMES, QUEUE_LIMIT, Stage
from tests.faults.processes import Name
from tests.faults.relay import Relay
from tests.scripted_model import (
    CONTENT_FAULTS,
    ChatAnswer,
    ChatRequest,
    EmbeddingFault,
    Fault,
    Hang,
    RawReply,
    Reset,
    SlowDrip,
    StatusFault,
)
from tests.scripted_model.scripts import Outcome
from tests.scripted_model.server import Endpoint

Strike = Callable[[Stage, random.Random], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Trouble:
    """One kind of fault.

    Attributes:
        name: What happens.
        rows: Those of the fault catalogue that it belongs to.
        touches: What it acts upon; faults at the same time act upon different things.
        strike: Does it, and undoes it; all that is random comes from what it is given.
        spares_reads: Whether reads must not notice.
        lacks: What it needs and this stage does not have; empty if it has everything.
        prepare: What it does before any harm is done.
    """

    name: str
    rows: str
    touches: frozenset[str]
    strike: Strike
    spares_reads: bool = False
    lacks: Callable[[Stage], str] = lambda _: ""
    prepare: Callable[[Stage], Awaitable[None]] | None = None


async def kill(stage: Stage, chance: random.Random) -> None:
    for name in chance.sample(NAMES, chance.randrange(1, 3)):
        stage.kill(name)
    await asyncio.sleep(chance.uniform(0, 1))


async def stop_and_start(stage: Stage, chance: random.Random) -> None:
    await stage.end(chance.choice(NAMES))


async def roll(stage: Stage, chance: random.Random) -> None:
    for name in chance.sample(NAMES, 2):
        await stage.roll(name)


CLOCK_LIBRARY = next(
    (str(path) for path in Path("/usr/lib").glob("*/faketime/libfaketime.so.1")), ""
)
"""Of Debian's package libfaketime."""


async def wrong_clock(stage: Stage, chance: random.Random) -> None:
    """A service whose clock is twenty minutes off, in place of one with the right time."""
    name, minutes = chance.choice(NAMES), chance.choice([-20, 20])
    settings = {
        "LD_PRELOAD": CLOCK_LIBRARY,
        "FAKETIME": f"{minutes:+d}m",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    await stage.roll(name, **settings)
    await asyncio.sleep(chance.uniform(1, 4))
    await stage.roll(name)


async def earlier_beside(stage: Stage, chance: random.Random) -> None:
    """Processes of the version before take the calls, while those of this one go on beside them."""
    names = chance.sample(NAMES, chance.randrange(1, 3))
    seconds = [chance.uniform(1, 5) for _ in names]
    both = zip(names, seconds, strict=True)
    await asyncio.gather(*[stage.beside(*each, PYTHONPATH=stage.earlier) for each in both])


async def pause(stage: Stage, chance: random.Random) -> None:
    """Longer than a lease: who goes on then has lost its jobs."""
    process = stage.services[chance.choice(NAMES)].process
    process.send_signal(signal.SIGSTOP)
    await asyncio.sleep(chance.uniform(1, 5))
    process.send_signal(signal.SIGCONT)


async def kill_postgres(stage: Stage, chance: random.Random) -> None:
    stage.kill_postgres(chance.choice([signal.SIGKILL, signal.SIGQUIT]))
    await asyncio.sleep(chance.uniform(0, 1))


async def freeze_postgres(stage: Stage, chance: random.Random) -> None:
    stage.processes.freeze()
    await asyncio.sleep(chance.uniform(0.5, 6))
    stage.processes.thaw()


async def fill_disk(stage: Stage, chance: random.Random) -> None:
    """The disk of Postgres has no room for what is written, its write-ahead log included."""
    assert stage.disk is not None
    try:
        stage.disk.fill(chance.randrange(64 << 10, 2 << 20))
        await asyncio.sleep(chance.uniform(1, 5))
    finally:
        stage.disk.clear()


async def read_from_standby(stage: Stage) -> None:
    """Let the retrieval service read from the standby, until it is started again."""
    assert stage.servers is not None
    await stage.roll("retrieval", HITHERTO_READ_DATABASE_URL=stage.servers.standby_conninfo)


async def lose_standby(stage: Stage, chance: random.Random) -> None:
    """The standby dies, stands still, falls behind or becomes a server of its own."""
    servers, kind = stage.servers, chance.choice(["dies", "freezes", "lags", "is promoted"])
    seconds = chance.uniform(1, 5)
    assert servers is not None
    match kind:
        case "dies":
            await asyncio.to_thread(servers.stop_standby)
            await asyncio.sleep(seconds)
            await asyncio.to_thread(servers.start_standby)
        case "freezes":
            servers.freeze_standby()
            await asyncio.sleep(seconds)
            servers.thaw()
        case "lags":
            await asyncio.to_thread(servers.pause_replay, caught_up=False)
            await asyncio.sleep(seconds)
            await asyncio.to_thread(servers.resume_replay)
        case _:
            await asyncio.to_thread(servers.promote_standby)
            await asyncio.sleep(seconds)
            await asyncio.to_thread(servers.replace_standby)


async def cut_sessions(stage: Stage, chance: random.Random) -> None:
    for _ in range(chance.randrange(1, 4)):
        await stage.sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name LIKE 'hitherto-%' AND datname = current_database()"
        )
        await asyncio.sleep(chance.uniform(0, 0.5))


async def lock_tables(stage: Stage, chance: random.Random) -> None:
    table = chance.choice(["memories", "jobs", "users", "messages"])
    seconds = chance.uniform(0.5, 4)
    await stage.sql(f"BEGIN; LOCK TABLE {table}; SELECT pg_sleep({seconds:.2f}); COMMIT")


async def storm(stage: Stage, chance: random.Random) -> None:
    """Take every connection that the server has left."""
    async with AsyncExitStack() as stack:
        for _ in range(chance.randrange(60, 120)):
            try:
                async with asyncio.timeout(5):
                    connection = await psycopg.AsyncConnection.connect(stage.administrator)
            except (psycopg.OperationalError, TimeoutError):
                break
            stack.push_async_callback(connection.close)
        await asyncio.sleep(chance.uniform(0.5, 2))


STATUSES: list[Fault] = [
    *(StatusFault(status) for status in (401, 402, 403, 404, 405, 500, 501, 502, 503)),
    StatusFault(429),
    StatusFault(429, retry_after="1"),
    StatusFault(503, retry_after="2"),
    StatusFault(302, headers={"Location": "/elsewhere"}),
]
SILENCE: list[Fault] = [Hang(), Reset(), Reset(after=100), SlowDrip(seconds=0.05, size=200)]
BYTES: list[Fault] = [RawReply.html(), RawReply.huge(10), RawReply(b""), RawReply(b"\xff" * 1_000)]
VECTORS: list[Fault] = [
    EmbeddingFault("wrong_dimensions"),
    EmbeddingFault("one_missing"),
    EmbeddingFault("same_index"),
    EmbeddingFault("nan"),
    EmbeddingFault("zero"),
    EmbeddingFault("bad_base64"),
    EmbeddingFault("shuffled"),
]


def ill(endpoint: Endpoint, faults: list[Fault]) -> Strike:
    """The model server fails in one of these ways."""

    async def strike(stage: Stage, chance: random.Random) -> None:
        stage.model.always(chance.choice(faults), endpoint=endpoint)
        await asyncio.sleep(chance.uniform(0.5, 4))
        stage.model.always(None, endpoint=endpoint)

    return strike


async def nonsense(stage: Stage, chance: random.Random) -> None:
    """Replies that are not what was asked for, another one each time."""
    right, kinds = stage.model.script, sorted(CONTENT_FAULTS)

    def answer(_: ChatRequest) -> Outcome:
        return ChatAnswer(CONTENT_FAULTS[chance.choice(kinds)])

    stage.model.script = answer
    await asyncio.sleep(chance.uniform(0.5, 3))
    stage.model.script = right


async def full_queue(stage: Stage, chance: random.Random) -> None:
    """More is submitted than may wait; callers are told so and come again."""
    stage.model.always(Hang())
    await stage.crowd(QUEUE_LIMIT + chance.randrange(20))
    stage.model.always(None)


@asynccontextmanager
async def _mended(relay: Relay) -> AsyncIterator[None]:
    try:
        yield
    finally:
        relay.hold, relay.delay = False, 0.0
        # What was held is gone; whoever waits for it must learn that.
        relay.cut()


async def _disturb(relay: Relay, chance: random.Random) -> None:
    async with _mended(relay):
        match chance.choice(["cut", "hold", "slow"]):
            case "cut":
                for _ in range(chance.randrange(1, 6)):
                    relay.cut()
                    await asyncio.sleep(chance.uniform(0, 0.5))
            case "hold":
                relay.hold = True
                await asyncio.sleep(chance.uniform(0.5, 3))
            case _:
                relay.delay = chance.uniform(0.02, 0.2)
                await asyncio.sleep(chance.uniform(1, 4))


async def network_of_callers(stage: Stage, chance: random.Random) -> None:
    name: Name = chance.choice(NAMES)
    await _disturb(stage.relays[name], chance)


async def network_of_model(stage: Stage, chance: random.Random) -> None:
    await _disturb(stage.model_relay, chance)


_MIXED = 0.4
"""How often a second fault comes at the same time, if it acts upon something else."""

SERVICES = frozenset({"services", "callers"})
POSTGRES = frozenset({"postgres"})
MODEL = frozenset({"model"})
CALLERS = frozenset({"callers"})

TROUBLES = (
    Trouble("kill -9 of a service", "1-3, 7, 8", SERVICES, kill),
    Trouble("SIGTERM and a new start", "9, 10", SERVICES, stop_and_start),
    Trouble("rolling restart", "9-11", SERVICES, roll),
    Trouble(
        "the version before beside this one",
        "11",
        SERVICES,
        earlier_beside,
        lacks=lambda stage: "" if stage.earlier else "the history of the repository",
    ),
    Trouble("a process that stands still", "5", SERVICES, pause),
    # Not together with the death of Postgres, which the process would start with its own clock.
    Trouble(
        "a wrong clock",
        "41",
        SERVICES | POSTGRES,
        wrong_clock,
        lacks=lambda _: "" if CLOCK_LIBRARY else "Debian's package libfaketime",
    ),
    Trouble("death of Postgres", "13, 14", POSTGRES, kill_postgres),
    Trouble("Postgres frozen", "16", POSTGRES, freeze_postgres),
    Trouble(
        "disk full",
        "20",
        POSTGRES,
        fill_disk,
        lacks=lambda stage: "" if stage.disk else "the right to mount a file system",
    ),
    # Not together with the death of Postgres, which a new standby is copied from.
    Trouble(
        "standby lost",
        "15, I5",
        SERVICES | POSTGRES,
        lose_standby,
        spares_reads=True,
        lacks=lambda stage: "" if stage.servers else "a standby",
        prepare=read_from_standby,
    ),
    Trouble("all sessions cut", "17", POSTGRES, cut_sessions),
    Trouble("a table locked", "21", POSTGRES, lock_tables),
    Trouble("no connection left", "18, 19", POSTGRES, storm),
    Trouble("model refuses", "25, 74", MODEL, ill("chat", STATUSES), spares_reads=True),
    Trouble("model hangs or drips", "25", MODEL, ill("chat", SILENCE), spares_reads=True),
    Trouble("model answers bytes", "30", MODEL, ill("chat", BYTES), spares_reads=True),
    Trouble("model talks nonsense", "26, 73", MODEL, nonsense, spares_reads=True),
    Trouble("embedder refuses", "32", MODEL, ill("embeddings", STATUSES), spares_reads=True),
    Trouble("embedder hangs or drips", "32", MODEL, ill("embeddings", SILENCE), spares_reads=True),
    Trouble("wrong vectors", "33, 34", MODEL, ill("embeddings", VECTORS), spares_reads=True),
    Trouble("queue full", "18, 25", MODEL, full_queue, spares_reads=True),
    Trouble("network to the model", "25", MODEL, network_of_model, spares_reads=True),
    Trouble("network to callers", "3, 51, 52", CALLERS, network_of_callers),
)


def planned(
    seed: int, troubles: Sequence[Trouble] = TROUBLES
) -> Iterator[list[tuple[Trouble, random.Random]]]:
    """What happens, one thing or two at a time, without end: every fault before any comes again.

    A seed decides everything that is drawn. What it meets depends on the machine as well.
    """
    chance = random.Random(seed)
    while True:
        deck = list(troubles)
        chance.shuffle(deck)
        for drawn in deck:
            together, other = [drawn], chance.choice(troubles)
            if chance.random() < _MIXED and not drawn.touches & other.touches:
                together.append(other)
            yield [(trouble, random.Random(chance.getrandbits(32))) for trouble in together]
