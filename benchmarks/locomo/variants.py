"""What is searched and by which rankings: the default, without each component, and others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hitherto_client.words import SearchScope
from hitherto_retrieval.search.ranking.balanced import Balanced
from hitherto_retrieval.search.ranking.seed003 import Seed003

_COSINE, _KEYWORD = "semantic", "keyword"


@dataclass(frozen=True, slots=True)
class SearchedCorpus:
    """Something to search, by the scopes of SearchMemories.

    Attributes:
        name: What it is called here.
        scopes: The scopes.
        ablated: Whether the ranking is taken apart on it, and held against others.
    """

    name: str
    scopes: Sequence[SearchScope]
    ablated: bool = True


@dataclass(frozen=True, slots=True)
class Variant:
    """A ranking with weights that replace its own.

    `without` is the component that is missing, where that is all that differs from the default.
    """

    name: str
    ranking: str
    weights: Mapping[str, float] = field(default_factory=dict)
    without: str = ""


FACTS = SearchedCorpus("facts", ("memories",))
MESSAGES = SearchedCorpus("messages", ("messages",))
BOTH = SearchedCorpus("both", ("memories", "messages"), ablated=False)
CORPORA = (FACTS, MESSAGES, BOTH)

BALANCED = Variant(Balanced.name, Balanced.name)


def _alone(component: str) -> Mapping[str, float]:
    return {name: 1.0 if name == component else 0.0 for name in Balanced.weights}


COSINE = Variant("cosine alone", Balanced.name, _alone(_COSINE))
KEYWORD = Variant("keyword alone", Balanced.name, _alone(_KEYWORD))
SEED003 = Variant(Seed003.name, Seed003.name)
OTHERS = (COSINE, KEYWORD, SEED003)

ABLATIONS = tuple(
    Variant(f"without {name}", Balanced.name, {name: 0.0}, without=name)
    for name in Balanced.weights
)
"""The default ranking without each of its components, whichever it has."""


def idle(component: str, parts: Mapping[str, float]) -> bool:
    """Whether a component added nothing to any result, so that nothing is lost without it.

    Args:
        component: The name of its weight.
        parts: The most that each part of a score came to, by name. A component that is not among
            them may work in another way, and is not idle.
    """
    # What memories add to the messages they came from has the weight of "semantic".
    shown = [component, "facts"] if component == _COSINE else [component]
    return component in parts and not any(parts.get(name, 0.0) for name in shown)
