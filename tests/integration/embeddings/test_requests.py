"""What the embedder's own way to its server sends, and what it leaves behind."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

from hitherto_shared.embeddings.openai_api import OpenAIEmbedder
from hitherto_shared.model_server import ModelServer
from tests.integration.embeddings.raw_server import DIMENSIONS, KEY, RawServer, answer, embedding
from tests.scripted_model import ScriptedModel, text_vector


async def test_the_request_says_what_it_wants_and_who_asks() -> None:
    async with RawServer(answer) as server, embedding(server.url) as embedder:
        batch = await embedder.embed(["cà phê sữa đá 🎉"])

    request = server.requests[0]
    assert (request.method, request.path) == ("POST", "/v1/embeddings")
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.headers["content-type"] == "application/json"
    assert request.headers["accept-encoding"] == "identity"
    assert request.headers["user-agent"] == "hitherto"
    assert request.headers["host"] == f"127.0.0.1:{server.port}"
    assert json.loads(request.body)["input"] == ["cà phê sữa đá 🎉"]
    assert "cà phê sữa đá 🎉".encode() in request.body, "not escaped: smaller and cheaper"
    assert np.allclose(batch.vectors[0], text_vector("cà phê sữa đá 🎉", DIMENSIONS), atol=1e-6)


async def test_organisation_and_project_come_from_the_environment_as_for_chat(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "org-1")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-1")
    async with RawServer(answer) as server, embedding(server.url) as embedder:
        await embedder.embed(["a"])

    headers = server.requests[0].headers
    assert (headers["openai-organization"], headers["openai-project"]) == ("org-1", "proj-1")


@pytest.mark.parametrize("tail", ["/v1", "/v1/", "/v1#part"])
async def test_the_address_may_end_in_a_slash(tail: str) -> None:
    async with (
        RawServer(answer) as server,
        embedding(f"http://127.0.0.1:{server.port}{tail}") as embedder,
    ):
        await embedder.embed(["a"])

    assert server.requests[0].path == "/v1/embeddings"


@pytest.mark.parametrize("url", ["http://[::1", "http://h:99999/v1", "http://:80/v1", "http://@/"])
def test_an_address_that_is_none_names_the_variable(url: str) -> None:
    with pytest.raises(ValueError, match="OPENAI_BASE_URL"):
        OpenAIEmbedder("m", DIMENSIONS, server=ModelServer(url))


async def test_an_embedder_that_was_never_asked_closes_quietly(server: ScriptedModel) -> None:
    async with embedding(server.base_url):
        pass

    assert not server.calls


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
