"""Memory over MCP, with the client of the official package (G4)."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TextIO, cast

import httpx2
import pytest
import uvicorn

from hitherto_client import Hitherto
from hitherto_client.tools import MCP_GUIDE
from hitherto_client.web_server import web_server_config
from tests.e2e.conftest import Services
from tests.lazily import Lazily
from tests.tenants import Tenant, credential

if TYPE_CHECKING:
    import mcp.client.client as mcp_client
    import mcp.client.stdio as mcp_stdio
    import mcp.client.streamable_http as mcp_http
    import mcp.shared.exceptions as mcp_exceptions

    from hitherto_client import mcp_authorization, mcp_server
else:
    mcp_client = Lazily("mcp.client.client")
    mcp_stdio = Lazily("mcp.client.stdio")
    mcp_http = Lazily("mcp.client.streamable_http")
    mcp_exceptions = Lazily("mcp.shared.exceptions")
    mcp_server = Lazily("hitherto_client.mcp_server")
    mcp_authorization = Lazily("hitherto_client.mcp_authorization")


CLIENT = {"name": "test", "version": "1"}


@asynccontextmanager
async def served(services: Services, user: str = "", **more: Any) -> AsyncIterator[str]:
    """The server over HTTP on a free port; its URL."""
    client = Hitherto(
        services.retrieval_address,
        services.extraction_address,
        token=mcp_authorization.credential.get,
    )
    app = mcp_server.McpOverHttp(client, "127.0.0.1", user_id=user, **more)
    server = uvicorn.Server(web_server_config(app, "127.0.0.1", 0))
    with socket.socket() as listening, client:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        # Signals are pytest's.
        running = asyncio.create_task(server._serve(sockets=[listening]))
        try:
            while not server.started:
                assert not running.done()
                await asyncio.sleep(0.01)
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            server.should_exit = True
            await running


@asynccontextmanager
async def connected(url: str, **headers: str) -> AsyncIterator[mcp_client.Client]:
    """A client of the official package with these headers."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with (
        httpx2.AsyncClient(headers=named) as http,
        mcp_client.Client(mcp_http.streamable_http_client(url, http_client=http)) as client,
    ):
        yield client


def value(result: Any) -> Any:
    assert not result.is_error, result.content
    return result.structured_content


async def test_tools_and_prompt_over_http(services: Services, tenant: Tenant) -> None:
    bearer = f"Bearer {credential(tenant, 'ana')}"
    async with (
        served(services) as url,
        connected(url, authorization=bearer, hitherto_user="ana") as client,
    ):
        assert client.instructions == MCP_GUIDE
        hints = {
            tool.name: (tool.annotations.read_only_hint, tool.annotations.destructive_hint)
            for tool in (await client.list_tools()).tools
            if tool.title and tool.annotations
        }
        reads, adds, takes = (True, False), (False, False), (False, True)
        assert hints == {
            "save_memory": adds,
            "search_memory": reads,
            "get_profile": reads,
            "find_entity": reads,
            "get_recent_conversations": reads,
            "prepare_action": adds,
            "list_memories": reads,
            "correct_memory": adds,
            "forget_memory": takes,
        }
        value(await client.call_tool("save_memory", {"content": "Ana sống ở Hà Nội 🌏"}))
        found = value(await client.call_tool("search_memory", {"query": "Hà Nội"}))
        assert found["items"][0]["content"] == "Ana sống ở Hà Nội 🌏"
        wrong = await client.call_tool("search_memory", {"query": ""})
        assert wrong.is_error
        prompt = await client.get_prompt("memory", {"question": "Where does Ana live?"})
        assert "Hà Nội" in prompt.messages[0].content.text  # type: ignore[union-attr]


async def test_names_of_other_memory_servers_work(services: Services, tenant: Tenant) -> None:
    bearer = f"Bearer {credential(tenant, 'ana')}"
    async with (
        served(services) as url,
        connected(url, authorization=bearer, hitherto_user="ana") as client,
    ):

        async def call(tool: str, **arguments: Any) -> Any:
            return value(await client.call_tool(tool, arguments))

        saved = (await call("add_memory", content="Ana wohnt in Köln."))["saved"]
        await call("update_memory", memory_id=saved["id"], content="Ana wohnt in Bonn.")
        listed = await call("get_memories")
        assert listed["known"] == 1
        (known,) = listed["memories"]
        assert (known["id"], known["content"]) == (saved["id"], "Ana wohnt in Bonn.")
        found = await call("search_memories", query="Bonn", scope="everything")
        assert found["items"][0]["content"] == "Ana wohnt in Bonn."
        assert (await call("search_memories", query="Bonn", scope="words"))["found"] == 0
        await call("delete_memory", memory_id=saved["id"])
        assert (await call("get_memories"))["known"] == 0
        gone = await client.call_tool("delete_memory", {"memory_id": "none"})
        assert gone.is_error


async def test_people_and_tenants_hold_over_http(services: Services, tenant: Tenant) -> None:
    """The credential of each request decides, whatever user it names."""
    ours, theirs = tenant, Tenant()
    async with served(services, user="ana") as url:
        bearer = f"Bearer {credential(ours, 'ana')}"
        async with connected(url, authorization=bearer) as client:
            value(await client.call_tool("save_memory", {"content": "Ana likes tea."}))
        async with connected(url, authorization=bearer, hitherto_user="bo") as client:
            assert (await client.call_tool("search_memory", {"query": "tea"})).is_error
        async with connected(url, authorization=f"Bearer {credential(theirs, 'ana')}") as client:
            assert value(await client.call_tool("search_memory", {"query": "tea"}))["found"] == 0
        bo = f"Bearer {credential(ours, 'bo')}"
        async with connected(url, authorization=bo, hitherto_user="ana") as client:
            refused = await client.call_tool("search_memory", {"query": "tea"})
            assert refused.is_error
            assert refused.structured_content["reason"] == "USER_NOT_ALLOWED"
        async with connected(url, authorization="Bearer forged") as client:
            refused = await client.call_tool("search_memory", {"query": "tea"})
            assert refused.structured_content["reason"] == "CREDENTIAL_INVALID"
        async with connected(url, authorization=f"Bearer {ours.token}") as client:
            with pytest.raises(mcp_exceptions.MCPError, match="may act for every user"):
                await client.call_tool("search_memory", {"query": "tea"})


async def test_without_a_credential_one_is_told_where_to_sign_in(services: Services) -> None:
    """As the MCP specification prescribes: from the refusal to the metadata of RFC 9728."""
    issuer = "https://sign-in.example"
    async with (
        served(services, authorization_servers=[issuer]) as url,
        httpx2.AsyncClient(timeout=120) as http,
    ):
        for header in (None, "Basic eDp5", "Bearer", "Bearer a b"):
            headers: dict[str, str] = {} if header is None else {"authorization": header}
            refused = await http.post(url, headers=headers, json={})
            assert refused.status_code == 401, header
            challenge = refused.headers["www-authenticate"]
            assert challenge.startswith("Bearer"), header
            (metadata,) = re.findall(r'resource_metadata="([^"]+)"', challenge)
        told = (await http.get(metadata)).json()
        assert (told["resource"], told["authorization_servers"]) == (url, [issuer])
        # Whoever sends anything for a credential could hold as many as the process may open.
        headers = {"authorization": "Bearer forged", "accept": "text/event-stream"}
        reply = await http.get(url, headers=headers)
        assert (reply.status_code, reply.headers["allow"]) == (405, "POST")


async def test_a_request_names_its_user_in_any_script(services: Services, tenant: Tenant) -> None:
    async with served(services) as url:
        bearer = f"Bearer {credential(tenant, 'hạnh')}"
        async with connected(url, authorization=bearer, hitherto_user="h%E1%BA%A1nh") as client:
            value(await client.call_tool("save_memory", {"content": "Hạnh thích trà."}))
        for named, told in (
            ({"hitherto_user": "%ff%fe"}, "percent-encoded"),
            ({}, "Hitherto-User"),
        ):
            async with connected(url, authorization=bearer, **named) as client:
                with pytest.raises(mcp_exceptions.MCPError, match=told):
                    await client.call_tool("get_profile", {})


async def answers_over_stdio(
    services: Services, tenant: Tenant, *lines: bytes, replies: int
) -> list[dict[str, Any]]:
    """What the command answers to lines after the handshake."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c"),
        "from hitherto_client.command import main; raise SystemExit(main())",
        *("mcp", "--user", "ana"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={
            "HITHERTO_RETRIEVAL_ADDRESS": services.retrieval_address,
            "HITHERTO_EXTRACTION_ADDRESS": services.extraction_address,
            "HITHERTO_TOKEN": credential(tenant, "ana"),
        },
    )
    client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": CLIENT}
    begun = (
        {"jsonrpc": "2.0", "id": "begun", "method": "initialize", "params": client},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.writelines(json.dumps(each).encode() + b"\n" for each in begun)
    process.stdin.writelines(line + b"\n" for line in lines)
    async with asyncio.timeout(120):
        answers = [json.loads(await process.stdout.readline()) for _ in range(replies + 1)]
        process.stdin.close()
        assert await process.stdout.read() == b""
        assert await process.wait() == 0
    assert answers[0]["id"] == "begun"
    return answers[1:]


HALF_A_CHARACTER = json.dumps(
    {
        "jsonrpc": "2.0",
        "id": 2,
        "method": "tools/call",
        "params": {
            "name": "save_memory",
            "arguments": {"content": "Ana likes tea \ud83c, 🏡 and \\ud83d"},
        },
    }
).encode()
"""A model that stops within an emoji must not leave its assistant waiting."""


def check_half_a_character(reply: Any) -> None:
    assert reply["id"] == 2
    saved = reply["result"]["structuredContent"]["saved"]["content"]
    assert saved == "Ana likes tea \ufffd, 🏡 and \\ud83d"


REFUSED: list[tuple[bytes, int, object]] = [
    (b"this is no JSON", -32700, None),
    (b'{"jsonrpc": "2.0", "id": 5', -32700, None),
    (b"\xff\xfe\x00", -32700, None),
    (b"[" * 100_000, -32700, None),
    (b"null", -32600, None),
    (b'[{"jsonrpc": "2.0", "id": 6, "method": "ping"}]', -32600, None),
    (b"{}", -32600, None),
    (b'{"jsonrpc": "1.0", "id": 8, "method": "ping"}', -32600, 8),
    (b'{"jsonrpc": "2.0", "id": "nine"}', -32600, "nine"),
    (b'{"jsonrpc": "2.0", "id": 10, "method": 5}', -32600, 10),
    (b'{"jsonrpc": "2.0", "id": 11, "method": "tools/call", "params": []}', -32600, 11),
    *(
        (b'{"jsonrpc": "2.0", "id": %s, "method": "ping"}' % given, -32600, None)
        for given in (b"null", b"true", b"1.5", b"{}")
    ),
    (b'{"jsonrpc": "2.0", "id": 12, "method": "unknown"}', -32601, 12),
]


@pytest.mark.faults
async def test_whatever_is_no_message_is_refused_over_http(
    services: Services, tenant: Tenant
) -> None:
    headers = {
        "authorization": f"Bearer {credential(tenant, 'ana')}",
        "hitherto-user": "ana",
        "accept": "application/json, text/event-stream",
        "content-type": "application/json",
    }
    async with served(services) as url, httpx2.AsyncClient(headers=headers) as http:
        for protocol in ("2025-06-18", "2026-07-28"):
            http.headers["mcp-protocol-version"] = protocol
            for body, code, known in (
                *REFUSED[:-1],
                (b"", -32700, None),
                (b'{"jsonrpc": "2.0", "id": 99}', -32600, 99),
            ):
                reply = await http.post(url, content=body)
                assert reply.status_code == 400, (body[:80], reply.text)
                answer = reply.json()
                assert (answer["error"]["code"], answer["id"]) == (code, known), body[:80]
                assert answer["jsonrpc"] == "2.0"
            notified = b'{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {}}'
            assert (await http.post(url, content=notified)).status_code == 202
            too_large = b'{"jsonrpc": "2.0", "id": 1, "method": "%s"}' % (b"x" * 1024 * 1024)
            assert (await http.post(url, content=too_large)).status_code == 413
        http.headers |= {"accept": "application/json", "mcp-protocol-version": "2025-06-18"}
        check_half_a_character((await http.post(url, content=HALF_A_CHARACTER)).json())


@pytest.mark.faults
async def test_whatever_is_no_message_is_refused_over_stdio(
    services: Services, tenant: Tenant
) -> None:
    """Batches too: the protocol has none since 2025-06-18. What needs no answer gets none."""
    silent = (
        b"",
        b" \t",
        b'{"jsonrpc": "2.0", "id": 99, "result": {}}',
        b'{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 77}}',
    )
    ping = b'{"jsonrpc": "2.0", "id": "last", "method": "ping"}'
    lines = [line for line, _, _ in REFUSED]
    answers = await answers_over_stdio(
        services, tenant, *silent, *lines, HALF_A_CHARACTER, ping, replies=len(lines) + 2
    )
    # A call that runs may be overtaken.
    told = [(each["error"]["code"], each["id"]) for each in answers if "error" in each]
    assert sorted(told, key=str) == sorted(((code, known) for _, code, known in REFUSED), key=str)
    results = {each["id"]: each for each in answers if "result" in each}
    assert results.keys() == {"last", 2}
    check_half_a_character(results[2])


@pytest.mark.faults
async def test_the_command_over_stdio(services: Services, tenant: Tenant) -> None:
    """As an assistant on a desktop starts it."""
    command = mcp_stdio.StdioServerParameters(
        command=sys.executable,
        args=[
            "-c",
            "from hitherto_client.command import main; raise SystemExit(main())",
            "mcp",
            "--user",
            "ana",
        ],
        env={
            "HITHERTO_RETRIEVAL_ADDRESS": services.retrieval_address,
            "HITHERTO_EXTRACTION_ADDRESS": services.extraction_address,
            "HITHERTO_TOKEN": credential(tenant, "ana"),
        },
    )
    # By default, what the command complains of goes to what stood for stderr at the import.
    started = mcp_stdio.stdio_client(command, errlog=cast(TextIO, sys.__stderr__))
    async with mcp_client.Client(started) as client:
        value(await client.call_tool("save_memory", {"content": "Ana likes tea."}))
        found = value(await client.call_tool("search_memory", {"query": "tea"}))
    assert found["found"] == 1


PUBLIC = {"public_hosts": ["memory.example.com"], "allowed_origins": ["https://claude.ai"]}


@pytest.mark.parametrize(
    ("given", "cases"),
    [
        (
            PUBLIC,
            [
                ("memory.example.com", "", 200, ""),
                ("Memory.Example.com:443", "https://claude.ai", 200, ""),
                ("memory.example.com", "https://memory.example.com", 200, ""),
                # The proxy names its own side as the host.
                ("127.0.0.1:8080", "https://memory.example.com", 200, ""),
                ("localhost:8080", "http://localhost:8080", 200, ""),
                ("localhost:80", "http://localhost", 200, ""),
                ("[::1]:8080", "http://[::1]:8080", 200, ""),
                ("localhost:8080", "http://localhost:3000", 403, "--allowed-origin"),
                ("localhost:8080", "http://localhost", 403, "--allowed-origin"),
                ("localhost:8080", "null", 403, "--allowed-origin"),
                ("memory.example.com", "https://memory.example.com:3000", 403, "--allowed-origin"),
                ("evil.example", "", 421, "--public-host"),
                ("memory.example.com.evil.example", "", 421, "--public-host"),
                ("memory.example.com", "https://evil.example", 403, "--allowed-origin"),
            ],
        ),
        ({}, [("memory.example.com", "", 421, "--public-host"), ("[::1]:8080", "", 200, "")]),
    ],
    ids=["public", "local"],
)
async def test_behind_a_proxy_it_answers_to_its_public_name(
    services: Services,
    tenant: Tenant,
    given: dict[str, Any],
    cases: list[tuple[str, str, int, str]],
) -> None:
    begun = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": CLIENT}
    initialize = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": begun}
    usual = {
        "authorization": f"Bearer {credential(tenant, 'ana')}",
        "accept": "application/json, text/event-stream",
    }
    async with served(services, "ana", **given) as url, httpx2.AsyncClient(headers=usual) as http:
        for host, origin, status, told in cases:
            headers = {"host": host, **({"origin": origin} if origin else {})}
            for path in ("", "/"):
                answer = await http.post(url + path, json=initialize, headers=headers)
                assert answer.status_code == status, (host, origin, answer.text)
                assert told in answer.text, (host, origin)
