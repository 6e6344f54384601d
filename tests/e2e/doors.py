"""An HTTP door over running services, and a caller in front of it who knows only HTTP."""

from __future__ import annotations

import base64
import gzip
import json
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2

from hitherto_client.http_door.application import build
from hitherto_client.web_server import web_server_config
from tests.e2e.conftest import Services
from tests.e2e.consoles import TIMEOUT, web_server

PACKAGE = "hitherto.v1"


@asynccontextmanager
async def door_over(services: Services, **given: Any) -> AsyncIterator[str]:
    """A door on a free port over these services; its address. `given` is for `build`."""
    door = build(services.retrieval_address, services.extraction_address, **given)
    async with web_server(lambda port: web_server_config(door, "127.0.0.1", port)) as port:
        yield f"http://127.0.0.1:{port}"


class Caller:
    """Calls RPCs with JSON."""

    def __init__(self, address: str, token: str) -> None:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        self.http = httpx2.AsyncClient(
            base_url=address,
            headers=headers,
            trust_env=False,
            timeout=TIMEOUT,
            # The server closes idle connections after 5 s.
            limits=httpx2.Limits(keepalive_expiry=2),
        )

    async def post(self, rpc: str, body: Any = None, **headers: str) -> httpx2.Response:
        """The response to a request; `body` is JSON, or the text or bytes to send as they are."""
        content = body if isinstance(body, str | bytes) else json.dumps(body or {})
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.http.post(
            f"/{PACKAGE}.{rpc}",
            content=content,
            headers={"content-type": "application/json", **named},
        )

    async def ask(self, rpc: str, body: Any = None, **headers: str) -> Any:
        """The reply to a request that must succeed."""
        response = await self.post(rpc, body, **headers)
        assert response.status_code == 200, response.text
        return response.json()

    async def stream(self, rpc: str, *bodies: Any, **headers: str) -> tuple[list[Any], Any]:
        """The replies of a stream and its end."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        response = await self.http.post(
            f"/{PACKAGE}.{rpc}",
            content=b"".join(envelope(json.dumps(body).encode()) for body in bodies),
            headers={"content-type": "application/connect+json", **named},
        )
        assert response.status_code == 200, response.text
        assert response.headers["content-type"] == "application/connect+json"
        *messages, end = opened(response.content)
        assert end[0] & 2
        assert not any(flags & 2 for flags, _ in messages)
        return [json.loads(data) for _, data in messages], json.loads(end[1])


def envelope(data: bytes, flags: int = 0) -> bytes:
    """A message as the streaming protocol sends it."""
    return struct.pack(">BI", flags, len(data)) + data


def opened(body: bytes) -> list[tuple[int, bytes]]:
    """The flags and messages of the envelopes in a body, unpacked."""
    found = []
    while body:
        flags, size = struct.unpack_from(">BI", body)
        assert len(body) >= 5 + size
        data = body[5 : 5 + size]
        found.append((flags, gzip.decompress(data) if flags & 1 else data))
        body = body[5 + size :]
    return found


def detail(error: Any, kind: str) -> Any:
    """What a detail of an error says for people, checked against its binary form."""
    (found,) = [each for each in error["details"] if each["type"] == f"google.rpc.{kind}"]
    assert "=" not in found["value"]
    assert base64.b64decode(found["value"] + "==")
    return found["debug"]
