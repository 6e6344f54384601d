"""Reads found items whole: the best of a search with the messages around their sources."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast
from uuid import UUID

from hitherto_retrieval.search.corpora.cached import CachedUser
from hitherto_retrieval.search.corpora.corpus import Item
from hitherto_retrieval.search.question import Hit
from hitherto_retrieval.search.ranking.ranking import RankedCandidate
from hitherto_retrieval.storage import (
    chunks,
    conversations,
    memories,
    messages,
    neighbours,
    past,
)
from hitherto_retrieval.storage.candidate import Key, Kind, MessageKey
from hitherto_retrieval.storage.moment import PRESENT, Moment
from hitherto_retrieval.storage.neighbours import MessageFlags
from hitherto_retrieval.storage.passage_filters import PassageFilters
from hitherto_retrieval.storage.statement import Answered, Asking, Statement
from hitherto_shared.models import Memory, Message, Scope, Summary

_MAX_SOURCES = 5
"""Maximum number of a memory's sources with excerpts."""


async def read_results(
    asking: Asking,
    scope: Scope,
    best: Sequence[RankedCandidate],
    *,
    also: Sequence[Statement[Any]] = (),
    excerpt: int,
    moment: Moment | None,
    passages: PassageFilters,
    hides_forgotten: bool,
    cached: CachedUser | None = None,
) -> list[Hit]:
    """The items behind `best`, in the same order, without items deleted in the meantime.

    Args:
        asking: Runs statements.
        scope: The user.
        best: The results.
        also: Further statements for the same round trip.
        excerpt: Number of messages around their sources to return.
        moment: Another time, whose memories are returned.
        passages: Upper limits on the times at which items were said and stored.
        hides_forgotten: Whether messages and summaries whose memory is quarantined or forgotten are
            left out, also of excerpts, and messages noted of which a memory no longer holds.
        cached: A snapshot to read from.
    """
    memory_ids = [
        cast(UUID, item.candidate.key) for item in best if item.candidate.kind == "memory"
    ]
    sources = neighbours.sources_of(scope, memory_ids) if excerpt and memory_ids else None
    found = await read_whole(
        asking,
        scope,
        [(item.candidate.kind, item.candidate.key) for item in best],
        also=also if sources is None else [*also, sources],
        moment=moment,
        hides_forgotten=hides_forgotten,
        cached=cached,
    )
    said: Mapping[MessageKey, Mapping[MessageKey, Message]] = {}
    keys_of: list[Sequence[MessageKey]] = [()] * len(best)
    if excerpt:
        found_in = {} if sources is None else sources.answer
        keys_of = [_sources_of(item, found_in) for item in best]
        said = await _excerpts(
            asking,
            scope,
            keys_of,
            excerpt,
            moment=moment,
            passages=passages,
            hides_forgotten=hides_forgotten,
        )
    hits = []
    for ranked, keys in zip(best, keys_of, strict=True):
        candidate = ranked.candidate
        item = found.item(candidate.kind, candidate.key)
        if item is not None:
            hit = Hit(item, ranked.score, ranked, _united(said, keys) if keys else ())
            hit.partly_until = found.partly_until(item, candidate.key)
            hit.instead = found.instead(item, candidate.key)
            hit.answers = found.answers(candidate.key)
            hits.append(hit)
    return hits


@dataclass(frozen=True, slots=True)
class WholeItems:
    """Items by kind and key, and what a prompt must know of some of them."""

    _items: Mapping[Kind, Mapping[Key, Item]]
    _caveats: MessageFlags
    _instead: Mapping[UUID, str]
    _answered: Mapping[MessageKey, int]
    _of_the_present: bool
    _hides_forgotten: bool

    def item(self, kind: Kind, key: Key) -> Item | None:
        """The item; None if it was deleted in the meantime, or is hidden."""
        item = self._items[kind].get(key)
        if isinstance(item, Message) and key in self._caveats.withheld:
            return None
        # No program can tell whether a summary repeats what was forgotten.
        if self._hides_forgotten and isinstance(item, Summary) and item.withheld:
            return None
        return item

    def instead(self, item: Item, key: Key) -> str:
        """See `Hit.instead`."""
        if isinstance(item, Memory):
            return self._instead.get(item.memory_id, "")
        if self._of_the_present and isinstance(item, Message):
            return self._caveats.instead.get(cast(MessageKey, key), "")
        return ""

    def answers(self, key: Key) -> int | None:
        """See `Hit.answers`."""
        return self._answered.get(cast(MessageKey, key))

    def partly_until(self, item: Item, key: Key) -> datetime | None:
        """See `Hit.partly_until`. What held at another time is not looked up."""
        if not self._of_the_present:
            return None
        if isinstance(item, Message):
            return self._caveats.until.get(cast(MessageKey, key))
        return item.partly_until if isinstance(item, Summary) else None


async def read_whole(
    asking: Asking,
    scope: Scope,
    wanted: Sequence[tuple[Kind, Key]],
    *,
    also: Sequence[Statement[Any]] = (),
    moment: Moment | None = None,
    hides_forgotten: bool,
    cached: CachedUser | None = None,
) -> WholeItems:
    """Items of all wanted kinds; `also` runs with them.

    Memories are those of `moment`, or from a snapshot. `hides_forgotten` as in `read_results`.
    """
    keys: dict[Kind, list[Key]] = {}
    for kind, key in wanted:
        keys.setdefault(kind, []).append(key)
    caveats: Statement[MessageFlags] | Answered[MessageFlags] = Answered(MessageFlags())
    answered: Statement[Mapping[MessageKey, int]] | Answered[Mapping[MessageKey, int]]
    answered = Answered({})
    if hides_forgotten and "message" in keys:
        said = list(dict.fromkeys(cast(Sequence[MessageKey], keys["message"])))
        known = cached.caveats if cached is not None else None
        caveats = neighbours.caveats(scope, said) if known is None else Answered(known)
        asked_by = cached.answered(said) if cached is not None else None
        answered = neighbours.answered(scope, said) if asked_by is None else Answered(asked_by)
    # Of the present, nothing that was replaced is told; what was known then, nothing had followed.
    tells_what_followed = hides_forgotten and moment is not None and moment.known_at is None
    instead: Statement[dict[UUID, str]] | None = None
    found: dict[Kind, Mapping[Key, Item]] = {}
    reads: dict[Kind, Statement[Mapping[Key, Item]]] = {}
    for kind, of_kind in keys.items():
        at_hand = cached.whole(kind, of_kind) if cached is not None else None
        if at_hand is None:
            reads[kind] = whole(scope, kind, of_kind, moment)
            if kind == "memory" and tells_what_followed:
                instead = neighbours.instead_of(scope, cast(Sequence[UUID], of_kind))
        else:
            found[kind] = at_hand
    asked = [each for each in (caveats, answered, instead) if isinstance(each, Statement)]
    await asking(*reads.values(), *also, *asked)
    for kind, read in reads.items():
        found[kind] = read.answer
    followed = {} if instead is None else instead.answer
    return WholeItems(
        found, caveats.answer, followed, answered.answer, moment is None, hides_forgotten
    )


def whole(
    scope: Scope, kind: Kind, keys: Sequence[Key], moment: Moment | None = None
) -> Statement[Mapping[Key, Item]]:
    """The items of one kind by key, without items deleted in the meantime.

    With `moment` memories are as they stood then, and summaries of a later time are left out.
    """
    if kind == "memory":
        ids = cast(Sequence[UUID], keys)
        read = past.whole(scope, moment, ids) if moment else memories.by_ids(scope, ids)
        return read.meaning(lambda found: {memory.memory_id: memory for memory in found})
    if kind == "message":
        return messages.by_keys(scope, cast(Sequence[MessageKey], keys)).meaning(
            # Keys of several kinds, of which these are one.
            lambda found: cast(Mapping[Key, Item], found)
        )
    if kind == "summary":
        summaries = conversations.by_conversations(
            scope, cast(Sequence[str], keys), moment=moment or PRESENT
        )
        return summaries.meaning(
            lambda found: {summary.conversation_id: summary for summary in found}
        )
    return chunks.by_ids(scope, cast(Sequence[UUID], keys)).meaning(
        lambda found: {chunk.chunk_id: chunk for chunk in found}
    )


def _sources_of(
    item: RankedCandidate, found_in: Mapping[UUID, Sequence[MessageKey]]
) -> Sequence[MessageKey]:
    key = item.candidate.key
    if item.candidate.kind == "message":
        return [cast(MessageKey, key)]
    if item.candidate.kind == "memory":
        return found_in.get(cast(UUID, key), ())[:_MAX_SOURCES]
    return ()


async def _excerpts(
    asking: Asking,
    scope: Scope,
    keys: Iterable[Sequence[MessageKey]],
    excerpt: int,
    *,
    moment: Moment | None,
    passages: PassageFilters,
    hides_forgotten: bool,
) -> Mapping[MessageKey, Mapping[MessageKey, Message]]:
    """For each source, the messages around it that may be shown, each of them read once.

    Sources whose messages would make the reply too large have none.
    """
    distinct = list(dict.fromkeys(key for several in keys for key in several))
    if not distinct:
        return {}
    around = messages.around(
        scope,
        distinct,
        excerpt=excerpt,
        # The caller's own filter applies to results, not to the messages around them.
        said_before=passages.created_before if moment is not None else None,
        stored_by=passages.stored_by,
    )
    await asking(around)
    # One message may stand around many results, and is sent with each.
    left = messages.MOST_BYTES
    told: dict[MessageKey, Sequence[MessageKey]] = {}
    for source, sizes in around.answer.items():
        left -= sum(sizes.values())
        if left >= 0:
            told[source] = list(sizes)
    near = list(dict.fromkeys(key for several in told.values() for key in several))
    read, caveats = messages.by_keys(scope, near), neighbours.caveats(scope, near)
    await asking(read, *([caveats] if hides_forgotten else []))
    withheld = caveats.answer.withheld if hides_forgotten else frozenset()
    shown = {key: message for key, message in read.answer.items() if key not in withheld}
    return {
        source: {key: shown[key] for key in several if key in shown}
        for source, several in told.items()
    }


def _united(
    said: Mapping[MessageKey, Mapping[MessageKey, Message]], keys: Sequence[MessageKey]
) -> list[Message]:
    """The messages around several items, each once, by conversation and order."""
    found: dict[MessageKey, Message] = {}
    for key in sorted(keys):
        for near, message in said.get(key, {}).items():
            found.setdefault(near, message)
    return list(found.values())
