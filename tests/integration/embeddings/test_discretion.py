"""What is left behind or shown: no warning, no key, no text of a user."""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
import ssl
import subprocess
import sys
import traceback
import warnings
from collections.abc import Callable, Coroutine
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import uvloop

from hitherto_shared.model_api import ModelError, ModelUnavailable
from tests.integration.embeddings.raw_server import (
    BOUND,
    KEY,
    PASSWORD,
    USER_TEXT,
    RawServer,
    answer,
    embedding,
)
from tests.scripted_model import (
    Fault,
    Hang,
    RawReply,
    Reset,
    ScriptedModel,
    StatusFault,
)


async def _one_call_each_way(tls: ssl.SSLContext) -> None:
    for context in (None, tls):
        async with RawServer(answer, context) as server, embedding(server.url) as embedder:
            await asyncio.gather(*(embedder.embed(["a"]) for _ in range(5)))


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_closing_leaves_nothing_behind(
    run: Callable[[Coroutine[Any, Any, None]], None],
    certificate: Path,
    tls: ssl.SSLContext,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    gc.collect()

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        run(_one_call_each_way(tls))
        gc.collect()

    assert [str(warning.message) for warning in seen] == []


async def test_an_embedder_that_was_never_asked_closes_quietly(server: ScriptedModel) -> None:
    async with embedding(server.base_url):
        pass

    assert not server.calls


FAULTS: list[Fault] = [
    StatusFault(401, code=KEY, message=f"bad: {USER_TEXT} {KEY}"),
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
    server: ScriptedModel,
    fault: Fault,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caplog.set_level(logging.DEBUG)
    url = server.base_url.replace("127.0.0.1", f"someone:{PASSWORD}@127.0.0.1")
    server.always(fault, endpoint="embeddings")
    for address in (server.base_url, url):
        async with embedding(address) as embedder:
            with pytest.raises(ModelError) as caught:
                await embedder.embed([USER_TEXT], timeout=0.5 if fault == Hang() else BOUND)

        shown = "".join(traceback.format_exception(caught.value)) + caplog.text
        assert caught.value.__suppress_context__ or caught.value.__context__ is None
        for secret in (USER_TEXT, KEY, PASSWORD):
            assert secret not in shown


@pytest.mark.parametrize("host", ["127.0.0.1", "models.invalid", "a" * 70])
async def test_who_cannot_be_reached_is_told_without_the_address(host: str) -> None:
    with closing(socket.socket()) as reserved:
        # Bound and not listening: connecting is refused, and nobody else can take the port.
        reserved.bind(("127.0.0.1", 0))
        address = f"http://someone:{PASSWORD}@{host}:{reserved.getsockname()[1]}/v1"
        async with embedding(address) as embedder:
            with pytest.raises(ModelUnavailable, match=r"failed \(\w+\); check OPENAI") as caught:
                await embedder.embed(["a"])

    shown = "".join(traceback.format_exception(caught.value))
    assert PASSWORD not in shown
    assert host not in shown


def test_the_openai_client_is_not_loaded_for_embeddings() -> None:
    program = (
        "import sys\n"
        "from hitherto_shared.embeddings.openai_api import OpenAIEmbedder\n"
        "from hitherto_shared.model_server import ModelServer\n"
        "OpenAIEmbedder('m', 8, server=ModelServer('http://127.0.0.1:1/v1'))\n"
        "print('openai' in sys.modules)\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )

    assert done.stdout.strip() == "False", done.stderr
