"""The callers of a run: they submit, submit again, read, hurry and leave for good."""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

from hitherto.v1 import (
    extraction_service_pb2_grpc,
    memory_service_pb2,
    memory_service_pb2_grpc,
    privacy_service_pb2,
    privacy_service_pb2_grpc,
    retrieval_service_pb2,
    retrieval_service_pb2_grpc,
)
from tests.faults.chaos.stage import BACK_WITHIN_SECONDS, Stage, opened
from tests.faults.ledger import Entry, Ledger
from tests.faults.submitting import AGAIN, Batch
from tests.waiting import eventually

_CANARY = re.compile(r"canary:\w+")
_CALL_SECONDS = 20.0
_LATE_SECONDS = 20.0
_OURS = {grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN}


@dataclass
class Load:
    """Callers who go on until `stop`, whatever happens.

    Attributes:
        users: Number of the people whom batches are about, and reads ask for.
        pause: Seconds between two calls of a caller, about.
        sent: The canaries of each user that were ever sent, acknowledged or not.
        erased: Users whose erasure was answered with OK.
        answers: How often which kind of caller was told what.
    """

    stage: Stage
    folder: Path
    chance: random.Random
    users: int = 24
    pause: float = 0.2
    sent: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    erased: list[str] = field(default_factory=list)
    answers: Counter[str] = field(default_factory=Counter)
    _acknowledged: list[tuple[Batch, Entry]] = field(default_factory=list)
    _over: asyncio.Event = field(default_factory=asyncio.Event)
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.ledger = Ledger(self.folder / "acknowledged.jsonl")
        self._of_leavers = Ledger(self.folder / "leavers.jsonl")

    async def goes_on(self) -> None:
        """Wait until an ordinary read and an ordinary write of these callers has succeeded."""
        before = self.answers.copy()
        for kind in ("read OK", "submit OK"):
            await eventually(
                lambda: self.answers[kind] > before[kind],  # noqa: B023
                f"another {kind}",
                seconds=BACK_WITHIN_SECONDS,
            )

    async def start(self) -> None:
        """Open the connections and begin."""
        self._writing = opened(self.stage.address("extraction"))
        self._reading = opened(self.stage.address("retrieval"))
        callers = [self._submit, self._submit, self._submit, self._read, self._read]
        callers += [self._submit_again, self._hurry, self._leave, self._read_back]
        self._tasks = [asyncio.create_task(self._go_on(caller)) for caller in callers]

    async def stop(self) -> None:
        """Let every caller finish what it is at, and leave."""
        self._over.set()
        try:
            await asyncio.gather(*self._tasks)
        finally:
            await self._writing.close()
            await self._reading.close()

    async def _go_on(self, caller: Callable[[], Awaitable[None]]) -> None:
        while not self._over.is_set():
            await caller()
            await asyncio.sleep(self.chance.uniform(0, 2 * self.pause))

    def _batch(self, user: str = "") -> Batch:
        batch = Batch.new(user or f"person-{self.chance.randrange(self.users)}")
        self.sent[batch.user].add(batch.canary)
        return batch

    def _told(self, who: str, code: grpc.StatusCode | None, details: str | None = "") -> None:
        self.answers[f"{who} {code.name if code else 'OK'}"] += 1
        self.stage.promises.note("codes", code not in _OURS, f"{who}: {code}: {details}")

    async def _until_told(self, who: str, call: Callable[[], Awaitable[Any]]) -> Any:
        """The reply, or the error that is final."""
        while True:
            try:
                reply = await call()
            except grpc.aio.AioRpcError as error:
                self._told(who, error.code(), error.details())
                if error.code() not in AGAIN:
                    return error
                await asyncio.sleep(0.1)
                continue
            self._told(who, None)
            return reply

    async def _acknowledge(self, batch: Batch, ledger: Ledger) -> Entry | None:
        stub: Any = extraction_service_pb2_grpc.ExtractionServiceStub(self._writing)
        reply = await self._until_told(
            "submit", lambda: stub.SubmitTranscripts(batch.request(), timeout=_CALL_SECONDS)
        )
        if isinstance(reply, grpc.aio.AioRpcError):
            self.stage.promises.note("codes", False, f"submit: {reply.code()}: {reply.details()}")
            return None
        entry = Entry(batch.user, batch.conversation, batch.canary, batch.key, reply.jobs[0].id)
        ledger.note(entry)
        return entry

    async def _submit(self) -> None:
        batch = self._batch()
        if entry := await self._acknowledge(batch, self.ledger):
            self._acknowledged.append((batch, entry))

    async def _submit_again(self) -> None:
        if not self._acknowledged:
            return
        batch, entry = self.chance.choice(self._acknowledged)
        stub: Any = extraction_service_pb2_grpc.ExtractionServiceStub(self._writing)
        reply = await self._until_told(
            "submit again", lambda: stub.SubmitTranscripts(batch.request(), timeout=_CALL_SECONDS)
        )
        same = not isinstance(reply, grpc.aio.AioRpcError) and reply.jobs[0].id == entry.job_id
        self.stage.promises.note("key", same, f"{batch.key}: {reply}")

    async def _hurry(self) -> None:
        """A call that may be given up at any point; what becomes of it is nobody's business."""
        moment = self.chance.uniform(0.001, 0.05)
        user = f"person-{self.chance.randrange(self.users)}"
        search: Any = retrieval_service_pb2_grpc.RetrievalServiceStub(self._reading)
        submit: Any = extraction_service_pb2_grpc.ExtractionServiceStub(self._writing)
        asked = retrieval_service_pb2.SearchMemoriesRequest(user_id=user, query="canary")
        try:
            if self.chance.random() < 0.8:
                await search.SearchMemories(asked, timeout=moment)
            elif self.chance.random() < 0.5:
                await submit.SubmitTranscripts(self._batch(user).request(), timeout=moment)
            else:
                async with asyncio.timeout(moment):
                    await submit.SubmitTranscripts(self._batch(user).request(), timeout=5)
            self._told("hurry", None)
        except grpc.aio.AioRpcError as error:
            self._told("hurry", error.code(), error.details())
        except TimeoutError:
            self.answers["hurry left"] += 1

    async def _read(self) -> None:
        user = f"person-{self.chance.randrange(self.users)}"
        stub: Any = retrieval_service_pb2_grpc.RetrievalServiceStub(self._reading)
        stage, calm = self.stage, self.stage.calm
        promised, began, told = stage.spares_reads, time.monotonic(), "OK"
        try:
            if self.chance.random() < 0.5:
                request = retrieval_service_pb2.GetContextRequest(user_id=user, query="canary")
                reply = await stub.GetContext(request, timeout=_CALL_SECONDS)
            else:
                search = retrieval_service_pb2.SearchMemoriesRequest(user_id=user, query="canary")
                reply = await stub.SearchMemories(search, timeout=_CALL_SECONDS)
            self._told("read", None)
            # A profile may be shown up to a word's middle.
            own = tuple(self.sent[user])
            shown = _CANARY.findall(str(reply))
            foreign = [word for word in shown if not any(each.startswith(word) for each in own)]
            stage.promises.note("own", not foreign, f"{user} is shown {foreign}")
        except grpc.aio.AioRpcError as error:
            told = f"{error.code().name}: {error.details()}"
            self._told("read", error.code(), error.details())
        seconds = time.monotonic() - began
        what = f"{told} after {seconds:.1f} s"
        if promised and stage.spares_reads and calm == stage.calm:
            stage.promises.note("reads", told == "OK", what)
        if seconds > _CALL_SECONDS + _LATE_SECONDS:
            stage.promises.note("reads", False, what)

    async def _read_back(self) -> None:
        """A memory that is saved, and listed with the token of its write."""
        batch = self._batch(f"keeper-{self.chance.randrange(10**9)}")
        saved = memory_service_pb2.SaveMemoryRequest(
            user_id=batch.user, content=f"Keeps {batch.canary}.", idempotency_key=batch.key
        )
        writes: Any = memory_service_pb2_grpc.MemoryServiceStub(self._writing)
        reads: Any = retrieval_service_pb2_grpc.RetrievalServiceStub(self._reading)
        told = await self._until_told(
            "save", lambda: writes.SaveMemory(saved, timeout=_CALL_SECONDS)
        )
        if not isinstance(told, grpc.aio.AioRpcError):
            listed = retrieval_service_pb2.ListMemoriesRequest(
                user_id=batch.user, consistency_token=told.consistency_token
            )
            told = await self._until_told(
                "read back", lambda: reads.ListMemories(listed, timeout=_CALL_SECONDS)
            )
        failed = isinstance(told, grpc.aio.AioRpcError)
        shown = not failed and batch.canary in str(told)
        self.stage.promises.note("token", shown, f"{batch.user}: {told}")

    async def _leave(self) -> None:
        """A user who says a few things, and is erased while more is on its way."""
        user = f"leaver-{len(self.erased)}-{self.chance.randrange(10**9)}"
        for _ in range(self.chance.randrange(1, 4)):
            await self._acknowledge(self._batch(user), self._of_leavers)
        submit: Any = extraction_service_pb2_grpc.ExtractionServiceStub(self._writing)
        privacy: Any = privacy_service_pb2_grpc.PrivacyServiceStub(self._writing)
        request = privacy_service_pb2.EraseUserRequest(user_id=user)

        async def say_more() -> None:
            try:
                await submit.SubmitTranscripts(self._batch(user).request(), timeout=_CALL_SECONDS)
            except grpc.aio.AioRpcError as error:
                self._told("submit of a leaver", error.code(), error.details())

        late = asyncio.create_task(say_more())
        reply = await self._until_told(
            "erase", lambda: privacy.EraseUser(request, timeout=_CALL_SECONDS)
        )
        await late
        if isinstance(reply, grpc.aio.AioRpcError):
            self.stage.promises.note("erased", False, f"{user}: {reply.code()}: {reply.details()}")
            return
        self.erased.append(user)
        refused = await self._until_told(
            "submit of a leaver",
            lambda: submit.SubmitTranscripts(self._batch(user).request(), timeout=_CALL_SECONDS),
        )
        fenced = isinstance(refused, grpc.aio.AioRpcError)
        self.stage.promises.note("erased", fenced, f"{user} was taken again")
