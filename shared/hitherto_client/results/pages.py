"""One page of a list."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Page(Generic[Item]):
    """One page of a list, such as `m.jobs().page()`."""

    items: tuple[Item, ...]
    next_page_token: str
    """For the next page; empty if this is the last one."""
    total_size: int | None
    """How many items there are on all pages; None for lists that are not counted."""
    reason: str
    """Why the list is empty, such as `MEMORY_DISABLED`; empty otherwise."""
