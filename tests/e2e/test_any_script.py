"""Questions in any script, by the keyword leg alone (D13, detail D13; faults.md row 46)."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import product

import pytest

from tests.e2e.conftest import Services
from tests.e2e.test_search import leg, search
from tests.e2e.test_search_scopes import DOCUMENTS, EVERYWHERE, KINDS, MEMORIES, MESSAGES, SUMMARIES
from tests.integration.retrieval.seed import Fact, remember
from tests.integration.retrieval.seed_passages import (
    Outline,
    Paper,
    Turn,
    converse,
    hand_over,
    sum_up,
)

TEXTS = {
    "accented": "Chị Lan học tiếng Đức ở Đà Nẵng",
    "plain": "Anh Binh thich ca phe sua",
    "japanese": "彼女は黒猫を飼っている",
    "last of its run": "昨日見たのは猫",
    "alone": "猫 🐈",
    "dog": "犬が庭にいる",
    "chinese": "她在北京大学读书",
    "korean": "우리 집에는 정원이 있다",
    "thai": "ฉันเรียนภาษาไทยทุกวัน",
    "arabic": "أحب القهوة العربية كثيرا",
    "hebrew": "אני גר בתל אביב ליד הים",
    "family": "The whole family 👨‍👩‍👧 came",
    "fox": "Our mascot is the 🦊",
    "french": "Elle étudie à l’université d’Orléans",
    "wide": "部屋の番号はＡＢＣ１２３です",
    "polish": "Anna i Paweł mieszkają w mieście Łódź",
    "order": "Robert'); DROP TABLE memories; --",
    "signs": "100% a & | !! \\ ' _",
    "inflected": "Her favourite novel was written here",
}
WORDS_ONLY = dict.fromkeys(("semantic", "source", "date", "entity", "session", "neighbour"), 0.0)
CATS = {"japanese", "last of its run", "alone"}

QUESTIONS: Sequence[tuple[str, set[str]]] = [
    ("Đà Nẵng", {"accented"}),
    ("da nang", {"accented"}),
    ("TIENG DUC", {"accented"}),
    (unicodedata.normalize("NFD", "Đà Nẵng"), {"accented"}),
    ("cà phê sữa", {"plain"}),
    ("北京大学", {"chinese"}),
    ("université Orléans", {"french"}),
    ("ABC123", {"wide"}),
    ("Lodz", {"polish"}),
    ("大学", {"chinese"}),
    ("黒猫", {"japanese"}),
    ("猫", CATS),
    ("猫 庭", CATS | {"dog"}),
    ("猫？", CATS),
    ("집", {"korean"}),
    ("정원", {"korean"}),
    ("ภาษาไทย", {"thai"}),
    ("ฉ", {"thai"}),
    ("القهوة", {"arabic"}),
    ("אביב", {"hebrew"}),
    ("🦊", {"fox"}),
    ("👧", {"family"}),
    ("👨‍👩‍👧", {"family"}),
    ("鳥", set()),
    ("DROP TABLE", {"order"}),
    ("100% \\", {"signs"}),
    ("Who writes a favorite?", {"inflected"}),
]


@pytest.fixture
async def polyglot(tenant_conninfo: str) -> None:
    """Every text as a memory, a message, a summary and a document, without any vector."""
    names = list(TEXTS)
    await remember(tenant_conninfo, "ana", [Fact(text, tags=[n]) for n, text in TEXTS.items()])
    await converse(
        tenant_conninfo,
        "ana",
        {name: [Turn(TEXTS[name], message_id=name)] for name in names},
    )
    await sum_up(tenant_conninfo, "ana", [Outline(name, TEXTS[name]) for name in names])
    await hand_over(
        tenant_conninfo, "ana", [Paper("gdrive", [TEXTS[name]], title="x") for name in names]
    )


def found_in(kind: str, result: object) -> str:
    item = getattr(result, kind)
    text = item.summary if kind == "summary" else item.content
    return next(
        name for name, known in TEXTS.items() if unicodedata.normalize("NFC", known) == text
    )


async def test_d13_words_of_any_script_are_found_in_every_scope(
    services: Services, polyglot: None
) -> None:
    for scope, (question, expected) in product(EVERYWHERE, QUESTIONS):
        kind = KINDS[scope]
        reply = await search(
            services,
            question,
            scopes=[scope],
            weights=WORDS_ONLY,
            limit=50,
            min_score=1e-6,
            explain=True,
        )
        said = (kind, question)
        assert {found_in(kind, result) for result in reply.results} == expected, said
        assert leg(reply, "keyword").candidates == len(expected), said
        assert all(result.breakdown["keyword"] > 0 for result in reply.results), said
        assert all("keyword" in result.matched_legs for result in reply.results), said


async def test_d13_a_character_counts_as_often_as_it_stands_there(services: Services) -> None:
    """A character inside a run is part of two pairs and still one occurrence."""
    await remember(
        services.conninfo,
        "ana",
        [Fact(f"白い{one}が{other}と寝ている庭") for one, other in ("猫猫", "猫犬", "鳥犬")],
    )
    reply = await search(services, "猫", weights=WORDS_ONLY, min_score=1e-6)
    assert [r.memory.content[4] for r in reply.results] == ["猫", "犬"]
    assert reply.results[0].score > reply.results[1].score
    plain = await search(services, "白い", weights=WORDS_ONLY, min_score=1e-6)
    assert len({result.score for result in plain.results}) == 1


async def test_d13_a_character_is_found_by_every_ranking_in_the_past_and_among_thousands(
    services: Services, polyglot: None
) -> None:
    """Detail F2: overlap of words, where a character stands in the pairs of a text.

    D9: time travel counts the words that texts had then. faults.md row 49 for readers: a long text
    in such a script is answered.
    """
    reply = await search(
        services, "猫", scopes=[MESSAGES], ranking="weighted", explain=True, limit=50
    )
    overlap = {result.message.id: result.breakdown["keyword"] for result in reply.results}
    assert overlap == dict.fromkeys(CATS, pytest.approx(0.2))
    then = datetime.now(UTC)
    reply = await search(services, "猫", weights=WORDS_ONLY, min_score=1e-6, known_at=then)
    assert {found_in("memory", result) for result in reply.results} == CATS
    many = " ".join(chr(0x4E00 + n) for n in range(6_000)) + " 猫"
    for scopes in ([MEMORIES], [SUMMARIES, DOCUMENTS], EVERYWHERE):
        reply = await search(services, many, scopes=scopes)
        assert not reply.degraded
        assert leg(reply, "keyword").reason == ""
