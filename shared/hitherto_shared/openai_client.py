"""Calls an OpenAI-compatible server at the lowest possible cost, limited in time and size.

Every search and every job calls one, so this uses no HTTP client: the openai package takes ten
times the CPU time, and aiohttp three times.
"""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import zlib
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from yarl import URL

from hitherto_shared.embeddings.http_link import HttpConnection, connected
from hitherto_shared.embeddings.http_reply import MostBytes, Reply
from hitherto_shared.embeddings.proxies import proxy_for
from hitherto_shared.model_api import ModelMisbehaved, ModelUnavailable
from hitherto_shared.model_server import (
    CONNECT_SECONDS,
    MAX_CONNECTIONS,
    MAX_ERROR_BYTES,
    MAX_REPLY_BYTES,
    api_root,
    failure_in_success,
    json_object,
    no_answer_within,
    oversize,
    refusal_or_outage,
    usable_key,
)
from hitherto_shared.offloading import beside_loop

# Idle connections are kept this long: opening a new one costs more than a whole search.
_KEEP_SECONDS = 60.0
# A server that does not release a connection must not delay the end of a process.
_CLOSE_SECONDS = 2.0
# The names of what `zlib` decompresses.
_COMPRESSED = frozenset({"gzip", "x-gzip", "deflate"})
_GZIP_OR_ZLIB = zlib.MAX_WBITS | 32
# How much longer JSON is than its compressed form, to judge the work of decompressing it.
_UNPACKED = 8
# The work of parsing JSON: a letter of a string takes a nanosecond, a value half a microsecond.
_LETTERS_OF_A_STRING, _WORK_OF_A_VALUE = 16, 16
# Further variables that OpenAI's own client reads from the environment.
_FROM_ENVIRONMENT = {"OpenAI-Organization": "OPENAI_ORG_ID", "OpenAI-Project": "OPENAI_PROJECT_ID"}


class ProxyRefused(ConnectionError):
    """The proxy opens no tunnel to the server."""


@dataclass(frozen=True, slots=True)
class CallRules:
    """How calls of one kind differ from those of another.

    Attributes:
        model_setting: The variable that names the model, for messages.
        resends: Whether a request is repeated if an idle connection was lost with it. The server
            may have worked on it.
        gzip: Whether replies may be compressed.
        load: Parses the JSON of a reply.
    """

    model_setting: str
    resends: bool
    gzip: bool
    load: Callable[[bytes], Any] = json.loads


class OpenAIServer:
    """A connection pool to one OpenAI-compatible server.

    It is bound to the loop of its first call. Redirects are not followed and cookies not kept.
    Nothing is retried after an answer: the caller decides when to try again.

    Args:
        rules: What holds for all its calls.
        base_url: Root of the API, such as `https://api.openai.com/v1`; empty means OpenAI.
        api_key: The key; a local server may need none.
        timeout: Seconds for a whole call, from the wait for a connection to the last byte.

    Raises:
        ValueError: The URL, the key or the proxy cannot be used; the message names the variable.
    """

    def __init__(
        self, rules: CallRules, *, base_url: str | None, api_key: str | None, timeout: float
    ) -> None:
        url = api_root(base_url)
        self._rules = rules
        self._key = usable_key(api_key)
        self._timeout = timeout
        self._headers = {
            "Accept": "application/json",
            "Accept-Encoding": "gzip" if rules.gzip else "identity",
            # An address may have a user and a password, for a proxy before the server.
            "Authorization": _pair(url) or f"Bearer {self._key}",
            "Content-Type": "application/json",
            "User-Agent": "hitherto",
        } | {
            header: os.environ[variable]
            for header, variable in _FROM_ENVIRONMENT.items()
            if _sendable(variable)
        }
        self._root = url.with_user(None).with_fragment(None)
        self._proxy = proxy_for(self._root)
        self._hop = self._proxy or self._root
        self._tls = _tls() if "https" in (self._root.scheme, self._hop.scheme) else None
        self._heads: dict[str, bytes] = {}
        self._places = asyncio.Semaphore(MAX_CONNECTIONS)
        self._links: set[HttpConnection] = set()
        self._free: list[HttpConnection] = []
        self._sweeping: asyncio.TimerHandle | None = None
        self._closed = False

    async def post(
        self,
        path: str,
        body: Mapping[str, Any],
        *,
        timeout: float | None = None,
        max_bytes: int = MAX_REPLY_BYTES,
    ) -> dict[str, Any]:
        """Send one JSON request, and return the JSON object of the reply.

        Args:
            path: Below the base URL, such as `/embeddings`.
            body: The request.
            timeout: Seconds for this call; unset: the server's own.
            max_bytes: Maximum size of the reply, compressed and decompressed.

        Raises:
            ModelUnavailable: An outage, a lost connection or the timeout; ModelMisconfigured if the
                server refuses every request with these settings.
            RequestRejected: The server refuses the request.
            ModelMisbehaved: The reply is too large, in an encoding that was not requested, not a
                JSON object, or an error that is sent as a success.
        """
        seconds = self._timeout if timeout is None else timeout
        head = self._heads.get(path) or self._heads.setdefault(path, self._head(path))
        text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
        sent = text.encode("utf-8", "replace")

        def most(status: int) -> int:
            return max_bytes if _successful(status) else MAX_ERROR_BYTES

        if seconds <= 0:
            raise no_answer_within(0)
        try:
            async with asyncio.timeout(seconds):
                reply = await self._ask(b"%b%d\r\n\r\n%b" % (head, len(sent), sent), most)
        # `from None`: the system's message may quote the address.
        except TimeoutError:
            raise no_answer_within(seconds) from None
        except (OSError, UnicodeError) as error:
            reason = type(error.__cause__ or error).__name__
            raise ModelUnavailable(
                f"the connection to the model server failed ({reason}); "
                "check OPENAI_BASE_URL and the network if this lasts"
            ) from None
        if not _successful(reply.status):
            raise refusal_or_outage(
                reply.status,
                reply.headers,
                self._beginning(reply),
                key=self._key,
                model_setting=self._rules.model_setting,
            )
        encoding = _encoding(reply)
        if encoding and not (self._rules.gzip and encoding in _COMPRESSED):
            raise ModelMisbehaved(
                "the model server's reply has a Content-Encoding that was not requested; "
                "make the server or the proxy before it honour Accept-Encoding"
            )
        if reply.cut_off:
            raise oversize(max_bytes)
        content = reply.body
        if encoding:
            content = await beside_loop(_UNPACKED * len(content), _unpacked, content, max_bytes)
            if len(content) > max_bytes:
                raise oversize(max_bytes)
        answer = await beside_loop(_work_of(content), json_object, content, self._rules.load)
        failure = failure_in_success(
            answer, reply.headers, key=self._key, model_setting=self._rules.model_setting
        )
        if failure is not None:
            raise failure
        return answer

    async def close(self) -> None:
        """Close every connection, including those of running calls."""
        self._closed = True
        if self._sweeping is not None:
            self._sweeping.cancel()
        gone = [link.gone for link in self._links]
        for link in tuple(self._links):
            link.end()
        if gone:
            await asyncio.wait(gone, timeout=_CLOSE_SECONDS)

    def _beginning(self, reply: Reply) -> bytes:
        """The beginning of an error page; empty if it cannot be read."""
        encoding = _encoding(reply)
        if not encoding:
            return reply.body
        if not (self._rules.gzip and encoding in _COMPRESSED):
            return b""
        try:
            return _unpacked(reply.body, MAX_ERROR_BYTES)[:MAX_ERROR_BYTES]
        except ModelMisbehaved:
            return b""

    async def _ask(self, request: bytes, most: MostBytes) -> Reply:
        """Send the request and return the reply.

        A server may close an idle connection at the very moment of its next use. A request that was
        lost in this way is sent a second time, over a new connection, if the rules allow it.
        """
        async with self._places:
            link = self._idle()
            if link is None:
                link = await self._new()
                reply = await link.ask(request, most)
            else:
                try:
                    reply = await link.ask(request, most)
                except OSError:
                    if link.heard or not self._rules.resends:
                        raise
                    link = await self._new()
                    reply = await link.ask(request, most)
            if reply.reusable:
                self._keep(link)
            return reply

    def _idle(self) -> HttpConnection | None:
        """The most recently used idle connection."""
        while self._free:
            link = self._free.pop()
            if link.usable:
                return link
        return None

    def _keep(self, link: HttpConnection) -> None:
        loop = asyncio.get_running_loop()
        link.free_since = loop.time()
        self._free.append(link)
        if self._sweeping is None:
            self._sweeping = loop.call_later(_KEEP_SECONDS, self._sweep)

    def _sweep(self) -> None:
        """Close connections that were unused for long, the least recently used ones."""
        loop = asyncio.get_running_loop()
        while self._free and self._free[0].free_since + _KEEP_SECONDS <= loop.time():
            self._free.pop(0).end()
        self._sweeping = None
        if self._free:
            due = self._free[0].free_since + _KEEP_SECONDS
            self._sweeping = loop.call_at(due, self._sweep)

    async def _new(self) -> HttpConnection:
        """A new connection to the server, through the proxy if there is one.

        Raises:
            ModelUnavailable: It could not be made in time, or this process is ending.
            OSError: It could not be made.
        """
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                secure = self._hop.scheme == "https"
                link = await connected(self._hop, tls=self._tls if secure else None)
                self._links.add(link)
                link.gone.add_done_callback(lambda _: self._links.discard(link))
                try:
                    if self._proxy is not None and self._root.scheme == "https":
                        await self._tunnel(link, self._proxy)
                    if self._closed:
                        raise ModelUnavailable(
                            "the connection to the model server is closed: "
                            "this process is shutting down"
                        )
                except BaseException:
                    link.end()
                    raise
        except TimeoutError:
            raise ModelUnavailable("the model server could not be reached in time") from None
        return link

    async def _tunnel(self, link: HttpConnection, proxy: URL) -> None:
        """Let the proxy connect `link` to the server, and start TLS with that server."""
        assert self._tls is not None
        assert self._root.raw_host is not None
        target = f"{self._root.host_subcomponent}:{self._root.port}"
        request = _head("CONNECT", target, {"Host": target, **_for_the_proxy(proxy)}) + b"\r\n"
        reply = await link.ask(request, lambda _: MAX_ERROR_BYTES, tunnel=True)
        if not _successful(reply.status) or not reply.reusable:
            raise ProxyRefused
        await link.secured(self._tls, self._root.raw_host)

    def _head(self, path: str) -> bytes:
        """The beginning of every request to a path, up to the length of its body."""
        whole = self._root.raw_path.rstrip("/") + path
        url = self._root.with_path(whole, encoded=True).with_query(self._root.query)
        headers = {"Host": url.host_port_subcomponent or "", **self._headers}
        if self._proxy is None or url.scheme == "https":
            target = url.raw_path_qs
        else:
            target = str(url)
            headers |= _for_the_proxy(self._proxy)
        return _head("POST", target, headers) + b"Content-Length: "


def _head(method: str, target: str, headers: Mapping[str, str]) -> bytes:
    lines = [
        f"{method} {target} HTTP/1.1",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return "".join(f"{line}\r\n" for line in lines).encode("latin-1")


def _for_the_proxy(proxy: URL) -> dict[str, str]:
    """The user and the password in a proxy's address, if any."""
    pair = _pair(proxy)
    return {} if pair is None else {"Proxy-Authorization": pair}


def _pair(url: URL) -> str | None:
    if url.user is None and url.password is None:
        return None
    pair = f"{url.user or ''}:{url.password or ''}"
    return "Basic " + b64encode(pair.encode()).decode("ascii")


def _sendable(variable: str) -> str:
    """The value of an environment variable for a header, empty if it is not set.

    Raises:
        ValueError: It cannot be sent; the message names the variable.
    """
    value = os.environ.get(variable, "")
    if not (value.isascii() and (value.isprintable() or not value)):
        raise ValueError(f"{variable} contains invalid characters: copy it again")
    return value


def _tls() -> ssl.SSLContext:
    """Trust the same authorities as the openai client."""
    import httpx2  # noqa: PLC0415 - a local server without TLS needs none of it

    context = httpx2.create_ssl_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


def _successful(status: int) -> bool:
    return 200 <= status < 300


def _encoding(reply: Reply) -> str:
    """The encoding of a body, empty if it is sent as it is."""
    encoding = reply.headers.get("content-encoding", "").strip().lower()
    return "" if encoding == "identity" else encoding


def _work_of(content: bytes) -> int:
    """The work of parsing JSON, in characters read (`beside_loop`): strings are read fast."""
    return len(content) // _LETTERS_OF_A_STRING + _WORK_OF_A_VALUE * content.count(b",")


def _unpacked(body: bytes, most: int) -> bytes:
    """At least the first `most` bytes of a compressed body, and one more if there are more.

    Raises:
        ModelMisbehaved: It is not compressed in this way.
    """
    try:
        return zlib.decompressobj(_GZIP_OR_ZLIB).decompress(body, most + 1)
    except zlib.error:
        raise ModelMisbehaved("the model server's reply is not the gzip it claims to be") from None
