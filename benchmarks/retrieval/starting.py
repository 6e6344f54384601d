"""How long a service takes from the start of its process to its first answer."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import grpc

from benchmarks.processes import Processes
from benchmarks.retrieval.figures import Start
from benchmarks.retrieval.stage import service_settings
from hitherto.v1 import retrieval_service_pb2, retrieval_service_pb2_grpc

_ANSWER_SECONDS = 60.0


async def measure_start() -> Start:
    """Start twice in a new folder: the first time there is no database yet.

    Authentication is off: before the first start there is no key.

    Raises:
        ProcessFailed: The service did not come up.
    """
    with tempfile.TemporaryDirectory(prefix="hitherto-") as name:
        folder = Path(name)
        # Postgres runs as another account where this one is root's.
        folder.chmod(0o711)
        return Start(cold=await _seconds(folder), warm=await _seconds(folder))


async def _seconds(folder: Path) -> float:
    began = time.perf_counter()
    with Processes(folder) as processes:
        service = await processes.start(
            "hitherto_retrieval", **{**service_settings(folder), "HITHERTO_AUTH": "off"}
        )
        async with grpc.aio.insecure_channel(f"127.0.0.1:{service.port}") as channel:
            await retrieval_service_pb2_grpc.RetrievalServiceStub(channel).SearchMemories(
                retrieval_service_pb2.SearchMemoriesRequest(user_id="nobody", query="anything"),
                timeout=_ANSWER_SECONDS,
                wait_for_ready=True,
            )
        return round(time.perf_counter() - began, 2)
