"""Reads found items whole: the best of a search with the messages around their sources."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast
from uuid import UUID

from hitherto_retrieval.search.corpora.corpus import Item
from hitherto_retrieval.search.question import Hit, Question
from hitherto_retrieval.search.ranking.ranking import RankedCandidate
from hitherto_retrieval.search.reads import UserReads, Whole
from hitherto_retrieval.storage import messages, neighbours
from hitherto_retrieval.storage.candidate import Key, Kind, MessageKey
from hitherto_retrieval.storage.neighbours import MessageFlags
from hitherto_retrieval.storage.statement import Answered, Asking, Statement
from hitherto_shared.models import HIDDEN_STATUSES, Memory, Message, Summary

_MAX_SOURCES = 5
"""Maximum number of a memory's sources with excerpts."""


async def read_results(
    asking: Asking,
    reads: UserReads,
    best: Sequence[RankedCandidate],
    question: Question,
    *,
    also: Sequence[Statement[Any]] = (),
) -> list[Hit]:
    """The items behind `best`, in the same order, without items deleted in the meantime."""
    excerpt = question.excerpt
    sources = None
    if excerpt:
        of_kind = [item.candidate.key for item in best if item.candidate.kind == "memory"]
        memory_ids = cast(Sequence[UUID], of_kind)
        sources = neighbours.sources_of(reads.scope, memory_ids) if memory_ids else None
    found = await read_whole(
        asking,
        reads,
        [(item.candidate.kind, item.candidate.key) for item in best],
        also=also if sources is None else [*also, sources],
        hides_forgotten=question.hides_forgotten,
    )
    said: Mapping[MessageKey, Mapping[MessageKey, Message]] = {}
    keys_of: list[Sequence[MessageKey]] = [()] * len(best)
    if excerpt:
        found_in = {} if sources is None else sources.answer
        keys_of = [_sources_of(item, found_in) for item in best]
        said = await _excerpts(asking, reads, keys_of, question)
    hits = []
    for ranked, keys in zip(best, keys_of, strict=True):
        candidate = ranked.candidate
        hit = found.hit(candidate.kind, candidate.key, ranked.score)
        if hit is not None:
            hit.ranked = ranked
            if keys:
                hit.excerpt = _united(said, keys)
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
        withheld = self._caveats.withheld
        if withheld and isinstance(item, Message) and key in withheld:
            return None
        if not self._hides_forgotten:
            return item
        # Forgotten, or put in quarantine, since it was found.
        if isinstance(item, Memory) and item.status in HIDDEN_STATUSES:
            return None
        # No program can tell whether a summary repeats what was forgotten.
        return None if isinstance(item, Summary) and item.withheld else item

    def hit(self, kind: Kind, key: Key, score: float) -> Hit | None:
        """The item as a result; None if there is no item.

        What held at another time is not looked up.
        """
        item = self.item(kind, key)
        if item is None:
            return None
        hit = Hit(item, score)
        if isinstance(item, Message):
            said, caveats = cast(MessageKey, key), self._caveats
            hit.answers = self._answered.get(said)
            # Of most users there are none.
            if self._of_the_present and (caveats.until or caveats.instead):
                hit.instead = caveats.instead.get(said, "")
                hit.partly_until = caveats.until.get(said)
        elif isinstance(item, Summary):
            if self._of_the_present:
                hit.partly_until = item.partly_until
        elif isinstance(item, Memory) and self._instead:
            hit.instead = self._instead.get(item.memory_id, "")
        return hit


async def read_whole(
    asking: Asking,
    reads: UserReads,
    wanted: Sequence[tuple[Kind, Key]],
    *,
    also: Sequence[Statement[Any]] = (),
    hides_forgotten: bool,
) -> WholeItems:
    """Items of all wanted kinds; `also` runs with them.

    Args:
        asking: Runs statements.
        reads: Reads the items.
        wanted: Kind and key of each.
        also: Further statements for the same round trip.
        hides_forgotten: Whether memories that are quarantined or forgotten are left out, with their
            messages and summaries, and messages noted of which a memory no longer holds.
    """
    keys: dict[Kind, list[Key]] = {}
    for kind, key in wanted:
        keys.setdefault(kind, []).append(key)
    items: dict[Kind, Whole] = {kind: reads.whole(kind, each) for kind, each in keys.items()}
    caveats: Statement[MessageFlags] = Answered(MessageFlags())
    answered: Statement[Mapping[MessageKey, int]] = Answered({})
    instead: Statement[dict[UUID, str]] = Answered({})
    if hides_forgotten and "message" in keys:
        said = list(dict.fromkeys(cast(Sequence[MessageKey], keys["message"])))
        caveats, answered = reads.caveats(said), reads.answered(said)
    moment = reads.moment
    # Of the present, nothing that was replaced is told; what was known then, nothing had followed.
    if hides_forgotten and "memory" in keys and moment is not None and moment.known_at is None:
        instead = neighbours.instead_of(reads.scope, cast(Sequence[UUID], keys["memory"]))
    await asking(*items.values(), *also, caveats, answered, instead)
    return WholeItems(
        {kind: read.answer for kind, read in items.items()},
        caveats.answer,
        instead.answer,
        answered.answer,
        moment is None,
        hides_forgotten,
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
    reads: UserReads,
    keys: Iterable[Sequence[MessageKey]],
    question: Question,
) -> Mapping[MessageKey, Mapping[MessageKey, Message]]:
    """For each source, the messages around it that may be shown, each of them read once.

    Sources whose messages would make the reply too large have none.
    """
    distinct = list(dict.fromkeys(key for several in keys for key in several))
    if not distinct:
        return {}
    passages = question.passages
    around = messages.around(
        reads.scope,
        distinct,
        excerpt=question.excerpt,
        # The caller's own filter applies to results, not to the messages around them.
        said_before=passages.created_before if question.moment is not None else None,
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
    read = messages.by_keys(reads.scope, near)
    caveats: Statement[MessageFlags] = Answered(MessageFlags())
    if question.hides_forgotten:
        caveats = neighbours.caveats(reads.scope, near)
    await asking(read, caveats)
    withheld = caveats.answer.withheld
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
