"""Calls of LiteLLM with our memory, in an environment with nothing but both packages.

tests/e2e/test_frameworks.py runs it, with a scripted model and real services, and looks at what
the model was told and what is kept.
"""

from __future__ import annotations

import asyncio
import gc
import os
import time
from typing import Any

# Without it, importing the package downloads a list of prices.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import litellm

from hitherto_client import AsyncHitherto, Hitherto
from hitherto_client.integrations.litellm import remembering

MODEL = "openai/scripted"
TIMEOUT = 60.0


def said(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def words(chunks: list[Any]) -> str:
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks)


def functions_remember(memory: Hitherto) -> None:
    """Positional arguments, tools, a repeated call, and streams, whole and closed."""
    how: dict[str, Any] = {"memory": memory, "user": "ana", "timeout": TIMEOUT, "tools": True}
    llm = remembering(litellm, conversation="monday", **how)
    llm = remembering(llm, conversation="monday", **how)
    for _ in range(2):
        reply = llm.completion(MODEL, [said("Tôi sống ở Đà Nẵng 🏖️")])
    assert reply.choices[0].message.content == "You said: Tôi sống ở Đà Nẵng 🏖️"
    history = [said("Tôi sống ở Đà Nẵng 🏖️"), reply.choices[0].message, said("Log me in.")]
    called = llm.completion(model=MODEL, messages=history).choices[0].message
    token = {"role": "tool", "tool_call_id": called.tool_calls[0].id, "content": "token 4711"}
    llm.completion(model=MODEL, messages=[*history, called, token])

    asked = [{"role": "system", "content": "Be brief."}, said("Tôi sống ở đâu?")]
    llm = remembering(litellm, conversation="tuesday", **how)
    stream = llm.completion(model=MODEL, messages=asked, stream=True)
    assert isinstance(stream, litellm.CustomStreamWrapper)
    assert words(list(stream)) == "You said: Tôi sống ở đâu?"
    for conversation in ("closed", "dropped"):
        llm = remembering(litellm, conversation=conversation, **how)
        stream = llm.completion(model=MODEL, messages=[said("Count!")], stream=True)
        for chunk in stream:
            if words([chunk]):
                break
        if conversation == "closed":
            stream.close()
        del stream
        gc.collect()
    assert llm.get_llm_provider(MODEL)[1] == "openai"
    # What a dropped stream leaves is added without anybody waiting for it.
    end = time.monotonic() + 120
    while not list(memory.messages("ana", "dropped")) and time.monotonic() < end:
        time.sleep(0.05)


async def a_router_remembers(memory: AsyncHitherto) -> None:
    """`acompletion` of a Router, whole and as streams."""
    router = litellm.Router([{"model_name": "any", "litellm_params": {"model": MODEL}}])
    how: dict[str, Any] = {"memory": memory, "user": "bea", "timeout": TIMEOUT}
    llm = remembering(router, conversation="monday", **how)
    await llm.acompletion("any", [said("I live in Porto.")])
    llm = remembering(router, conversation="tuesday", **how)
    stream = await llm.acompletion("any", [said("Where do I live?")], stream=True)
    assert words([chunk async for chunk in stream]) == "You said: Where do I live?"
    for conversation in ("closed", "dropped"):
        llm = remembering(router, conversation=conversation, **how)
        stream = await llm.acompletion("any", [said("Count!")], stream=True)
        async for chunk in stream:
            if words([chunk]):
                break
        if conversation == "closed":
            await stream.aclose()
        del stream
        gc.collect()
    assert llm.get_model_list()[0]["model_name"] == "any"
    try:
        llm.completion("any", [said("Hello!")])
    except TypeError as error:
        refusal = str(error)
    assert refusal == "completion remembers with a client of class Hitherto"
    end = time.monotonic() + 120
    while not [one async for one in memory.messages("bea", "dropped")]:
        assert time.monotonic() < end
        await asyncio.sleep(0.05)


def without_memory() -> None:
    """On a port of 127.0.0.1 on which nobody listens."""
    with Hitherto("127.0.0.1:1", "127.0.0.1:1") as nowhere:
        llm = remembering(litellm, memory=nowhere, user="ana", timeout=1)
        reply = llm.completion(model=MODEL, messages=[said("Hello!")])
        assert reply.choices[0].message.content == "You said: Hello!"


async def main() -> None:
    with Hitherto(timeout=120) as memory:
        functions_remember(memory)
    async with AsyncHitherto(timeout=120) as memory_too:
        await a_router_remembers(memory_too)
    without_memory()


asyncio.run(main())
