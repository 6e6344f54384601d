"""Which messages, summaries and documents a search is about, and what it looks for in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Self

import numpy as np
from pgvector import HalfVector
from psycopg.types.json import Jsonb

from hitherto_retrieval.storage.filters import forms
from hitherto_shared.embeddings.protocol import Vector
from hitherto_shared.models import Scope

SAID_OF_ENTITY = """
    SELECT ms.conversation_id, ms.message_id
    FROM entities AS en
    JOIN entity_mentions AS em ON em.tenant_id = en.tenant_id AND em.user_id = en.user_id
         AND em.entity_id = en.entity_id
    JOIN memory_sources AS ms ON ms.tenant_id = em.tenant_id AND ms.user_id = em.user_id
         AND ms.memory_id = em.memory_id
    WHERE en.tenant_id = %(tenant_id)s AND en.user_id = %(user_id)s
      AND en.called && %(entity_names)s::text[]
"""
"""Messages that a memory came from which mentions an entity that is called so."""


@dataclass(frozen=True, slots=True)
class PassageFilters:
    """Which passages count; None lets everything through.

    Attributes:
        conversation_id: Only what was said in it, or sums it up. A document belongs to none.
        created_after: Only what happened then or later, by event time.
        created_before: Only what happened before.
        stored_by: Only what was stored, as it is, at this time or before.
        source_types: Only documents of these; messages and summaries pass.
        content_types: Only documents of these; messages and summaries pass.
        entity: A name, a word of one, an alias or an address: only documents that mention it,
            messages that a memory mentioning it came from, and summaries of conversations with
            such a message.
        metadata: Only what has all of these keys with equal values. A summary has none.
    """

    conversation_id: str | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
    stored_by: datetime | None = None
    source_types: Sequence[str] | None = None
    content_types: Sequence[str] | None = None
    entity: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def within(self, since: datetime, until: datetime) -> Self:
        """The same, of what happened from `since` on and before `until`."""
        after, before = self.created_after, self.created_before
        return replace(
            self,
            created_after=since if after is None else max(after, since),
            created_before=until if before is None else min(before, until),
        )

    def parameters(self) -> dict[str, Any]:
        """The filters as statement parameters."""
        return {
            "conversation_id": self.conversation_id,
            "created_after": self.created_after,
            "created_before": self.created_before,
            "stored_by": self.stored_by,
            "source_types": list(self.source_types) if self.source_types else None,
            "content_types": list(self.content_types) if self.content_types else None,
            "entity_names": forms(self.entity) if self.entity else None,
            "metadata": Jsonb(dict(self.metadata)) if self.metadata else None,
        }

    @property
    def all_that_was_said(self) -> bool:
        """Whether every message and summary passes."""
        return not (
            self.conversation_id
            or self.created_after
            or self.created_before
            or self.stored_by
            or self.entity
            or self.metadata
        )

    @property
    def all_documents(self) -> bool:
        """Whether every document passes."""
        return self.all_that_was_said and not self.source_types and not self.content_types


def of(scope: Scope) -> dict[str, Any]:
    """Whose rows a statement is about, as its parameters."""
    return {"tenant_id": scope.tenant_id, "user_id": scope.user_id}


def compared(vector: Vector | None, model: str) -> dict[str, Any]:
    """What vectors are compared with, as parameters; without a vector every cosine is null."""
    return {
        "vector": None if vector is None else HalfVector(np.asarray(vector)),
        "model": model,
    }
