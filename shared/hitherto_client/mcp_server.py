"""Memory over the Model Context Protocol (MCP): existing assistants use it without code.

Needs the extra `mcp`. Over stdio one user is served with the credential of the environment. Over
HTTP every request carries a credential of its own, which is passed on to the services: they decide
what it may do, so that users and tenants stay as separate as for any other caller.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import sys
import threading
import uuid
from collections import OrderedDict
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from importlib.metadata import version
from io import TextIOWrapper
from typing import Any
from urllib.parse import unquote

import mcp_types as types
from anyio import to_thread, wrap_file
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import (
    RequestBodyLimitMiddleware,
    TransportSecuritySettings,
)
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hitherto.v1 import retrieval_service_pb2
from hitherto_client._sync.client import Hitherto
from hitherto_client.errors import HithertoCallError
from hitherto_client.expected_address import LOOPBACK, ExpectedAddress
from hitherto_client.mcp_authorization import NO_CREDENTIAL, credential, require_bearer
from hitherto_client.tools import MCP_GUIDE, MCP_TOOLS, Toolbox, UnboundCredentialError
from hitherto_client.web_server import MOST_REQUEST_BYTES

USER_HEADER = "hitherto-user"
"""Names the user on whose behalf a request over HTTP acts, percent-encoded as UTF-8."""
MOST_TOOLBOXES = 1_000
"""Toolboxes that are kept: those used last. A new one costs one call to check the credential."""

_PROMPT = "memory"
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")

Context = ServerRequestContext[Any, Any]


def make_server(toolbox_for: Callable[[Context], Toolbox]) -> Server[Any]:
    """The MCP server: the tools, and a prompt with what is known about the user.

    Args:
        toolbox_for: The tools of whoever sent a request. It may raise MCPError.
    """

    async def list_tools(context: Context, params: object) -> types.ListToolsResult:
        return types.ListToolsResult(tools=_TOOLS)

    async def call_tool(
        context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        toolbox = toolbox_for(context)
        try:
            result = await to_thread.run_sync(toolbox.call, params.name, params.arguments)
        except UnboundCredentialError as error:
            raise MCPError(types.INVALID_REQUEST, str(error)) from None
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=result.text)],
            structured_content=result.value,
            is_error=result.is_error,
        )

    async def list_prompts(context: Context, params: object) -> types.ListPromptsResult:
        question = types.PromptArgument(
            name="question", description="What the conversation is about.", required=False
        )
        about = "What is known about the user, as text for a system prompt."
        prompt = types.Prompt(name=_PROMPT, description=about, arguments=[question])
        return types.ListPromptsResult(prompts=[prompt])

    async def get_prompt(
        context: Context, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult:
        if params.name != _PROMPT:
            raise MCPError(types.INVALID_PARAMS, f"there is no prompt {params.name!r}")
        toolbox = toolbox_for(context)
        question = (params.arguments or {}).get("question", "")
        try:
            block = await to_thread.run_sync(toolbox.prompt_block, question)
        except (UnboundCredentialError, HithertoCallError) as error:
            raise MCPError(types.INVALID_REQUEST, str(error)) from None
        text = types.TextContent(type="text", text=block or "Nothing is known about the user yet.")
        return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=text)])

    return Server(
        "hitherto",
        version=version("hitherto"),
        title="Hitherto",
        instructions=MCP_GUIDE,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
    )


async def serve_stdio(toolbox: Toolbox) -> None:
    """Serve one user over stdin and stdout until stdin ends."""
    server = make_server(lambda context: toolbox)
    # Some programs on Windows begin with a byte order mark.
    given = TextIOWrapper(sys.stdin.buffer, encoding="utf-8-sig", errors="replace")
    writable: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    async def refuse(refusal: types.JSONRPCError) -> None:
        await (await writable).send(SessionMessage(refusal))

    lines: Any = _messages(wrap_file(given), refuse)
    async with stdio_server(lines) as (reading, writing):
        writable.set_result(writing)
        await server.run(reading, writing, server.create_initialization_options())


async def _messages(
    lines: AsyncIterable[str], refuse: Callable[[types.JSONRPCError], Awaitable[None]]
) -> AsyncIterator[str]:
    """The lines that are messages, with U+FFFD for lone surrogates; others are refused.

    The MCP package leaves what it cannot read unanswered, and the assistant would wait for ever.
    Models write half of an emoji.
    """
    async for line in lines:
        if not line.strip():
            continue
        message = well_formed(line)
        if (refusal := _refusal(message)) is None:
            yield message
        else:
            await refuse(refusal)


def _refusal(line: str) -> types.JSONRPCError | None:
    """What JSON-RPC answers to a line that is no message; None if it is one."""
    try:
        read = json.loads(line)
    except (ValueError, RecursionError):
        return _error(None, types.PARSE_ERROR, "Parse error: not JSON")
    given = read.get("id") if isinstance(read, dict) else None
    known = given if isinstance(given, str | int) and not isinstance(given, bool) else None
    try:
        types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError:
        pass
    else:
        # The MCP package takes a request with any other id for a notification.
        if known is not None or not ("id" in read and "method" in read):
            return None
    return _error(known, types.INVALID_REQUEST, "Invalid request: not one JSON-RPC 2.0 message")


def _error(known: str | int | None, code: int, message: str) -> types.JSONRPCError:
    error = types.ErrorData(code=code, message=message)
    return types.JSONRPCError(jsonrpc="2.0", id=known, error=error)


def well_formed(line: str) -> str:
    """A line of JSON, with U+FFFD for lone surrogates; unchanged if it is no JSON."""
    if not _SURROGATE.search(line):
        return line
    try:
        text = json.dumps(json.loads(line), ensure_ascii=False)
    except (ValueError, RecursionError):
        return line
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace") + "\n"


class McpOverHttp:
    """What serves `/mcp`: an ASGI application."""

    def __init__(
        self,
        client: Hitherto,
        host: str,
        *,
        user_id: str = "",
        public_hosts: Sequence[str] = (),
        allowed_origins: Sequence[str] = (),
        origins_by: str = "--allowed-origin",
        authorization_servers: Sequence[str] = (),
    ) -> None:
        """Serve nothing yet.

        Args:
            client: Takes its credential from `credential`.
            host: The address that is listened on.
            user_id: The user of requests without the header `Hitherto-User`.
            public_hosts: The names under which others reach the server, such as that of a proxy
                with TLS. On the loopback, and wherever a name is given, requests for other hosts
                are refused, so that no web page can reach the server under a name of its own.
            allowed_origins: Web pages that may call it besides those of the hosts, such as
                `https://claude.ai`.
            origins_by: The option or variable that names such pages, for those who are refused.
            authorization_servers: The issuers whose tokens the services accept. A client without a
                credential is told of them, and can sign its user in there.
        """
        callers = HttpCallers(client, user_id)
        self._app = make_server(callers.toolbox).streamable_http_app(
            host=host,
            json_response=True,
            stateless_http=True,
            # `ExpectedAddress` checks hosts and origins, and says what to do about one.
            transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        )
        # The limit comes first: `refuse_other_messages` reads a whole body.
        limited = RequestBodyLimitMiddleware(refuse_other_messages(self._app), MOST_REQUEST_BYTES)
        self._guarded: ASGIApp = require_bearer(
            limited, authorization_servers, public_hosts, asks_for_none=_asks_for_none(client, host)
        )
        if public_hosts or host in LOOPBACK:
            self._guarded = ExpectedAddress(
                self._guarded, public_hosts, allowed_origins, origins_by=origins_by
            )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or begin and end."""
        await self._guarded(scope, receive, send)

    def running(self) -> AbstractAsyncContextManager[object]:
        """Serve within this context; for an application that begins and ends by itself."""
        return self._app.router.lifespan_context(self._app)


class HttpCallers:
    """The toolboxes of those who call over HTTP, by credential and user."""

    def __init__(self, client: Hitherto, user_id: str = "") -> None:
        self._client = client
        self._user_id = user_id
        self._toolboxes: OrderedDict[tuple[bytes, str], Toolbox] = OrderedDict()
        self._lock = threading.Lock()

    def toolbox(self, context: Context) -> Toolbox:
        """The tools of the request's user with the request's credential.

        Raises:
            MCPError: The request names no user, or one that cannot be read.
        """
        request: Any = context.request
        try:
            named = unquote(request.headers.get(USER_HEADER, "").strip(), errors="strict")
        except UnicodeDecodeError:
            # Replaced characters would make one user of several.
            raise MCPError(
                types.INVALID_REQUEST, "the header Hitherto-User is not percent-encoded UTF-8"
            ) from None
        user_id = named or self._user_id
        if not user_id:
            raise MCPError(
                types.INVALID_REQUEST,
                "the request names no user: send the header Hitherto-User, or start the server"
                " with --user",
            )
        key = (hashlib.sha256(credential.get().encode()).digest(), user_id)
        with self._lock:
            toolbox = self._toolboxes.setdefault(
                key,
                # Where none is asked for, there is no credential that could be bound.
                Toolbox(self._client, user_id, allow_unbound=credential.get() == NO_CREDENTIAL),
            )
            self._toolboxes.move_to_end(key)
            if len(self._toolboxes) > MOST_TOOLBOXES:
                self._toolboxes.popitem(last=False)
        return toolbox


def _asks_for_none(client: Hitherto, host: str) -> Callable[[], bool]:
    """Whether the services, and this server, let everybody on this machine in.

    The services decide: they refuse `NO_CREDENTIAL` like any other unknown key.
    """
    found = False

    def ask() -> bool:
        nonlocal found
        if host not in LOOPBACK or found:
            return found
        before = credential.set(NO_CREDENTIAL)
        try:
            # Of a user that nobody has.
            client.connection.retrieval.FindEntities(
                retrieval_service_pb2.FindEntitiesRequest(user_id=f"nobody-{uuid.uuid4()}")
            )
            found = True
        except HithertoCallError:
            return False
        finally:
            credential.reset(before)
        return True

    return ask


def refuse_other_messages(app: ASGIApp) -> ASGIApp:
    """Answer 400 to bodies that are no message; pass on the others as `well_formed`.

    The MCP package takes a request with an id that JSON-RPC does not know for a notification.
    """

    async def checked(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await app(scope, receive, send)
            return
        first = await receive()
        if first["type"] != "http.request" or first.get("more_body"):
            return  # The client has gone.
        body = well_formed(first["body"].decode("utf-8", "replace"))
        if (refusal := _refusal(body)) is not None:
            answer = refusal.model_dump(mode="json", by_alias=True, exclude_unset=True)
            refused = JSONResponse(answer, 400, {"cache-control": "no-store"})
            await refused(scope, receive, send)
            return
        whole: list[Message] = [{"type": "http.request", "body": body.encode()}]

        async def replay() -> Message:
            return whole.pop() if whole else await receive()

        await app(scope, replay, send)

    return checked


_TOOLS = [
    types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=dict(tool.parameters),
        annotations=types.ToolAnnotations(
            title=tool.title,
            read_only_hint=tool.reads_only,
            destructive_hint=tool.destructive,
            open_world_hint=False,
        ),
        _meta={"side_effect": tool.side_effect, "approval": tool.approval},
    )
    for tool in MCP_TOOLS
]
