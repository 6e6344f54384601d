"""docs/proxies.md: its configuration of nginx, as it stands, in front of both services."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path

import grpc
import pytest

from hitherto.v1 import extraction_service_pb2, retrieval_service_pb2
from tests.certificates import Authority
from tests.e2e.client_packages import unavailable
from tests.e2e.conftest import Services, StartServices
from tests.e2e.curating import save
from tests.e2e.leaving import export
from tests.e2e.sessions import refusal_of
from tests.listening import free_port
from tests.waiting import eventually

pytestmark = pytest.mark.faults

PAGE = Path(__file__).resolve().parents[2] / "docs" / "proxies.md"
HOST = "memory.example.com"
READY = grpc.ChannelConnectivity.READY


def _configuration(program: str, folder: Path, port: int, services: Services) -> str:
    """The page's, with addresses and files of this test."""
    block = re.search(r"## nginx\n+```text\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert block is not None
    told = subprocess.run([program, "-v"], capture_output=True, text=True, check=True).stderr
    version = tuple(map(int, re.findall(r"\d+", told)[:3]))
    text = block[1]
    for here, there in {
        "listen 443 ssl;": f"listen 127.0.0.1:{port} ssl;",
        "/etc/nginx/tls/chain.pem": f"{folder}/nginx.pem",
        "/etc/nginx/tls/key.pem": f"{folder}/nginx.key",
        "127.0.0.1:50051": services.retrieval_address,
        "127.0.0.1:50052": services.extraction_address,
    }.items():
        assert here in text
        text = text.replace(here, there)
    if version < (1, 25, 1):
        text = text.replace("http2 on;", "").replace("ssl;", "ssl http2;", 1)
    folders = "".join(
        f"{kind}_temp_path {folder}/{kind};\n"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    return (
        f"daemon off;\nmaster_process off;\npid {folder}/pid;\nerror_log {folder}/errors;\n"
        f"events {{}}\nhttp {{\naccess_log off;\n{folders}{text}}}\n"
    )


@contextmanager
def _nginx(folder: Path, services: Services) -> Iterator[tuple[str, bytes]]:
    """Its address, and the authority that it is trusted by."""
    program = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        unavailable("no nginx: apt-get install nginx-light")
    authority = Authority(folder, "authority")
    authority.pair("nginx", host=HOST)
    port = free_port()
    configuration = folder / "nginx.conf"
    configuration.write_text(_configuration(program, folder, port, services))
    nginx = subprocess.Popen([program, "-c", configuration, "-e", folder / "errors"])
    try:
        yield f"127.0.0.1:{port}", authority.file.read_bytes()
    finally:
        nginx.terminate()
        nginx.wait()


async def test_the_configuration_of_nginx_passes_everything_on(
    start_services: StartServices, tmp_path: Path
) -> None:
    async with AsyncExitStack() as stack:
        direct = await stack.enter_async_context(start_services())
        address, authority = stack.enter_context(_nginx(tmp_path, direct))
        channel = await stack.enter_async_context(
            grpc.aio.secure_channel(
                address,
                grpc.ssl_channel_credentials(authority),
                [("grpc.ssl_target_name_override", HOST), ("grpc.enable_http_proxy", 0)],
            )
        )
        await eventually(lambda: channel.get_state(try_to_connect=True) is READY, "nginx")
        services = Services.over((address, channel), (address, channel))

        saved = await save(services, "The user keeps bees")
        found = await services.retrieval.SearchMemories(
            retrieval_service_pb2.SearchMemoriesRequest(user_id="ana", query="bees"), timeout=60
        )
        assert [each.memory.id for each in found.results] == [saved.memory.id]

        missing = retrieval_service_pb2.GetMemoryRequest(user_id="bo", memory_id=saved.memory.id)
        refusal = await refusal_of(services.retrieval.GetMemory(missing, timeout=60))
        assert refusal.code is grpc.StatusCode.NOT_FOUND
        assert refusal.reason == "MEMORY_NOT_FOUND"

        # Above nginx's own limit of 1 MiB, and above the service's.
        await services.extraction.SubmitTranscripts(_of_messages(60), timeout=120)
        refusal = await refusal_of(
            services.extraction.SubmitTranscripts(_of_messages(90), timeout=120)
        )
        assert refusal.code is grpc.StatusCode.RESOURCE_EXHAUSTED

        assert (await export(services)).rows


def _of_messages(count: int) -> extraction_service_pb2.SubmitTranscriptsRequest:
    """A transcript of `count` messages of 60,000 bytes."""
    request = extraction_service_pb2.SubmitTranscriptsRequest()
    transcript = request.transcripts.add(user_id="ana", conversation_id="long")
    for number in range(count):
        transcript.messages.add(role="ROLE_USER", content=f"{number} {'lorem ' * 10_000}"[:60_000])
    return request
