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

# The condition that the filters of a search or a list impose.
LET_THROUGH = """
    WHERE m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s
      AND m.status = ANY(%(statuses)s)
      AND (m.expires_at IS NULL OR m.expires_at > now() OR NOT %(only_current)s)
      AND (%(types)s::text[] IS NULL OR m.type = ANY(%(types)s))
      AND (%(sealed_ids)s::uuid[] IS NULL OR m.sealed IS NULL OR m.memory_id = ANY(%(sealed_ids)s))
      AND (%(tags)s::text[] IS NULL OR m.tags && %(tags)s OR m.memory_id = ANY(%(sealed_ids)s))
      AND (%(sources)s::text[] IS NULL OR m.source = ANY(%(sources)s))
      AND (%(confidences)s::text[] IS NULL OR m.confidence = ANY(%(confidences)s))
      AND (%(created_after)s::timestamptz IS NULL OR m.created_at >= %(created_after)s)
      AND (%(created_before)s::timestamptz IS NULL OR m.created_at < %(created_before)s)
      AND (%(conversation_id)s::text IS NULL OR m.conversation_id = %(conversation_id)s
           OR m.memory_id IN (SELECT ms.memory_id FROM memory_sources AS ms
                              WHERE ms.tenant_id = %(tenant_id)s AND ms.user_id = %(user_id)s
                                AND ms.conversation_id = %(conversation_id)s))
      AND (%(metadata)s::jsonb IS NULL OR m.memory_id = ANY(%(sealed_ids)s) OR NOT EXISTS (
            SELECT FROM jsonb_each(%(metadata)s) AS wanted
            WHERE m.metadata -> wanted.key IS DISTINCT FROM wanted.value))
      AND (%(entity_names)s::text[] IS NULL OR m.memory_id IN (
            SELECT em.memory_id FROM entity_mentions AS em
            JOIN entities AS en ON en.tenant_id = em.tenant_id AND en.user_id = em.user_id
                 AND en.entity_id = em.entity_id
            WHERE em.tenant_id = %(tenant_id)s AND em.user_id = %(user_id)s
              AND en.called && %(entity_names)s::text[]))
"""
"""A condition on `memories AS m`, with the parameters of `Filters.parameters`.

Other tables are queried once for the user and joined by hash, not row by row."""


@dataclass(frozen=True, slots=True)
class Filters:
    """Which memories count; None means all.

    `entity` is a name, a word of a name, an alias or an address. Tags and metadata of a sealed
    memory are not visible here: `sealed_ids` lists the sealed memories that have them, or that may
    be read at all. Without it a sealed memory has no tags and no metadata.
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
