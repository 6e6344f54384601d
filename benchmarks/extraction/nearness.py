"""How near two texts are by an embedder, for texts that were embedded beforehand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from hitherto_shared.embeddings.protocol import Embedder, Vector

_AT_ONCE = 100
_LOOSER = 0.1
"""A paraphrase lies further away than a copy."""


@dataclass(frozen=True, slots=True)
class Nearness:
    """Cosines between known texts; without vectors nothing is near anything.

    Attributes:
        vectors: The vector of each text, of length 1.
        same: Cosine above which two texts may be one statement, by the embedder's own word.
    """

    vectors: Mapping[str, Vector] = field(default_factory=dict)
    same: float = 1.0

    @property
    def alike(self) -> float:
        """Cosine above which one text may be a paraphrase of the other."""
        return self.same - _LOOSER

    def of(self, a: str, b: str) -> float | None:
        """The cosine of two texts, or None where one has no vector."""
        one, two = self.vectors.get(a), self.vectors.get(b)
        return None if one is None or two is None else float(one @ two)

    def paraphrase(self, a: str, b: str) -> bool:
        """Whether two texts are near enough to be paraphrases."""
        cosine = self.of(a, b)
        return cosine is not None and cosine >= self.alike


async def embed_all(embedder: Embedder, texts: Iterable[str]) -> Nearness:
    """Embed every distinct text, a hundred a call.

    Raises:
        ModelError: The embedder is out of reach.
    """
    distinct: Sequence[str] = list(dict.fromkeys(text for text in texts if text.strip()))
    vectors: dict[str, Vector] = {}
    for start in range(0, len(distinct), _AT_ONCE):
        part = distinct[start : start + _AT_ONCE]
        vectors.update(zip(part, (await embedder.embed(part)).vectors, strict=True))
    return Nearness(vectors, embedder.dedupe_threshold)
