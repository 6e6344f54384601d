"""Creates the embedders that the settings name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from hitherto_shared.config import SharedSettings
from hitherto_shared.embeddings.offline import OfflineEmbedder
from hitherto_shared.embeddings.onnx import OnnxEmbedder
from hitherto_shared.embeddings.protocol import Embedder
from hitherto_shared.embeddings.registry import Embedders


def configured_embedder(settings: SharedSettings) -> Embedder:
    """The embedder in the environment.

    Raises:
        ValueError: A setting is missing or wrong; the message names the environment variable.
    """
    dimensions = settings.embedding_dimensions
    if settings.chosen_embedder == "openai":
        if not settings.embeddings_available:
            raise ValueError(
                "HITHERTO_EMBEDDER=openai needs OPENAI_API_KEY, or OPENAI_BASE_URL or "
                "EMBEDDING_BASE_URL for another server; set HITHERTO_EMBEDDER=offline to work "
                "without any"
            )
        return _of_the_api(settings)(settings.embedding_model, dimensions)
    embedder: Embedder = OfflineEmbedder()
    if settings.chosen_embedder == "onnx":
        if settings.onnx_model_dir is None:
            raise ValueError(
                "HITHERTO_EMBEDDER=onnx needs HITHERTO_ONNX_MODEL_DIR: set it to the folder of a "
                "sentence-transformers ONNX export"
            )
        embedder = OnnxEmbedder(settings.onnx_model_dir)
    # Both have fixed dimensions.
    if dimensions not in (None, embedder.dimensions):
        raise ValueError(
            f"EMBEDDING_DIMENSIONS is {dimensions}, but {embedder.name} has "
            f"{embedder.dimensions}: unset it"
        )
    return embedder


def embedders_for(settings: SharedSettings) -> Embedders:
    """The embedder in the environment (`configured_embedder`), and all others that it can call."""
    build = _of_the_api(settings) if settings.embeddings_available else None
    return Embedders(configured_embedder(settings), build)


def _of_the_api(settings: SharedSettings) -> Callable[[str, int | None], Embedder]:
    """Makes the embedder of a model, by its name and dimensions."""
    # Its HTTP client takes a tenth of the time that a service takes to start.
    from hitherto_shared.embeddings.openai_api import OpenAIEmbedder  # noqa: PLC0415

    return partial(
        OpenAIEmbedder, server=settings.embedding_server, timeout=settings.model_timeout_seconds
    )
