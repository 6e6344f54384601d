"""Two versions side by side on one database: a rolling deployment loses nothing (I2, I4).

Without git or its history the test is skipped.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

import grpc
import pytest

from hitherto.v1 import retrieval_service_pb2, retrieval_service_pb2_grpc
from hitherto_shared.database.migrate import schema_state
from tests.faults.earlier import unpack_earlier
from tests.faults.ledger import Ledger
from tests.faults.processes import CHANNEL_OPTIONS, Processes
from tests.faults.submitting import Batch, Caller
from tests.scripted_model import ScriptedModel
from tests.waiting import eventually


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The PYTHONPATH on which a service runs the code of the earlier version."""
    path = unpack_earlier(tmp_path_factory.mktemp("earlier"))
    if not path:
        pytest.skip("the history of the repository is needed, to run an earlier version")
    return path


class Reader:
    """Asks for a person's context over and over, at whatever address is current."""

    def __init__(self, address: Callable[[], str]) -> None:
        self._address = address
        self.outcomes: Counter[str] = Counter()
        self.ended = asyncio.Event()

    async def run(self) -> None:
        """Ask until `ended` is set."""
        request = retrieval_service_pb2.GetContextRequest(user_id="user-0", query="canary")
        while not self.ended.is_set():
            address = self._address()
            async with grpc.aio.insecure_channel(address, options=CHANNEL_OPTIONS) as channel:
                stub = retrieval_service_pb2_grpc.RetrievalServiceStub(channel)
                while address == self._address() and not self.ended.is_set():
                    try:
                        await stub.GetContext(request, timeout=120)
                        self.outcomes["OK"] += 1
                    except grpc.aio.AioRpcError as error:
                        self.outcomes[error.code().name] += 1
                    await asyncio.sleep(0.1)


@pytest.mark.timeout(600)
async def test_two_versions_side_by_side_lose_nothing(
    private: Processes,
    model: ScriptedModel,
    caller: Callable[[Callable[[], str]], Caller],
    ledger: Ledger,
    earlier: str,
) -> None:
    old = [await private.start(name, PYTHONPATH=earlier) for name in ("extraction", "retrieval")]
    administrator = private.administrator()
    serving = [one.address for one in old]
    callers = [caller(lambda: serving[0]) for _ in range(3)]
    reader = Reader(lambda: serving[1])
    ended = asyncio.Event()

    async def submit(number: int) -> None:
        while not ended.is_set():
            await callers[number].submit(Batch.new(f"user-{number}"))
            await asyncio.sleep(0.2)

    load = [asyncio.ensure_future(work) for work in (*map(submit, range(3)), reader.run())]

    async def went_on(what: str) -> None:
        """Both kinds of calls have succeeded again."""
        written, read = len(ledger.entries), reader.outcomes["OK"]
        await eventually(
            lambda: len(ledger.entries) > written + 10 and reader.outcomes["OK"] > read + 10, what
        )

    try:
        await went_on("the earlier version to work")
        # The new version migrates at its start, under the feet of the old one.
        new = [await private.start("extraction"), await private.start("retrieval")]
        assert schema_state(administrator).pending == ()
        await went_on("the earlier version to work on the new schema")
        serving[:] = [one.address for one in new]
        for one in old:
            assert await one.end() == 0
        await went_on("the new version to work")
    finally:
        ended.set()
        reader.ended.set()
        outcomes = await asyncio.gather(*load, return_exceptions=True)
    assert [outcome for outcome in outcomes if outcome is not None] == []
    # A call that meets the old process as it ends may have to be made again; nothing else fails.
    assert set(reader.outcomes) <= {"OK", "UNAVAILABLE"}, reader.outcomes
    await ledger.settled(administrator)
    states = ledger.check(administrator, chat_calls=model.calls["chat"])
    assert states == {"succeeded": len(ledger.entries)}
