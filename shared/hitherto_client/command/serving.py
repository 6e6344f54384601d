"""Web servers of the command, `hitherto console`, `http` and `mcp`; and `hitherto tools`."""

from __future__ import annotations

import argparse
import asyncio
import errno
import json
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hitherto_client.command.options import Argument, Repeated, Switch, connect
from hitherto_client.command.output import FAILED, OK, Output, UsageError
from hitherto_client.command.rpc import Command
from hitherto_client.listen_address import (
    ListenAddress,
    ListenRefused,
    check_openness,
    listen_address,
    proxy_address,
)
from hitherto_client.tools import GUIDE, TOOLS, Toolbox, anthropic_tools, openai_tools

if TYPE_CHECKING:
    from starlette.types import ASGIApp

OF_SERVERS = (
    Repeated("--public-host", "a host name by which others ask for it", "NAME"),
    Argument("--tls-certificate", "PEM file with the certificate: serve HTTPS", "FILE"),
    Argument("--tls-key", "PEM file with the key of the certificate", "FILE"),
)
"""Options of a command that serves others."""
ALLOW_HTTP = Switch(
    "--allow-http", "listen beyond loopback without TLS, such as behind a proxy that adds it"
)


@contextmanager
def packages_of(extra: str) -> Iterator[None]:
    """For what imports packages of an extra."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise UsageError(
            f"this command needs {error.name}: pip install 'hitherto[{extra}]'"
        ) from None


def refuse_credential(options: argparse.Namespace, remedy: str) -> None:
    """Refuse half of a certificate, and a credential of the command's own."""
    if (options.tls_certificate is None) != (options.tls_key is None):
        raise UsageError("--tls-certificate and --tls-key belong together")
    if options.api_key:
        raise UsageError(remedy)


def address_to_serve(
    options: argparse.Namespace, listen: str, *, local: bool = False
) -> ListenAddress:
    """The address, if it may be served openly; see `check_openness`."""
    try:
        address = listen_address(listen)
        check_openness(
            address,
            tls=options.tls_certificate is not None,
            allow_http=options.allow_http,
            local=local,
            public=tuple(options.public_host),
        )
    except ListenRefused as error:
        raise UsageError(str(error)) from None
    return address


def serve(
    options: argparse.Namespace,
    address: ListenAddress,
    make: Callable[[], ASGIApp],
    output: Output,
    told: str,
    proxies: Sequence[str] = (),
) -> int:
    """Serve until Ctrl-C, or say why not; the exit code.

    `make` makes what is served, once the address is held. In `told`, `{}` stands for the URL. What
    `proxies` say of a request is believed.
    """
    import uvicorn  # noqa: PLC0415 - an extra

    from hitherto_client.web_server import (  # noqa: PLC0415 - an extra
        ServedCertificate,
        web_server_config,
    )

    host, port, certificate = address.host, address.port, None
    if options.tls_certificate:
        try:
            certificate = ServedCertificate(options.tls_certificate, options.tls_key)
        except ValueError as error:
            raise UsageError(f"--tls-certificate and --tls-key cannot be used: {error}") from None
    with ExitStack() as held:
        try:
            listening = [held.enter_context(each) for each in _listening(host, port)]
        except OSError as error:
            output.error(_refusal(error, host, port))
            return FAILED
        config = web_server_config(make(), host, port, certificate, proxies=proxies)
        scheme = "https" if certificate else "http"
        at = f"{scheme}://{_bracketed(host)}:{listening[0].getsockname()[1]}"
        output.note(told.format(at))
        uvicorn.Server(config).run(listening)
    return OK


def _listening(host: str, port: int) -> list[socket.socket]:
    """A socket for each address of the host, as a name may have several."""
    found: list[socket.socket] = []
    places = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    for family, _, _, _, place in dict.fromkeys(places):
        try:
            found.append(socket.create_server(place[:2], family=family))
        except OSError as error:
            # A name such as localhost may have an address that this machine lacks.
            if error.errno == errno.EADDRNOTAVAIL and (found or len(places) > 1):
                continue
            for each in found:
                each.close()
            raise
    if not found:
        raise OSError(errno.EADDRNOTAVAIL, "no address")
    return found


def _refusal(error: OSError, host: str, port: int) -> str:
    address = f"{_bracketed(host)}:{port}"
    if error.errno == errno.EADDRINUSE:
        return (
            f"{address} is taken, perhaps by `hitherto up`, which serves the console, HTTP and MCP:"
            f" use that, or choose another address, such as --listen {_bracketed(host)}:{port + 1}"
        )
    if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
        return f"{host} is no address of this machine: choose another one with --listen"
    return f"{address} cannot be listened on ({error.strerror}): choose another one with --listen"


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


DEFAULT_LISTEN = "127.0.0.1:8090"


def _console(options: argparse.Namespace, output: Output) -> int:
    with packages_of("console"):
        from hitherto_client.console.app import make_app  # noqa: PLC0415
        from hitherto_client.console.target import ConsoleTarget  # noqa: PLC0415
    refuse_credential(
        options,
        "people sign in with credentials of their own: leave out --api-key, or set"
        " HITHERTO_API_KEY and add --local",
    )
    if options.user and not options.local:
        raise UsageError("--user needs --local")
    address = address_to_serve(options, options.listen, local=options.local)
    try:
        proxies = [proxy_address(each) for each in options.proxy]
    except ListenRefused as error:
        raise UsageError(str(error)) from None
    target = ConsoleTarget(
        options.retrieval,
        options.extraction,
        timeout=options.timeout,
        local=options.local,
        user=options.user,
        on_loopback=address.is_loopback,
    )

    def app() -> ASGIApp:
        try:
            return make_app(target, address.hosts(tuple(options.public_host)), options.sessions)
        except (OSError, ValueError) as error:
            raise UsageError(f"--sessions cannot be used: {error}") from None

    return serve(options, address, app, output, "the console: {}", proxies)


CONSOLE = (
    Command(
        "console",
        "Serve web pages on which people see and correct memories.",
        Argument(
            "--listen",
            f"where browsers reach it (default: {DEFAULT_LISTEN})",
            "HOST:PORT",
            default=DEFAULT_LISTEN,
        ),
        Switch(
            "--local",
            "use the credential of the environment for everybody, without a sign-in; only on"
            " loopback",
        ),
        Argument("--user", "with --local: show this user only", "USER", default=""),
        *OF_SERVERS,
        ALLOW_HTTP,
        Repeated(
            "--proxy",
            "address or network of a proxy on another machine, whose X-Forwarded-Proto and"
            " X-Forwarded-For are believed",
            "ADDRESS",
        ),
        Argument(
            "--sessions",
            "keep sessions in this directory, sealed, so that they outlive a restart and several"
            " consoles share them",
            "DIR",
            type=Path,
        ),
        run=_console,
    ),
)


def _http(options: argparse.Namespace, output: Output) -> int:
    with packages_of("http"):
        from hitherto_client.http_door.application import build  # noqa: PLC0415
    refuse_credential(options, "every request carries its own credential: leave out --api-key")
    listen = options.listen or os.environ.get("HITHERTO_HTTP_LISTEN") or DEFAULT_LISTEN
    address = address_to_serve(options, listen)
    try:
        door = build(
            options.retrieval,
            options.extraction,
            public_hosts=address.hosts(tuple(options.public_host)),
            origins=(*options.allowed_origin, *named_origins()),
        )
    except ValueError as error:
        raise UsageError(str(error)) from None
    told = "every call over HTTP: {}; /docs describes them"
    return serve(options, address, lambda: door, output, told)


def named_origins() -> tuple[str, ...]:
    """The web pages that `HITHERTO_HTTP_ORIGINS` names, separated by commas."""
    given = os.environ.get("HITHERTO_HTTP_ORIGINS", "")
    return tuple(each.strip() for each in given.split(",") if each.strip())


HTTP = (
    Command(
        "http",
        "Serve every RPC over HTTP with JSON, for curl, browsers and others without gRPC.",
        Argument(
            "--listen",
            f"where it is reached (default: HITHERTO_HTTP_LISTEN, else {DEFAULT_LISTEN})",
            "HOST:PORT",
        ),
        Repeated(
            "--allowed-origin",
            "web pages that may call it, such as https://app.example.org, besides those of"
            " HITHERTO_HTTP_ORIGINS",
            "ORIGIN",
        ),
        *OF_SERVERS,
        ALLOW_HTTP,
        run=_http,
    ),
)


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
    refuse_credential(
        options, "over HTTP every request carries its own credential: leave out --api-key"
    )
    address = address_to_serve(options, options.listen)
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


MCP = (
    Command(
        "mcp",
        "Serve a user's memory over the Model Context Protocol.",
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
        ALLOW_HTTP,
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
