"""The Vietnamese words for times, with diacritics and, where unambiguous, without."""

from __future__ import annotations

import re
import unicodedata

from hitherto_retrieval.search.dates.language import DateMatch, Language
from hitherto_retrieval.search.dates.numeric import (
    ISO,
    NUMBER_START,
    NUMERIC,
    SHORT_DATE,
    read_short,
)
from hitherto_retrieval.search.dates.phrases import (
    Kind,
    Parts,
    Phrase,
    PhraseContext,
    PhraseRule,
    joined,
    phrase_of,
    preceded,
    spaced,
    yearly,
)
from hitherto_retrieval.search.dates.relative import ago, kind_of, latest_day, rolling
from hitherto_shared.text.normalise import normalized
from hitherto_shared.vocabulary import times
from hitherto_shared.vocabulary.spans import (
    Which,
    choose_weekday,
    days_in_year,
    month_in_year,
    quarter_in_year,
    season_in_year,
    unit_of,
    which_of,
    year_span,
)


def _plain(text: str) -> str:
    """`text` without diacritics; also converts a pattern with diacritics."""
    decomposed = normalized("NFD", text.replace("đ", "d"))
    return "".join(ch for ch in decomposed if not unicodedata.combining(ch))


_NUMBERS = {_plain(word): (number, number) for word, number in times.VIETNAMESE_NUMBERS.items()}
_NUMBERS |= {"vai": (2, 5), "may": (2, 5)}
_MONTH_WORDS = {_plain(word): number for word, number in times.VIETNAMESE_NUMBERS.items()}
_MONTH_WORDS |= {"muoi mot": 11, "muoi hai": 12, "tu": 4}
_WEEKDAYS = {_plain(day.split()[1]): n for n, day in enumerate(times.VIETNAMESE_WEEKDAYS[:6])}
_WEEKDAYS |= {str(number): number - 2 for number in range(2, 8)}
_SEASONS = {"xuan": 3, "he": 6, "ha": 6, "thu": 9, "dong": 12}
_QUARTERS = {"1": 1, "2": 2, "3": 3, "4": 4, "i": 1, "ii": 2, "iii": 3, "iv": 4}
_UNITS = {_plain(word): unit for word, unit in times.VIETNAMESE_UNITS.items()}
_DAYS = {_plain(word): shift for word, shift in times.VIETNAMESE_DAYS.items()}
_SHIFTS = {_plain(word): shift for word, shift in times.VIETNAMESE_WHICH.items()} | {"kia": -2}

_YEAR = r"(?:19|20|21)\d\d"
_NOT_AN_EVENT = r"(?! (?:khi|đó|lúc|ngày|tết|lễ)\b)"
_QUALIFIER = rf"(trước|này|qua|rồi|vừa rồi|vừa qua|sau|tới)\b{_NOT_AN_EVENT}"
_NUMBER = rf"(\d{{1,4}}|{'|'.join(times.VIETNAMESE_NUMBERS)}|vài|mấy)"
_UNIT = r"(phút|giờ|tiếng|ngày|hôm|tuần|tháng|quý|năm)\b"
_MONTH = (
    r"tháng (\d{1,2}|mười một|mười hai|một|hai|ba|tư|bốn|năm|sáu|bảy|tám|chín|mười)"
    r"\b(?![.,:]\d| (?:ngày|tuần|giờ|lần|triệu|nghìn|ngàn|tỷ|người|buổi|đồng)\b)"
)


class _Words:
    """The patterns for the context of a match, in one of the two spellings."""

    def __init__(self, *, accented: bool) -> None:
        def words(pattern: str) -> re.Pattern[str]:
            return spaced(pattern if accented else _plain(pattern))

        self.short = words(r"\b(?:ngày|hôm|mùng|mồng|từ|đến|trước|sau|giữa) \Z")
        self.weekday = words(r"\b(?:vào|hôm|sáng|trưa|chiều|tối|đêm|từ|đến) \Z")
        self.counted_month = words(r"\b(?:mỗi|mấy|hàng|hằng|vài|một|từng) \Z")
        self.spoken_month = words(
            r"\b(?:vào|trong|hồi|từ|đến|đầu|giữa|cuối|trước|sau|ngày \d\d?) \Z"
        )
        self.larger_number = words(
            r"\b(?:nửa|mươi|mười|lăm|mốt|chục|trăm|nghìn|nhiều|những|các|mọi|mỗi|mấy|vài|một số"
            r"|bao nhiêu) \Z"
        )
        self.year = words(r"\b(?:vào|trong|hồi|từ|đến|trước|sau|giữa|cuối|đầu) \Z")
        self.year_follows = words(
            rf",? ?(?:của )?[/\-]?(?:năm )?(?:{_YEAR}\b|(?:năm )(?:ngoái|nay|kia|trước|sau)\b)"
        )
        self.week_follows = words(r" (?:của )?tuần\b")
        self.counted = words(
            r" ?(?:%|người|đồng|đô|usd|vnd|triệu|nghìn|tỷ|km|mét|m|bước|từ|chữ|trang|lần|dòng)\b"
        )
        self.year_gap = words(r",? ?[/\-]? ?(?:của )?(?:năm )?")
        self.not_year = words(r"\b(?:việt|miền|phía|hướng|đàn ông|anh) \Z")
        self.not_sunday = words(r"\bhình \Z")
        self.beginning = words(r"\bđầu \Z")


def _which(qualifier: str | None) -> Which | None:
    if not qualifier:
        return None
    return which_of(_SHIFTS[_plain(" ".join(qualifier.split()))])


def _amount(word: str) -> tuple[int, int]:
    return (int(word), int(word)) if word.isdigit() else _NUMBERS[_plain(word)]


class _Readers:
    """Interprets the matches of one spelling."""

    def __init__(self, words: _Words) -> None:
        self.words = words

    def day_range(
        self, match: re.Match[str], parts: Parts, reading: PhraseContext
    ) -> Phrase | None:
        month = self._month_number(parts[2])
        in_year = days_in_year(month, int(parts[0] or 0), int(parts[1] or 0))
        return yearly(match, Kind.DAY, in_year, reading)

    def day_month(
        self, match: re.Match[str], parts: Parts, reading: PhraseContext
    ) -> Phrase | None:
        in_year = days_in_year(self._month_number(parts[1]), int(parts[0] or 0))
        return yearly(match, Kind.DAY, in_year, reading)

    def month(self, match: re.Match[str], parts: Parts, reading: PhraseContext) -> Phrase | None:
        start, end, lower = match.start(), match.end(), reading.lower
        if preceded(self.words.counted_month, reading, start):
            return None
        word = parts[0] or ""
        # "tháng năm" is May, or "months and years".
        if not word.isdigit() and not (
            self.words.year_follows.match(lower, end)
            or preceded(self.words.spoken_month, reading, start)
            or joined(reading, start)
        ):
            return None
        return yearly(match, Kind.MONTH, month_in_year(self._month_number(word)), reading)

    def year(self, match: re.Match[str], parts: Parts, reading: PhraseContext) -> Phrase | None:
        start, end, lower = match.start(), match.end(), reading.lower
        named, number = parts
        if named:
            if preceded(self.words.not_year, reading, start):
                return None
        else:
            previous = reading.phrases[-1] if reading.phrases else None
            follows = (
                previous is not None
                and previous.in_year is not None
                and self.words.year_gap.fullmatch(lower, previous.end, start)
            )
            placed = preceded(self.words.year, reading, start) or joined(reading, start)
            if not follows and (not placed or self.words.counted.match(lower, end)):
                return None
        return phrase_of(match, Kind.YEAR, year_span(int(named or number or 0)))

    def season(self, match: re.Match[str], parts: Parts, reading: PhraseContext) -> Phrase | None:
        name = _plain(parts[0] or parts[1] or "")
        which = _which(parts[2])
        if not which and not self.words.year_follows.match(reading.lower, match.end()):
            return None
        return yearly(match, Kind.OTHER, season_in_year(_SEASONS[name]), reading, which)

    def quarter(self, match: re.Match[str], parts: Parts, reading: PhraseContext) -> Phrase | None:
        return yearly(match, Kind.OTHER, quarter_in_year(_QUARTERS[parts[0] or "1"]), reading)

    def weekday(self, match: re.Match[str], parts: Parts, reading: PhraseContext) -> Phrase | None:
        number, sunday, qualifier = parts
        start, end = match.start(), match.end()
        which = _which(qualifier)
        # "thứ hai" is Monday, or "the second".
        if sunday and preceded(self.words.not_sunday, reading, start):
            return None
        number_at = match.start(1)
        capital = reading.text[number_at : number_at + 2].istitle()
        if not sunday and not (
            which
            or capital
            or preceded(self.words.weekday, reading, start)
            or self.words.week_follows.match(reading.lower, end)
            or joined(reading, start)
        ):
            return None
        weekday = 6 if sunday else _WEEKDAYS[_plain(number or "")]
        span = choose_weekday(weekday, reading.today, which or Which.LATEST)
        return phrase_of(match, Kind.DAY if which else Kind.WEEKDAY, span)

    def day_number(
        self, match: re.Match[str], parts: Parts, reading: PhraseContext
    ) -> Phrase | None:
        return latest_day(match, int(parts[0] or 0), reading)

    @staticmethod
    def day_word(match: re.Match[str], _parts: Parts, reading: PhraseContext) -> Phrase | None:
        shift = _DAYS[_plain(" ".join(match[0].split()))]
        return phrase_of(match, Kind.DAY, unit_of("day", reading.today, shift))

    def unit(self, match: re.Match[str], parts: Parts, reading: PhraseContext) -> Phrase | None:
        # "Nửa năm trước" and "mười lăm năm trước" begin before the unit that was matched.
        if preceded(self.words.larger_number, reading, match.start()):
            return None
        unit = _UNITS[_plain(" ".join((parts[0] or "").split()))]
        shift = _SHIFTS[_plain(" ".join((parts[1] or "").split()))]
        return phrase_of(match, kind_of(unit), unit_of(unit, reading.today, shift))

    def current(self, match: re.Match[str], parts: Parts, reading: PhraseContext) -> Phrase | None:
        if not preceded(self.words.beginning, reading, match.start()):
            return None
        unit = _UNITS[_plain(parts[0] or "")]
        return phrase_of(match, kind_of(unit), unit_of(unit, reading.today, 0))

    def ago(self, match: re.Match[str], parts: Parts, reading: PhraseContext) -> Phrase | None:
        if preceded(self.words.larger_number, reading, match.start()):
            return None
        number, unit = (parts[0], parts[1]) if parts[0] else (parts[2], parts[3])
        low, high = _amount(number or "")
        return ago(match, _UNITS[_plain(unit or "")], low, high, reading)

    @staticmethod
    def rolling(match: re.Match[str], parts: Parts, reading: PhraseContext) -> Phrase | None:
        unit = _UNITS[_plain(parts[1] or "")]
        return rolling(match, unit, _amount(parts[0] or "")[1], reading)

    @staticmethod
    def _month_number(word: str | None) -> int:
        plain = _plain(" ".join((word or "").split()))
        return int(plain) if plain.isdigit() else _MONTH_WORDS[plain]


def _language(*, accented: bool) -> Language:
    readers = _Readers(_Words(accented=accented))
    # Without diacritics "toi qua" is also "tôi qua", "tuan toi" also a name and "tôi".
    if accented:
        days = r"hôm qua|hôm nay|hôm kia|ngày mai|ngày kia|bữa qua|bữa nay"
        days += r"|(?:sáng|trưa|chiều|tối|đêm) (?:nay|qua)"
        shifts = "trước|này|nay|qua|rồi|vừa rồi|vừa qua|sau|tới"
        years = "ngoái|nay|kia|trước|rồi|vừa rồi|vừa qua|qua|sau|tới"
    else:
        days = r"hôm qua|hôm nay|hôm kia|ngày mai|bữa qua|bữa nay"
        shifts = "trước|này|vừa rồi|sau"
        years = "ngoái|nay|trước|vừa rồi|sau"
    counted = f"0 vài mấy {' '.join(times.VIETNAMESE_NUMBERS)}"
    rules = [
        ISO,
        NUMERIC,
        PhraseRule("0", SHORT_DATE, read_short(readers.words.short)),
        PhraseRule(
            "0 từ",
            r"(?:từ (?:ngày |mùng |mồng )?)?"
            rf"{NUMBER_START}(\d{{1,2}}) ?(?:đến|tới|-|–|và) ?(?:ngày |mùng |mồng )?"
            rf"(\d{{1,2}}) {_MONTH}",
            readers.day_range,
        ),
        PhraseRule("0", rf"{NUMBER_START}(\d{{1,2}}),? {_MONTH}", readers.day_month),
        PhraseRule(
            counted,
            rf"{_NUMBER} {_UNIT} (?:qua|vừa qua|gần đây|gần nhất|trở lại đây|vừa rồi)\b",
            readers.rolling,
        ),
        PhraseRule(
            f"cách {counted}",
            rf"cách đây(?: khoảng)? {_NUMBER} {_UNIT}(?: trước\b)?"
            rf"|{_NUMBER} {_UNIT} trước\b{_NOT_AN_EVENT}",
            readers.ago,
        ),
        PhraseRule("hôm ngày bữa sáng trưa chiều tối đêm", rf"(?:{days})\b", readers.day_word),
        PhraseRule(
            "cuối tuần tháng quý",
            rf"(cuối tuần|tuần|tháng|quý) ({shifts})\b{_NOT_AN_EVENT}",
            readers.unit,
        ),
        PhraseRule("năm", rf"(năm) ({years})\b{_NOT_AN_EVENT}", readers.unit),
        PhraseRule(
            "năm 0",
            rf"năm ({_YEAR})(?![\w%]|[.,:/\-]\d)"
            rf"|(?:{NUMBER_START}|(?<=\d[/\-])|(?<=i/)|(?<=v/))({_YEAR})(?![\w%]|[.,:/\-]\d)",
            readers.year,
        ),
        PhraseRule("tháng", _MONTH, readers.month),
        PhraseRule(
            "mùa hè",
            rf"(?:mùa (xuân|hè|hạ|thu|đông)|(hè))\b(?: {_QUALIFIER})?"
            if accented
            else rf"mùa (xuân|hè|hạ|thu|đông)()\b(?: {_QUALIFIER})?",
            readers.season,
        ),
        PhraseRule("quý", r"quý ([1-4]|i{1,3}|iv)\b", readers.quarter),
        PhraseRule(
            "thứ chủ",
            rf"(?:thứ (hai|ba|tư|năm|sáu|bảy|[2-7])|(chủ nhật))\b(?: {_QUALIFIER})?",
            readers.weekday,
        ),
        PhraseRule(
            "ngày mùng mồng",
            r"(?:ngày|mùng|mồng) (\d{1,2})\b"
            r"(?= ?(?:[?.!,;]|(?:của )?tháng (?:này|trước|rồi)|\Z))",
            readers.day_number,
        ),
        PhraseRule("năm tháng tuần", r"(năm|tháng|tuần)\b(?! (?:\d|học))", readers.current),
    ]
    options = {
        "apposition": r" ?,? ?[/\-]?(?:của |trong |vào |hồi |ngày )?",
        "joint": r" ?(?:-|–|—|đến|tới|cho đến|(?P<and>và)) ?(?:hết )?(?:ngày |năm )?",
        "between": r"giữa(?: ngày| năm)?|trong khoảng",
        "opening": r"(?:kể |tính )?từ(?: ngày| đầu)?|giữa|trong khoảng",
        "prefix": (
            r"\b(?:(?P<before>trước)"
            r"|(?P<since>(?:kể |tính )?từ(?: sau)?)"
            r"|(?P<after>sau)"
            r"|(?P<until>cho đến|cho tới|đến|tới)(?: hết)?"
            r"|(?P<early>đầu|hồi đầu)"
            r"|(?P<middle>giữa)"
            r"|(?P<late>cuối)"
            r"|(?P<week_of>tuần có|tuần của)"
            r"|(?P<weekend_of>cuối tuần có|cuối tuần của)"
            r"|(?P<nth>(?P<unit>cuối tuần|tuần|ngày) (?P<ordinal>đầu tiên|đầu|cuối cùng|cuối)"
            r"(?: của)?)"
            r"|(?P<beside>(?:một )?(?P<length>ngày|tuần|tháng) (?P<side>trước|sau)))"
            r" (?:ngày |năm |hôm |mùng |mồng )?\Z"
        ),
        "onward": r" (?:trở đi|đến nay|tới nay|đến giờ|tới giờ|đến bây giờ|cho đến nay)\b",
    }
    ordinals = {"đầu tiên": 1, "đầu": 1, "cuối cùng": -1, "cuối": -1}
    units = {"ngày": "day", "tuần": "week", "cuối tuần": "weekend", "tháng": "month"}
    if accented:
        return Language(rules, ordinals=ordinals, units=units, **options)
    return Language(
        [PhraseRule(_plain(rule.starts), _plain(rule.pattern), rule.read) for rule in rules],
        ordinals={_plain(word): number for word, number in ordinals.items()},
        units={_plain(word): unit for word, unit in units.items()},
        **{name: _plain(pattern) for name, pattern in options.items()},
    )


_ACCENTED = _language(accented=True)
_PLAIN = _language(accented=False)
_VIETNAMESE_ONLY = re.compile("[ăđơưạảấầẩẫậắằẳẵặẹẻẽếềểễệỉịĩọỏốồổỗộớờởỡợụủũứừửữựỳỵỷỹ]")


def find(reading: PhraseContext) -> DateMatch | None:
    """The first time in a Vietnamese text; words without diacritics count if the text has none."""
    if reading.lower.isascii():
        return _PLAIN.find(reading)
    found = _ACCENTED.find(reading)
    if found or _VIETNAMESE_ONLY.search(reading.lower):
        return found
    # "hom qua o café": the accents may belong to a word of another language.
    reading.phrases.clear()
    return _PLAIN.find(reading)
