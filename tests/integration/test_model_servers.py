"""docs/model-servers.md, section by section: its settings work with a server that differs so.

Each section has an emulation here; its block of settings is run as it stands, with the addresses
replaced by the emulation's.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from aiohttp import web

from hitherto_extraction.config import ExtractionSettings
from hitherto_extraction.pipeline.embedding_loop import embed
from hitherto_extraction.pipeline.model_call import TooMuch, ask
from hitherto_extraction.pipeline.prompt import HARMLESS, build_prompt
from hitherto_extraction.prices import load_prices
from hitherto_extraction.provider.guarded import GuardedChatModel, GuardedEmbedder
from hitherto_extraction.provider.openai_chat import OpenAIChatModel
from hitherto_extraction.provider.protocol import Batch, Prompt, PromptMessage
from hitherto_shared.circuit_breaker import CircuitBreaker
from hitherto_shared.embeddings.factory import configured_embedder
from tests.scripted_model import text_vector

PAGE = Path(__file__).resolve().parents[2] / "docs" / "model-servers.md"
GENERAL = {"Other servers"}
TEXTS = [f"The user owns boat number {n}" for n in range(130)]

Reply = tuple[int, Any]
Serve = Callable[["Asked"], Reply]


class Asked:
    """A request to an emulation."""

    def __init__(self, request: web.Request, body: dict[str, Any]) -> None:
        self.path = request.path
        self.query = request.query
        self.headers = request.headers
        self.body = body

    @property
    def bearer(self) -> str:
        return self.headers.get("Authorization", "").removeprefix("Bearer ")

    @property
    def format(self) -> str:
        return str(self.body.get("response_format", ""))

    @property
    def words(self) -> int:
        return sum(len(m["content"].split()) for m in self.body.get("messages", ()))


def refused(status: int, message: str, **more: Any) -> Reply:
    return status, {"error": {"message": message, **more}}


def answered(asked: Asked, wrap: str = "{}", **changes: Any) -> Reply:
    """A completion with one memory, in some wrapper."""
    item = {
        "type": "fact",
        "content": "The user owns a canoe",
        "source_message_ids": ["m1"],
        "quote": "canoe",
    }
    content = wrap.replace("{}", json.dumps({"new_memories": [item]}))
    message = {"role": "assistant", "content": content, **changes.pop("message", {})}
    choice = {"index": 0, "message": message, "finish_reason": "stop", **changes.pop("choice", {})}
    usage = {"prompt_tokens": 2 * asked.words, "completion_tokens": 20}
    return 200, {"model": asked.body["model"], "choices": [choice], "usage": usage, **changes}


def embedded(asked: Asked, size: int, *, index: Callable[[int], Any] = lambda n: n) -> Reply:
    """Vectors as numbers, which every client must read."""
    data = []
    for n, text in enumerate(asked.body["input"]):
        item = {"embedding": [float(x) for x in text_vector(text, size)], "index": index(n)}
        data.append({key: value for key, value in item.items() if value is not None})
    return 200, {"data": data, "model": asked.body["model"], "usage": {"prompt_tokens": 9}}


def openai(asked: Asked) -> Reply:
    if not asked.bearer.startswith("sk-"):
        return refused(401, "Incorrect API key provided", code="invalid_api_key")
    if asked.path == "/v1/chat/completions" and asked.body["model"] == "gpt-4o-mini":
        return answered(asked, model="gpt-4o-mini-2024-07-18")
    if asked.path == "/v1/embeddings" and asked.body["model"] == "text-embedding-3-small":
        return embedded(asked, asked.body["dimensions"])
    return refused(404, "The model does not exist")


def azure(asked: Asked) -> Reply:
    if not asked.headers.get("api-key") or "Authorization" in asked.headers:
        return refused(401, "Access denied due to missing subscription key")
    if asked.query.get("api-version") != "2024-10-21":
        return refused(404, "Resource not found")
    if asked.path == "/openai/deployments/my-chat-deployment/chat/completions":
        return answered(asked, model="gpt-4o-mini-2024-07-18")
    if asked.path == "/openai/deployments/my-embedding-deployment/embeddings":
        return embedded(asked, 1536)
    return refused(404, "The API deployment for this resource does not exist")


def azure_v1(asked: Asked) -> Reply:
    if not asked.bearer:
        return refused(401, "Access denied")
    if asked.path == "/openai/v1/chat/completions":
        return answered(asked, model="gpt-4o-mini-2024-07-18")
    return embedded(asked, 1536) if asked.path == "/openai/v1/embeddings" else refused(404, "no")


def gemini(asked: Asked) -> Reply:
    if asked.path == "/v1beta/openai/embeddings":
        if len(asked.body["input"]) > 100:
            return refused(400, "at most 100 requests can be in one batch")
        size = asked.body.get("dimensions", 3072)
        return embedded(asked, size, index=lambda n: n or None)
    if asked.path != "/v1beta/openai/chat/completions":
        return refused(404, "")
    assert asked.body["reasoning_effort"] == "none"
    if "maxLength" in asked.format:
        return refused(
            400, "The specified schema produces a constraint that has too many states for serving"
        )
    return answered(asked, choice={"finish_reason": "STOP"})


def openrouter(asked: Asked) -> Reply:
    assert asked.body["model"].startswith("openai/")
    if asked.path == "/api/v1/embeddings":
        return embedded(asked, 1536)
    # It keeps the connection open with white space, and reasons in the content.
    status, body = answered(asked, "<think>A canoe?</think>\n{}")
    return status, b"\n\n   \n" + json.dumps(body).encode()


def vllm_chat(asked: Asked) -> Reply:
    assert asked.body["chat_template_kwargs"] == {"enable_thinking": False}
    return answered(asked, message={"reasoning_content": "They own a canoe."})


def vllm_embedder(asked: Asked) -> Reply:
    if "dimensions" in asked.body:
        return refused(400, "Model does not support matryoshka representation")
    return embedded(asked, 1024)


def ollama(asked: Asked) -> Reply:
    if asked.path == "/v1/embeddings":
        if any("poison" in text for text in asked.body["input"]):
            return refused(500, "failed to encode response: json: unsupported value: NaN")
        return embedded(asked, 1024)
    tokens = min(2 * asked.words, 4096)
    usage = {"prompt_tokens": tokens, "completion_tokens": 9}
    return answered(asked, message={"reasoning": "Hm."}, usage=usage)


def lm_studio(asked: Asked) -> Reply:
    if asked.path == "/v1/embeddings":
        return embedded(asked, 768)
    if "json_object" in asked.format:
        return refused(400, "'response_format.type' must be 'json_schema' or 'text'")
    if asked.words > 2_000:
        return refused(
            400, "Trying to keep the first 4500 tokens when context the overflows. However, the "
            "model is loaded with context length of only 4096 tokens"
        )  # fmt: skip
    return answered(asked)


def llama_chat(asked: Asked) -> Reply:
    if "maxLength" in asked.format:
        return refused(500, "failed to initialize samplers: number of repetitions exceeds limits")
    return answered(asked, "{}<|im_end|>")


def llama_embedder(asked: Asked) -> Reply:
    if max(map(len, asked.body["input"])) > 2_000:
        return refused(
            500, "input is too large to process. increase the physical batch size",
            type="server_error",
        )  # fmt: skip
    return embedded(asked, 1024)


def deepseek(asked: Asked) -> Reply:
    if asked.path != "/chat/completions":
        return refused(404, "")
    if "json_schema" in asked.format:
        return refused(400, "This response_format type is unavailable now")
    return answered(asked)


def groq(asked: Asked) -> Reply:
    assert asked.path == "/openai/v1/chat/completions"
    if "json_schema" in asked.format:
        return refused(400, "This model does not support response format `json_schema`")
    if asked.words > 2_000:
        return refused(413, "Request too large for model on tokens per minute (TPM)")
    return answered(asked)


def anthropic(asked: Asked) -> Reply:
    assert asked.path == "/v1/chat/completions"
    if asked.words > 2_000:
        return refused(400, "prompt is too long: 210000 tokens > 200000 maximum")
    return answered(asked, "Here is what I found:\n\n```json\n{}\n```\nLet me know!")


SERVERS: Mapping[str, Mapping[str, Serve]] = {
    "OpenAI": {"": openai},
    "Azure OpenAI, with deployments": {"https://my-resource.openai.azure.com": azure},
    "Azure OpenAI, newer API": {"https://my-resource.openai.azure.com": azure_v1},
    "Gemini": {"https://generativelanguage.googleapis.com": gemini},
    "OpenRouter": {"https://openrouter.ai": openrouter},
    "vLLM": {"http://127.0.0.1:8000": vllm_chat, "http://127.0.0.1:8001": vllm_embedder},
    "Ollama": {"http://127.0.0.1:11434": ollama},
    "LM Studio": {"http://127.0.0.1:1234": lm_studio},
    "llama.cpp": {"http://127.0.0.1:8080": llama_chat, "http://127.0.0.1:8081": llama_embedder},
    "DeepSeek": {"https://api.deepseek.com": deepseek},
    "Groq": {"https://api.groq.com": groq},
    "Anthropic": {"https://api.anthropic.com": anthropic},
}
"""The emulations of each section, by the addresses that its settings name."""

TOO_LONG = {"Ollama", "LM Studio", "Groq", "Anthropic"}


def sections() -> dict[str, str]:
    """The block of settings of each section."""
    found = {}
    for section in PAGE.read_text("utf-8").split("\n## ")[1:]:
        title, _, text = section.partition("\n")
        block = re.search(r"```\n(.*?)```", text, re.DOTALL)
        found[title] = block[1] if block else ""
    return found


def test_every_section_has_its_server() -> None:
    titles = set(sections())

    assert titles - GENERAL == set(SERVERS)


@asynccontextmanager
async def emulation(serve: Serve) -> AsyncIterator[str]:
    async def handle(request: web.Request) -> web.Response:
        status, body = serve(Asked(request, await request.json()))
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return web.Response(status=status, body=content, content_type="application/json")

    app = web.Application(client_max_size=2**26)
    app.router.add_post("/{path:.*}", handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def installation(
    title: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[ExtractionSettings]:
    """The settings of a section, with the emulation's addresses."""
    lines = shlex.split(sections()[title])
    variables = dict(word.split("=", 1) for word in lines if "=" in word)
    async with AsyncExitStack() as stack:
        for address, serve in SERVERS[title].items():
            own = await stack.enter_async_context(emulation(serve))
            if not address:
                monkeypatch.setattr("hitherto_shared.model_server.DEFAULT_BASE_URL", f"{own}/v1")
            for name, value in variables.items():
                if address and value.startswith(address):
                    variables[name] = own + value.removeprefix(address)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        yield ExtractionSettings()


def prompt(lines: int = 1, words: int = 1) -> Prompt:
    said = [
        PromptMessage(f"m{n}", "user", "", "I own a canoe. " + "And so on. " * words, moment)
        for n in range(1, lines + 1)
        for moment in (HARMLESS.messages[0].created_at,)
    ]
    batch = Batch(profile={}, summary=None, memories=(), messages=said)
    return build_prompt(batch)


@pytest.mark.parametrize("title", SERVERS)
async def test_the_settings_of_a_section_learn_and_embed(
    title: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with installation(title, monkeypatch) as settings:
        chat = GuardedChatModel(
            OpenAIChatModel(
                model=settings.extraction_model, server=settings.chat_server, timeout=30
            ),
            CircuitBreaker("the language model"),
            prompt(),
        )
        embedder = GuardedEmbedder(configured_embedder(settings), CircuitBreaker("the embedder"))
        try:
            for attempt in range(2):
                try:
                    reply = await ask(chat, prompt())
                    break
                except Exception:
                    # A server that fails with 500 on the schema is told from an outage by twice.
                    assert title == "llama.cpp"
                    assert attempt == 0
            assert [item.content for item in reply.answer.new] == ["The user owns a canoe"]
            if title in TOO_LONG:
                with pytest.raises(TooMuch):
                    await ask(chat, prompt(lines=4, words=700))
            made = await embed(embedder, {text: (text,) for text in TEXTS})
            assert not made.refused
            if not embedder.offline:
                size = embedder.dimensions
                for text in (TEXTS[0], TEXTS[1], TEXTS[-1]):
                    assert np.allclose(made.vectors[text][0], text_vector(text, size), atol=1e-5)
        finally:
            await chat.close()
            await embedder.close()


async def test_the_price_of_openrouter_is_that_of_the_vendor() -> None:
    assert load_prices(None).cost("openai/gpt-4o-mini", input_tokens=10**6) > 0


@pytest.mark.parametrize("title", ["Ollama", "llama.cpp"])
async def test_a_text_that_the_embedder_fails_on_costs_the_others_nothing(
    title: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = "The user repaired a boat. " * 150
    texts = ["poison", *TEXTS[:20], long]
    async with installation(title, monkeypatch) as settings:
        breaker = CircuitBreaker("the embedder")
        embedder = GuardedEmbedder(configured_embedder(settings), breaker)
        try:
            made = await embed(embedder, {text: (text,) for text in texts})
        finally:
            await embedder.close()
    assert made.refused == (["poison"] if title == "Ollama" else [])
    assert set(made.vectors) == set(texts) - set(made.refused)
    assert not breaker.is_open()
