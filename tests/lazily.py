"""Packages that few tests use and that take seconds to import: each worker collects each module."""

from __future__ import annotations

import importlib
from typing import Any


class Lazily:
    """Stands for a module, which is imported when it is first asked for something.

    A type checker must see the import itself: `if TYPE_CHECKING: import openai`, and
    `openai = Lazily("openai")` otherwise.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        # What pytest looks for in everything that stands in a module of tests.
        if attribute.startswith(("_", "pytest")):
            raise AttributeError(attribute)
        return getattr(importlib.import_module(self._name), attribute)
