"""Which weights the ranking has, as the service tells."""

from __future__ import annotations

import re
from collections.abc import Mapping

import grpc

from benchmarks.retrieval.stage import CallFailed, Stage
from benchmarks.retrieval.wording import Questions
from hitherto.v1 import retrieval_service_pb2, retrieval_service_pb2_grpc

_REFUSED = re.compile(r"weights\[(\w+)\]")


async def components(stage: Stage, user_id: str) -> list[str]:
    """The names of the weights of the ranking, the semantic one among them.

    A search that explains itself names the parts of a score. Some may be no weights; a search with
    a weight for each of them is refused for these.

    Raises:
        CallFailed: The service does not find or explain anything.
    """
    async with grpc.aio.insecure_channel(f"127.0.0.1:{stage.service.port}") as channel:
        stub = retrieval_service_pb2_grpc.RetrievalServiceStub(channel)
        found = await _search(stub, stage, user_id, {})
        if isinstance(found, str) or not found.results:
            raise _failed(stage, found if isinstance(found, str) else "nothing")
        names = sorted(found.results[0].breakdown)
        refusal = await _search(stub, stage, user_id, dict.fromkeys(names, 1.0))
        if isinstance(refusal, str):
            names = [name for name in names if name not in _REFUSED.findall(refusal)]
        if "semantic" not in names:
            raise _failed(stage, f"a score of {names}, without a semantic part")
    return names


async def _search(
    stub: retrieval_service_pb2_grpc.RetrievalServiceAsyncStub,
    stage: Stage,
    user_id: str,
    weights: Mapping[str, float],
) -> retrieval_service_pb2.SearchMemoriesResponse | str:
    """The reply, or why there is none."""
    request = retrieval_service_pb2.SearchMemoriesRequest(
        user_id=user_id,
        query=Questions("components").ask(user_id),
        explain=True,
        weights=weights,
    )
    metadata = [("authorization", f"Bearer {stage.key}")]
    try:
        return await stub.SearchMemories(request, metadata=metadata, timeout=10.0)
    except grpc.aio.AioRpcError as error:
        return f"{error.code().name}: {error.details()}"


def _failed(stage: Stage, found: str) -> CallFailed:
    return CallFailed(
        f"the first search was answered with {found}; the log of the service ends: "
        f"{stage.service.said}"
    )
