"""Embeddings from the OpenAI API or a server that speaks it."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite, sqrt
from time import monotonic
from typing import Any

import numpy as np
from pydantic import ConfigDict, TypeAdapter

from hitherto_shared import metrics
from hitherto_shared.embeddings.protocol import EmbeddingBatch, Vector
from hitherto_shared.model_api import ModelMisbehaved, used_tokens
from hitherto_shared.model_server import RequestRejected
from hitherto_shared.openai_client import CallRules, OpenAIServer

DEFAULT_TIMEOUT = 30.0

# Limits of the API for one call.
MAX_INPUTS = 2048
MAX_TOKENS = 300_000
# No tokeniser produces more tokens than bytes, and one input may have 8,192 tokens: a longer text
# is cut here, because otherwise its whole call would be refused. A memory's content always fits.
MAX_TEXT_BYTES = 8192
# The API refuses an empty input, and local servers fail on one that is only white space.
_BLANK = "(empty)"

# Cosine above which two memories may be one statement. 0.85 for text-embedding-3-small comes from
# this project's requirements. ada-002 puts unrelated texts at 0.7 and above, hence the higher
# value. The others were not measured and get 0.85 as a guess; HITHERTO_DEDUPE_THRESHOLD overrides.
DEFAULT_THRESHOLD = 0.85
_THRESHOLDS = {"text-embedding-3-small": 0.85, "text-embedding-ada-002": 0.93}

_NATIVE_DIMENSIONS = {
    "text-embedding-3-small": 1536,
    "text-embedding-3-large": 3072,
    "text-embedding-ada-002": 1536,
}
_SHORTENABLE = "text-embedding-3"
# JSON of one number takes at most 26 bytes; a reply beyond the expected size is cut off.
_BYTES_PER_NUMBER = 26
_BYTES_PER_REPLY = 1024 * 1024
# Texts have the same vectors however often they are sent.
_RULES = CallRules(model_setting="EMBEDDING_MODEL", resends=True, gzip=False)
# Reads base64 in a quarter of the time of the standard library, and refuses what is none.
_BASE64 = TypeAdapter(bytes, config=ConfigDict(val_json_bytes="base64"))

logger = logging.getLogger(__name__)


class OpenAIEmbedder:
    """Embeds over HTTP: one call for all texts, unless the API's own limits forbid it.

    Args:
        name: The model's name, such as `text-embedding-3-small`.
        dimensions: Length of the vectors; unset: known for OpenAI's models only.
        base_url: Root of the API; empty means OpenAI.
        api_key: The key; a local server may need none.
        timeout: Seconds for one `embed`, to the last byte.

    Raises:
        ValueError: A setting is missing or cannot be used; the message names the variable.
    """

    offline = False

    def __init__(
        self,
        name: str,
        dimensions: int | None = None,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> None:
        if not name.strip():
            raise ValueError("EMBEDDING_MODEL is empty: set it to the name of an embedding model")
        size = dimensions or _NATIVE_DIMENSIONS.get(name)
        if size is None or size < 1:
            raise ValueError(f"the dimensions of {name} are unknown: set EMBEDDING_DIMENSIONS")
        self.name = name
        self.dimensions = size
        self.dedupe_threshold = _THRESHOLDS.get(name, DEFAULT_THRESHOLD)
        self._timeout = timeout
        self._server = OpenAIServer(_RULES, base_url=base_url, api_key=api_key, timeout=timeout)
        self._encoding = "base64"  # four times smaller than JSON numbers, and far cheaper to read

    async def embed(self, texts: Sequence[str], *, timeout: float | None = None) -> EmbeddingBatch:
        """Embed all texts or none; see `Embedder.embed` for the errors.

        A blank text gets the vector of the word `(empty)`; of a text above `MAX_TEXT_BYTES` only
        the beginning counts.
        """
        vectors: list[Vector] = []
        calls = tokens = 0
        deadline = monotonic() + (self._timeout if timeout is None else timeout)
        for part in _parts([_input(text) for text in texts]):
            reply, sent, read = await self._call(part, deadline)
            vectors += self._vectors(reply, len(part))
            calls += sent
            tokens += read
        return EmbeddingBatch(vectors, calls, tokens)

    async def close(self) -> None:
        """Release connections."""
        await self._server.close()

    async def _call(self, inputs: list[str], deadline: float) -> tuple[dict[str, Any], int, int]:
        """Send one request and return the reply, how many calls it took, and its tokens."""
        body: dict[str, Any] = {
            "model": self.name,
            "input": inputs,
            "encoding_format": self._encoding,
        }
        if self.name.startswith(_SHORTENABLE):
            body["dimensions"] = self.dimensions
        limit = _BYTES_PER_REPLY + len(inputs) * self.dimensions * _BYTES_PER_NUMBER
        try:
            reply, tokens = await self._post(body, deadline, limit)
            return reply, 1, tokens
        except RequestRejected as refusal:
            if self._encoding == "float" or not refusal.names("encoding_format", "base64"):
                raise
        logger.info("the embedding server does not offer base64; asking for numbers from now on")
        self._encoding = body["encoding_format"] = "float"
        reply, tokens = await self._post(body, deadline, limit)
        return reply, 2, tokens

    async def _post(
        self, body: dict[str, Any], deadline: float, limit: int
    ) -> tuple[dict[str, Any], int]:
        seconds = max(deadline - monotonic(), 0.0)
        with metrics.measured_model_call("embedding", self.name) as call:
            reply = await self._server.post("/embeddings", body, timeout=seconds, max_bytes=limit)
            counted = used_tokens(reply.get("usage"), "prompt_tokens", body["input"])
            return reply, call.used("input", *counted)

    def _vectors(self, reply: Mapping[str, Any], count: int) -> list[Vector]:
        """Check the reply as a whole and return its vectors in the order of the texts."""
        data = reply.get("data")
        if not isinstance(data, list) or len(data) != count:
            got = len(data) if isinstance(data, list) else "no"
            raise ModelMisbehaved(f"{got} embeddings came back for {count} texts")
        ordered: list[Vector | None] = [None] * count
        for item in data:
            index = item.get("index") if isinstance(item, dict) else None
            if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < count:
                raise ModelMisbehaved("an embedding came back without the index of its text")
            ordered[index] = self._vector(item.get("embedding"))
        vectors = [vector for vector in ordered if vector is not None]
        if len(vectors) != count:
            raise ModelMisbehaved("two embeddings came back for one text, and none for another")
        return vectors

    def _vector(self, value: object) -> Vector:
        numbers = _numbers(value)
        if numbers.shape != (self.dimensions,):
            raise ModelMisbehaved(
                f"an embedding has {numbers.size} numbers instead of {self.dimensions}; "
                "EMBEDDING_DIMENSIONS must be what EMBEDDING_MODEL gives"
            )
        # In double precision the square of a finite single cannot overflow; JSON holds more.
        with np.errstate(over="ignore", invalid="ignore"):
            norm = sqrt(float(numbers.dot(numbers)))
        if not isfinite(norm):
            raise ModelMisbehaved("an embedding holds NaN or infinity")
        if norm == 0.0:
            raise ModelMisbehaved("an embedding is the zero vector")
        return (numbers / norm).astype(np.float32)


def _numbers(value: object) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Read a vector given as base64 of little-endian singles or as JSON numbers."""
    try:
        if isinstance(value, str):
            raw = _BASE64.validate_json(f'"{value}"')
            return np.frombuffer(raw, dtype="<f4").astype(np.float64)
        if isinstance(value, list):
            numbers = np.array(value)
            if numbers.dtype.kind in "fi":
                return numbers.astype(np.float64)
    except (ValueError, OverflowError):
        pass
    raise ModelMisbehaved("an embedding is neither numbers nor base64 of them")


def _input(text: str) -> str:
    """The text as it is sent: never blank, never above what one input may have."""
    raw = text.encode("utf-8", "replace")
    if len(raw) > MAX_TEXT_BYTES:
        text = raw[:MAX_TEXT_BYTES].decode("utf-8", "ignore")
    return text if text.strip() else _BLANK


def _parts(inputs: list[str]) -> Iterator[list[str]]:
    """Split what the API would refuse as one call; two bytes a token is a cautious estimate."""
    part: list[str] = []
    tokens = 0
    for text in inputs:
        estimate = len(text.encode("utf-8", "replace")) // 2 + 1
        if part and (len(part) == MAX_INPUTS or tokens + estimate > MAX_TOKENS):
            yield part
            part, tokens = [], 0
        part.append(text)
        tokens += estimate
    if part:
        yield part
