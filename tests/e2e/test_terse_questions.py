"""Questions that say little: a character, stop words, another language, a follow-up."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.conftest import Services
from tests.e2e.methods import ask
from tests.e2e.shelf import ago, fill, offline_vectors
from tests.e2e.test_search import search
from tests.e2e.test_search_scopes import MEMORIES, MESSAGES
from tests.integration.retrieval.seed import Fact
from tests.integration.retrieval.seed_passages import Outline, Turn, converse, sum_up

WHO = "User's favourite band is The Who."
LANGUAGE = "User writes firmware in C and Rust."
CAT = "ユーザーは黒猫を飼っている。"
SISTER = "User's sister Ilse lives in Lyon."
ALLERGY = "User is allergic to peanuts."


@pytest.fixture
async def ana(tenant_conninfo: str) -> None:
    texts = (WHO, LANGUAGE, CAT, SISTER, ALLERGY)
    await fill(
        tenant_conninfo,
        "ana",
        memories=[Fact(text, valid_from=ago(day)) for day, text in enumerate(texts, start=10)],
        conversations={
            "c1": [
                Turn("I bought the blue bicycle in the end.", said_at=ago(2)),
                Turn("A good choice for long rides.", "assistant", said_at=ago(2)),
            ]
        },
    )


async def texts(services: Services, query: str, **fields: Any) -> list[str]:
    found = await search(services, query, scopes=[MEMORIES, MESSAGES], **fields)
    return [result.memory.content or result.message.content for result in found.results]


@pytest.mark.usefixtures("ana")
async def test_a_terse_or_foreign_question_finds_its_answer_first(services: Services) -> None:
    for query, answer in (
        ("C", LANGUAGE),
        ("c?", LANGUAGE),
        ("猫", CAT),
        ("The Who", WHO),
        ("who", WHO),
        # Another language: names and borrowed words are the same.
        ("Wo wohnt Ilse?", SISTER),
        ("Em gái Ilse sống ở đâu?", SISTER),
        ("Ilseはどこに住んでいますか？", SISTER),
        ("هل يعرف لغة Rust؟", LANGUAGE),
    ):
        assert (await texts(services, query))[0] == answer, query
    # No word in common: only a vector of a model for many languages can find it.
    query = "Anh ấy dị ứng với gì?"
    (vector,) = (await offline_vectors(ALLERGY)).values()
    assert (await texts(services, query, query_embedding=vector.tolist()))[0] == ALLERGY
    # What names nothing is answered with the general list.
    for query in ("?", "a", "is it", "và", "の", "🙂", "\u200f", "42"):
        await texts(services, query)
        told = await ask(services, "GetContext", query=query)
        assert ALLERGY in told.prompt_block, query


async def test_a_follow_up_is_told_what_the_conversation_is_about(services: Services) -> None:
    """It names nothing; what the last answer rested on and the conversation itself do."""
    known = [Fact(text, valid_from=ago(9)) for text in (WHO, ALLERGY, SISTER)]
    _, rested_on, _ = await fill(services.conninfo, "ana", memories=known)
    await converse(
        services.conninfo,
        "ana",
        {
            "now": [
                Turn("Which snack can I take?", said_at=ago(0.01)),
                Turn(
                    "The raisins.",
                    "assistant",
                    said_at=ago(0.01),
                    context_items=[{"id": rested_on, "relevance": 0.9}],
                ),
            ]
        },
    )
    await sum_up(
        services.conninfo, "ana", [Outline("now", "Choosing a snack", "Snacks", said_at=ago(0.01))]
    )
    for query in ("And why that one?", "Why?", "Und warum das?", "それはなぜ？"):
        told = await ask(services, "GetContext", query=query, conversation_id="now", max_tokens=300)
        assert [item.memory.content for item in told.previous_items] == [ALLERGY], query
        assert ALLERGY in told.prompt_block, query
        assert "Snacks" in told.prompt_block, query
