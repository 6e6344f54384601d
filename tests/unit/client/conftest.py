"""Two fake services on free ports, and an environment that says nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hitherto.v1 import extraction_service_pb2_grpc, retrieval_service_pb2_grpc
from tests.unit.client.fake_services import (
    FakeExtraction,
    FakeRetrieval,
    Fakes,
    Others,
    Recorder,
    make,
    start,
)


@pytest.fixture(autouse=True)
def plain_surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    """No terminal tricks, no settings and no proxy of the developer's."""
    for name in ("RETRIEVAL_ADDRESS", "EXTRACTION_ADDRESS", "API_KEY", "TOKEN", "TLS_CA_FILE"):
        monkeypatch.delenv(f"HITHERTO_{name}", raising=False)
    for name in ("COLUMNS", "FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Fakes]:
    """Fake services; clients of this test find them through the environment."""
    recorder = Recorder()
    retrieval, extraction = make(FakeRetrieval, recorder), make(FakeExtraction, recorder)
    reads, writes, others = start(), start(), Others(recorder)
    others.complete(retrieval, "RetrievalService")
    others.complete(extraction, "ExtractionService")
    writes.server.add_generic_rpc_handlers((others,))
    retrieval_service_pb2_grpc.add_RetrievalServiceServicer_to_server(retrieval, reads.server)
    extraction_service_pb2_grpc.add_ExtractionServiceServicer_to_server(extraction, writes.server)
    for running in (reads, writes):
        running.server.start()
    monkeypatch.setenv("HITHERTO_RETRIEVAL_ADDRESS", reads.address)
    monkeypatch.setenv("HITHERTO_EXTRACTION_ADDRESS", writes.address)
    yield Fakes(retrieval, extraction, recorder, reads, writes, others)
    extraction.release.set()
    for running in (reads, writes):
        running.server.stop(None).wait(10)
