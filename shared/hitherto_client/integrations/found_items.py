"""What memory finds for a question, for packages that ask for entries in place of a block."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from hitherto_client._sync.client import Hitherto
from hitherto_client.integrations.exchange import MOST_QUESTION, storable
from hitherto_client.results.memories import Memory
from hitherto_client.results.search import SearchResult
from hitherto_client.tools.results import visible


@dataclass(frozen=True, slots=True)
class FoundItem:
    """Something that is told to a model.

    Attributes:
        kind: What it is.
        id: Its id; of a summary, its conversation's, and of a part of a document, the document's.
        text: Its words, without characters that nobody sees.
        said_by: Who said it, such as `user` or `assistant`; empty for a summary.
        at: Since when it has been true, or when it was said or written.
        score: From 0 to 1.
    """

    kind: Literal["memory", "message", "summary", "document"]
    id: str
    text: str
    said_by: str
    at: datetime | None
    score: float


def find(memory: Hitherto, user: str, query: str, *, limit: int, timeout: float) -> list[FoundItem]:
    """What is known that matters for a question, best first, of all kinds on one scale.

    It is what a block of memory would tell: nothing that was forgotten, that asks to ignore
    instructions, or that is not about the question. Without a question, memories by importance.
    """
    question = storable(query[:MOST_QUESTION])
    asks = bool(question.strip())
    context = memory.get_context(
        user,
        question,
        max_relevant=limit if asks else 0,
        max_memories=0 if asks else limit,
        max_conversations=0,
        max_entities=0,
        timeout=timeout,
    )
    if asks:
        return [_found(result) for result in context.relevant]
    return [_memory(one, one.importance) for one in context.memories]


def _found(result: SearchResult) -> FoundItem:
    score, text = result.score, visible(result.text)
    if (said := result.message) is not None:
        return FoundItem("message", said.id, text, said.name or said.role, said.created_at, score)
    if (told := result.summary) is not None:
        return FoundItem("summary", told.conversation_id, text, "", told.updated_at, score)
    if (part := result.document_chunk) is not None:
        text = text or visible(part.summary)
        return FoundItem("document", part.document_id, text, "document", part.created_at, score)
    assert result.memory is not None
    return _memory(result.memory, score)


def _memory(one: Memory, score: float) -> FoundItem:
    text, since = visible(one.content), one.valid_from or one.created_at
    return FoundItem("memory", one.id, text, one.origin, since, score)
