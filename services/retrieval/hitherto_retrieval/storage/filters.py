"""Which memories a search or a list covers, as part of a statement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from hitherto_shared.models import CURRENT_STATUSES
from hitherto_shared.text.normalise import fold, nfc


@dataclass(frozen=True, slots=True)
class Filters:
    """Which memories count; None means all.

    `entity` is a name, a word of a name, an alias or an address. Tags and metadata of a sealed
    memory are not visible here: `sealed_ids` lists the sealed memories that have them, or that may
    be read at all. Without it a sealed memory has no tags and no metadata. Without `doubtful`,
    those that are in doubt, at the time that is read, do not count.
    """

    statuses: Sequence[str] = CURRENT_STATUSES
    only_current: bool = True
    types: Sequence[str] | None = None
    tags: Sequence[str] | None = None
    sources: Sequence[str] | None = None
    confidences: Sequence[str] | None = None
    conversation_id: str | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
    entity: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    sealed_ids: Sequence[UUID] | None = None
    doubtful: bool = True

    def parameters(self) -> dict[str, Any]:
        """The filters as statement parameters."""
        return {
            "statuses": list(self.statuses),
            "only_current": self.only_current,
            "types": list(self.types) if self.types else None,
            "tags": list(self.tags) if self.tags else None,
            "sources": list(self.sources) if self.sources else None,
            "confidences": list(self.confidences) if self.confidences else None,
            "conversation_id": self.conversation_id,
            "created_after": self.created_after,
            "created_before": self.created_before,
            "entity_names": forms(self.entity) if self.entity else None,
            "metadata": Jsonb(dict(self.metadata)) if self.metadata else None,
            "doubtful": self.doubtful,
            "sealed_ids": None if self.sealed_ids is None else list(self.sealed_ids),
        }

    @property
    def none(self) -> bool:
        """Whether every current memory passes the filters."""
        return self == _NONE


_NONE = Filters()


def forms(name: str) -> list[str]:
    """The stored forms of a name: folded like entities, and in lower case like aliases."""
    return list(dict.fromkeys((fold(name), nfc(name).lower().strip())))


def has_all(metadata: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether metadata has each of the keys with an equal value."""
    return all(name in metadata and _same(metadata[name], value) for name, value in wanted.items())


def _same(one: Any, other: Any) -> bool:
    """Whether two values are equal in JSON, where true is not 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[n], other[n]) for n in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other)
