"""Jobs, and what they did."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

from hitherto_client.errors import Violation
from hitherto_client.words import JobState

_REASON = re.compile(r"^[A-Z][A-Z_]+(?:: |$)")


def waiting_for(error: str) -> str:
    """What the error of a job that waits for its next attempt says to people.

    Without the reason in front of the sentence, where there is a sentence.
    """
    return _REASON.sub("", error, count=1) or error


@dataclass(frozen=True, slots=True)
class Usage:
    """What work cost."""

    llm_calls: int
    input_tokens: int
    output_tokens: int
    embedding_calls: int
    embedding_tokens: int
    cost_usd: float
    """By the price list of the installation."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A change that the model proposed and that was not made."""

    item: str
    """The item of its reply, such as `contradicted_memories[0]`."""
    reason: str
    """Why, as a key of `JobResult.counts`."""
    subject: str
    """Why, and what became of it, in words."""
    memory_id: str
    """The memory that it would have changed; empty if there is none."""


@dataclass(frozen=True, slots=True)
class JobResult:
    """What a job did."""

    counts: dict[str, int]
    memories_created: int
    memories_updated: int
    memories_contradicted: int
    goals_achieved: int
    profile_version: int
    """The profile's version after the job; 0 if it did not change."""
    dropped_items: int
    """Items of the model's reply that were not usable."""
    usage: Usage
    model: str
    extractor: str
    """`openai`, or `offline` for the built-in rules."""
    prompt_version: str
    refusals: tuple[Refusal, ...]
    """The changes that were not made, with the reason of each."""


@dataclass(frozen=True, slots=True)
class JobProgress:
    """How far a job is."""

    messages_done: int
    messages_total: int


@dataclass(frozen=True, slots=True)
class Job:
    """Work in the background, such as learning from a conversation."""

    id: str
    kind: str
    """Such as `memory-extraction`."""
    state: JobState
    user_id: str
    conversation_id: str
    attempt: int
    max_attempts: int
    created_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    error: str
    """A reason such as `MODEL_UNUSABLE`, or one with a sentence; empty if nothing went wrong."""
    result: JobResult
    progress: JobProgress

    @property
    def final(self) -> bool:
        """True once the job has ended for good."""
        return self.state in ("succeeded", "dead", "cancelled")

    @property
    def waits_for(self) -> str:
        """What a job that will be tried again waits for, as a sentence; empty for others."""
        return waiting_for(self.error) if self.state == "failed" else ""

    @property
    def succeeded(self) -> bool:
        """True if the job did its work."""
        return self.state == "succeeded"


@dataclass(frozen=True, slots=True)
class ItemError:
    """Why one item of an import was refused."""

    index: int
    """Its place in the import, from 0."""
    code: int
    """The gRPC status code that the item would have failed with by itself."""
    reason: str
    message: str
    field_violations: tuple[Violation, ...]


@dataclass(frozen=True, slots=True)
class ImportedTranscripts:
    """The sum over all transcripts of an import."""

    accepted_count: int
    known_count: int
    """How many of them added no message to what was stored."""
    rejected_count: int
    job_ids: tuple[str, ...]
    """Those of the first 60,000 jobs."""
    errors: tuple[ItemError, ...]
    """Those of the first 1,000 refused transcripts."""


@dataclass(frozen=True, slots=True)
class ImportedMemories:
    """The sum over all memories of an import."""

    saved_count: int
    deduplicated_count: int
    """How many of them became a known memory."""
    rejected_count: int
    memory_ids: tuple[str, ...]
    """Those of the first 60,000 saved memories."""
    errors: tuple[ItemError, ...]
    """Those of the first 1,000 refused memories."""
