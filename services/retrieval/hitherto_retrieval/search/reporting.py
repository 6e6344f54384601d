"""Reports the legs of a search: how each fared, and which of them found an item."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hitherto_retrieval.search.legs import Leg, Legs
from hitherto_retrieval.search.question import Question
from hitherto_retrieval.search.ranking.ranking import QueryIntent, RankedCandidate
from hitherto_retrieval.storage.candidate import Candidate, Kind
from hitherto_retrieval.storage.item_query import ItemQuery
from hitherto_shared.text.bm25 import Scores

EPISODIC: frozenset[Kind] = frozenset({"message", "summary"})
"""Messages and their summaries."""
NO_WEIGHT = "it has no weight in this search"
NO_QUERY = "there is no query"
_NO_WORD = "the query has no word to look up"
_NO_NAME = "the query names nothing that is known"


def report(
    question: Question,
    found: Mapping[Kind, Sequence[Candidate]],
    ranked: Sequence[RankedCandidate],
    query: ItemQuery,
    intent: QueryIntent,
    seconds: float,
    legs: Legs,
) -> None:
    """Report how each leg fared. They travel together, so all have the same time."""
    candidates = [candidate for kind in found.values() for candidate in kind]
    if query.vector is not None:
        near = sum(candidate.cosine is not None for candidate in candidates)
        legs.add(Leg("semantic", "ran", seconds, near))
    if query.entity_ids:
        named = sum(candidate.entities > 0 for candidate in candidates)
        legs.add(Leg("entity", "ran", seconds, named))
    else:
        reason = _NO_NAME if question.weighs("entity") else NO_WEIGHT
        legs.add(Leg("entity", "skipped", reason=reason))
    if intent.window is not None or intent.most_recent:
        timely = sum(item.timely or item.candidate.most_recent for item in ranked)
        legs.add(Leg("temporal", "ran", seconds, timely))
    if query.text_query is not None:
        matching = sum(candidate.text_rank > 0 for candidate in candidates)
        legs.add(Leg("fulltext", "ran", seconds, matching))
    episodes = [len(of_kind) for kind, of_kind in found.items() if kind in EPISODIC]
    if episodes:
        legs.add(Leg("episodic", "ran", seconds, sum(episodes)))
    if "document" in found:
        legs.add(Leg("documents", "ran", seconds, len(found["document"])))


def report_words(
    question: Question, scores: Mapping[Kind, Scores], seconds: float, legs: Legs
) -> None:
    """Report the keyword leg: the texts with a word of the question, if there are words."""
    if scores:
        matching = sum(len(scores.get(kind, ())) for kind in question.kinds)
        legs.add(Leg("keyword", "ran", seconds, matching))
        return
    reason = _NO_WORD if question.text.strip() else NO_QUERY
    if not question.weighs("keyword"):
        reason = NO_WEIGHT
    legs.add(Leg("keyword", "skipped", reason=reason))


def legs_of(item: RankedCandidate) -> list[str]:
    """The legs that found an item."""
    candidate = item.candidate
    found = []
    if candidate.cosine is not None and candidate.cosine > 0:
        found.append("semantic")
    if candidate.text_rank > 0:
        found.append("fulltext")
    if candidate.bm25 > 0:
        found.append("keyword")
    if candidate.entities > 0:
        found.append("entity")
    if item.timely or candidate.most_recent:
        found.append("temporal")
    if candidate.kind in ("message", "summary"):
        found.append("episodic")
    if candidate.kind == "document":
        found.append("documents")
    return found
