"""Which messages, summaries and documents a search covers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Self

from psycopg.types.json import Jsonb

from hitherto_retrieval.storage.filters import forms


@dataclass(frozen=True, slots=True)
class PassageFilters:
    """Which passages count; None means all.

    Attributes:
        conversation_id: Only messages and the summary of this conversation; no documents.
        created_after: Only what happened then or later, by event time.
        created_before: Only what happened before.
        stored_by: Only what was stored, in its present form, at this time or before.
        source_types: Only documents of these types; messages and summaries pass.
        content_types: Only documents of these types; messages and summaries pass.
        entity: A name, a word of a name, an alias or an address: only documents that mention the
            entity, messages from which a memory that mentions it came, and summaries of
            conversations with such a message.
        metadata: Only items that have all of these keys with equal values; no summaries.
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
        """The same filters, limited to what happened from `since` on and before `until`."""
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
