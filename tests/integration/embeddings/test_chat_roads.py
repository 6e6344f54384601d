"""The chat client takes the same roads as the embedder's, shows as little, and ends as quietly."""

from __future__ import annotations

import asyncio
import base64
import gc
import json
import logging
import ssl
import traceback
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hitherto_extraction.pipeline.prompt import HARMLESS, build_prompt
from hitherto_extraction.provider.openai_chat import OpenAIChatModel
from hitherto_shared.model_api import ModelError, ModelUnavailable
from hitherto_shared.model_server import ModelServer
from tests.integration.embeddings.raw_server import BOUND, KEY, PASSWORD, USER_TEXT, RawServer
from tests.scripted_model import (
    ChatAnswer,
    Fault,
    Hang,
    RawReply,
    Reset,
    ScriptedModel,
    StatusFault,
    http,
)

PROMPT = build_prompt(HARMLESS, temperature=0.3, max_tokens=300)
RIGHT = json.dumps(ChatAnswer.of(new_memories=[]).body("m")).encode()


async def answer(
    _: http.Request, __: asyncio.StreamReader, writer: asyncio.StreamWriter, ___: int
) -> None:
    cookie = {"Set-Cookie": "a=b; Path=/"}
    writer.write(http.reply(200, RIGHT, content_type="application/json", headers=cookie))


@asynccontextmanager
async def chatting(url: str, **more: Any) -> AsyncIterator[OpenAIChatModel]:
    timeout = more.pop("timeout", BOUND)
    model = OpenAIChatModel(model="m", server=ModelServer(url, KEY, **more), timeout=timeout)
    try:
        yield model
    finally:
        await model.close()


async def test_a_request_says_who_asks_and_keeps_no_cookie() -> None:
    async with RawServer(answer) as server:
        url = server.url.replace("127.0.0.1", "localhost")
        async with chatting(url, headers={"X-A": "b"}, extra={"reasoning_effort": "low"}) as chat:
            for _ in range(2):
                await chat.complete(PROMPT)

    first, second = server.requests
    assert first.path == "/v1/chat/completions"
    assert first.headers["authorization"] == f"Bearer {KEY}"
    assert first.headers["x-a"] == "b"
    assert json.loads(first.body)["reasoning_effort"] == "low"
    assert "cookie" not in second.headers
    assert server.connections == 1


async def test_a_user_and_password_in_the_address_are_sent_in_place_of_the_key() -> None:
    async with RawServer(answer) as server:
        url = server.url.replace("127.0.0.1", f"some%20one:{PASSWORD}@127.0.0.1")
        async with chatting(url) as chat:
            await chat.complete(PROMPT)

    expected = base64.b64encode(f"some one:{PASSWORD}".encode()).decode()
    assert server.requests[0].headers["authorization"] == f"Basic {expected}"


async def test_the_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async with RawServer(answer) as proxy:
        monkeypatch.setenv("HTTP_PROXY", f"http://someone:{PASSWORD}@127.0.0.1:{proxy.port}")
        async with chatting("http://models.invalid/v1") as chat:
            await chat.complete(PROMPT)

    expected = base64.b64encode(f"someone:{PASSWORD}".encode()).decode()
    (request,) = proxy.requests
    assert request.path == "http://models.invalid/v1/chat/completions"
    assert request.headers["proxy-authorization"] == f"Basic {expected}"


async def test_no_proxy_goes_past_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.invalid:1")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    async with RawServer(answer) as server, chatting(server.url) as chat:
        assert (await chat.complete(PROMPT)).calls == 1


async def test_tls_trusts_the_authority_that_the_environment_names(
    certificate: Path, tls: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    async with RawServer(answer, tls) as server, chatting(server.url) as chat:
        assert (await chat.complete(PROMPT)).calls == 1


async def test_tls_with_a_stranger_is_an_outage_and_sends_nothing(tls: ssl.SSLContext) -> None:
    async with RawServer(answer, tls) as server, chatting(server.url) as chat:
        with pytest.raises(ModelUnavailable, match="check OPENAI_BASE_URL"):
            await chat.complete(PROMPT)
        assert server.requests == []


FAULTS: list[Fault] = [
    StatusFault(401, code=KEY, message=f"bad: {USER_TEXT} {KEY}"),
    StatusFault(400, message=f"bad: {USER_TEXT} {KEY}"),
    StatusFault(500, body=f"{USER_TEXT} {KEY}".encode()),
    StatusFault(302, headers={"Location": f"http://{PASSWORD}/"}),
    StatusFault(429, headers={"X-Echo": f"Bearer {KEY}"}),
    RawReply(f"{USER_TEXT} {KEY}".encode()),
    RawReply.huge(announce_length=True),
    Reset(),
    Reset(after=150),
    Hang(),
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: type(fault).__name__)
async def test_neither_keys_nor_texts_are_ever_shown(
    fault: Fault, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    asked = replace(PROMPT, user=USER_TEXT)
    async with ScriptedModel() as server:
        server.always(fault)
        url = server.base_url.replace("127.0.0.1", f"someone:{PASSWORD}@127.0.0.1")
        for address in (server.base_url, url):
            patience = 0.5 if fault == Hang() else BOUND
            async with chatting(address, timeout=patience) as chat:
                with pytest.raises(ModelError) as caught:
                    await chat.complete(asked)
            shown = "".join(traceback.format_exception(caught.value)) + caplog.text
            for secret in (USER_TEXT, KEY, PASSWORD):
                assert secret not in shown


async def test_an_endless_error_page_is_not_read_to_its_end() -> None:
    sent = 0

    async def endless(
        _: http.Request, __: asyncio.StreamReader, writer: asyncio.StreamWriter, ___: int
    ) -> None:
        nonlocal sent
        writer.write(http.head(500, {"Transfer-Encoding": "chunked"}))
        while True:
            writer.write(b"10000\r\n" + b" " * 0x10000 + b"\r\n")
            await writer.drain()
            sent += 0x10000

    async with RawServer(endless) as server, chatting(server.url) as chat:
        with pytest.raises(ModelUnavailable, match="answered 500"):
            await chat.complete(PROMPT)
    assert sent < 32 * 2**20


async def test_a_closed_client_reaches_nobody() -> None:
    async with RawServer(answer) as server, chatting(server.url) as chat:
        await chat.close()
        with pytest.raises(ModelUnavailable, match="closed"):
            await chat.complete(PROMPT)
    assert server.requests == []


def test_closing_leaves_nothing_behind() -> None:
    async def once() -> None:
        async with RawServer(answer) as server, chatting(server.url) as chat:
            await chat.complete(PROMPT)

    gc.collect()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        asyncio.run(once())
        gc.collect()
    assert [str(warning.message) for warning in seen] == []
