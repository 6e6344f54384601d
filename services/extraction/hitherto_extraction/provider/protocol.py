"""The seam between the pipeline and whatever reads a conversation: a model or the offline rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class PromptMessage:
    """One message as the model sees it. `local_id` is `m1`, `m2`… and lives for one call."""

    local_id: str
    role: str  # "user", "assistant", "system" or "tool"
    name: str
    content: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class PromptMemory:
    """One memory that is already known. `local_id` is `e1`, `e2`… and lives for one call."""

    local_id: str
    type: str  # lower-case name of the MemoryType, such as "preference"
    content: str
    date: datetime
    tags: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Batch:
    """What one extraction call is about."""

    profile: Mapping[str, Any]
    summary: Mapping[str, Any] | None
    memories: Sequence[PromptMemory]
    messages: Sequence[PromptMessage]
    time_zone: str = "UTC"
    tags_in_use: Sequence[str] = ()


EXTRACTION = "extraction"
CONSOLIDATION = "consolidation"


@dataclass(frozen=True, slots=True)
class Prompt:
    """One call: the texts a language model is sent, and the batch they were written from.

    A language model reads `system` and `user`; the offline extractor reads `batch`. Both answer
    with the JSON object described in docs/extraction.md. `task` says which of the two: what is
    worth remembering of a conversation, or which memories say the same; the batch of a
    consolidation holds memories and no messages.
    """

    system: str
    user: str
    batch: Batch
    schema: Mapping[str, Any]
    version: str
    temperature: float = 0.3
    max_tokens: int = 1000
    task: str = EXTRACTION


@dataclass(frozen=True, slots=True)
class Completion:
    """The raw answer. `text` is untrusted; `truncated` is finish_reason `length`."""

    text: str
    model: str
    calls: int
    input_tokens: int
    output_tokens: int
    truncated: bool = False


class ChatModel(Protocol):
    """Answers one prompt.

    Attributes:
        extractor: `openai` or `offline`, as reported in `JobResult.extractor`.
        model: Name of the model that answers.
    """

    @property
    def extractor(self) -> str:
        """See the class."""
        ...

    @property
    def model(self) -> str:
        """See the class."""
        ...

    async def complete(self, prompt: Prompt) -> Completion:
        """Ask once.

        Raises:
            ModelUnavailable: An outage, or settings with which no request passes
                (`ModelMisconfigured`); the job waits and keeps its attempt.
            ModelRefused: The server says no to the request itself.
            ModelMisbehaved: The body is not a chat completion.
        """
        ...

    async def close(self) -> None:
        """Release connections."""
        ...
