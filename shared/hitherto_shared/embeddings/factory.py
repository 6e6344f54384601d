"""Creates the embedder that the configuration names."""

from __future__ import annotations

from hitherto_shared.embeddings.offline import OfflineEmbedder
from hitherto_shared.embeddings.onnx import OnnxEmbedder
from hitherto_shared.embeddings.openai_api import DEFAULT_TIMEOUT, OpenAIEmbedder
from hitherto_shared.embeddings.protocol import Embedder

KINDS = ("openai", "onnx", "offline")


def build_embedder(
    kind: str,
    *,
    model: str = "text-embedding-3-small",
    dimensions: int | None = None,
    base_url: str | None = None,
    api_key: str | None = None,
    onnx_model_dir: str | None = None,
    timeout: float = DEFAULT_TIMEOUT,
) -> Embedder:
    """Create the embedder of one kind.

    Args:
        kind: `openai`, `onnx` or `offline` (`HITHERTO_EMBEDDER`).
        model: Name of the model; `openai` only.
        dimensions: Length of the vectors; unset: the model's own. `onnx` and `offline` have fixed
            dimensions and only check it.
        base_url: Root of an OpenAI-compatible API; empty means OpenAI.
        api_key: The key for it.
        onnx_model_dir: Folder of the local model; `onnx` only.
        timeout: Seconds for one call; `openai` only.

    Raises:
        ValueError: A setting is missing or wrong; the message names the environment variable.
    """
    embedder: Embedder
    if kind == "openai":
        if not (base_url or "").strip() and not (api_key or "").strip():
            raise ValueError(
                "HITHERTO_EMBEDDER=openai needs OPENAI_API_KEY, or OPENAI_BASE_URL for a local "
                "server; set HITHERTO_EMBEDDER=offline to work without either"
            )
        return OpenAIEmbedder(
            model, dimensions, base_url=base_url, api_key=api_key, timeout=timeout
        )
    if kind == "onnx":
        if not (onnx_model_dir or "").strip():
            raise ValueError(
                "HITHERTO_EMBEDDER=onnx needs HITHERTO_ONNX_MODEL_DIR: set it to the folder of a "
                "sentence-transformers ONNX export"
            )
        embedder = OnnxEmbedder(str(onnx_model_dir))
    elif kind == "offline":
        embedder = OfflineEmbedder()
    else:
        raise ValueError(f"HITHERTO_EMBEDDER is {kind!r}: set it to one of {', '.join(KINDS)}")
    if dimensions and dimensions != embedder.dimensions:
        raise ValueError(
            f"EMBEDDING_DIMENSIONS is {dimensions}, but {embedder.name} has "
            f"{embedder.dimensions}: unset it"
        )
    return embedder
