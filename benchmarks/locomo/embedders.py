"""Which embedders can be measured here, and how the services are told to use them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from hitherto_shared.config import SharedSettings
from hitherto_shared.embeddings.openai_api import OpenAIEmbedder
from hitherto_shared.embeddings.protocol import Vector
from hitherto_shared.model_api import ModelError
from tests.scripted_model import ScriptedModel, StatusFault, facts_script

KINDS = ("offline", "onnx", "openai")


def available(environment: Mapping[str, str]) -> list[str]:
    """The kinds of embedder that the environment has what they need for, cheapest first."""
    found = ["offline"]
    if environment.get("HITHERTO_ONNX_MODEL_DIR"):
        found.append("onnx")
    reachable = environment.get("OPENAI_BASE_URL") or environment.get("OPENAI_API_KEY")
    if environment.get("EMBEDDING_MODEL") and reachable:
        found.append("openai")
    return found


@asynccontextmanager
async def model_for(
    kind: str, sessions: Sequence[Mapping[str, Any]]
) -> AsyncIterator[Mapping[str, Any]]:
    """A language model that knows the facts of the sessions, beside an embedder of this kind.

    Yields the settings by which the services use both.

    The services know one model server for both. For `openai` it therefore passes texts to be
    embedded on to the server that the environment names.

    Raises:
        ValueError: The environment lacks something; the message names the variable.
    """
    settings: dict[str, Any] = {"extractor": "openai", "embedder": kind}
    if kind != "openai":
        # What is set for another embedder must not be held against this one.
        settings["embedding_dimensions"] = None
        async with ScriptedModel(facts_script(sessions)) as model:
            yield {**settings, "openai_base_url": model.base_url}
        return
    given = SharedSettings()
    embedder = OpenAIEmbedder(
        given.embedding_model,
        given.embedding_dimensions,
        base_url=given.openai_base_url,
        api_key=given.api_key,
    )

    async def embed(texts: list[str]) -> list[Vector] | StatusFault:
        try:
            return list((await embedder.embed(texts)).vectors)
        except ModelError as error:
            return StatusFault(503, message=str(error))

    try:
        async with ScriptedModel(facts_script(sessions), embed=embed) as model:
            yield {**settings, "openai_base_url": model.base_url}
    finally:
        await embedder.close()
