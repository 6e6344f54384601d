"""Which texts of a batch get vectors if the embedder refuses some, or goes away (row 32, C7)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from hitherto_extraction.pipeline.embedding_loop import embed
from hitherto_shared.embeddings.offline import OfflineEmbedder
from hitherto_shared.embeddings.protocol import EmbeddingBatch
from hitherto_shared.model_api import ModelMisbehaved, ModelRefused, ModelUnavailable
from tests.refusing import refusing

_ANSWERS = 1_000


class Moody(OfflineEmbedder):
    """Refuses texts with some word in them, and is away after so many answers."""

    def __init__(self, answers: int = _ANSWERS, refused: str = "bad") -> None:
        self.answers = answers
        self.refused = refused
        self.calls = 0

    async def embed(self, texts: Sequence[str], *, timeout: float | None = None) -> EmbeddingBatch:
        self.calls += 1
        if any(self.refused in text for text in texts):
            raise ModelRefused("not this")
        if not self.answers:
            raise ModelUnavailable("away")
        self.answers -= 1
        return EmbeddingBatch((await super().embed(texts)).vectors, 1, len(texts))


def batch(count: int, *bad: int) -> dict[int, tuple[str, ...]]:
    return {place: (f"{'bad' if place in bad else 'good'} {place}",) for place in range(count)}


async def test_every_text_but_those_that_are_refused_gets_its_vector() -> None:
    for bad in [(), (0,), (63,), (0, 1, 2, 3), (60, 61, 62, 63), (5, 17, 40)]:
        embedder = Moody()
        texts = batch(64, *bad)
        made = await embed(embedder, texts)
        assert (sorted(made.refused), set(made.vectors)) == (list(bad), set(texts) - set(bad))
        assert made.outage is None, bad
        for place, (vector,) in made.vectors.items():
            (own,) = (await OfflineEmbedder().embed(texts[place])).vectors
            assert (vector == own).all(), bad
        assert (made.calls, made.tokens) == (_ANSWERS - embedder.answers, 64 - len(bad))


async def test_texts_that_are_all_refused_are_told_from_an_embedder_that_refuses_all() -> None:
    for count in [1, 2, 3, 4, 64]:
        embedder = Moody()
        made = await embed(embedder, batch(count, *range(count)))
        assert (sorted(made.refused), made.vectors) == (list(range(count)), {})
        assert embedder.answers == _ANSWERS - 1, count
        with pytest.raises(ModelRefused), refusing(count):
            await embed(Moody(refused=""), batch(count))


async def test_what_came_before_an_outage_is_kept() -> None:
    made = await embed(Moody(answers=2), batch(64, 63))
    assert isinstance(made.outage, ModelUnavailable)
    assert 0 < len(made.vectors) < 63
    assert made.calls == 2
    with pytest.raises(ModelUnavailable):
        await embed(Moody(answers=0), batch(64))


async def test_a_spoiled_answer_counts_as_a_refusal() -> None:
    class Spoiling(Moody):
        async def embed(
            self, texts: Sequence[str], *, timeout: float | None = None
        ) -> EmbeddingBatch:
            try:
                return await super().embed(texts)
            except ModelRefused as error:
                raise ModelMisbehaved("not a number") from error

    assert (await embed(Spoiling(), batch(8, 3))).refused == [3]
    with pytest.raises(ModelMisbehaved):
        await embed(Spoiling(refused=""), batch(8))
