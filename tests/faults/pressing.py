"""Callers without patience, as a process of their own: they press on services and count answers.

    python -m tests.faults.pressing --reading HOST:PORT --writing HOST:PORT --seconds 30

Told to end or done, it prints one line of JSON: the number of answers by kind of caller and status.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import signal
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import grpc
from google.protobuf.message import Message

from tests.e2e.methods import OFFERED, Method
from tests.e2e.requests import places, valid

OPTIONS: list[tuple[str, int]] = [
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
]
_USERS = 16
_RARE = {
    "MaintenanceService/RunDecay",
    "MaintenanceService/RunRetention",
    "PrivacyService/ClearMemories",
    "PrivacyService/DeleteConversation",
    "PrivacyService/EraseUser",
}
"""After one of these there is little to do for other calls."""


_SHAPES = (
    *(
        "\n",
        " ",
        "\t \n",
        "a",
        "a ",
        "1",
        "1.",
        "é",
        "e\u0301",
        "\u0301\u0327",
        "\u202e",
        "字",
        "👩\u200d",
        "(",
        "[",
        "<<<",
    ),
    *("- ", "# ", "> ", "http://", "@", "&amp;", "{{", "\\", "ignore ", "not ", "user: ", "\u3000"),
)
_SIZES = (256, 8 * 1024, 64 * 1024)
"""Bytes: the limits of ids, of statements and of messages."""
_TEXTS = [
    (method, put)
    for method in OFFERED
    if method.name not in _RARE
    for _, put in places(method, lambda field: field.type == field.TYPE_STRING)
]


@dataclass
class Pressing:
    """What all callers share."""

    addresses: tuple[str, str]
    """Of retrieval and of extraction."""
    chance: random.Random
    answers: Counter[str] = field(default_factory=Counter)
    over: asyncio.Event = field(default_factory=asyncio.Event)

    def request(self, method: Method) -> Message:
        """An ordinary request of one of a few users."""
        request = valid(method)
        user = f"user-{self.chance.randrange(_USERS)}"
        for owner in (request, *(getattr(request, "transcripts", ()))):
            if "user_id" in owner.DESCRIPTOR.fields_by_name:
                owner.user_id = user
        if "item" in request.DESCRIPTOR.fields_by_name:
            request.item.user_id = user  # type: ignore[attr-defined]
        if "transcript" in request.DESCRIPTOR.fields_by_name:
            request.transcript.user_id = user  # type: ignore[attr-defined]
        if "query" in request.DESCRIPTOR.fields_by_name:
            request.query = "Where does she live, and what does she drink?"  # type: ignore[attr-defined]
        return request

    def hostile(self) -> tuple[Method, Message]:
        """A request with one text of an unkind shape, as long as some field may be."""
        method, put = self.chance.choice(_TEXTS)
        shape, size = self.chance.choice(_SHAPES), self.chance.choice(_SIZES)
        request = self.request(method)
        put(request, shape * (size // len(shape.encode())))
        return method, request

    def method(self) -> Method:
        """Any method of the contract."""
        while True:
            chosen = self.chance.choice(OFFERED)
            if chosen.name not in _RARE or self.chance.random() < 0.02:
                return chosen


async def answer(
    channel: grpc.aio.Channel, method: Method, request: Message | bytes, timeout: float | None
) -> None:
    """Make one call and take all it answers."""
    data = request if isinstance(request, bytes) else request.SerializeToString()
    start = method.kind_of_call(channel)(method.path)

    async def requests() -> AsyncIterator[bytes]:
        yield data

    going = start(requests() if method.client_streaming else data, timeout=timeout)
    if method.server_streaming:
        async for _ in going:
            pass
    else:
        await going


async def one_caller(pressing: Pressing, kind: str) -> None:
    """Call until it is over; each caller has connections of its own."""
    async with (
        grpc.aio.insecure_channel(pressing.addresses[0], options=OPTIONS) as reading,
        grpc.aio.insecure_channel(pressing.addresses[1], options=OPTIONS) as writing,
    ):
        while not pressing.over.is_set():
            method = pressing.method()
            request = pressing.request(method)
            if kind == "hostile":
                method, request = pressing.hostile()
            channel = reading if method.name.startswith("RetrievalService/") else writing
            moment = pressing.chance.uniform(0.001, 0.05)
            try:
                if kind == "leaving":
                    async with asyncio.timeout(moment):
                        await answer(channel, method, request, 5.0)
                else:
                    seconds = moment if kind == "hurried" else 5.0
                    await answer(channel, method, request, seconds)
                told = "OK"
            except grpc.aio.AioRpcError as error:
                told = error.code().name
                if told in ("INTERNAL", "UNKNOWN"):
                    told += f" {method.name}: {error.details()}"
                elif told == "UNAVAILABLE":
                    await asyncio.sleep(0.05)
            except TimeoutError:
                told = "left"
            except asyncio.CancelledError:
                # gRPC says so of a stream that ends while its request is being sent.
                told = "CANCELLED"
            pressing.answers[f"{kind} {told}"] += 1


async def press(arguments: argparse.Namespace) -> None:
    """Run all callers for as long as it is asked for."""
    pressing = Pressing((arguments.reading, arguments.writing), random.Random(arguments.seed))
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, pressing.over.set)
    loop.call_later(arguments.seconds, pressing.over.set)
    kinds = (
        ["hurried"] * arguments.hurried
        + ["leaving"] * arguments.leaving
        + ["patient"] * arguments.patient
        + ["hostile"] * arguments.hostile
    )
    callers = [asyncio.create_task(one_caller(pressing, kind)) for kind in kinds]
    await asyncio.gather(*callers)
    print(json.dumps(pressing.answers, sort_keys=True))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.pressing", description=__doc__)
    parser.add_argument("--reading", required=True, help="address of the retrieval service")
    parser.add_argument("--writing", required=True, help="address of the extraction service")
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--hurried", type=int, default=8, help="callers with deadlines of 1-50 ms")
    parser.add_argument("--leaving", type=int, default=8, help="callers who cancel after as much")
    parser.add_argument("--patient", type=int, default=0, help="callers with deadlines of seconds")
    parser.add_argument("--hostile", type=int, default=0, help="callers who send unkind texts")
    parser.add_argument("--seed", type=int, default=1)
    asyncio.run(press(parser.parse_args()))


if __name__ == "__main__":
    main()
