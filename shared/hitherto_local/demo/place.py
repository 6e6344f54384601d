"""Where the demo keeps its data, and which of one's settings it listens to."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from hitherto_shared.config import SharedSettings
from hitherto_shared.database.embedded import default_data_dir

_OURS = ("HITHERTO_", "MAX_CONTEXT_", "DATABASE_URL")
_HEARD = frozenset(
    {
        "HITHERTO_EXTRACTOR",
        "HITHERTO_EMBEDDER",
        "HITHERTO_ONNX_MODEL_DIR",
        "HITHERTO_MODEL_TIMEOUT_SECONDS",
        "HITHERTO_PRICES_FILE",
    }
)


def demo_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment for the services: which models to use is heard, everything else is ours.

    One's own database, credentials and limits belong to another installation: the demo neither
    writes there nor lets them change its story.
    """
    heard = {
        name: value
        for name, value in environment.items()
        if name in _HEARD or not name.startswith(_OURS)
    }
    # What the demo remembers may be lost with a container.
    return {**heard, "HITHERTO_REQUIRE_DATABASE_URL": "false"}


def choose_data_dir(settings: SharedSettings) -> Path:
    """The demo's own data folder.

    Each embedding model has a folder: vectors of two models cannot be compared, so that a database
    keeps to the one that it began with.
    """
    return default_data_dir() / "demo" / _slug(settings)


def _slug(settings: SharedSettings) -> str:
    chosen = settings.chosen_embedder
    parts: list[str] = [chosen]
    if chosen == "openai":
        parts += [settings.embedding_model, str(settings.embedding_dimensions or "")]
    elif chosen == "onnx":
        parts.append(settings.onnx_model_dir.name if settings.onnx_model_dir else "")
    return re.sub(r"[^\w.-]+", "_", "-".join(part for part in parts if part))
