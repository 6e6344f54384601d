"""Contexts, what a search found, and pages of lists."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Generic, TypeVar

from hitherto_client.results.conversations import ConversationSummary, DocumentChunk, Message
from hitherto_client.results.jobs import JobResult
from hitherto_client.results.memories import Entity, Memory, Preference, Profile
from hitherto_client.words import LegState

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class LegReport:
    """The outcome of one leg of a search."""

    name: str
    """`semantic`, `fulltext`, `keyword`, `entity`, `temporal` and so on."""
    state: LegState
    duration: timedelta
    candidates: int
    """How many items it found."""
    reason: str
    """Why it did not run or finish; empty if it did."""


@dataclass(frozen=True, slots=True)
class SearchResult:
    """One item that was found: exactly one of the first four fields is set."""

    memory: Memory | None
    message: Message | None
    summary: ConversationSummary | None
    document_chunk: DocumentChunk | None
    score: float
    """From 0 to 1 with the ranking `balanced`, up to 1.2 with `weighted`."""
    breakdown: dict[str, float]
    """What each component adds to the score; of a search, only with `explain`."""
    matched_legs: tuple[str, ...]
    excerpt: tuple[Message, ...]
    """The messages around its source; only with `excerpt_messages`."""

    @property
    def text(self) -> str:
        """The text of the item, whichever it is."""
        if self.summary is not None:
            return self.summary.summary
        item = self.memory or self.message or self.document_chunk
        return item.content if item is not None else ""


@dataclass(frozen=True, slots=True)
class Context:
    """What an assistant should know before it answers."""

    profile: Profile
    memories: tuple[Memory, ...]
    """The top memories."""
    relevant: tuple[SearchResult, ...]
    """What was found for the query, best first."""
    previous_items: tuple[SearchResult, ...]
    """What the previous answer of the conversation was based on."""
    conversations: tuple[ConversationSummary, ...]
    entities: tuple[Entity, ...]
    preferences: tuple[Preference, ...]
    prompt_block: str
    """The text to put into the assistant's prompt; empty if nothing is known."""
    prompt_tokens: int
    """The tokens of `prompt_block`."""
    legs: tuple[LegReport, ...]
    degraded: bool
    """True if something that should have been searched was not; `legs` says what."""
    reason: str
    """Why the context is empty, such as `MEMORY_DISABLED`; empty otherwise."""
    nothing_relevant: bool
    """True if the query found nothing that is relevant; the block says so."""


@dataclass(frozen=True, slots=True)
class SearchResults:
    """What a search found, best first; iterate over it for the results."""

    results: tuple[SearchResult, ...]
    entities: tuple[Entity, ...]
    """The entities that the query names."""
    candidates_total: int
    """How many items were scored."""
    legs: tuple[LegReport, ...]
    degraded: bool
    """True if something that should have been searched was not; `legs` says what."""
    reason: str
    """Why nothing is found, such as `MEMORY_DISABLED`; empty otherwise."""

    def __iter__(self) -> Iterator[SearchResult]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    def __getitem__(self, index: int) -> SearchResult:
        return self.results[index]


@dataclass(frozen=True, slots=True)
class Suggestions:
    """What the user may want to ask next."""

    suggestions: tuple[str, ...]
    recent_topics: tuple[str, ...]
    recent_conversations: tuple[ConversationSummary, ...]
    reason: str
    """Why there are none, such as `MEMORY_DISABLED`; empty otherwise."""


@dataclass(frozen=True, slots=True)
class Preview:
    """What would be learnt from a transcript."""

    memories_created: tuple[Memory, ...]
    memories_updated: tuple[Memory, ...]
    memories_contradicted: tuple[Memory, ...]
    goals_achieved: tuple[Memory, ...]
    profile: Profile
    """The profile as it would be."""
    summary: ConversationSummary
    entities: tuple[Entity, ...]
    result: JobResult
    """The counts and the cost."""


@dataclass(frozen=True, slots=True)
class EnhancedPrompt:
    """A prompt with the user's context, or without it if the service did not answer."""

    text: str
    enhanced: bool
    """True if `text` holds what is known; False if it is the base prompt as it was given."""
    problem: str = ""
    """Why nothing was added; empty if there was no error."""


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
