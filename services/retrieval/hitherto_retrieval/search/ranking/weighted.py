"""The ranking `weighted`: the documented formula of relevance (D4, D5, D6, F2).

Memories and documents:

    score = 0.5 cosine + max(0, 0.2 - days/365 × 0.2) + min(0.3, 0.1 × entities)
            + source priority (0 to 0.1) + min(0.1, 0.05 × ts_rank)

Messages and summaries, the episodic items, which never score above 0.5:

    score = ((words in common / words of the question) × 0.4 + max(0, 1 - days/365) × 0.3) × 0.5

A question for the most recent items gives these a fixed score of 0.9 and puts them first, by time.
If it is about something as well ("recent news of the Atlas project"), only those that share a word
or a name with it, unless none does. A question that names a time ("in May") adds 0.4 × closeness to
what was said or made then, which is 1 inside that time and decays outside (`date`), and 0.15 ×
closeness to an episodic item; a score ends at 1.2 and at 0.5 all the same.

A weight is the most that a component adds: with the default weights the sums are those above, and
another weight stretches its component together with its limit ("entity": 0.6 is 0.2 for each entity
and 0.6 at most). "recency" counts for episodic items too, with three quarters of its weight. The
weight of "temporal" is the fixed score; 0 does without it. The cap of 0.5 stays what it is.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from uuid import UUID

from hitherto_retrieval.search.ranking.ranking import QueryIntent, RankedCandidate
from hitherto_retrieval.search.words import words_in
from hitherto_retrieval.storage.candidate import Candidate, Key, Kind
from hitherto_shared.dates.window import closeness

_WEIGHTS: Mapping[str, float] = {
    "semantic": 0.5,
    "recency": 0.2,
    "entity": 0.3,
    "source_priority": 0.1,
    "fulltext": 0.1,
    "keyword": 0.4 * 0.5,
    "date": 0.4,
    "temporal": 0.9,
}
_NAMES = (*_WEIGHTS, "cap")
_DAYS = 365
_ENTITIES = 3
"""Number of entities with the full score."""
_FULL_TEXT_RANK = 2.0
"""The ts_rank with the full score."""
_PRIORITY: Mapping[str, float] = {
    "gmail": 1.0,
    "outlook": 1.0,
    "gdrive": 0.8,
    "onedrive": 0.8,
    "jira": 0.7,
    "calendar": 0.5,
}
_EPISODIC = frozenset({"message", "summary"})
_EPISODIC_CAP = 0.5
_EPISODIC_RECENCY = 0.3 * 0.5 / 0.2
"""The weight of recency for an episodic item, as a share of its weight for others."""
_EPISODIC_DATE = 0.15 / 0.4
"""The same for the time that the question names: together with the other two it reaches the
limit."""
_MOST = 1.2
"""The maximum sum of an item's components, including the time that the question names."""
_TIMELY = 0.05
"""The closeness to the window from which an item counts as found by its time."""
_ANY_TIME = datetime.min.replace(tzinfo=UTC)


class Weighted:
    """The ranking `weighted`."""

    name = "weighted"
    weights = _WEIGHTS
    needs_text_rank = True
    lifts: frozenset[str] = frozenset()
    dispensable: frozenset[str] = frozenset()

    def rank(
        self, candidates: Sequence[Candidate], intent: QueryIntent, weights: Mapping[str, float]
    ) -> list[RankedCandidate]:
        """See `Ranking.rank`; ties are broken by importance, then by recency, then by key.

        Episodic items are left out if `leaves_out_episodic` says so, except those that were found
        as the most recent.
        """
        weight = {**_WEIGHTS, **weights}
        without_episodic = leaves_out_episodic(intent)
        words = frozenset(intent.words)
        fixed = weight["temporal"] if intent.most_recent else 0.0
        lifted = _lifted(candidates, intent)
        ranked = []
        for candidate in candidates:
            limit = math.inf
            if candidate.kind in _EPISODIC:
                if without_episodic and not _brought_in(candidate, intent):
                    continue
                limit = _EPISODIC_CAP
                parts = _parts_of_episode(candidate, intent, words, weight)
            else:
                parts = _parts(candidate, intent, weight)
            score, lift, cut = _settled(
                sum(parts), limit, fixed, lifted=(candidate.kind, candidate.key) in lifted
            )
            ranked.append(
                RankedCandidate(
                    candidate, score, _NAMES, (*parts, lift, cut), _timely(candidate, intent)
                )
            )
        # Sorting is stable, so the first order breaks the last ties.
        ranked.sort(key=lambda item: _identity(item.candidate.kind, item.candidate.key))
        first = lifted if fixed > 0 else frozenset()
        ranked.sort(key=lambda item: _place(item, first), reverse=True)
        return ranked


def leaves_out_episodic(intent: QueryIntent) -> bool:
    """Whether messages and summaries cannot be answers, because something else was asked for."""
    return intent.most_recent or bool(intent.source_types)


def _brought_in(candidate: Candidate, intent: QueryIntent) -> bool:
    return intent.most_recent and candidate.most_recent


def _lifted(candidates: Sequence[Candidate], intent: QueryIntent) -> Collection[tuple[Kind, Key]]:
    """Which of the most recent items the question refers to."""
    brought = [candidate for candidate in candidates if _brought_in(candidate, intent)]
    about = [candidate for candidate in brought if candidate.bm25 > 0 or candidate.entities]
    return {(each.kind, each.key) for each in (about if intent.topic and about else brought)}


def _dated(
    candidate: Candidate, intent: QueryIntent, weight: float, parts: Sequence[float], *, most: float
) -> float:
    """What an item in the question's period adds to its other components, up to `most`."""
    if intent.window is None:
        return 0.0
    left = max(0.0, most - sum(parts))
    return min(weight * closeness(intent.window, candidate.happened_at), left)


def _parts(
    candidate: Candidate, intent: QueryIntent, weight: Mapping[str, float]
) -> tuple[float, ...]:
    """All components except those that raise and cap the score, in the order of `_NAMES`."""
    cosine = candidate.cosine if candidate.cosine is not None else 0.0
    parts = (
        weight["semantic"] * _within_1(cosine),
        weight["recency"] * _freshness(candidate.happened_at, intent.now),
        weight["entity"] * _within_1(candidate.entities / _ENTITIES),
        weight["source_priority"] * _PRIORITY.get(candidate.source_type, 0.0),
        weight["fulltext"] * _within_1(candidate.text_rank / _FULL_TEXT_RANK),
        0.0,
    )
    return (*parts, _dated(candidate, intent, weight["date"], parts, most=_MOST))


def _parts_of_episode(
    candidate: Candidate, intent: QueryIntent, words: frozenset[str], weight: Mapping[str, float]
) -> tuple[float, ...]:
    """The same for an episodic item."""
    common = words_in(words, candidate.words) if words else 0
    freshness = _EPISODIC_RECENCY * _freshness(candidate.happened_at, intent.now)
    overlap = common / max(1, len(words))
    parts = (0.0, weight["recency"] * freshness, 0.0, 0.0, 0.0, weight["keyword"] * overlap)
    share = _EPISODIC_DATE * weight["date"]
    return (*parts, _dated(candidate, intent, share, parts, most=_EPISODIC_CAP))


def _settled(
    total: float, limit: float, fixed: float, *, lifted: bool
) -> tuple[float, float, float]:
    """The score of an item, the raise to `fixed`, and the amount cut by the cap (0 or less).

    Nothing exceeds the fixed score of the most recent items: their scores follow their order.
    Without such items `fixed` is 0.
    """
    if fixed > 0:
        if lifted and total <= fixed:
            return fixed, fixed - total, 0.0
        limit = fixed if lifted else min(limit, fixed)
    return (limit, 0.0, limit - total) if total > limit else (total, 0.0, 0.0)


def _within_1(share: float) -> float:
    # In this order of comparison, NaN counts as 0.
    return min(1.0, max(0.0, share))


def _freshness(moment: datetime, now: datetime) -> float:
    """1 today and 0 from a year on, by whole days; a future item counts like today."""
    return 1.0 - min(_DAYS, max(0, (now - moment).days)) / _DAYS


def _timely(candidate: Candidate, intent: QueryIntent) -> bool:
    return intent.window is not None and closeness(intent.window, candidate.happened_at) >= _TIMELY


def _place(
    item: RankedCandidate, lifted: Collection[tuple[Kind, Key]]
) -> tuple[float, bool, datetime, float, datetime]:
    """The sort key of an item, the greater first."""
    candidate = item.candidate
    first = (candidate.kind, candidate.key) in lifted
    return (
        item.score,
        first,
        candidate.happened_at if first else _ANY_TIME,
        candidate.importance,
        candidate.created_at,
    )


def _identity(kind: str, key: Key) -> tuple[str, str, int]:
    """A unique order over items of all kinds."""
    if isinstance(key, UUID):
        return kind, key.hex, 0
    return (kind, key, 0) if isinstance(key, str) else (kind, *key)
