"""Which kind of content a question names, as its sources: email → Gmail and Outlook (D6).

Words must stand whole ("docker" is no document). Words in plain Latin letters count in the English
plural too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Self

from hitherto_retrieval.search.intent.whole_words import WholeWords, covered, plain_form, spelt

_EMAIL = frozenset({"gmail", "outlook"})
_DOCUMENT = frozenset({"gdrive", "onedrive"})
_TASK = frozenset({"jira"})
_MEETING = frozenset({"calendar"})


def _kind(words: str, sources: frozenset[str]) -> dict[str, frozenset[str]]:
    return {spelt(word): sources for word in words.split(",")}


SHIPPED: Mapping[str, frozenset[str]] = {
    **_kind("email, e-mail, mail, gmail, outlook, inbox", _EMAIL),
    **_kind("thư, hộp thư, thư điện tử", _EMAIL),
    **_kind("メール, 邮件, 郵件, 이메일, 메일", _EMAIL),
    **_kind("document, doc, file, gdrive, onedrive, google drive", _DOCUMENT),
    **_kind("tài liệu, văn bản, tệp, tập tin", _DOCUMENT),
    **_kind("資料, 文書, ドキュメント, ファイル, 文档, 文檔, 文件, 문서, 파일", _DOCUMENT),
    **_kind("task, jira, ticket, issue", _TASK),
    **_kind("công việc, nhiệm vụ", _TASK),
    **_kind("タスク, 任务, 任務, 작업", _TASK),
    **_kind("meeting, calendar, event", _MEETING),
    **_kind("cuộc họp, buổi họp, lịch, lịch họp, sự kiện", _MEETING),
    **_kind("会議, ミーティング, カレンダー, 会议, 會議, 日历, 日曆, 회의, 일정", _MEETING),
}
_SOMETHING_ELSE = re.compile(
    r"\b(?:e-?mail address(?:es)?\b|mail address(?:es)?\b"
    r"|địa chỉ (?:e-?mail|thư)\b|dia chi e-?mail\b"
    r"|in (?:the|any|either) event\b"
    # Library, secretary, to relax, folder, calligraphy; cancer, party secretary, Mid-Autumn.
    r"|thư (?:viện|ký|kí|giãn|mục|pháp|sinh|thái)\b|(?:ung|bí|trung) thư\b"
    # History, polite; to travel, elegant, the lunar and the solar calendar, a résumé.
    r"|lịch (?:sử|sự|thiệp|lãm)\b|(?:du|thanh|âm|dương|lý|lí) lịch\b)"
    r"|邮件地址|이메일 주소|메일 주소"
)
_MAX_SETTING = 20_000
_MAX_WORD = 64


class ContentTypes:
    """Maps words for kinds of content to the sources that hold them."""

    def __init__(self, words: Mapping[str, Iterable[str]] = SHIPPED) -> None:
        own = {spelt(word): frozenset(sources) for word, sources in words.items()}
        plurals = {form: own[word] for word in own if (form := _plural(word)) is not None}
        plain = {form: own[word] for word in own if (form := plain_form(word)) is not None}
        # A word itself takes precedence over the plural of another one.
        self._sources = plain | plurals | own
        self._words = WholeWords([*plurals, *own], plain)

    @classmethod
    def from_setting(cls, setting: str | None) -> Self:
        """The shipped words, changed as the setting says.

        Args:
            setting: Entries `words = sources` separated by semicolons, words and sources by commas:
                "newsletter, bản tin = mailchimp; issue =". A shipped word gets the sources given
                here instead; without sources it no longer names a kind of content. None keeps the
                shipped words.

        Raises:
            ValueError: The setting does not have this form.
        """
        sources_of = dict(SHIPPED)
        if setting is not None and len(setting) > _MAX_SETTING:
            raise ValueError(
                f"must have at most {_MAX_SETTING} characters, this has {len(setting)}"
            )
        given: set[str] = set()
        for entry in (setting or "").split(";"):
            if not entry.strip():
                continue
            words, equals, after = entry.partition("=")
            sources = frozenset(source.strip() for source in after.split(",") if source.strip())
            names = [spelt(word) for word in words.split(",") if word.strip()]
            if not equals or "=" in after or not names:
                raise ValueError(
                    f"{entry.strip()[:80]!r} must read `word, word = source, source`; "
                    "put a semicolon between two of these"
                )
            for name in names:
                if not re.search(r"\w", name) or len(name) > _MAX_WORD:
                    raise ValueError(
                        f"{name[:_MAX_WORD]!r} is no word of up to {_MAX_WORD} characters"
                    )
                if name in given:
                    raise ValueError(f"{name!r} appears twice: name all its sources at once")
                given.add(name)
                if sources:
                    sources_of[name] = sources
                elif sources_of.pop(name, None) is None:
                    raise ValueError(
                        f"{name!r} has no sources: name some behind the =, such as {name} = gmail"
                    )
        return cls(sources_of)

    def named_in(self, text: str) -> frozenset[str]:
        """The sources of all kinds of content that a question names; empty if it names none.

        Args:
            text: The question, as `readable` returns it.
        """
        return frozenset().union(*(self._sources[word] for word, _, _ in self.found_in(text)))

    def found_in(self, text: str) -> list[tuple[str, int, int]]:
        """Each word that names a kind of content, with its start and end in the text."""
        named = list(self._words.find(text))
        if not named:
            return []
        taken = [match.span() for match in _SOMETHING_ELSE.finditer(text)]
        return [word for word in named if not covered(word[1], word[2], taken)]


def _plural(word: str) -> str | None:
    """The English plural of a word in plain letters."""
    if not re.search(r"[a-z]\Z", word) or not word.isascii():
        return None
    if re.search(r"[^aeiou]y\Z", word):
        return f"{word[:-1]}ies"
    return f"{word}es" if re.search(r"(?:s|x|z|ch|sh)\Z", word) else f"{word}s"
