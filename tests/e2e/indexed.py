"""What stands in the indexes of messages and summaries, held against the rows they belong to."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from hitherto_extraction.pipeline.backfill import Backfill
from hitherto_shared.database.pool import Database
from hitherto_shared.embeddings.openai_api import OpenAIEmbedder
from hitherto_shared.model_server import ModelServer
from hitherto_shared.startup import configure_vectors
from hitherto_shared.text.terms import count_terms
from tests.e2e.learning import rows
from tests.scripted_model import ScriptedModel
from tests.scripted_model.vectors import text_vector

CORPORA = ("messages", "summaries")

_TEXTS = {
    "messages": "SELECT tenant_id || '/' || user_id, lexical_no, lexical_length,"
    " CASE name WHEN '' THEN content ELSE name || ': ' || content END"
    " FROM messages WHERE lexical_no IS NOT NULL",
    "summaries": "SELECT tenant_id || '/' || user_id, lexical_no, lexical_length,"
    " concat_ws(E'\\n', title, nullif(summary, ''), nullif(array_to_string("
    " key_topics || technical_topics, ', '), '')) FROM conversation_summaries"
    " WHERE lexical_no IS NOT NULL",
}

MESSAGE_STATES = "SELECT content, embedding_state, lexical_no FROM messages ORDER BY 1"
WAITING = (
    "SELECT 1 FROM messages WHERE embedding_state = 'pending' UNION ALL"
    " SELECT 1 FROM conversation_summaries WHERE embedding_state = 'pending'"
)


def check_words(conninfo: str) -> None:
    """The keyword index holds the words of what is numbered, each once, and nothing else."""
    for corpus in CORPORA:
        wanted: dict[tuple[str, int], Counter[str]] = {}
        for user, number, length, text in rows(conninfo, _TEXTS[corpus]):
            assert (user, number) not in wanted
            wanted[user, number] = count_terms(text)
            assert wanted[user, number].total() == length
        held: dict[tuple[str, int], Counter[str]] = {}
        for user, term, numbers, frequencies in rows(
            conninfo,
            "SELECT tenant_id || '/' || user_id, term, lexical_nos, frequencies"
            f" FROM passage_postings WHERE corpus = '{corpus}'",
        ):
            assert numbers == sorted(set(numbers))
            for number, frequency in zip(numbers, frequencies, strict=True):
                held.setdefault((user, number), Counter())[term] += frequency
        assert held == {key: terms for key, terms in wanted.items() if terms}
        counted = rows(
            conninfo,
            "SELECT tenant_id || '/' || user_id, texts, terms FROM passage_statistics"
            f" WHERE corpus = '{corpus}' AND texts > 0",
        )
        assert {user: (texts, terms) for user, texts, terms in counted} == {
            user: (
                sum(1 for owner, _ in wanted if owner == user),
                sum(terms.total() for (owner, _), terms in wanted.items() if owner == user),
            )
            for user, _ in wanted
        }


def message_vectors(conninfo: str, model: str = "text-embedding-3-small") -> dict[str, Any]:
    """The vectors of messages by what was said."""
    return {
        content: json.loads(vector)
        for content, vector in rows(
            conninfo,
            "SELECT g.content, e.embedding::text FROM message_embeddings AS e JOIN messages AS g"
            " USING (tenant_id, user_id, conversation_id, message_no)"
            f" WHERE e.model = '{model}'",
        )
    }


def summary_vectors(conninfo: str, model: str = "text-embedding-3-small") -> dict[str, Any]:
    """The vectors of summaries by title, those of present words only."""
    return {
        title: json.loads(vector)
        for title, vector in rows(
            conninfo,
            "SELECT s.title, e.embedding::text FROM summary_embeddings AS e JOIN"
            " conversation_summaries AS s USING (tenant_id, user_id, conversation_id, text_version)"
            f" WHERE e.model = '{model}'",
        )
    }


def is_vector_of(vector: Any, text: str) -> bool:
    """Whether a vector is the scripted model's of a text."""
    return bool(text_vector(text, len(vector)) @ vector > 0.99)


@asynccontextmanager
async def backfill(conninfo: str, model: ScriptedModel, **given: Any) -> AsyncIterator[Backfill]:
    """A back-fill of one's own on the test's database."""
    database = Database(
        conninfo,
        "hitherto_maintenance",
        application="tests",
        max_size=2,
        configure=configure_vectors,
    )
    embedder = OpenAIEmbedder(
        "text-embedding-3-small", 64, server=ModelServer(model.base_url, "test")
    )
    await database.open()
    try:
        yield Backfill(database, embedder, **given)
    finally:
        await embedder.close()
        await database.close()


async def filled(filling: Backfill, conninfo: str) -> None:
    """Fill until nothing waits, whoever fills it: the service's own sweep may be faster."""
    async with asyncio.timeout(180):
        while await filling.run() or rows(conninfo, WAITING):  # noqa: ASYNC110 - others fill too
            await asyncio.sleep(0.01)


def grow_old(conninfo: str, where: str = "true") -> None:
    """Let messages have come longer ago than their jobs are waited for."""
    rows(
        conninfo,
        "UPDATE messages SET accepted_at = accepted_at - interval '16 minutes'"
        f" WHERE {where} RETURNING 1",
    )
