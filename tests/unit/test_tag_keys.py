"""Tags in the form in which they are stored: lower_snake_case in every script (B9)."""

from __future__ import annotations

import pytest

from hitherto_shared.text.normalise import tag_key


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ("  My Tag ", "my_tag"),
        ("Health__x", "health__x"),
        ("Café au lait", "café_au_lait"),
        ("-x-", "x"),
        ("日本語、タグ", "日本語_タグ"),
        # Vowel signs are no gaps.
        ("हिन्दी भाषा", "हिन्दी_भाषा"),
        ("เพื่อน สนิท", "เพื่อน_สนิท"),
        ("שָׁלוֹם", "שָׁלוֹם"),
        ("#food", "food"),
        ("🎉", ""),
        ("___", ""),
        ("\u0301", ""),
    ],
)
def test_b9_tags(given: str, key: str) -> None:
    assert tag_key(given) == key
    assert tag_key(key) == key
