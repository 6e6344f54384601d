"""A candidate: one item of any kind, with the features that rankings add up."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

Kind = Literal["memory", "message", "summary", "document"]
"""A memory, a message, the summary of a conversation, a chunk of a document."""

MessageKey = tuple[str, int]
"""Conversation id and number of a message."""

Key = UUID | str | MessageKey
"""Id of a memory or chunk; conversation id of a summary; conversation id and number of a
message."""

_LEAST_TEXT_RANK = 1e-10
"""Postgres ranks a text that lacks a word of the query at 1e-20, and one with all words far
higher."""


# Immutable by convention, but not frozen: a search creates two hundred, and frozen ones take four
# times as long. Those of a snapshot are made by position, because names of fields double the time.
@dataclass(slots=True, unsafe_hash=True)
class Candidate:
    """A candidate for the results.

    Attributes:
        key: Its key within the kind.
        happened_at: Event time: since when a memory holds, when a message was said, when a
            conversation was last active, when a document was created at its source.
        created_at: When it was stored; breaks ties, the newer first.
        conversation_id: The conversation it came from or is; None for documents.
        bm25: 0 if it contains no word of the query.
        cosine: With the query, in -1..1; None without a vector.
        speaker: Name of a message's speaker, else empty.
        role: Role of a message's speaker, else empty.
        importance: Of a memory, 0..1; 0 for other kinds.
        source_cosine: Of a memory: the query with the words it came from.
        entities: Number of the query's entities that it mentions.
        most_recent: Whether it was found because the query asks for the most recent.
        source_type: Of a document (`gmail`), else empty.
        document_id: The document of a chunk.
        text_rank: Postgres' ts_rank; computed only for the ranking that uses it.
        fact_cosine: Of a message: the query with the nearest memory learnt from it.
        fact_bm25: Of a message: the best keyword score of a memory learnt from it.
        words: The item's own words, for rankings that count the query's words in them; else empty.
    """

    kind: Kind
    key: Key
    happened_at: datetime
    created_at: datetime
    conversation_id: str | None = None
    bm25: float = 0.0
    cosine: float | None = None
    speaker: str = ""
    role: str = ""
    importance: float = 0.0
    source_cosine: float | None = None
    entities: int = 0
    most_recent: bool = False
    source_type: str = ""
    document_id: UUID | None = None
    text_rank: float = 0.0
    fact_cosine: float | None = None
    fact_bm25: float = 0.0
    words: str = ""

    @property
    def newness(self) -> datetime:
        """When it counts as new: nothing is newer than it was when it was stored."""
        return min(self.happened_at, self.created_at)


def text_rank_of(ts_rank: float) -> float:
    """`Candidate.text_rank` from Postgres' ts_rank: 0 for a text that does not match."""
    return float(ts_rank) if ts_rank > _LEAST_TEXT_RANK else 0.0
