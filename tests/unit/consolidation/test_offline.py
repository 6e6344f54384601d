"""The consolidator without a model: the same answer every time, and nothing invented."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from hitherto_extraction.consolidation.merge_model import build_prompt
from hitherto_extraction.consolidation.merging import accept, read_reply
from hitherto_extraction.provider.offline import OfflineExtractor
from hitherto_extraction.provider.offline.consolidation import consolidate
from hitherto_extraction.provider.protocol import PromptMemory
from hitherto_shared.text.normalise import fold
from tests.unit.consolidation.rows import member

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def merges(
    *contents: str, type_: str = "preference", tags: tuple[str, ...] = ("preference", "style")
) -> list[tuple[str, list[str]]]:
    memories = [
        PromptMemory(f"e{n}", type_, each, NOON, tags) for n, each in enumerate(contents, 1)
    ]
    return [(each["content"], each["merged"]) for each in consolidate(memories)["memories"]]


def test_equal_words_become_one() -> None:
    assert merges("The user likes tea.", "the user likes TEA", type_="fact") == [
        ("The user likes tea.", ["e1", "e2"])
    ]


def test_preferences_of_one_form_are_listed() -> None:
    assert merges(
        "The user prefers short answers.",
        "The user prefers bullet points.",
        "The user prefers green tea.",
    ) == [("The user prefers short answers, bullet points and green tea.", ["e1", "e2", "e3"])]
    assert merges("Người dùng thích trà xanh.", "Người dùng thích đi bộ.") == [
        ("Người dùng thích trà xanh và đi bộ.", ["e1", "e2"])
    ]


def test_other_statements_stay_as_they_are() -> None:
    assert merges("The user lives in Porto", "The user works at Acme", type_="fact") == []
    assert merges("The user prefers tea, not coffee", "The user prefers long walks") == []
    about = ("The user prefers trains", "The user prefers dark mode")
    assert merges(*about, tags=("preference",)) == []
    assert merges() == []


async def test_its_answer_passes_every_check_a_models_answer_has_to_pass() -> None:
    said = [
        "The user prefers short answers",
        "The user prefers bullet points",
        "The user prefers short answers.",
    ]
    group = [member(n, each) for n, each in enumerate(said, 1)]
    prompt = build_prompt(group, UTC)
    completion = await OfflineExtractor().complete(prompt)
    again = await OfflineExtractor().complete(prompt)
    assert completion == again
    found = accept(read_reply(completion.text, group), apart={}, zone=UTC)
    assert [each.content for each in found.items] == ["The user prefers short answers"]
    assert (found.dropped, found.refused) == (0, 0)
    assert json.loads(completion.text)["memories"]


@given(st.lists(st.text(max_size=60), max_size=8))
def test_no_word_is_invented(contents: list[str]) -> None:
    known = {word for each in contents for word in fold(each).split()} | {"and", "va"}
    for content, merged in merges(*contents):
        assert len(merged) > 1
        plain = fold(content.rstrip("."))
        assert {word.strip(",.!。 ") for word in plain.split()} <= {
            word.strip(",.!。 ") for word in known
        } | known
