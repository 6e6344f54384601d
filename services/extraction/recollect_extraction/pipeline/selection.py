"""Which of the memories already held go into the prompt: the relevant ones, not just the newest.

Relevant is what shares words with the new messages (BM25 over the user's own index, no second
embedding call); the most important ones fill what room is left.
"""

from __future__ import annotations

from collections.abc import Sequence

from recollect_extraction.storage import keyword_index, memories
from recollect_extraction.storage.conversations import StoredMessage
from recollect_extraction.storage.memories import Known
from recollect_shared.database.pool import Connection
from recollect_shared.models import Scope
from recollect_shared.text.bm25 import score
from recollect_shared.text.terms import query_terms

MAX_TERMS = 400
MAX_TAGS = 60
MAX_CHARACTERS = 12_000
"""All memories of a prompt together: about 3,000 tokens."""
_LINE = 40
"""What a memory's id, type and date take."""


async def select_memories(
    connection: Connection, scope: Scope, messages: Sequence[StoredMessage], *, limit: int
) -> list[Known]:
    """At most `limit` current memories that the new messages may repeat, refine or contradict."""
    if limit == 0:
        return []
    text = "\n".join(message.content for message in messages if message.role != "system")
    postings, statistics = await keyword_index.read_postings(
        connection, scope, query_terms(text)[:MAX_TERMS]
    )
    scores = score(postings, statistics.documents, statistics.terms)
    best = sorted(scores, key=lambda number: -scores[number])[: 2 * limit]
    by_words = await memories.read_by_lexical_no(connection, scope, best) if best else []
    by_words.sort(key=lambda known: -scores[known.lexical_no])
    chosen = {known.memory_id: known for known in by_words[: limit - limit // 5]}
    for known in await memories.read_top(connection, scope, limit):
        if len(chosen) >= limit:
            break
        chosen.setdefault(known.memory_id, known)
    return _within(list(chosen.values()), MAX_CHARACTERS)


def _within(known: Sequence[Known], characters: int) -> list[Known]:
    kept: list[Known] = []
    for memory in known:
        size = len(memory.content) + _LINE
        if size <= characters:
            kept.append(memory)
            characters -= size
    return kept
