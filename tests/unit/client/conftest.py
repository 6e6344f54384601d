"""Two fake services on free ports, and an environment that says nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC
from typing import Any

import pytest

from hitherto.v1 import extraction_service_pb2_grpc
from hitherto_client.command import main
from hitherto_client.days import days_in
from tests.unit.client.fake_services import (
    FakeExtraction,
    Fakes,
    Others,
    Printed,
    Recorder,
    RunCommand,
    start,
)


@pytest.fixture(autouse=True)
def plain_surroundings(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No terminal tricks, no settings of the developer's, and no zone of another test's person."""
    for name in ("RETRIEVAL_ADDRESS", "EXTRACTION_ADDRESS", "API_KEY", "TOKEN", "TLS_CA_FILE"):
        monkeypatch.delenv(f"HITHERTO_{name}", raising=False)
    for name in ("COLUMNS", "FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    with days_in(UTC):
        yield


@pytest.fixture
def run_command(capsys: pytest.CaptureFixture[str]) -> RunCommand:
    """Runs `hitherto` with arguments, which must end with this exit code."""

    def run(code: int, arguments: Sequence[str]) -> Printed:
        assert main(arguments) == code, arguments
        return Printed(*capsys.readouterr())

    return run


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch, run_command: RunCommand) -> Iterator[Fakes]:
    """Fake services; clients of this test find them through the environment."""
    recorder = Recorder()
    # Its base is abstract; `complete` gives it what it lacks.
    fake: Any = FakeExtraction
    extraction: FakeExtraction = fake(recorder)
    reads, writes, others = start(), start(), Others(recorder)
    others.complete(extraction, "ExtractionService")
    extraction_service_pb2_grpc.add_ExtractionServiceServicer_to_server(extraction, writes.server)
    for running in (reads, writes):
        running.server.add_generic_rpc_handlers((others,))
        running.server.start()
    monkeypatch.setenv("HITHERTO_RETRIEVAL_ADDRESS", reads.address)
    monkeypatch.setenv("HITHERTO_EXTRACTION_ADDRESS", writes.address)
    yield Fakes(extraction, recorder, reads, writes, others, run_command)
    extraction.release.set()
    for running in (reads, writes):
        running.server.stop(None).wait(10)
