"""The words of a language, read from its table: what they mean, and the expressions they form.

In a table, a list of words gives each its value, `_` standing for a space. In an expression, <word>
stands for an entry of [words] or for any word of a list.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from typing import Any

from hitherto_shared.dates.phrases import spaced
from hitherto_shared.text.normalise import normalized

_LISTS = ("months", "weekdays", "shifts", "days", "seasons", "ordinals")
_STANDS_FOR = re.compile(r"(?<!\?P)<(\w+)>")
_WORDS = {
    "year": r"(?:19|20|21)\d\d",
    # A digit that begins a date, and not the end of a version, a path, a price or a longer number.
    "start": r"(?<![\w./:$€£#@+\-])",
}


def without_marks(text: str) -> str:
    """`text` without diacritics; also converts a pattern with diacritics."""
    decomposed = normalized("NFD", text.replace("đ", "d"))
    return "".join(ch for ch in decomposed if not unicodedata.combining(ch))


class LanguageWords:
    """The words of a table; with `plain` as written without diacritics."""

    def __init__(self, given: Mapping[str, Any], *, plain: bool) -> None:
        self._spelt = without_marks if plain else str
        self._lists: dict[str, dict[str, str]] = {
            key: {
                word.replace("_", " "): value
                for word, value in (each.split(":") for each in given[key].split())
            }
            for key in (*_LISTS, "units", "numbers")
        }
        # Looked up without diacritics in either spelling.
        self.values: Mapping[str, Mapping[str, int]] = {
            key: {without_marks(word): int(value) for word, value in self._lists[key].items()}
            for key in _LISTS
        }
        self._units, self._numbers = (
            {without_marks(word): value for word, value in self._lists[key].items()}
            for key in ("units", "numbers")
        )
        self.forms = _WORDS | {
            key: f"(?:{'|'.join(sorted(each, key=len, reverse=True))})"
            for key, each in self._lists.items()
        }
        self.forms |= given["words"] | (given.get("plain", {}) if plain else {})
        near = {**given["joins"], **given.get("english", {}), **given.get("vietnamese", {})}
        self.near = {key: self.pattern(text) for key, text in near.items()}

    def pattern(self, text: str) -> re.Pattern[str]:
        """An expression of the table, compiled."""
        while _STANDS_FOR.search(text):
            text = _STANDS_FOR.sub(lambda match: self.forms[match[1]], text)
        return spaced(self._spelt(text.replace("\n", "")))

    def starts(self, text: str) -> list[str]:
        """The words with which a rule starts, each once."""
        listed = _STANDS_FOR.sub(lambda match: " ".join(self._lists[match[1]]), text)
        return list(dict.fromkeys(self._spelt(listed).split()))

    def unit(self, word: str) -> str:
        """The English name of a unit."""
        return self._units[word]

    def amount(self, word: str) -> tuple[int, int]:
        """The least and the most that a number means."""
        least, _, most = (word if word.isdigit() else self._numbers[word]).partition("-")
        return int(least), int(most or least)
