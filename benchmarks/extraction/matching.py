"""Which memory meets which expectation, is forbidden, or repeats another one.

Words decide, and how near two texts are by an embedder, where they were embedded beforehand.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from uuid import UUID

from benchmarks.extraction.rows import Expectation, Forbidden, MemoryOutcome
from benchmarks.extraction.wording import contains_all, is_hard, missing, plain
from benchmarks.serving import vectors_of
from hitherto_client.results import Memory
from hitherto_extraction.pipeline.dedupe import Neighbour, find_duplicate
from hitherto_shared.embeddings.protocol import Embedder, Vector

_NEVER = datetime(1970, 1, 1, tzinfo=UTC)
_LOOSER = 0.1
"""A paraphrase lies further away than a copy."""


@dataclass(frozen=True, slots=True)
class Nearness:
    """Cosines between known texts; without vectors nothing is near anything."""

    # The vector of each text, of length 1.
    vectors: Mapping[str, Vector] = field(default_factory=dict)
    # Cosine above which two texts may be one statement, by the embedder's own word.
    same: float = 1.0

    @property
    def alike(self) -> float:
        """Cosine above which one text may be a paraphrase of the other."""
        return self.same - _LOOSER

    def of(self, a: str, b: str) -> float | None:
        """The cosine of two texts, or None where one has no vector."""
        one, two = self.vectors.get(a), self.vectors.get(b)
        return None if one is None or two is None else float(one @ two)

    def paraphrase(self, a: str, b: str) -> bool:
        """Whether two texts are near enough to be paraphrases."""
        cosine = self.of(a, b)
        return cosine is not None and cosine >= self.alike


async def embed_all(embedder: Embedder, texts: Iterable[str]) -> Nearness:
    """Embed every distinct text.

    Raises:
        ModelError: The embedder is out of reach.
    """
    distinct = list(dict.fromkeys(text for text in texts if text.strip()))
    vectors = dict(zip(distinct, await vectors_of(embedder, distinct), strict=True))
    return Nearness(vectors, embedder.dedupe_threshold)


def meets(text: str, wanted: Expectation, nearness: Nearness) -> bool:
    """Whether a text says what is expected.

    It does if it has every word of `contains`. Where an embedder finds it near to `says`, words
    that are neither names nor numbers may be replaced by others.
    """
    lacks = missing(text, wanted.contains)
    if not lacks:
        return True
    if any(is_hard(term) for term in lacks):
        return False
    return bool(wanted.says) and nearness.paraphrase(text, wanted.says)


def violated(text: str, rules: Sequence[Forbidden]) -> list[int]:
    """The positions of the rules that forbid a text."""
    return [number for number, rule in enumerate(rules) if _forbids(rule, text)]


def _forbids(rule: Forbidden, text: str) -> bool:
    folded = plain(text)
    if any(plain(word) in folded for word in rule.unless):
        return False
    if rule.pattern:
        return re.search(rule.pattern, text, re.IGNORECASE) is not None
    return contains_all(text, rule.contains)


def repeated(
    learnt: Sequence[Memory],
    fates: Sequence[MemoryOutcome],
    met: frozenset[int],
    nearness: Nearness,
) -> dict[int, str]:
    """The positions of new memories that repeat one, each with the text it repeats.

    A memory repeats another active one of the user, older or learnt before it, if it has the
    same words by the service's own rule, whatever their types. It also repeats an older one that
    stayed active if it has all the words by which that one is recognised and met no expectation;
    `met` are the positions of memories that did.
    """
    known = [fate.after for fate in fates if fate.after.status == "active"]
    found: dict[int, str] = {}
    for position, memory in enumerate(learnt):
        neighbours = [
            # The service keeps sensitive types apart; for the reader one sentence is one too many.
            Neighbour(
                memory_id=UUID(int=number),
                type=memory.type,
                content=other.content,
                status="active",
                cosine=nearness.of(memory.content, other.content),
                updated_at=_NEVER,
            )
            for number, other in enumerate(known)
        ]
        same = find_duplicate(memory.type, memory.content, neighbours)
        if same is not None:
            found[position] = same.content
        elif position not in met:
            for fate in fates:
                words = fate.wanted.contains
                if fate.after.status == "active" and words and contains_all(memory.content, words):
                    found[position] = fate.after.content
        known.append(memory)
    return found
