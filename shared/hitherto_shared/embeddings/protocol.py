"""The interface between Hitherto and its embedders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float32]
"""One embedding: shape (dimensions,), finite, of length 1."""


@dataclass(frozen=True, slots=True)
class EmbeddingBatch:
    """The vectors of one call, in the order of the texts, and the call's cost."""

    vectors: list[Vector]
    calls: int
    tokens: int


class Embedder(Protocol):
    """Turns texts into unit vectors of one model."""

    @property
    def name(self) -> str:
        """As recorded in the database; vectors of different names are never compared."""
        ...

    @property
    def dimensions(self) -> int:
        """Length of every vector."""
        ...

    @property
    def dedupe_threshold(self) -> float:
        """Cosine above which two memories of one user may be the same statement.

        It belongs to the model: 0.85 suits text-embedding-3-small only.
        """
        ...

    @property
    def offline(self) -> bool:
        """True when nothing leaves this machine."""
        ...

    async def embed(self, texts: Sequence[str], *, timeout: float | None = None) -> EmbeddingBatch:
        """Embed `texts` (possibly none) within `timeout` seconds.

        Raises:
            ModelUnavailable: An outage or the timeout.
            ModelRefused: The server rejects the request.
            ModelMisbehaved: Wrong count, wrong size, NaN or a zero vector.
        """
        ...

    async def close(self) -> None:
        """Release connections and threads."""
        ...
