"""What was indexed before words of Cyrillic and Arabic script were stemmed (D13).

Such rows are made here by giving postings the words as they stood in the index then.
"""

from __future__ import annotations

import pytest

from hitherto.v1 import search_pb2
from hitherto_shared.text.terms import count_terms
from tests.e2e.conftest import Services
from tests.e2e.curating import change, save
from tests.e2e.learning import learn, rows, talk
from tests.e2e.methods import ask

TEXTS = [
    ("Ана читает книги по вечерам", "книги", "книг"),
    ("آنا تحب المدرسة في الصباح", "المدرسة", None),
]


def aged(conninfo: str, table: str, word: str) -> None:
    """Let a word stand in the index as it stood there before it was stemmed."""
    (term, *_) = count_terms(word)
    assert term != word
    change(conninfo, f"DELETE FROM {table} WHERE term <> %(term)s", term=term)
    change(conninfo, f"UPDATE {table} SET term = %(word)s", word=word)
    assert rows(conninfo, f"SELECT DISTINCT term FROM {table}") == [(word,)]


@pytest.mark.parametrize(("text", "word", "stem"), TEXTS)
async def test_d13_older_rows_are_found_by_their_words(
    services: Services, tenant_conninfo: str, text: str, word: str, stem: str | None
) -> None:
    saved = (await save(services, text)).memory
    aged(tenant_conninfo, "postings", word)
    found = await ask(services, "SearchMemories", query=word, weights={"semantic": 0, "source": 0})
    assert [result.memory.id for result in found.results] == [saved.id]
    assert "keyword" in found.results[0].matched_legs
    # A new row stands under its stem, and the other forms of the word find it.
    (leg,) = [leg for leg in found.legs if leg.name == "keyword"]
    assert leg.state == search_pb2.LEG_STATE_RAN
    assert stem is None or stem in count_terms(word)


@pytest.mark.parametrize(("text", "word", "stem"), TEXTS)
async def test_d13_of_older_messages_that_are_deleted_no_word_stays(
    services: Services, tenant_conninfo: str, text: str, word: str, stem: str | None
) -> None:
    await learn(services, talk(text, conversation="c1"))
    change(
        tenant_conninfo,
        "DELETE FROM passage_postings WHERE corpus <> 'messages'",
    )
    aged(tenant_conninfo, "passage_postings", word)
    await ask(services, "DeleteConversation", conversation_id="c1")
    assert rows(tenant_conninfo, "SELECT term FROM passage_postings") == []
