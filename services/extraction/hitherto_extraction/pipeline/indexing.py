"""Writes the keyword index entries of a plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from hitherto_extraction.pipeline.evidence import MAX_SOURCE_TEXT
from hitherto_extraction.pipeline.operations import Plan, Rewrite
from hitherto_extraction.storage import keyword_index, known_memories
from hitherto_extraction.storage.reindexing import IndexedMemory
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.text.terms import content_terms, count_terms

MAX_WORDS = 2 * MAX_SOURCE_TEXT
"""Maximum characters of source words that are indexed with a reworded memory, the newest first."""
EARLIER_SOURCES = 16
_TEXTS_AT_ONCE = keyword_index.SEGMENT


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """The number of a text in the keyword index, and its length in terms."""

    lexical_no: int
    length: int


async def index_plan(user: UserRows, plan: Plan, *, heard: bool) -> dict[UUID, IndexEntry]:
    """Number and index the text of every new or reworded memory, by its id.

    A new one that is stored sealed has a number and no words. `heard` says whether the source words
    of memories are indexed with them. Those of a user with encryption on are not, because they are
    sealed themselves.
    """
    texts = {
        made.memory_id: Counter[str]()
        if made.memory_id in plan.sealed
        else terms_of(
            made.item.content,
            made.evidence.text if heard else "",
            made.item.keywords,
            made.item.questions,
        )
        for made in plan.creations
    }
    growth = sum(terms.total() for terms in texts.values())
    # Of several versions in a row, only the last one is found by its words.
    reworded = {
        memory_id: change
        for memory_id, change in last_rewordings(plan).items()
        if memory_id not in plan.sealed
    }
    words = await _words(user, plan, list(reworded) if heard else [])
    for memory_id, change in reworded.items():
        after = change.after
        texts[memory_id] = terms_of(
            after.content, words.get(memory_id, ""), after.keywords, after.questions
        )
        growth += texts[memory_id].total() - change.before.lexical_length
    if not texts:
        return {}
    first = 1 + await keyword_index.reserve_numbers(
        user, texts=len(texts), documents=len(plan.creations), terms=growth
    )
    numbers = {
        key: IndexEntry(first + i, terms.total()) for i, (key, terms) in enumerate(texts.items())
    }
    keys = list(texts)
    for start in range(0, len(keys), _TEXTS_AT_ONCE):
        await keyword_index.append(
            user,
            {numbers[key].lexical_no: texts[key] for key in keys[start : start + _TEXTS_AT_ONCE]},
        )
    return numbers


def terms_of(
    content: str, words: str, keywords: Sequence[str], questions: Sequence[str]
) -> Counter[str]:
    """The index terms of a memory: its content, its source words, keywords and questions.

    A question adds the terms that nothing else has, once each, so that repetition by a model adds
    no weight.
    """
    found = count_terms(content, "\n".join([words, *keywords]))
    asked = content_terms("\n".join(questions))
    found.update(term for term in asked if term not in found)
    return found


def terms_left(memory: IndexedMemory) -> Counter[str]:
    """The index terms of a stored memory, with those of its source words that are left."""
    words = memory.source_text[:MAX_SOURCE_TEXT]
    return terms_of(memory.content, words, memory.keywords, memory.questions)


def last_rewordings(plan: Plan) -> dict[UUID, Rewrite]:
    """The change that leaves each reworded memory with its indexed words."""
    return {
        change.after.memory_id: change
        for change in plan.rewrites
        if change.vector_of is not None
        or list(change.after.keywords) != list(change.before.keywords)
        or list(change.after.questions) != list(change.before.questions)
    }


async def _words(user: UserRows, plan: Plan, memory_ids: Sequence[UUID]) -> dict[UUID, str]:
    """The source words of memories: those of this reply first, then those of earlier sources."""
    if not memory_ids:
        return {}
    earlier = await known_memories.source_words(
        user, memory_ids, newest=EARLIER_SOURCES, characters=MAX_SOURCE_TEXT
    )
    new = set(plan.sources)
    found: dict[UUID, str] = {}
    for memory_id in memory_ids:
        texts = [c.source_text for c in reversed(plan.rewrites) if c.after.memory_id == memory_id]
        texts += [
            content
            for source, content in earlier.get(memory_id, ())
            if (memory_id, source) not in new
        ]
        found[memory_id] = "\n".join(filter(None, texts))[:MAX_WORDS]
    return found
