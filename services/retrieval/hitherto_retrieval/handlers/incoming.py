"""Validates search requests; reports every violation at once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from hitherto.v1 import retrieval_service_pb2 as pb
from hitherto.v1 import search_pb2
from hitherto_retrieval.search.question import Question
from hitherto_retrieval.search.ranking.balanced import Balanced
from hitherto_retrieval.search.ranking.ranking import Ranking
from hitherto_retrieval.search.ranking.weighted import Weighted
from hitherto_retrieval.storage.candidate import Kind
from hitherto_retrieval.storage.filters import Filters
from hitherto_retrieval.storage.moment import Moment
from hitherto_retrieval.storage.passage_filters import PassageFilters
from hitherto_shared.clock import utc_now
from hitherto_shared.convert import CONFIDENCE, MEMORY_SOURCE, MEMORY_STATUS, MEMORY_TYPE
from hitherto_shared.embeddings.protocol import Vector
from hitherto_shared.errors import invalid
from hitherto_shared.models import CONFIDENCES, CURRENT_STATUSES
from hitherto_shared.text.normalise import tag_key
from hitherto_shared.validation import MAX_ITEMS, Checks

MAX_QUERY_BYTES = 64 * 1024
MAX_LIMIT = 200
BALANCED: Ranking = Balanced()
RANKINGS: Mapping[str, Ranking] = {ranking.name: ranking for ranking in (BALANCED, Weighted())}
_FORMER_NAMES: Mapping[str, str] = {"seed003": "weighted"}
KINDS: Mapping[int, Kind] = {
    search_pb2.SEARCH_SCOPE_MEMORIES: "memory",
    search_pb2.SEARCH_SCOPE_MESSAGES: "message",
    search_pb2.SEARCH_SCOPE_SUMMARIES: "summary",
    search_pb2.SEARCH_SCOPE_DOCUMENTS: "document",
}
MAX_EXCERPT = 20
ORDERS = ("created_at", "importance", "last_accessed_at")
_MAX_LABELS = 100
_MAX_WEIGHT = 100.0
_LAST = datetime.max.replace(tzinfo=UTC) - timedelta(days=1)


def read_question(checks: Checks, request: pb.SearchMemoriesRequest) -> Question:
    """Converts a SearchMemories request to a search."""
    wanted = _FORMER_NAMES.get(request.ranking, request.ranking)
    named = checks.known("ranking", wanted, tuple(RANKINGS))
    ranking = RANKINGS.get(named or "", BALANCED)
    moment = read_moment(checks, request)
    text = checks.text("query", request.query, max_bytes=MAX_QUERY_BYTES)
    limit = checks.limit("limit", request.limit, default=10, maximum=MAX_LIMIT)
    filters = read_filters(checks, request)
    # What is in doubt may be left out of any search.
    filtered = filters != Filters(doubtful=filters.doubtful) or len(request.source_types) > 0
    return Question(
        text=text,
        limit=limit,
        filters=filters,
        reference_time=reference_time(checks, request),
        ranking=ranking,
        kinds=read_kinds(checks, request.scopes) or ("memory",),
        passages=_passages(checks, request, filters, moment),
        moment=moment,
        vector=_vector(checks, request),
        weights=_weights(checks, request.weights, ranking),
        min_score=_min_score(checks, request),
        # A filter says what belongs: it returns as many as exist.
        min_relevance=min_relevance(checks, request, floor=ranking is BALANCED and not filtered),
        excerpt=checks.limit(
            "excerpt_messages", request.excerpt_messages, default=0, maximum=MAX_EXCERPT
        ),
    )


def read_kinds(checks: Checks, scopes: Sequence[int]) -> list[Kind]:
    """The kinds of items to search, each once."""
    if len(scopes) > MAX_ITEMS:
        checks.add("scopes", f"must have at most {MAX_ITEMS} items, this has {len(scopes)}")
        return []
    for i, scope in enumerate(scopes):
        if scope not in KINDS:
            checks.add(f"scopes[{i}]", f"has no meaning for the number {scope}")
    return list(dict.fromkeys(KINDS[scope] for scope in scopes if scope in KINDS))


def read_filters(checks: Checks, request: Any) -> Filters:
    """The filters that SearchMemories and ListMemories share."""
    statuses = checks.all_of("statuses", request.statuses, MEMORY_STATUS)
    least = checks.one_of("confidence_min", request.confidence_min, CONFIDENCE)
    entity = checks.identifier("entity", request.entity, required=False)
    return Filters(
        statuses=statuses or CURRENT_STATUSES,
        only_current=not statuses,
        types=checks.all_of("types", request.types, MEMORY_TYPE) or None,
        tags=[
            # Normalised like stored tags; a tag that would normalise to nothing matches nothing.
            tag_key(tag) or tag
            for tag in checks.texts("tags", request.tags, maximum=_MAX_LABELS, max_chars=64)
        ]
        or None,
        sources=checks.all_of("sources", request.sources, MEMORY_SOURCE) or None,
        confidences=CONFIDENCES[CONFIDENCES.index(least) :] if least else None,
        conversation_id=checks.identifier(
            "conversation_id", request.conversation_id, required=False
        )
        or None,
        created_after=checks.moment("created_after", request, "created_after"),
        created_before=checks.moment("created_before", request, "created_before"),
        entity=entity or None,
        metadata=checks.struct("metadata_filter", request.metadata_filter),
        doubtful=with_doubtful(request),
    )


def with_doubtful(request: Any) -> bool:
    """Whether memories that are in doubt are wanted; they are unless the request says otherwise."""
    return bool(request.include_doubtful) or not request.HasField("include_doubtful")


def reference_time(checks: Checks, request: Any) -> datetime:
    """The time relative to which "yesterday" is resolved."""
    return checks.moment("reference_time", request, "reference_time") or utc_now()


def read_moment(checks: Checks, request: Any) -> Moment | None:
    """The other time that a request refers to, or None."""
    moment = Moment(
        as_of=checks.moment("as_of", request, "as_of"),
        known_at=checks.moment("known_at", request, "known_at"),
    )
    return None if moment.present else moment


def until(moment: Moment | None, before: datetime | None) -> datetime | None:
    """The upper limit on the times of passages; `before` is the caller's own limit."""
    # Half-open: what happened at the moment itself counts.
    ends = [
        then + timedelta(microseconds=1)
        for then in ((moment.as_of, moment.known_at) if moment else ())
        if then is not None and then < _LAST
    ]
    return min([*ends, *([before] if before else [])], default=None)


def check_size(question: Question, dimensions: int) -> None:
    """Check the caller's own vector against the active model, which only the database knows.

    Raises:
        InvalidRequest: It has a different number of dimensions.
    """
    if question.vector is not None and len(question.vector) != dimensions:
        raise invalid(
            "query_embedding",
            f"must have the {dimensions} dimensions of the active model, this has "
            f"{len(question.vector)}",
            reason="EMBEDDING_SIZE_MISMATCH",
            metadata={
                "field": "query_embedding",
                "expected": str(dimensions),
                "actual": str(len(question.vector)),
            },
        )


def _passages(
    checks: Checks, request: pb.SearchMemoriesRequest, filters: Filters, moment: Moment | None
) -> PassageFilters:
    """The filters that other kinds than memories have, by those of memories."""
    return PassageFilters(
        conversation_id=filters.conversation_id,
        created_after=filters.created_after,
        created_before=until(moment, filters.created_before),
        stored_by=moment.known_at if moment else None,
        source_types=checks.texts(
            "source_types", request.source_types, maximum=_MAX_LABELS, max_chars=64
        )
        or None,
        entity=filters.entity,
        metadata=filters.metadata,
    )


def _vector(checks: Checks, request: pb.SearchMemoriesRequest) -> Vector | None:
    if not request.query_embedding:
        return None
    vector = np.asarray(request.query_embedding, dtype=np.float64)
    norm = float(np.linalg.norm(vector))
    if not math.isfinite(norm) or norm == 0:
        checks.add("query_embedding", "must be finite and not all zero")
        return None
    return (vector / norm).astype(np.float32)


def _weights(checks: Checks, weights: Mapping[str, float], ranking: Ranking) -> dict[str, float]:
    if len(weights) > MAX_ITEMS:
        checks.add("weights", f"must have at most {MAX_ITEMS} items, this has {len(weights)}")
        return {}
    for name, weight in weights.items():
        if name not in ranking.weights:
            checks.add(f"weights[{name[:64]}]", f"must be one of {', '.join(ranking.weights)}")
        elif not 0 <= weight <= _MAX_WEIGHT:
            checks.add(f"weights[{name}]", f"must lie between 0 and {_MAX_WEIGHT:.0f}")
    counting = {**ranking.weights, **weights}.items()
    if sum(weight for name, weight in counting if name not in ranking.lifts) <= 0:
        checks.add("weights", "must not all be 0, those that only lift others apart")
    return dict(weights)


def min_relevance(checks: Checks, request: Any, *, floor: bool = True) -> float | None:
    """The least relevance of a result; None for the floor, if there is one by default."""
    if not request.HasField("min_relevance"):
        return None if floor else 0.0
    if not 0 <= request.min_relevance <= 1:
        checks.add("min_relevance", "must lie between 0 and 1")
    return float(request.min_relevance)


def _min_score(checks: Checks, request: pb.SearchMemoriesRequest) -> float | None:
    if not request.HasField("min_score"):
        return None
    if not math.isfinite(request.min_score):
        checks.add("min_score", "must be a finite number")
    return request.min_score
