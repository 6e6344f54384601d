"""Embeddings from a local ONNX model: nothing leaves the machine, no server is needed."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from hitherto_shared.embeddings.protocol import EmbeddingBatch, Vector
from hitherto_shared.model_api import ModelMisbehaved, ModelUnavailable

# Tokens of one text; the rest is cut off, as in the training of these models.
MAX_TOKENS = 256
# Small sentence models put statements about different people close together: with MiniLM 30 % of
# the pairs above 0.85 are about two people. 0.92 keeps the candidates few; the checks on subject,
# numbers and negation decide.
DEDUPE_THRESHOLD = 0.92
_RANK_OF_TOKEN_VECTORS = 3
_MAX_THREADS = 4


class OnnxEmbedder:
    """A sentence-transformers export with mean pooling: model.onnx, tokenizer.json, config.json.

    One text per run: the vectors of an int8 model depend on what shares the batch, and a text must
    always get the same vector. Runs are in threads, so that the event loop is not blocked. The name
    of the folder becomes part of the name of the model.

    Raises:
        ValueError: The packages or files are missing, or the model is of another kind.
    """

    dedupe_threshold = DEDUPE_THRESHOLD
    offline = True

    def __init__(self, model_dir: str | Path) -> None:
        folder = Path(model_dir).expanduser()
        for file in ("model.onnx", "tokenizer.json", "config.json"):
            if not (folder / file).is_file():
                raise ValueError(
                    f"{folder} has no {file}: set HITHERTO_ONNX_MODEL_DIR to the folder of a "
                    "sentence-transformers ONNX export"
                )
        _require_mean_pooling(folder)
        self._tokenizer = _load_tokenizer(folder)
        self._session = _load_session(folder)
        self._inputs = {item.name for item in self._session.get_inputs()}
        self._output, self.dimensions = _token_vectors(self._session, folder)
        self.name = f"onnx:{folder.resolve().name}"
        self._threads = ThreadPoolExecutor(
            max_workers=min(os.cpu_count() or 1, _MAX_THREADS), thread_name_prefix="onnx"
        )

    async def embed(self, texts: Sequence[str], *, timeout: float | None = None) -> EmbeddingBatch:
        """Embed all texts or none; see `Embedder.embed` for the errors.

        A text without any token gets the vector of the model's start and end marks.
        """
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout):
                results = await asyncio.gather(
                    *(loop.run_in_executor(self._threads, self._run, text) for text in texts)
                )
        except TimeoutError:
            raise ModelUnavailable(
                f"the local embedding model did not finish {len(texts)} texts in {timeout:g} s"
            ) from None
        return EmbeddingBatch(
            vectors=[vector for vector, _ in results],
            calls=1 if results else 0,
            tokens=sum(tokens for _, tokens in results),
        )

    async def close(self) -> None:
        """End the threads, after their present runs."""
        await asyncio.to_thread(self._threads.shutdown, wait=True, cancel_futures=True)

    def _run(self, text: str) -> tuple[Vector, int]:
        """Embed one text in the calling thread; return its vector and its number of tokens."""
        encoding = self._tokenizer.encode(text)
        mask = np.array([encoding.attention_mask], dtype=np.int64)
        feeds = {
            "input_ids": np.array([encoding.ids], dtype=np.int64),
            "attention_mask": mask,
            "token_type_ids": np.array([encoding.type_ids], dtype=np.int64),
        }
        wanted = {name: value for name, value in feeds.items() if name in self._inputs}
        tokens = self._session.run([self._output], wanted)[0][0].astype(np.float64)
        pooled = mask[0] @ tokens / max(int(mask.sum()), 1)
        norm = float(np.linalg.norm(pooled))
        if not np.isfinite(norm) or norm == 0.0:
            raise ModelMisbehaved(f"{self.name} gave a vector without a direction")
        return (pooled / norm).astype(np.float32), int(mask.sum())


def _load_tokenizer(folder: Path) -> Any:
    try:
        from tokenizers import Tokenizer  # noqa: PLC0415 - an extra, needed by this embedder alone
    except ImportError as error:
        raise ValueError(_missing("tokenizers")) from error
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    # An export includes its training's padding, which would cost time for every short text.
    tokenizer.no_padding()
    tokenizer.enable_truncation(MAX_TOKENS)
    return tokenizer


def _load_session(folder: Path) -> Any:
    try:
        # Typed as Any: the package's own annotations do not export what it documents.
        onnxruntime: Any = import_module("onnxruntime")
    except ImportError as error:
        raise ValueError(_missing("onnxruntime")) from error
    options = onnxruntime.SessionOptions()
    # Texts run concurrently in our own threads; further threads inside a run only compete with
    # them.
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(
        str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"]
    )


def _token_vectors(session: Any, folder: Path) -> tuple[str, int]:
    """Name and width of the model's output of one vector per token."""
    for output in session.get_outputs():
        if len(output.shape) == _RANK_OF_TOKEN_VECTORS:
            width = output.shape[2]
            if not isinstance(width, int):
                config = json.loads((folder / "config.json").read_text("utf-8"))
                width = config.get("hidden_size")
            if isinstance(width, int) and width > 0:
                return output.name, width
    raise ValueError(
        f"{folder / 'model.onnx'} does not output one vector per token: set "
        "HITHERTO_ONNX_MODEL_DIR to an export with last_hidden_state"
    )


def _require_mean_pooling(folder: Path) -> None:
    """Refuse an export whose own description says that it pools in another way."""
    description = folder / "1_Pooling" / "config.json"
    if description.is_file():
        pooling = json.loads(description.read_text("utf-8"))
        if not pooling.get("pooling_mode_mean_tokens", True):
            raise ValueError(
                f"{folder} does not use mean pooling, the only supported kind: set "
                "HITHERTO_ONNX_MODEL_DIR to another model"
            )


def _missing(package: str) -> str:
    return (
        f"HITHERTO_EMBEDDER=onnx needs the package {package}: "
        "pip install 'hitherto[onnx]', or set HITHERTO_EMBEDDER to openai or offline"
    )
