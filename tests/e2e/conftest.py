"""Both services over real ports, in this process's loop, on a database of the test's own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest

from hitherto.v1 import (
    extraction_service_pb2_grpc,
    maintenance_service_pb2_grpc,
    memory_service_pb2_grpc,
    privacy_service_pb2_grpc,
    retrieval_service_pb2_grpc,
)
from hitherto_extraction.config import ExtractionSettings
from hitherto_extraction.wiring.service import running as extraction_running
from hitherto_retrieval import __main__ as retrieval
from hitherto_retrieval.config import RetrievalSettings
from tests.scripted_model import ScriptedModel, canary_script


@dataclass(frozen=True)
class Services:
    """Where the two services are and stubs to call them with."""

    retrieval_address: str
    extraction_address: str
    retrieval: retrieval_service_pb2_grpc.RetrievalServiceAsyncStub
    extraction: extraction_service_pb2_grpc.ExtractionServiceAsyncStub
    memory: memory_service_pb2_grpc.MemoryServiceAsyncStub
    maintenance: maintenance_service_pb2_grpc.MaintenanceServiceAsyncStub
    privacy: privacy_service_pb2_grpc.PrivacyServiceAsyncStub
    retrieval_channel: grpc.aio.Channel
    extraction_channel: grpc.aio.Channel


StartServices = Callable[..., AbstractAsyncContextManager[Services]]


@pytest.fixture
def start_services(conninfo: str, tmp_path: Path) -> StartServices:
    """Starts both services with settings of one's own: `async with start_services(**settings)`.

    Keyword arguments are fields of the settings classes and reach whichever service has them.
    """

    @asynccontextmanager
    async def start(**given: Any) -> AsyncIterator[Services]:
        common: dict[str, Any] = {
            "database_url": conninfo,
            "data_dir": tmp_path / "data",
            "auth": "off",
            "extract_debounce_seconds": 0.0,
            "job_backoff_seconds": 0.05,
            "drain_seconds": 5.0,
            # A run at three in the morning has the same jobs as any other.
            **dict.fromkeys(
                ("schedule_decay", "schedule_consolidation", "schedule_retention"), "off"
            ),
            **given,
        }
        async with AsyncExitStack() as stack:
            extraction_server = await stack.enter_async_context(
                extraction_running(
                    ExtractionSettings(extraction_listen="127.0.0.1:0", **common), conninfo
                )
            )
            retrieval_server = await stack.enter_async_context(
                retrieval.running(
                    RetrievalSettings(retrieval_listen="127.0.0.1:0", **common), conninfo
                )
            )
            reader, writer = (
                f"127.0.0.1:{server.port}" for server in (retrieval_server, extraction_server)
            )
            reading = await stack.enter_async_context(grpc.aio.insecure_channel(reader))
            writing = await stack.enter_async_context(grpc.aio.insecure_channel(writer))
            yield Services(
                retrieval_address=reader,
                extraction_address=writer,
                retrieval=retrieval_service_pb2_grpc.RetrievalServiceStub(reading),
                extraction=extraction_service_pb2_grpc.ExtractionServiceStub(writing),
                memory=memory_service_pb2_grpc.MemoryServiceStub(writing),
                maintenance=maintenance_service_pb2_grpc.MaintenanceServiceStub(writing),
                privacy=privacy_service_pb2_grpc.PrivacyServiceStub(writing),
                retrieval_channel=reading,
                extraction_channel=writing,
            )

    return start


@pytest.fixture
async def services(start_services: StartServices) -> AsyncIterator[Services]:
    """Both services with the offline extractor and embedder."""
    async with start_services() as running:
        yield running


@pytest.fixture
async def model() -> AsyncIterator[ScriptedModel]:
    """A scripted OpenAI-compatible server that finds one memory per `canary:<word>`."""
    async with ScriptedModel(canary_script) as server:
        yield server


@pytest.fixture
async def modelled(start_services: StartServices, model: ScriptedModel) -> AsyncIterator[Services]:
    """Both services with the scripted model behind them."""
    async with start_services(**model_settings(model)) as running:
        yield running


def model_settings(model: ScriptedModel) -> dict[str, Any]:
    """Settings that send chat and embeddings to `model`."""
    return {
        "openai_base_url": model.base_url,
        "openai_api_key": "test",
        "embedding_dimensions": 64,
    }
