"""Embeddings from the OpenAI API or a server that speaks it.

Servers differ in what they accept; what was learnt of this one is remembered until the process
ends: whether it sends base64 and shortens vectors, how many texts it takes in one call and how long
they may be, and whether its replies say which vector belongs to which text.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite, sqrt
from time import monotonic
from typing import Any

import numpy as np
from pydantic import ConfigDict, TypeAdapter

from hitherto_shared import metrics
from hitherto_shared.embeddings.dialect import EmbeddingDialect, WrongSize
from hitherto_shared.embeddings.http_client import EmbeddingServer
from hitherto_shared.embeddings.protocol import EmbeddingBatch, Vector
from hitherto_shared.model_api import ModelError, ModelMisbehaved, ModelUnavailable, used_tokens
from hitherto_shared.model_server import ModelServer, RequestRejected

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
_LONG_VECTOR = 4096
"""Numbers that a vector may have before it is known that the server shortens it."""
# Reads base64 in a quarter of the time of the standard library, and refuses what is none.
_BASE64 = TypeAdapter(bytes, config=ConfigDict(val_json_bytes="base64"))
_FAILURES_OF_MANY = 2
"""Errors 500 to many texts, whose parts all pass, from which on the number is remembered."""
_SHORTEST_CUT = 256
"""Characters to which a text that is refused is cut at the least."""
_LONG_TEXTS = 1_000
"""Bytes of a text from which on a refused call of several texts is too long, not too many."""
_ABOUT_LENGTH = ("too large", "too long", "exceed", "maximum", "context", "token", "length")

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Tally:
    """What one `embed` has cost so far, and when it must end."""

    deadline: float
    calls: int = 0
    tokens: int = 0
    vectors: list[Vector] = field(default_factory=list)
    answers_one: bool = False  # whether it is known that the server answers a single text


class OpenAIEmbedder:
    """Embeds over HTTP: one call for all texts, unless the server's limits forbid it.

    `dimensions` is the length of the vectors; unset: known for OpenAI's models only.

    Raises:
        ValueError: A setting is missing or cannot be used; the message names the variable.
    """

    offline = False

    def __init__(
        self,
        name: str,
        dimensions: int | None = None,
        *,
        server: ModelServer,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> None:
        if not name.strip():
            raise ValueError("EMBEDDING_MODEL is empty: set it to the name of an embedding model")
        # OpenRouter and others name OpenAI's models with the vendor.
        known = name.rpartition("/")[2]
        size = dimensions or _NATIVE_DIMENSIONS.get(known)
        if size is None or size < 1:
            raise ValueError(f"the dimensions of {name} are unknown: set EMBEDDING_DIMENSIONS")
        self.name = name
        self.dimensions = size
        self.dedupe_threshold = _THRESHOLDS.get(known, DEFAULT_THRESHOLD)
        self._timeout = timeout
        self._server = EmbeddingServer(
            replace(server, model_setting="EMBEDDING_MODEL"), name, timeout=timeout
        )
        self._learnt = EmbeddingDialect(
            dimensions=name.startswith(_SHORTENABLE),
            most_texts=MAX_INPUTS,
            most_tokens=MAX_TOKENS,
            most_bytes=MAX_TEXT_BYTES,
        )

    async def embed(self, texts: Sequence[str], *, timeout: float | None = None) -> EmbeddingBatch:
        """Embed all texts or none; see `Embedder.embed` for the errors.

        A blank text gets the vector of the word `(empty)`; of a text that is too long for the
        server only the beginning counts.
        """
        tally = _Tally(monotonic() + (self._timeout if timeout is None else timeout))
        for part in self._parts([_input(text, self._learnt.most_bytes) for text in texts]):
            tally.vectors += await self._part(part, tally)
        return EmbeddingBatch(tally.vectors, tally.calls, tally.tokens)

    async def close(self) -> None:
        """Release connections."""
        await self._server.close()

    def _parts(self, inputs: list[str]) -> Iterator[list[str]]:
        """Split what would be refused as one call."""
        part: list[str] = []
        tokens = 0
        for text in inputs:
            estimate = _estimate(text)
            full = len(part) == self._learnt.most_texts
            if part and (full or tokens + estimate > self._learnt.most_tokens):
                yield part
                part, tokens = [], 0
            part.append(text)
            tokens += estimate
        if part:
            yield part

    async def _part(self, texts: list[str], tally: _Tally) -> list[Vector]:
        """The vectors of a part; in halves if it is refused and larger than any before it."""
        learnt = self._learnt
        failed = False
        try:
            vectors = await self._call(texts, tally)
        except RequestRejected as refusal:
            if len(texts) == 1:
                return [await self._of_beginning(texts[0], refusal, tally)]
            if len(texts) <= learnt.proven_texts or not refusal.of_the_size:
                raise
        except ModelUnavailable as error:
            if not await self._fails_on_many(error, texts, tally):
                raise
            failed = True
        else:
            learnt.proven_texts = max(learnt.proven_texts, len(texts))
            return vectors
        middle = len(texts) // 2
        vectors = await self._part(texts[:middle], tally)
        vectors += await self._part(texts[middle:], tally)
        if failed:
            learnt.failures_of_many += 1
            if learnt.failures_of_many < _FAILURES_OF_MANY:
                return vectors
        if sum(len(text.encode("utf-8", "replace")) for text in texts) > _LONG_TEXTS * len(texts):
            learnt.most_tokens = min(learnt.most_tokens, sum(map(_estimate, texts[middle:])))
        elif learnt.most_texts > learnt.proven_texts:
            learnt.most_texts = learnt.proven_texts
            logger.info("the embedding server takes about %d texts a call", learnt.most_texts)
        return vectors

    async def _fails_on_many(
        self, error: ModelUnavailable, texts: list[str], tally: _Tally
    ) -> bool:
        """Whether the server fails on more texts than ever passed, and answers one of them."""
        if error.status != 500 or len(texts) <= self._learnt.proven_texts:
            return False
        if not tally.answers_one:
            try:
                await self._call(texts[:1], tally)
            except ModelError:
                return False
            tally.answers_one = True
        return True

    async def _of_beginning(self, text: str, refusal: RequestRejected, tally: _Tally) -> Vector:
        """The vector of the beginning of a text that is refused: a half of it, a quarter, and less.

        Raises:
            RequestRejected: The refusal of the whole, if a short beginning is refused too.
        """
        while refusal.of_the_size and len(text) > _SHORTEST_CUT:
            text = text[: len(text) // 2]
            try:
                (vector,) = await self._call([text], tally)
            except RequestRejected:
                continue
            if refusal.status == 413 or refusal.names(*_ABOUT_LENGTH):
                self._learnt.most_bytes = len(text.encode("utf-8", "replace"))
                logger.warning(
                    "the embedding server takes texts of at most about %d bytes; of longer ones "
                    "only the beginning is found by meaning", self._learnt.most_bytes
                )  # fmt: skip
            return vector
        raise refusal

    async def _call(self, texts: list[str], tally: _Tally) -> list[Vector]:
        """One request; further ones if the first shows that the server may need another form."""
        learnt = self._learnt
        try:
            return await self._once(texts, tally)
        except (WrongSize, RequestRejected, ModelUnavailable) as error:
            doubt = error
        forms = learnt.other_forms(doubt)
        for form in forms:
            usual = learnt.take(form)
            try:
                vectors = await self._once(texts, tally)
            except ModelError:
                learnt.take(usual)
                continue
            logger.info(
                "the embedding server accepts only %s; using that from now on",
                ", ".join(f"{name}={value}" for name, value in form.items()),
            )
            return vectors
        if forms:
            learnt.note_refusal(doubt)
        raise doubt

    async def _once(self, texts: list[str], tally: _Tally) -> list[Vector]:
        learnt = self._learnt
        body: dict[str, Any] = {"model": self.name, "input": texts}
        if learnt.base64:
            # Four times smaller than JSON numbers, the default, and far cheaper to read.
            body["encoding_format"] = "base64"
        if learnt.dimensions:
            body["dimensions"] = self.dimensions
        size = self.dimensions if learnt.proven else max(self.dimensions, _LONG_VECTOR)
        limit = _BYTES_PER_REPLY + len(texts) * size * _BYTES_PER_NUMBER
        tally.calls += 1
        seconds = max(tally.deadline - monotonic(), 0.0)
        with metrics.measured_model_call("embedding", self.name) as call:
            reply = await self._server.post(body, timeout=seconds, max_bytes=limit)
            counted = used_tokens(reply.get("usage"), "prompt_tokens", texts)
            tally.tokens += call.used("input", *counted)
        vectors = self._vectors(reply, len(texts))
        learnt.proven = True
        return vectors

    def _vectors(self, reply: Mapping[str, Any], count: int) -> list[Vector]:
        """Check the reply as a whole and return its vectors in the order of the texts."""
        data = reply.get("data")
        if not isinstance(data, list) or len(data) != count:
            got = len(data) if isinstance(data, list) else "no"
            raise ModelMisbehaved(f"{got} embeddings came back for {count} texts")
        items = [item if isinstance(item, dict) else {} for item in data]
        # In double precision the square of a finite single cannot overflow; JSON holds more.
        with np.errstate(over="ignore", invalid="ignore"):
            vectors = [self._vector(item.get("embedding")) for item in items]
        order = self._order([item.get("index") for item in items])
        return [vectors[place] for place in order]

    def _order(self, indexes: list[Any]) -> list[int]:
        """Where the vector of each text stands in a reply.

        A missing index is the position. So is each if all of them are 0, which some servers send.
        """
        positions = range(len(indexes))
        told = [index for index in indexes if index is not None]
        if any(isinstance(index, bool) or not isinstance(index, int) for index in told):
            raise ModelMisbehaved("an embedding came back without the index of its text")
        if all(index in (None, place) for place, index in zip(positions, indexes, strict=True)):
            return list(positions)
        if len(told) == len(indexes) and not any(told):
            if not self._learnt.by_position:
                self._learnt.by_position = True
                logger.warning(
                    "the embedding server numbers all vectors 0; they are taken in their order"
                )
            return list(positions)
        if sorted(told) != list(positions):
            raise ModelMisbehaved("two embeddings came back for one text, and none for another")
        return sorted(positions, key=indexes.__getitem__)

    def _vector(self, value: object) -> Vector:
        numbers = _numbers(value)
        if numbers.shape != (self.dimensions,):
            raise WrongSize(numbers.size, self.dimensions)
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
            if numbers.ndim == 1 and numbers.dtype.kind in "fi":
                return numbers.astype(np.float64)
    except (ValueError, OverflowError):
        pass
    raise ModelMisbehaved("an embedding is neither numbers nor base64 of them")


def _input(text: str, most_bytes: int) -> str:
    """The text as it is sent: never blank, never above what one input may have."""
    raw = text.encode("utf-8", "replace")
    if len(raw) > most_bytes:
        text = raw[:most_bytes].decode("utf-8", "ignore")
    return text if text.strip() else _BLANK


def _estimate(text: str) -> int:
    """Tokens of a text: two bytes a token is a cautious estimate."""
    return len(text.encode("utf-8", "replace")) // 2 + 1
