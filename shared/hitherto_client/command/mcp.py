"""`hitherto mcp` and `hitherto tools`: memory as tools of a language model."""

from __future__ import annotations

import argparse
import asyncio
import json
from typing import Any

from hitherto_client.command.options import Argument, Repeated, connect
from hitherto_client.command.output import OK, Output, UsageError
from hitherto_client.command.rpc import Command
from hitherto_client.command.serving import OF_SERVERS, packages_of, refuse_credential, serve
from hitherto_client.listen_address import ListenRefused, listen_address
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
    with packages_of("mcp"):
        from hitherto_client import mcp_server  # noqa: PLC0415
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
    try:
        address = listen_address(options.listen)
    except ListenRefused as error:
        raise UsageError(str(error)) from None
    refuse_credential(
        options, "over HTTP every request carries its own credential: leave out --api-key"
    )
    with connect(options, token=mcp_server.credential.get) as client:
        return serve(
            options,
            address,
            lambda: mcp_server.McpOverHttp(
                client,
                address.host,
                user_id=options.user,
                public_hosts=options.public_host,
                allowed_origins=options.allowed_origin,
                authorization_servers=options.authorization_server,
            ),
            output,
            "MCP over HTTP: {}/mcp",
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
        Argument(
            "--listen",
            "serve streamable HTTP at /mcp instead of stdio; the host names and the certificate"
            " below go with it",
            "HOST:PORT",
        ),
        *OF_SERVERS,
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
