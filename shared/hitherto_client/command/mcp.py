"""`hitherto mcp` and `hitherto tools`: memory as tools of a language model."""

from __future__ import annotations

import argparse
import asyncio
import json
from typing import Any

from hitherto_client.command.options import Argument, Repeated, connect
from hitherto_client.command.output import OK, Output, UsageError
from hitherto_client.command.rpc import Command
from hitherto_client.command.serving import serve
from hitherto_client.tools import GUIDE, TOOLS, Toolbox, anthropic_tools, openai_tools


def _tools(options: argparse.Namespace, output: Output) -> int:
    definitions = _FORMATS[options.format]
    print(json.dumps(definitions, indent=2, ensure_ascii=False))
    return OK


_FORMATS = {
    "plain": {"guide": GUIDE, "tools": [tool.to_dict() for tool in TOOLS]},
    "openai": openai_tools(),
    "openai-responses": openai_tools("responses"),
    "anthropic": anthropic_tools(),
}


def _mcp(options: argparse.Namespace, output: Output) -> int:
    try:
        from hitherto_client import mcp_server  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise UsageError(f"this command needs {error.name}: pip install 'hitherto[mcp]'") from None
    if options.listen is None:
        return _serve_stdio(options, mcp_server)
    return _serve_http(options, mcp_server, output)


def _serve_stdio(options: argparse.Namespace, mcp_server: Any) -> int:
    if not options.user:
        raise UsageError("--user is required: over stdio one user is served")
    with connect(options) as client:
        toolbox = Toolbox(client, options.user, session_id=options.session)
        asyncio.run(mcp_server.serve_stdio(toolbox))
    return OK


def _serve_http(options: argparse.Namespace, mcp_server: Any, output: Output) -> int:
    host, _, port = options.listen.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise UsageError("--listen should be HOST:PORT, such as 127.0.0.1:8080")
    if (options.tls_certificate is None) != (options.tls_key is None):
        raise UsageError("--tls-certificate and --tls-key belong together")
    if options.api_key:
        raise UsageError("over HTTP every request carries its own credential: leave out --api-key")
    from hitherto_client import web_server  # noqa: PLC0415 - an extra

    with connect(options, token=mcp_server.credential.get) as client:
        scheme = "https" if options.tls_certificate else "http"
        own = host.strip("[]")
        return serve(
            own,
            int(port),
            lambda: web_server.web_server_config(
                mcp_server.McpOverHttp(
                    client,
                    own,
                    user_id=options.user,
                    public_hosts=options.public_host,
                    allowed_origins=options.allowed_origin,
                    authorization_servers=options.authorization_server,
                ),
                own,
                int(port),
                options.tls_certificate,
                options.tls_key,
            ),
            output,
            f"MCP over HTTP: {scheme}://{{}}/mcp",
        )


COMMANDS = (
    Command(
        "mcp",
        "Serve a user's memory over the Model Context Protocol.",
        None,
        Argument(
            "--user",
            "the user; over HTTP, that of requests without the header Hitherto-User",
            "USER",
            default="",
        ),
        Argument("--listen", "serve streamable HTTP at /mcp instead of stdio", "HOST:PORT"),
        Repeated("--public-host", "with --listen, a name under which others reach it", "NAME"),
        Repeated(
            "--allowed-origin",
            "with --listen, web pages that may call it, such as https://claude.ai",
            "ORIGIN",
        ),
        Repeated(
            "--authorization-server",
            "with --listen, the issuer of accepted tokens, where clients sign their user in",
            "URL",
        ),
        Argument("--session", "the session of prepared actions", "ID", default=""),
        Argument("--tls-certificate", "PEM file; only with --listen", "FILE"),
        Argument("--tls-key", "PEM file; only with --listen", "FILE"),
        run=_mcp,
    ),
    Command(
        "tools",
        "Print the tool definitions for a language model as JSON.",
        None,
        Argument(
            "--format",
            "the model API (default: plain, with side effects and approvals)",
            choices=sorted(_FORMATS),
            default="plain",
        ),
        run=_tools,
        local=True,
    ),
)
