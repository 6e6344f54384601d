"""Whether a question asks for the most recent items: "my last email", "tài liệu mới nhất" (D5).

A trigger word must stand whole, outside of what was read as a time ("last week") and outside of
the phrases in which it means something else ("last name", "at last"). "The last time I…" and "when
did I last…" are left to the other legs on purpose: they ask for an event, which is found by what
happened and not by being among the newest items.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Self

from hitherto_retrieval.search.intent.whole_words import (
    WholeWords,
    covered,
    is_plain,
    plain_form,
    spelt,
)
from hitherto_shared.dates.find import ENGLISH, VIETNAMESE
from hitherto_shared.dates.window import Window
from hitherto_shared.text.normalise import fold

SHIPPED = (
    *("last", "latest", "recent", "newest", "most recently"),
    *("gần đây nhất", "gần đây", "gần nhất", "mới nhất", "mới đây", "cuối cùng", "sau cùng"),
    "vừa rồi",
    *("最近", "最新", "直近", "最後の", "最后一", "最後一"),
    *("최근", "최신", "마지막"),
    "ล่าสุด",
)
# Words that ask for the current state.
_PRESENT = WholeWords(
    (
        *("now", "nowadays", "currently", "these days", "at the moment", "at present"),
        *("bây giờ", "hiện nay", "hiện giờ", "hiện tại", "dạo này"),
        *("現在", "现在", "目前", "지금", "요즘", "ตอนนี้"),
    ),
    ("bay gio", "hien nay", "hien gio", "hien tai", "dao nay"),
)
_MAX_WORDS = 500
_MAX_CHARACTERS = 64

_NUMBER = rf"(?:\d{{1,4}}|(?:a )?couple(?: of)?|{ENGLISH.words.forms['numbers']})"
_UNIT = r"(?:minute|hour|day|night|week|weekend|month|quarter|year|decade|century|semester)s?"
_CALENDAR = (
    rf"(?:spring|summer|autumn|fall|winter|season|{ENGLISH.words.forms['weekdays']}"
    rf"|{ENGLISH.words.forms['months']}"
    r"|christmas|xmas|easter|thanksgiving|halloween|ramadan|eid|diwali|hanukkah|new year|tet|tết"
    r"|birthday|anniversary)"
)
_FOR_LONG = (
    r"(?: (?:for|until|till|on|in|after|before|once|with|without|if|when|than)\b| ?(?:[?.!,;:]|\Z))"
)
_ENGLISH = (
    # A time, even if another one was read as the time of the question.
    rf"last (?:{_NUMBER} )?{_UNIT}\b",
    rf"last {_CALENDAR}\b",
    rf"(?:last|latest|recent) {_NUMBER} {_UNIT}\b",
    # An event, which is found by what happened.
    r"(?:last|latest|most recent) times?\b",
    r"when (?:did|do|does|have|has|had) (?:[\w'’]+ ){1,4}?"
    r"(?<!\bmy )(?<!\bthe )(?<!\byour )(?<!\bhis )(?<!\bher )(?<!\bour )(?<!\btheir )(?<!['’]s )"
    r"last\b",
    r"when (?:did|do|does|have|has|had) [^?.!]{1,60} last(?= ?(?:[?.!,;]|\Z))",
    # Idioms.
    r"at (?:long )?last\b",
    r"at the (?:very )?latest\b",
    r"last[ -]names?\b",
    r"(?:first (?:and|or) last|last (?:and|or) first)\b",
    r"last[ -](?:will|resort|straw|minute|ditch|mile|rites|chance|but|of)\b",
    r"(?:second|third|next)[ -](?:to[ -])?last\b",
    # The verb "to last".
    rf"how (?:long|many \w{{1,20}})\b[^?.!]{{0,80}} last(?={_FOR_LONG})",
    r"last(?= (?:for|until|till|longer|long|forever|all (?:day|night|week|year))\b)",
    r"(?:will|would|won['’]t|can|could|can['’]t|couldn['’]t|might|should|must|doesn['’]t"
    r"|didn['’]t|don['’]t|wouldn['’]t|not) last\b",
    r"(?:do|does|did|make|makes|made|will|would) (?:it|they|this|that) last\b",
    r"(?:will|would|can|could|should) (?:[\w'’]+ ){1,5}?last(?= ?(?:[?.!,;]|\Z))",
    r"(?:built|made|meant|designed|supposed|expected|going|likely|guaranteed) to last\b",
)
_VN_UNIT = r"(?:phút|giờ|tiếng|ngày|hôm|đêm|tuần|tháng|quý|năm|hè|tết|mùa \w{1,8})"
_VN_NUMBER = rf"(?:\d{{1,4}}|{VIETNAMESE.words.forms['numbers']})"
_VN_PLACE = (
    r"(?:quán|tiệm|nhà hàng|bệnh viện|phòng khám|nhà thuốc|hiệu thuốc|siêu thị|cửa hàng|khách sạn"
    r"|trạm|cây xăng|chợ|công viên|sân bay|nhà ga|bến xe|atm)"
)
_VIETNAMESE = (
    rf"{_VN_UNIT} (?:vừa rồi|cuối cùng|sau cùng|gần đây nhất|gần nhất)\b",
    rf"{_VN_NUMBER} {_VN_UNIT} gần đây\b",
    r"lần (?:gần đây nhất|gần đây|gần nhất|mới nhất|cuối cùng|sau cùng|vừa rồi)\b",
    # "Finally", at the beginning of a sentence or before such a word.
    r"cuối cùng (?:thì|cũng)\b",
    r"(?<![\w,] )cuối cùng,",
    # "Nearby" and "the nearest" are the same words.
    rf"{_VN_PLACE}(?: \w{{1,12}}){{0,3}} (?:gần đây(?! nhất)|gần nhất)\b",
    rf"gần đây (?:có|còn) (?:\w{{1,8}} )?{_VN_PLACE}\b",
    r"gần (?:đây|nhất)(?= (?:với|chỗ|ở đâu)\b)",
)
_EAST_ASIAN = (
    # The nearest one.
    r"[离離][^。、，？！,?!]{1,8}最近",
    r"最近(?:的|の)?(?:地铁|地鐵|车站|車站|医院|醫院|餐厅|餐廳|駅|病院|コンビニ)",
    "마지막으로",
)


def _any_of(vietnamese: Iterable[str]) -> re.Pattern[str]:
    words = "|".join([*_ENGLISH, *vietnamese])
    return re.compile(rf"(?<![\w-])(?:{words})|{'|'.join(_EAST_ASIAN)}")


# Phrases in which trigger words mean something else: as written, and in a text without diacritics.
# Everything in the patterns except words is lower case, so that folding does not change it.
_WRITTEN = _any_of(_VIETNAMESE)
_PLAIN = _any_of([*_VIETNAMESE, *map(fold, _VIETNAMESE)])


def words_for_the_present(text: str) -> list[str]:
    """The words with which a question asks for the current state: "where does she live now?".

    Args:
        text: The question, as `readable` returns it.
    """
    return [word for word, _, _ in _PRESENT.find(text)]


class RecencyWords:
    """The words that ask for the most recent items.

    Args:
        words: As users write them; each must contain a letter or a digit.
    """

    def __init__(self, words: Iterable[str] = SHIPPED) -> None:
        self.words = tuple(dict.fromkeys(spelt(word) for word in words))
        plain = [form for word in self.words if (form := plain_form(word)) is not None]
        self._triggers = WholeWords(self.words, plain)

    @classmethod
    def from_setting(cls, setting: str | None) -> Self:
        """The shipped words, changed as the setting says.

        Args:
            setting: Words separated by commas are added; a word after a minus sign is removed from
                the shipped list ("letzte, neueste, -recent"). None keeps the shipped list.

        Raises:
            ValueError: An entry is not a word, is too long, or removes a word that is not in the
                list.
        """
        words = dict.fromkeys(spelt(word) for word in SHIPPED)
        for part in (setting or "").split(","):
            item = spelt(part)
            word = item.removeprefix("-").strip()
            if not item:
                continue
            if not re.search(r"\w", word) or len(word) > _MAX_CHARACTERS:
                raise ValueError(
                    f"{item[:_MAX_CHARACTERS]!r} is no word: write words of up to "
                    f"{_MAX_CHARACTERS} characters, separated by commas"
                )
            if not item.startswith("-"):
                words[word] = None
            elif word in words:
                del words[word]
            else:
                raise ValueError(
                    f"{word!r} cannot be taken off the list: it is not on it; "
                    f"the list is {', '.join(words)}"
                )
        if len(words) > _MAX_WORDS:
            raise ValueError(f"there may be at most {_MAX_WORDS} words, these are {len(words)}")
        return cls(words)

    def found_in(self, text: str, window: Window | None = None) -> list[tuple[int, int]]:
        """The spans in which a question asks for the most recent items, as start and end positions.

        Args:
            text: The question, as `readable` returns it.
            window: The time read from the question, whose words are not counted again.
        """
        found = [(first, last) for _, first, last in self._triggers.find(text)]
        if not found:
            return []
        phrases = _PLAIN if is_plain(text) else _WRITTEN
        taken = [match.span() for match in phrases.finditer(text)]
        if window is not None and (words := spelt(window.text)):
            taken += [match.span() for match in re.finditer(re.escape(words), text)]
        return [span for span in found if not covered(*span, taken)]
