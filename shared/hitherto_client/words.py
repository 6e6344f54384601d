"""The enumerated values of the contract as words: `MEMORY_TYPE_GOAL` is `"goal"`.

A service newer than this client may answer with a value that has no word here; it reads as
`"unknown_11"`, with the number of the value. A value that is not set reads as `"unspecified"`.
"""

from __future__ import annotations

from typing import Literal

MemoryType = Literal[
    "preference",
    "goal",
    "fact",
    "decision",
    "context",
    "feedback",
    "personal",
    "question",
    "problem",
    "learning",
]
"""The kind of statement that a memory is."""

MemoryStatus = Literal[
    "active", "superseded", "contradicted", "archived", "achieved", "quarantined", "forgotten"
]
"""Whether a memory is in force. Reads return active and achieved ones unless asked for others."""

MemorySource = Literal["conversation", "explicit", "inference", "action", "system", "consolidation"]
"""How a memory was created."""

Origin = Literal["user", "assistant", "tool", "document", "operator"]
"""Who said it. Statements of users and operators are trusted more than the others."""

Confidence = Literal["low", "medium", "high"]
"""How clear a statement is."""

Role = Literal["user", "assistant", "system", "tool"]
"""The role of a message's speaker."""

Outcome = Literal["resolved", "ongoing", "needs_followup", "unspecified"]
"""How a conversation ended so far; `unspecified` if that is not known yet."""

EntityType = Literal["person", "project", "topic", "company", "place", "other"]
"""The kind of an entity."""

JobState = Literal["queued", "running", "succeeded", "failed", "dead", "cancelled"]
"""The state of a job. `failed` waits for a retry; succeeded, dead and cancelled are final."""

SearchScope = Literal["memories", "messages", "summaries", "documents"]
"""A kind of item that can be searched."""

LegState = Literal["ran", "skipped", "timed_out", "failed"]
"""How a leg of a search ended."""

MemoryOrder = Literal["importance", "recent"]
"""The order of the top memories of a context."""

PromptTemplate = Literal[
    "about_the_user", "what_you_know", "markdown", "relevant_context", "custom"
]
"""The format of the prompt block."""

PendingActionState = Literal[
    "pending_confirmation", "confirmed", "completed", "rejected", "expired"
]
"""The state of an action that the assistant proposed."""

SecretHandling = Literal["redact", "seal", "off"]
"""What happens to a secret: a marker replaces it; `seal` also keeps the message, encrypted."""

ReembedPhase = Literal["start", "status", "switch", "rollback"]
"""A step of a change of the embedding model."""

UsageDimension = Literal["user", "kind", "day", "model"]
"""What cost can be grouped by."""

HistoryEventKind = Literal[
    "created",
    "updated",
    "contradicted",
    "superseded",
    "achieved",
    "archived",
    "forgotten",
    "restored",
    "quarantined",
    "approved",
    "rejected",
    "rolled_back",
    "expired",
]
"""What happened to a memory or a profile."""

WebhookDeliveryState = Literal["pending", "delivered", "dead"]
"""How far a change is on its way to a webhook; dead ones can be retried."""
