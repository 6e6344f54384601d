"""The vector of one question: the caller's own, or embedded while the database answers."""

from __future__ import annotations

import asyncio

from hitherto_retrieval.search.own_name import about_the_user
from hitherto_retrieval.search.query import Embedding, QueryEmbedders, QueryVector
from hitherto_retrieval.search.question import Question
from hitherto_retrieval.search.reporting import NO_QUERY, NO_WEIGHT

_ANSWER_SECONDS = 0.05
"""Part of the deadline reserved for ranking and the reply; a quarter of a shorter one."""


class QuestionVector:
    """The question on its way to the model."""

    def __init__(
        self,
        queries: QueryEmbedders,
        question: Question,
        *,
        tenant_id: str,
        deadline: float,
        seconds: float,
    ) -> None:
        self._queries = queries
        self._question = question
        self._tenant_id = tenant_id
        self._deadline = deadline
        self._seconds = seconds
        self._embedding: Embedding | QueryVector | None = None
        self._embedded_as: tuple[tuple[str, int], str] | None = None

    def begin(self, model: tuple[str, int], own_name: str) -> None:
        """Start to embed the question, unless that is already running."""
        if not self._question.embedded:
            return
        text = about_the_user(self._question.text, own_name)
        if self._embedded_as == (model, text):
            return
        self._embedded_as = model, text
        remaining = self._deadline - asyncio.get_running_loop().time()
        answer = min(_ANSWER_SECONDS, remaining / 4)
        share = max(0.0, min(self._seconds, remaining / 2 - answer))
        self._embedding = self._queries.begin(model, text, timeout=share, tenant_id=self._tenant_id)

    async def result(self, model: tuple[str, int] | None) -> QueryVector:
        """The vector, or why there is none; `model` is the active one."""
        if model is None:
            return QueryVector(None, "skipped", "no memory has a vector yet")
        if not self._question.compares:
            return QueryVector(None, "skipped", NO_WEIGHT)
        if self._question.vector is not None:
            return QueryVector(self._question.vector, "ran")
        if self._embedding is None:
            return QueryVector(None, "skipped", NO_QUERY)
        if isinstance(self._embedding, QueryVector):
            return self._embedding
        return await self._embedding.result()
