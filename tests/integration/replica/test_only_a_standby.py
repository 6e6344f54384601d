"""The primary is gone and a standby answers in its place, before anybody has promoted it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from hitherto.v1 import extraction_service_pb2 as pb
from hitherto.v1 import job_pb2, privacy_service_pb2
from tests.e2e.conftest import Services, StartServices
from tests.e2e.curating import save, statement
from tests.e2e.learning import ended, submit, talk
from tests.e2e.methods import read_refusal
from tests.integration.replica.servers import Servers

_COMMAND = "import sys; from hitherto_client.command import main; sys.exit(main())"


@dataclass(frozen=True)
class Left:
    """Services whose primary has stopped, and a job that had ended before."""

    services: Services
    job_id: str


@pytest.fixture
def conninfo(servers: Servers) -> str:
    """A connection string of several hosts, of which the first that answers is used."""
    parts = conninfo_to_dict(servers.primary.conninfo())
    hosts = [str(parts["host"]), str(conninfo_to_dict(servers.standby_conninfo)["host"])]
    ports = [str(parts.get("port", 5432))] * len(hosts)
    return make_conninfo("", **{**parts, "host": ",".join(hosts), "port": ",".join(ports)})


@pytest.fixture
async def left(start_services: StartServices, servers: Servers) -> AsyncIterator[Left]:
    """Both services, on the standby alone."""
    async with start_services() as services:
        [job_id] = await submit(services, talk("I live in Porto."))
        await ended(services, job_id)
        await save(services, "Ana lives in Porto")
        servers.catch_up()
        servers.stop_primary()
        yield Left(services, job_id)


async def test_what_only_reads_is_answered_and_what_writes_is_refused(
    left: Left, servers: Servers, tmp_path: Path
) -> None:
    services = left.services
    got = await services.extraction.GetJob(pb.GetJobRequest(job_id=left.job_id))
    assert got.job.state == job_pb2.JOB_STATE_SUCCEEDED
    listed = await services.extraction.ListJobs(pb.ListJobsRequest())
    assert left.job_id in [each.id for each in listed.jobs]
    settings = privacy_service_pb2.GetUserSettingsRequest(user_id="ana")
    assert (await services.privacy.GetUserSettings(settings)).user_settings.memory_enabled
    # What writes is refused as an outage.
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await left.services.memory.SaveMemory(statement("Ana drinks tea"))
    refusal = read_refusal(caught.value)
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.UNAVAILABLE, "DATABASE_UNAVAILABLE")
    a_program_that_must_write_says_what_to_set(servers, tmp_path)


def a_program_that_must_write_says_what_to_set(servers: Servers, tmp_path: Path) -> None:
    """Whoever starts it names the standby alone."""
    for program in (
        ["-m", "hitherto_extraction"],
        ["-m", "hitherto_shared.database.migrate"],
        ["-c", _COMMAND, "keys", "create", "--name", "backend"],
    ):
        done = subprocess.run(
            [sys.executable, *program],
            env={
                "PATH": os.environ.get("PATH", ""),
                "DATABASE_URL": servers.standby_conninfo,
                "HITHERTO_DATA_DIR": str(tmp_path / "of programs"),
                "HITHERTO_EXTRACTION_LISTEN": "127.0.0.1:0",
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode in (1, 3), program
        assert "let DATABASE_URL name the primary" in done.stderr, program
