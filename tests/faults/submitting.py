"""A caller that does what the contract asks of callers: one key per batch, again until answered."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from uuid import uuid4

import grpc

from hitherto.v1 import conversation_pb2, extraction_service_pb2, extraction_service_pb2_grpc
from tests.faults.ledger import Entry, Ledger
from tests.faults.processes import CHANNEL_OPTIONS

# An answer of these kinds leaves open whether the batch was taken: the same call is made again.
AGAIN = {
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    # gRPC itself says so of a call that reaches a process at the moment at which it stops.
    grpc.StatusCode.CANCELLED,
}
_CALL_SECONDS = 5.0
_PAUSE_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Batch:
    """One transcript with one canary, and the key under which it is submitted."""

    user: str
    conversation: str
    canary: str
    key: str

    @classmethod
    def new(cls, user: str) -> Batch:
        """A batch like no other one."""
        word = uuid4().hex
        return cls(user, f"c-{word[:12]}", f"canary:{word}", f"key-{word}")

    def request(self) -> extraction_service_pb2.SubmitTranscriptsRequest:
        return extraction_service_pb2.SubmitTranscriptsRequest(
            idempotency_key=self.key,
            transcripts=[
                conversation_pb2.Transcript(
                    user_id=self.user,
                    conversation_id=self.conversation,
                    messages=[
                        conversation_pb2.Message(
                            id="m0",
                            role=conversation_pb2.ROLE_USER,
                            content=f"Please remember {self.canary} for me.",
                        )
                    ],
                )
            ],
        )


class Caller:
    """Submits batches to whatever address is current and notes what was acknowledged."""

    def __init__(self, address: Callable[[], str], ledger: Ledger) -> None:
        self._address = address
        self._ledger = ledger
        self._channel: grpc.aio.Channel | None = None
        self._connected_to = ""
        self.repeated = 0

    async def submit(self, batch: Batch, *, seconds: float = 120.0) -> Entry:
        """Submit until it is acknowledged; errors that are final fail the test."""
        give_up = time.monotonic() + seconds
        while True:
            try:
                stub = extraction_service_pb2_grpc.ExtractionServiceStub(await self._open())
                reply = await stub.SubmitTranscripts(batch.request(), timeout=_CALL_SECONDS)
            except grpc.aio.AioRpcError as error:
                code, told = error.code(), f"{error.code().name}: {error.details()}"
                assert code in AGAIN, told
                assert time.monotonic() < give_up, f"never acknowledged: {told}"
                self.repeated += 1
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            entry = Entry(batch.user, batch.conversation, batch.canary, batch.key, reply.jobs[0].id)
            self._ledger.note(entry)
            return entry

    async def _open(self) -> grpc.aio.Channel:
        address = self._address()
        if self._channel is None or address != self._connected_to:
            await self.close()
            self._channel = grpc.aio.insecure_channel(address, options=CHANNEL_OPTIONS)
            self._connected_to = address
        return self._channel

    async def close(self) -> None:
        channel, self._channel = self._channel, None
        if channel is not None:
            await channel.close()
