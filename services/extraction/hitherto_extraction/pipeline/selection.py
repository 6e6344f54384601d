"""Selects the known memories for the prompt: the relevant ones, not just the newest.

A memory is relevant if it shares words with one of the new messages (BM25), mentions an entity
that they name, or has a tag whose words they contain. Each message is compared by itself: in the
words of a whole batch, a memory that only one message is about would be lost.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from uuid import UUID

from hitherto_extraction.pipeline.answer import EntityName
from hitherto_extraction.pipeline.sealed_memories import postings_of
from hitherto_extraction.storage import keyword_index, known_memories, mentions
from hitherto_extraction.storage.conversations import StoredMessage
from hitherto_extraction.storage.known_memories import CurrentMemory
from hitherto_extraction.storage.mentions import EntityNames
from hitherto_shared.database.together import together
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.model_api import estimate_tokens
from hitherto_shared.offloading import in_thread_if_long
from hitherto_shared.text.bm25 import Statistics, TermPostings, score_each
from hitherto_shared.text.normalise import fold
from hitherto_shared.text.terms import looked_up_terms, query_terms

MAX_TERMS = 400
"""Maximum terms to look up: of all terms of a batch, the rarest among the user's memories."""
MAX_TAGS = 60
MAX_ENTITIES = 500
"""Maximum entities whose names are looked up in a batch, the most mentioned."""
MAX_TOKENS = 4_000
"""Maximum tokens of all memories of a prompt, by the cautious estimate."""
_LINE_TOKENS = 15
"""Tokens of a memory's id, type and date."""
_LOOKS = 4
"""How many times further best numbers are looked up while some of them are not current memories."""
_WEIGHTS = (2.0, 1.0, 0.5)
"""Weights of words, entities and tags when their lists are fused."""
_SOFTNESS = 10
_LONGEST_NAME = 5
"""Maximum words of a name in text with spaces."""
_WORD = re.compile(r"\w+")
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]"
)


async def select_memories(
    user: UserRows,
    messages: Sequence[StoredMessage],
    *,
    limit: int,
    tags_in_use: Sequence[str] = (),
    sealed: Mapping[UUID, CurrentMemory] | None = None,
) -> list[CurrentMemory]:
    """At most `limit` current memories that the new messages may repeat, refine or contradict.

    Those with one of `tags_in_use` count if the messages contain its words. `sealed` are the user's
    sealed memories, opened: they are in no index.
    """
    if limit == 0:
        return []
    texts = [message.content for message in messages if message.role != "system"]
    by_message = await in_thread_if_long(sum(map(len, texts)), _terms_of, texts)
    terms = list(dict.fromkeys(term for each in by_message for term in each))
    hidden = sealed or {}
    named_tags = tags_named(terms, tags_in_use)
    by_words, by_entities, by_tags, top = await together(
        user.connection,
        _by_words(user, by_message, terms, limit, hidden),
        _by_entities(user, "\n".join(texts), limit),
        _by_tags(user, named_tags, limit),
        known_memories.read_top(user, limit),
    )
    by_tags += _of_tags(list(hidden.values()), named_tags)[: max(limit - len(by_tags), 0)]
    ranked = joined([[known.memory_id for known in by_words], by_entities, by_tags])
    rows = {known.memory_id: known for known in by_words}
    missing = [memory_id for memory_id in ranked[:limit] if memory_id not in rows]
    if missing:
        rows |= await known_memories.read_known(user, missing)
    chosen = {m: rows[m] for m in ranked[: limit - limit // 5] if m in rows}
    for known in top:
        if len(chosen) >= limit:
            break
        chosen.setdefault(known.memory_id, known)
    return within(list(chosen.values()), MAX_TOKENS)


def _terms_of(texts: Sequence[str]) -> list[list[str]]:
    """The distinct terms of each text, as for a question."""
    return [list(dict.fromkeys(looked_up_terms(text))) for text in texts]


async def _by_words(
    user: UserRows,
    by_message: Sequence[Sequence[str]],
    terms: Sequence[str],
    limit: int,
    sealed: Mapping[UUID, CurrentMemory],
) -> list[CurrentMemory]:
    """The current memories that match a message best: the best of each, then the next best."""
    postings, statistics = await keyword_index.read_postings(user, terms, most=MAX_TERMS)
    if sealed:
        more, statistics = postings_of(list(sealed.values()), terms, statistics)
        postings += more
    work = sum(len(each.lexical_nos) for each in postings) * len(by_message)
    best = await in_thread_if_long(work, _best_of_each, postings, by_message, statistics, 4 * limit)
    found: dict[int, CurrentMemory] = {}
    # Numbers of earlier wordings and of closed memories have no row to show.
    for start in range(0, min(len(best), _LOOKS * 4 * limit), 4 * limit):
        rows = await known_memories.read_by_lexical_no(user, best[start : start + 4 * limit])
        found |= {known.lexical_no: known for known in rows}
        if len(found) >= limit:
            break
    return [found[number] for number in best if number in found][:limit]


def _best_of_each(
    postings: Sequence[TermPostings],
    by_message: Sequence[Sequence[str]],
    statistics: Statistics,
    most: int,
) -> list[int]:
    """The numbers of the texts that match one message best, in turns."""
    scores = score_each(by_message, postings, statistics.documents, statistics.terms)
    ranked = [each.best(most) for each in scores]
    turns = (number for turn in zip_longest(*ranked) for number in turn if number is not None)
    return list(dict.fromkeys(turns))


async def _by_tags(user: UserRows, tags: Sequence[str], limit: int) -> list[UUID]:
    if not tags:
        return []
    return await mentions.memories_of_tags(user, tags, limit=limit)


def _of_tags(known: Sequence[CurrentMemory], tags: Sequence[str]) -> list[UUID]:
    """Memories with one of the tags, the most important first."""
    found = [each for each in known if not set(tags).isdisjoint(each.tags)]
    return [each.memory_id for each in sorted(found, key=lambda each: -each.importance)]


async def _by_entities(user: UserRows, text: str, limit: int) -> list[UUID]:
    named = [each.entity_id for each in await _entities_in(user, text)]
    return await mentions.memories_of_entities(user, named, limit=limit) if named else []


def entities_named(text: str, names: Sequence[EntityNames]) -> list[UUID]:
    """The entities that a text names, by name or alias, in any spelling."""
    if not names:
        return []
    folded = fold(text)
    words = _WORD.findall(folded)
    keys = {
        entity.entity_id: {
            tuple(_WORD.findall(name)) for name in (entity.name_key, *map(fold, entity.aliases))
        }
        for entity in names
    }
    lengths = {len(key) for held in keys.values() for key in held if len(key) <= _LONGEST_NAME}
    phrases = {
        tuple(words[at : at + length])
        for length in lengths
        for at in range(len(words) - length + 1)
        if length
    }

    def is_named(key: tuple[str, ...]) -> bool:
        name = " ".join(key)
        return key in phrases or (bool(_UNSPACED.search(name)) and name in folded)

    return [entity_id for entity_id, held in keys.items() if any(map(is_named, held))]


async def names_in(user: UserRows, text: str) -> list[EntityName]:
    """The entities known already that a text names."""
    return [EntityName(each.name, each.type) for each in await _entities_in(user, text)]


async def _entities_in(user: UserRows, text: str) -> list[EntityNames]:
    names = await mentions.read_names(user, limit=MAX_ENTITIES)
    named = set(await in_thread_if_long(len(text), entities_named, text, names))
    return [each for each in names if each.entity_id in named]


def tags_named(terms: Iterable[str], tags: Sequence[str]) -> list[str]:
    """The tags whose words are all among these terms of a text."""
    held = set(terms)
    found = []
    for tag in tags:
        words = query_terms(tag.replace("_", " "))
        if words and held.issuperset(words):
            found.append(tag)
    return found


def joined(lists: Sequence[Sequence[UUID]]) -> list[UUID]:
    """Several ranked lists as one: high are items that rank high in any, or occur in several."""
    scores: defaultdict[UUID, float] = defaultdict(float)
    for weight, ranked in zip(_WEIGHTS, lists, strict=True):
        for rank, memory_id in enumerate(ranked):
            scores[memory_id] += weight / (_SOFTNESS + rank)
    return sorted(scores, key=lambda memory_id: (-scores[memory_id], memory_id))


def within(known: Sequence[CurrentMemory], tokens: int) -> list[CurrentMemory]:
    """The memories, in order, that fit into a number of tokens."""
    kept: list[CurrentMemory] = []
    for memory in known:
        size = estimate_tokens(memory.content) + _LINE_TOKENS
        if size <= tokens:
            kept.append(memory)
            tokens -= size
    return kept
