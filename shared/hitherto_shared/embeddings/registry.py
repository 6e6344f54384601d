"""The embedding models that this process can call, by their names in the database.

The database records which model is active, and that may change while the process runs. A model is
created at its first use, and kept.
"""

from __future__ import annotations

from collections.abc import Callable

from hitherto_shared.embeddings.offline import OfflineEmbedder
from hitherto_shared.embeddings.protocol import Embedder

Build = Callable[[str, int | None], Embedder]
"""Creates a model of the configured API by name and dimensions (None: the model's own)."""


class Embedders:
    """Finds embedders by name, the configured one first.

    `build` creates other models of the same API; None if the environment names no API, so that
    there are only the configured model and the offline one.
    """

    def __init__(self, configured: Embedder, build: Build | None) -> None:
        self.configured = configured
        self._build = build
        self._made: dict[tuple[str, int], Embedder] = {
            (configured.name, configured.dimensions): configured
        }

    def find(self, model: str, dimensions: int | None) -> Embedder | None:
        """The embedder with this name and size, or None if this process cannot call it."""
        for (name, size), embedder in self._made.items():
            if name == model and dimensions in (None, size):
                return embedder
        offline = OfflineEmbedder()
        if model == offline.name:
            made: Embedder = offline
        elif self._build is None or ":" in model.partition("/")[0]:
            # Names with a kind before a colon, such as `onnx:…`, belong to local models.
            return None
        else:
            try:
                made = self._build(model, dimensions)
            except ValueError:
                return None
        if dimensions not in (None, made.dimensions):
            return None
        return self._made.setdefault((made.name, made.dimensions), made)

    def why_not(self, model: str, dimensions: int) -> str:
        """The explanation if `find` returns None for the active model."""
        return (
            f"memories are embedded with {model} ({dimensions} dimensions) and this service is "
            f"configured for {self.configured.name} ({self.configured.dimensions}): set the "
            "embedder back, or move to the new model with Reembed"
        )

    async def close(self) -> None:
        """Release every model."""
        for embedder in self._made.values():
            await embedder.close()
