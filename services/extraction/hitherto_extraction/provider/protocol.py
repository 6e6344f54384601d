"""The interface between the pipeline and its extractor: a language model or the offline rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class PromptMessage:
    """One message in the prompt. `local_id` is `m1`, `m2`… and is valid for one call."""

    local_id: str
    role: str  # "user", "assistant", "system" or "tool"
    name: str
    content: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class PromptMemory:
    """One known memory in the prompt. `local_id` is `e1`, `e2`… and is valid for one call.

    `marks` say what is special about it, such as `achieved`.
    """

    local_id: str
    type: str  # lower-case name of the MemoryType, such as "preference"
    content: str
    date: datetime
    tags: Sequence[str] = ()
    marks: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Batch:
    """The input of one extraction call."""

    profile: Mapping[str, Any]
    summary: Mapping[str, Any] | None
    memories: Sequence[PromptMemory]
    messages: Sequence[PromptMessage]
    time_zone: str = "UTC"
    tags_in_use: Sequence[str] = ()
    user_id: str = ""


EXTRACTION = "extraction"
CONSOLIDATION = "consolidation"
RECONCILIATION = "reconciliation"


@dataclass(frozen=True, slots=True)
class Prompt:
    """One call: the texts for a language model, and the batch from which they were written.

    A language model reads `system` and `user`; the offline extractor reads `batch`. Both answer
    with the JSON object described in docs/extraction.md. `task` selects the request: what is worth
    remembering of a conversation, which memories say the same, or what a change means for others;
    the batches of the last two hold memories and no messages.
    """

    system: str
    user: str
    batch: Batch
    schema: Mapping[str, Any]
    task: str = EXTRACTION


@dataclass(frozen=True, slots=True)
class Completion:
    """The raw answer.

    Attributes:
        text: Untrusted.
        model: The model's name by its own account.
        truncated: The model stopped at the limit of tokens.
        filtered: A content filter, or the model, declined to answer.
        unread: The server has cut the prompt: the model has read only a part of it.
    """

    text: str
    model: str
    calls: int
    input_tokens: int
    output_tokens: int
    truncated: bool = False
    filtered: bool = False
    unread: bool = False


class ChatModel(Protocol):
    """Answers one prompt."""

    @property
    def extractor(self) -> str:
        """`openai` or `offline`, as reported in `JobResult.extractor`."""
        ...

    @property
    def model(self) -> str:
        """Name of the model that answers."""
        ...

    async def complete(self, prompt: Prompt) -> Completion:
        """Request once.

        Raises:
            ModelUnavailable: An outage, or settings with which no request succeeds
                (`ModelMisconfigured`); the job waits and keeps its attempt.
            ModelRefused: The server refuses the request itself.
            ModelMisbehaved: The body is not a chat completion.
        """
        ...

    async def close(self) -> None:
        """Release connections."""
        ...
