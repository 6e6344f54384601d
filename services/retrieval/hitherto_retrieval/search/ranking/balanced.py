"""The default ranking, `balanced`: a sum of features, each on its own scale and explained.

    own   = cosine + 0.5 source + b/(b+8) + 0.4 date + 0.1 entity + 0.2 speaker + 0.2 priority
    score = (own + 0.5 (best own of the same conversation) + 0.5 neighbours) / scale

`cosine` compares the query with the item and b is the item's BM25; for a message, both are at least
those of a memory learnt from it (`facts` is the difference). `source` is the cosine with the words
a memory came from, and `date` is 1 inside the time window the question names, decaying outside.
`entity`, `speaker` and `source_priority` are 1 if the question names an entity that the item
mentions, its speaker, or its kind of content. What an assistant without a name said counts 0.7 of
all this, unless the question asks for it: it is rarely evidence about the user.

If the question asks for the most recent, `date` is 1 for the newest item, falls to a half over all
items of the temporal leg, source by source, and is below 0.4 for others. If the question has no
subject ("my last emails"), `date` takes over the weights of `cosine` and `b`, which would compare
nothing. If the question asks for the current state ("where does she live now?"), the newest memory
has 1 if no other matches better; older memories and worse matches have less. Of equal matches, the
last statement is the one that holds.

Vectors of the offline embedder compare spelling, which b/(b+8) already does better: with them
`cosine` and `source` count half.

The surroundings of an answer are often part of it. Items of a conversation raise each other's
scores, and messages raise those directly beside them (`neighbour` is 0.6 of the best one turn away
and 0.4 of the best two turns away or in the same turn; consecutive messages of one speaker are one
turn). In a conversation of a person and an assistant, they raise each other half as much: what was
said and its reply share their words, and one of the two is enough. Negative cosines count as 0, so
that a score lies in 0..1.

Adding scores preserves their size, which fusing ranks discards; docs/retrieval.md has the ablation.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from operator import attrgetter
from typing import Any

from hitherto_retrieval.search.ranking.ranking import QueryIntent, RankedCandidate
from hitherto_retrieval.search.ranking.turns import near_pairs
from hitherto_retrieval.storage.candidate import Candidate, Key, Kind
from hitherto_shared.dates.window import closeness
from hitherto_shared.text.normalise import fold

_WEIGHTS: Mapping[str, float] = {
    "semantic": 1.0,
    "source": 0.5,
    "keyword": 1.0,
    "date": 0.4,
    "entity": 0.1,
    "speaker": 0.2,
    "source_priority": 0.2,
    "session": 0.5,
    "neighbour": 0.5,
}
_BY_SPELLING: Mapping[str, float] = {
    **_WEIGHTS,
    "semantic": _WEIGHTS["semantic"] / 2,
    "source": _WEIGHTS["source"] / 2,
}
_NAMES = (
    "semantic",
    "facts",
    "source",
    "keyword",
    "date",
    "entity",
    "speaker",
    "source_priority",
    "session",
    "neighbour",
)
_DATE = _NAMES.index("date")
_BM25_HALF = 8.0
"""The BM25 score that counts half."""
_LAST_OF_RECENT = 0.5
"""The timeliness of the oldest of the most recent items."""
_OTHERS = 0.4
"""The timeliness of the newest of all other items."""
_TIMELY = 0.05
"""The closeness to the window from which a memory counts as found by its time."""
_NEXT_TURN, _FARTHER = 0.6, 0.4
"""The weight of the best message one turn away, and of the best two turns away or in the same turn.

A message of the same turn counts less than the reply: parts of one turn are often about different
things."""
_SCORE = attrgetter("score")
_SHARES = (1.0, 0.5)
"""How much of `neighbour` counts: among people, and in a conversation with an assistant."""


class Balanced:
    """The ranking `balanced`."""

    name = "balanced"
    weights = _WEIGHTS
    needs_text_rank = False
    lifts = frozenset({"session", "neighbour"})
    dispensable = frozenset({"semantic", "source", "keyword", "entity"})

    def rank(
        self, candidates: Sequence[Candidate], intent: QueryIntent, weights: Mapping[str, float]
    ) -> list[RankedCandidate]:
        """See `Ranking.rank`; ties are broken by importance, then by recency."""
        weight = {**(_BY_SPELLING if intent.by_spelling else _WEIGHTS), **weights}
        # The highest score that an item can have by itself: each kind has at most one of the last
        # three components. One scale for all kinds and questions makes their scores comparable; a
        # message also has neighbours, by whether an assistant takes part.
        own = sum(weight[name] for name in ("semantic", "keyword", "date", "entity")) + max(
            weight[name] for name in ("source", "speaker", "source_priority")
        )
        scale = own * (1 + weight["session"]) or 1.0
        longer = [
            own * (1 + weight["session"] + share * weight["neighbour"]) or 1.0 for share in _SHARES
        ]
        if not intent.topic:
            weight = _only_by_time(weight)
        session, beside = weight["session"], weight["neighbour"]
        recent = _recent(candidates, intent)
        parts = _all_parts(candidates, intent, recent, weight)
        alone = list(map(sum, parts))
        best: dict[str, float] = {}
        for candidate, score in zip(candidates, alone, strict=True):
            conversation = candidate.conversation_id
            if conversation is not None and score > best.get(conversation, 0.0):
                best[conversation] = score
        near = _beside(candidates, alone)
        assisted = _assisted(candidates, intent) if beside else ()
        # The recency of a memory says nothing about the messages around it.
        if intent.present:
            parts = _as_things_stand(candidates, parts, intent, weight["date"])
            alone = list(map(sum, parts))
        ranked = []
        timely = _TIMELY * weight["date"] if intent.window is not None else 0.0
        for candidate, part, score, beside_it in zip(candidates, parts, alone, near, strict=True):
            lift = session * best.get(candidate.conversation_id or "", 0.0)
            lifted, of = 0.0, scale
            if isinstance(candidate.key, tuple):
                with_assistant = candidate.key[0] in assisted
                lifted = _SHARES[with_assistant] * beside * beside_it
                of = longer[with_assistant]
            parts_of, total = (*part, lift, lifted), (score + lift + lifted) / of
            in_time = part[_DATE] >= timely > 0
            ranked.append(RankedCandidate(candidate, total, _NAMES, parts_of, in_time, of))
        # Most scores differ.
        differ = len({item.score for item in ranked}) == len(ranked)
        ranked.sort(key=_SCORE if differ else _order, reverse=True)
        return ranked


def _all_parts(
    candidates: Sequence[Candidate],
    intent: QueryIntent,
    recent: Mapping[tuple[Kind, Key], float],
    weight: Mapping[str, float],
) -> list[tuple[float, ...]]:
    """All components except lifts, weighted, in the order of `_NAMES`."""
    semantic, keyword, source = weight["semantic"], weight["keyword"], weight["source"]
    date, entity, speaker = weight["date"], weight["entity"], weight["speaker"]
    priority, sources = weight["source_priority"], intent.source_types
    dated = intent.window is not None or bool(recent)
    called: dict[str, bool] = {"": False}
    found: list[tuple[float, ...]] = []
    said: tuple[float, ...]
    for candidate in candidates:
        # Written out, because this runs for every candidate of every search.
        cosine, bm25 = candidate.cosine, candidate.bm25
        if cosine is None or not cosine > 0.0:
            cosine = 0.0
        of_source = candidate.source_cosine
        if of_source is None or not of_source > 0.0:
            of_source = 0.0
        words = bm25 / (bm25 + _BM25_HALF)
        # By how much the memories learnt from a message match better than the message itself.
        learnt, of_facts, in_facts = 0.0, candidate.fact_cosine, candidate.fact_bm25
        if of_facts is not None and of_facts > cosine:
            learnt = semantic * (of_facts - cosine)
        if in_facts and (more := in_facts / (in_facts + _BM25_HALF) - words) > 0.0:
            learnt += keyword * more
        name = candidate.speaker
        named = called.get(name)
        if named is None:
            named = called[name] = _is_named(name, intent.names)
        said = (
            semantic * cosine,
            learnt,
            source * of_source,
            keyword * words,
            date * _timeliness(candidate, intent, recent) if dated else 0.0,
            entity if candidate.entities else 0.0,
            speaker if named else 0.0,
            priority if candidate.source_type in sources else 0.0,
        )
        if candidate.role == "assistant" and (trust := intent.trust_in(candidate)) < 1.0:
            said = tuple([trust * part for part in said])
        found.append(said)
    return found


def _is_named(speaker: str, names: Collection[str]) -> bool:
    """Whether a question names a speaker by the full name or a word of it."""
    whole = fold(speaker)
    return whole in names or any(len(part) > 1 and part in names for part in whole.split())


def _only_by_time(weight: Mapping[str, float]) -> dict[str, float]:
    """The weights for a question that asks only for the most recent."""
    compared = dict.fromkeys(("semantic", "keyword", "source", "session", "neighbour"), 0.0)
    return {
        **weight,
        **compared,
        "date": weight["date"] + weight["semantic"] + weight["keyword"],
    }


def _recent(
    candidates: Sequence[Candidate], intent: QueryIntent
) -> Mapping[tuple[Kind, Key], float]:
    """The timeliness of each of the most recent items, if the question asks for these.

    They are of the named kind of content, if there is one; future items do not count.
    """
    if intent.window is not None or not intent.most_recent:
        return {}
    past = [c for c in candidates if c.happened_at <= intent.now and _meant(c, intent)]
    # Simultaneous items are ordered like equal scores, not like the candidates.
    past.sort(key=lambda c: (c.happened_at, *_among_equals(c)), reverse=True)
    brought = [c for c in past if c.most_recent]
    others = [c for c in past if not c.most_recent]
    found = {}
    for these, most, least in ((brought, 1.0, _LAST_OF_RECENT), (others, _OTHERS, 0.0)):
        for place, candidate in enumerate(these):
            share = most - (most - least) * place / len(these)
            found[candidate.kind, candidate.key] = share
    return found


def _as_things_stand(
    candidates: Sequence[Candidate],
    parts: Sequence[tuple[float, ...]],
    intent: QueryIntent,
    weight: float,
) -> list[tuple[float, ...]]:
    """The components, with a `date` for memories by their age and by how well they match.

    Memories describe the current state; everything else that was last mentioned does not.
    """
    fits = [
        sum(part) if c.kind == "memory" and c.happened_at <= intent.now else 0.0
        for c, part in zip(candidates, parts, strict=True)
    ]
    times = sorted({c.happened_at for c, fit in zip(candidates, fits, strict=True) if fit})
    newness = {at: place / len(times) for place, at in enumerate(times, start=1)}
    best = max(fits, default=0.0)
    return [
        (*part[:_DATE], weight * newness[c.happened_at] * fit / best, *part[_DATE + 1 :])
        if fit
        else part
        for c, part, fit in zip(candidates, parts, fits, strict=True)
    ]


def _timeliness(
    candidate: Candidate, intent: QueryIntent, recent: Mapping[tuple[Kind, Key], float]
) -> float:
    if intent.window is not None:
        return closeness(intent.window, candidate.happened_at)
    return recent.get((candidate.kind, candidate.key), 0.0) if recent else 0.0


def _meant(candidate: Candidate, intent: QueryIntent) -> bool:
    """Whether the time counts for an item: "my last email" does not refer to tasks."""
    if intent.window is not None or not intent.source_types:
        return True
    return candidate.source_type in intent.source_types


def _beside(candidates: Sequence[Candidate], alone: Sequence[float]) -> list[float]:
    """For each candidate the best of the messages in the turns around it; 0 for other kinds."""
    following, farther = [0.0] * len(alone), [0.0] * len(alone)
    messages = sorted(
        [
            (candidate.key, (candidate.role, candidate.speaker), place)
            for place, candidate in enumerate(candidates)
            if isinstance(candidate.key, tuple)
        ]
    )
    places = [place for _, _, place in messages]
    for one, other, turns in near_pairs([(key, speaker) for key, speaker, _ in messages]):
        first, second = places[one], places[other]
        best = following if turns == 1 else farther
        if (score := alone[second]) > best[first]:
            best[first] = score
        if (score := alone[first]) > best[second]:
            best[second] = score
    return [
        _NEXT_TURN * near + _FARTHER * far for near, far in zip(following, farther, strict=True)
    ]


def _assisted(candidates: Sequence[Candidate], intent: QueryIntent) -> Collection[str]:
    """Conversations of one person and an assistant: there, nobody needs a name.

    None, if the question asks what the assistant said: then its words are as good as a person's.
    """
    if intent.assistant:
        return ()
    return {
        c.key[0]
        for c in candidates
        if isinstance(c.key, tuple) and not c.speaker and c.role in ("user", "assistant")
    }


def _order(item: RankedCandidate) -> tuple[Any, ...]:
    candidate = item.candidate
    # As `_among_equals`, but many.
    return (
        item.score,
        candidate.importance,
        candidate.created_at,
        candidate.kind,
        candidate.key,
    )


def _among_equals(candidate: Candidate) -> tuple[Any, ...]:
    # Keys are comparable within a kind only.
    return (candidate.importance, candidate.created_at, candidate.kind, candidate.key)
