"""The time a question speaks of: what is read as a window, what is not, and how near is near."""

from __future__ import annotations

import itertools
import math
import unicodedata
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hitherto_shared.dates import DISTANT_PAST, Window, closeness, find_window
from hitherto_shared.dates.clauses import resolve_dates

NOW = datetime(2023, 7, 12, 15, 30, tzinfo=UTC)
"""A Wednesday; its week is 10 to 16 July."""


def _days(window: Window | None) -> str | None:
    """A window in whole days of UTC, end included; `-∞` and `now` stand for its open ends."""
    if window is None:
        return None
    start = "-∞" if window.start == DISTANT_PAST else window.start.date().isoformat()
    if window.end == NOW:
        return f"{start}..now"
    last = (window.end - timedelta(microseconds=1)).date().isoformat()
    return start if start == last else f"{start}..{last}"


ENGLISH = [
    # Absolute days.
    ("What did I say on 7 May 2023?", "2023-05-07"),
    ("May 7,2023", "2023-05-07"),
    ("May 7th 2023", "2023-05-07"),
    ("what happened on 5 July", "2023-07-05"),
    ("what happened on 5 August", "2022-08-05"),
    ("what happened on July 13", "2022-07-13"),
    ("2023-05-07", "2023-05-07"),
    ("at 2023-05-07T10:00:00Z", "2023-05-07"),
    ("07/05/2023", "2023-05-07"),
    ("05/13/2023", "2023-05-13"),
    ("13/05/2023", "2023-05-13"),
    ("7.5.2023", "2023-05-07"),
    ("07/05/98", "1998-05-07"),
    ("on 5/7", "2023-07-05"),
    ("Friday, 5 May 2023", "2023-05-05"),
    ("on the 5th", "2023-07-05"),
    ("on the 5th of last month", "2023-06-05"),
    ("on 7 May last year", "2022-05-07"),
    # Months.
    ("What did I say in May?", "2023-05-01..2023-05-31"),
    ("in May 2023", "2023-05-01..2023-05-31"),
    ("in August", "2022-08-01..2022-08-31"),
    ("what did we plan last March?", "2023-03-01..2023-03-31"),
    ("which books did I read last July", "2022-07-01..2022-07-31"),
    ("next September", "2023-09-01..2023-09-30"),
    ("my trip, Sept 2022", "2022-09-01..2022-09-30"),
    ("in May last year", "2022-05-01..2022-05-31"),
    ("last year in May", "2022-05-01..2022-05-31"),
    ("in 2023-05", "2023-05-01..2023-05-31"),
    ("in early May", "2023-05-01..2023-05-10"),
    ("at the end of May 2023", "2023-05-21..2023-05-31"),
    ("the first week of June", "2023-06-01..2023-06-07"),
    ("the last day of June", "2023-06-30"),
    ("from May to June or so", "2023-05-01..2023-06-30"),
    ("in June and July 2022", "2022-06-01..2022-07-31"),
    # Years, seasons, quarters.
    ("Where did I live in 2022?", "2022-01-01..2022-12-31"),
    ("last year", "2022-01-01..2022-12-31"),
    ("next year", "2024-01-01..2024-12-31"),
    ("two years ago", "2021-01-01..2021-12-31"),
    ("the year before last", "2021-01-01..2021-12-31"),
    ("summer 2023", "2023-06-01..2023-08-31"),
    ("last summer", "2022-06-01..2022-08-31"),
    ("this summer", "2023-06-01..2023-08-31"),
    ("last winter", "2022-12-01..2023-02-28"),
    ("winter 2023", "2023-12-01..2024-02-29"),
    ("fall 2021", "2021-09-01..2021-11-30"),
    ("Q1 2023", "2023-01-01..2023-03-31"),
    ("the second quarter of 2022", "2022-04-01..2022-06-30"),
    ("this quarter", "2023-07-01..2023-09-30"),
    # Relative.
    ("What did I eat yesterday?", "2023-07-11"),
    ("the day before yesterday", "2023-07-10"),
    ("today", "2023-07-12"),
    ("this morning", "2023-07-12"),
    ("last night", "2023-07-11"),
    ("tomorrow", "2023-07-13"),
    ("last week", "2023-07-03..2023-07-09"),
    ("this week", "2023-07-10..2023-07-16"),
    ("last weekend", "2023-07-08..2023-07-09"),
    ("last month", "2023-06-01..2023-06-30"),
    ("the month before last", "2023-05-01..2023-05-31"),
    ("3 days ago", "2023-07-09"),
    ("a week ago", "2023-07-03..2023-07-09"),
    ("two weeks ago", "2023-06-26..2023-07-02"),
    ("a few days ago", "2023-07-07..2023-07-10"),
    ("20 hours ago", "2023-07-11"),
    ("in the last 3 days", "2023-07-09..now"),
    ("over the past two weeks", "2023-06-28..now"),
    ("in the last 24 hours", "2023-07-11..now"),
    ("in the last year", "2022-01-01..2022-12-31"),
    ("last Friday", "2023-07-07"),
    ("on Wednesday", "2023-07-12"),
    ("on Friday", "2023-07-07"),
    ("next Friday", "2023-07-21"),
    ("on Monday of last week", "2023-07-03"),
    # Weeks, ranges and open ends.
    ("the week of 3 June", "2023-05-29..2023-06-04"),
    ("the week before 9 June 2023", "2023-06-02..2023-06-08"),
    ("the day after 9 June 2023", "2023-06-10"),
    ("since the beginning of the year", "2023-01-01..now"),
    ("between May and June", "2023-05-01..2023-06-30"),
    ("between November and February", "2022-11-01..2023-02-28"),
    ("from November to February 2022", "2021-11-01..2022-02-28"),
    ("from 1 to 5 June", "2023-06-01..2023-06-05"),
    ("June 1-5, 2022", "2022-06-01..2022-06-05"),
    ("from 28 June to 3 July 2022", "2022-06-28..2022-07-03"),
    ("from 2020 to 2022", "2020-01-01..2022-12-31"),
    ("from Friday to Monday", "2023-07-07..2023-07-10"),
    ("before 2022", "-∞..2021-12-31"),
    ("before May 7, 2023", "-∞..2023-05-06"),
    ("since May", "2023-05-01..now"),
    ("since last Friday", "2023-07-07..now"),
    ("from 2022 on", "2022-01-01..now"),
    # The first of several counts.
    ("What did I say last week about the plans for summer 2024?", "2023-07-03..2023-07-09"),
]

VIETNAMESE = [
    ("Hôm qua tôi đã nói gì?", "2023-07-11"), ("hom qua toi da noi gi", "2023-07-11"),
    ("hôm kia", "2023-07-10"), ("sáng nay", "2023-07-12"), ("ngày mai", "2023-07-13"),
    ("tuần trước", "2023-07-03..2023-07-09"), ("tuần này", "2023-07-10..2023-07-16"),
    ("tuần tới", "2023-07-17..2023-07-23"), ("tháng trước", "2023-06-01..2023-06-30"),
    ("năm ngoái tôi sống ở đâu", "2022-01-01..2022-12-31"), ("năm nay", "2023-01-01..2023-12-31"),
    ("quý trước", "2023-04-01..2023-06-30"), ("3 ngày trước", "2023-07-09"),
    ("ba ngày trước", "2023-07-09"), ("cách đây hai tuần", "2023-06-26..2023-07-02"),
    ("năm năm trước", "2018-01-01..2018-12-31"), ("trong 3 ngày qua", "2023-07-09..now"),
    ("thứ hai tuần trước", "2023-07-03"), ("Thứ Hai mình có họp không", "2023-07-10"),
    ("thứ năm tuần này", "2023-07-13"), ("hôm thứ sáu", "2023-07-07"), ("vào thứ 6", "2023-07-07"),
    ("chủ nhật", "2023-07-09"), ("tháng 5", "2023-05-01..2023-05-31"),
    ("tháng 8", "2022-08-01..2022-08-31"), ("tháng 5 năm 2023", "2023-05-01..2023-05-31"),
    ("tháng 5 năm ngoái", "2022-05-01..2022-05-31"), ("vào tháng năm", "2023-05-01..2023-05-31"),
    ("tháng mười hai năm 2022", "2022-12-01..2022-12-31"),
    ("đầu tháng 5", "2023-05-01..2023-05-10"), ("cuối tháng trước", "2023-06-21..2023-06-30"),
    ("tuần đầu tiên của tháng 6", "2023-06-01..2023-06-07"), ("năm 2022", "2022-01-01..2022-12-31"),
    ("ngày 7 tháng 5 năm 2023", "2023-05-07"), ("mùng 7 tháng 5", "2023-05-07"),
    ("ngày 7/5", "2023-05-07"), ("ngày 5", "2023-07-05"),
    ("mùa hè năm ngoái", "2022-06-01..2022-08-31"), ("mùa đông vừa rồi", "2022-12-01..2023-02-28"),
    ("quý 1 năm 2023", "2023-01-01..2023-03-31"), ("trước năm 2022", "-∞..2021-12-31"),
    ("sau năm 2021", "2022-01-01..now"), ("từ năm 2022 đến nay", "2022-01-01..now"),
    ("từ đầu năm đến nay", "2023-01-01..now"), ("từ tháng 5 đến tháng 6", "2023-05-01..2023-06-30"),
    ("từ tháng 5 đến tháng 7 năm 2022", "2022-05-01..2022-07-31"),
    ("từ 1 đến 5 tháng 6", "2023-06-01..2023-06-05"), ("từ 5/6 đến 9/6", "2023-06-05..2023-06-09"),
    ("từ năm 2020 đến năm 2022", "2020-01-01..2022-12-31"),
]  # fmt: skip

ELSEWHERE = [
    # Chinese, Japanese, Korean, Thai: a word may begin and end anywhere.
    ("昨天我们去了哪里？", "2023-07-11"), ("我上周五说了什么", "2023-07-07"),
    ("上周一起吃饭的人是谁", "2023-07-03..2023-07-09"), ("3天前的会议", "2023-07-09"),
    ("三个月前", "2023-04-01..2023-04-30"), ("去年我住在哪里", "2022-01-01..2022-12-31"),
    ("2023年5月3日的事", "2023-05-03"), ("昨日は何をした？", "2023-07-11"),
    ("先週の金曜日に何を食べた？", "2023-07-07"),
    ("8月に会った人", "2022-08-01..2022-08-31"), ("어제는 뭐 했어?", "2023-07-11"),
    ("지난주 금요일에 뭐 했지", "2023-07-07"), ("2023년 5월 3일에", "2023-05-03"),
    ("เมื่อวานฉันไปไหน", "2023-07-11"), ("3 วันก่อน", "2023-07-09"),
    # Right to left, with words written together.
    ("ماذا فعلت أمس؟", "2023-07-11"), ("بالأمس ذهبت", "2023-07-11"),
    ("أين كنت الأسبوع الماضي؟", "2023-07-03..2023-07-09"), ("قبل يومين", "2023-07-10"),
    ("¿Qué hice ayer?", "2023-07-11"), ("¿qué dije la semana pasada?", "2023-07-03..2023-07-09"),
    ("hace tres días", "2023-07-09"), ("el 3 de mayo de 2021", "2021-05-03"),
    ("en agosto", "2022-08-01..2022-08-31"), ("el lunes pasado", "2023-07-10"),
    ("há duas semanas", "2023-06-26..2023-07-02"),
    ("Qu'est-ce que j’ai fait hier ?", "2023-07-11"),
    ("il y a deux mois", "2023-05-01..2023-05-31"), ("le 3 mars 2021", "2021-03-03"),
    ("Was habe ich gestern gesagt?", "2023-07-11"), ("am 3. Mai 2021", "2021-05-03"),
    ("letzten Mittwoch", "2023-07-05"), ("tre giorni fa", "2023-07-09"),
    ("Что я говорил вчера?", "2023-07-11"), ("на прошлой неделе", "2023-07-03..2023-07-09"),
    ("неделю назад", "2023-07-03..2023-07-09"), ("2 hari yang lalu", "2023-07-10"),
]  # fmt: skip

INNOCENT = [
    # "Here", a planet, a price in pesos, months of waiting, no such month or day, and so on.
    "Ich bin hier", "the mars rover", "the Mars 2020 mission", "cuesta 300 pesos al mes", "3个月",
    "二十天前", "31 de febrero de 2021", "2023年13月", "13月", "", "   ",
    "May I ask you something?",
    "may i go", "I may go", "You may be right in this", "This may be wrong",
    "this may take a while", "the last may have been the best", "I may 5 times a day",
    "only 5 may join", "march on", "We march on Washington", "march 5 miles", "the protest march",
    "the second one", "wait a second", "second language", "the sun is up", "in the sun",
    "on Sun servers", "she sat down", "they wed in church", "version 2023.1", "release v2023.05.07",
    "in 2023.1 it broke", "Windows 2019", "room 2022", "in 2000 steps", "after 2000 iterations",
    "I have 2022 photos", "24/7 support", "on 1/2/3/4", "call 555-2023", "10.0.0.1",
    "http://example.com/2023/05/07", "What does April like?", "What did June say?",
    "a gift from April", "an august institution", "spring framework", "did I fall down?",
    "Where do I swim in the summer?", "decide what to do", "my marriage and my mayor",
    "octopus and novel", "every Friday", "Black Friday deals", "yesterdays", "on 32/13/2023",
    "2023-02-30", "on the 5th floor", "the last week of work", "Q3 is the third question",
    "at last we went", "the past is past", "a month-long stay", "since we met", "before dinner",
    "half a year ago", "twenty-two days ago", "the 1990s", "ngày thứ hai của chuyến đi",
    "nhiều năm trước", "mười lăm năm trước", "Tuan qua nha toi", "quý 9", "người thứ hai",
    "lần thứ hai tôi đến đây", "Việt Nam", "Viet Nam 2022", "mỗi tháng 5 triệu",
    "3 ngày trước khi đi", "tuần trước khi cưới", "tháng năm dài", "hình chữ nhật",
    "tôi thích mùa hè", "trước khi ngủ", "toi qua nha ban", "năm người", "日本語の質問", "🎉🎉",
]  # fmt: skip


def test_a_time_is_read_whatever_the_kind_of_blank() -> None:
    for question, days in ENGLISH + VIETNAMESE + ELSEWHERE:
        assert _days(find_window(question, NOW)) == days, question
    for (question, days), blank in itertools.product(
        ENGLISH + VIETNAMESE, ["\n", "\u00a0", " \t "]
    ):
        assert _days(find_window(question.replace(" ", blank), NOW)) == days, question


def test_innocent_words_are_no_time() -> None:
    for question in INNOCENT:
        assert find_window(question, NOW) is None, question


def test_the_window_quotes_what_was_read() -> None:
    for question, text in [
        ("What did I say  last week, please?", "last week"),
        ("We met since early May or so", "since early May"),
        ("Was it between May and July 2023?", "between May and July 2023"),
        ("Tôi làm gì từ tháng 5 đến tháng 6 vậy?", "từ tháng 5 đến tháng 6"),
        ("İstanbul'da, on 7 MAY 2023!", "7 MAY 2023"),
    ]:
        window = find_window(question, NOW)
        assert window is not None, question
        assert window.text == text


def test_composed_and_decomposed_letters_read_the_same() -> None:
    for question in ["Hôm qua", "tháng trước", "thứ hai tuần trước", "từ 2022"]:
        composed = find_window(unicodedata.normalize("NFC", question), NOW)
        assert composed is not None, question
        assert find_window(unicodedata.normalize("NFD", question), NOW) == composed


def test_calendars_have_edges() -> None:
    for question, now, zone, start, end in [
        # Half past midnight in Vietnam is still the day before in UTC.
        ("hôm qua", "2023-07-11T17:30", "Asia/Ho_Chi_Minh", "2023-07-10T17:00", "2023-07-11T17:00"),
        ("hôm qua", "2023-07-11T17:30", "UTC", "2023-07-10", "2023-07-11"),
        # Days of 23 and 25 hours.
        ("yesterday", "2023-03-27T12:00", "Europe/Berlin", "2023-03-25T23:00", "2023-03-26T22:00"),
        # The clocks of São Paulo skipped midnight: the day began at one.
        ("on 4 November 2018", "2018-12-01T12:00", "America/Sao_Paulo",
         "2018-11-04T03:00", "2018-11-05T02:00"),
        # Leap days.
        ("on 29 February", "2023-07-12", "UTC", "2020-02-29", "2020-03-01"),
        ("on 29 February", "2024-02-29T12:00", "UTC", "2024-02-29", "2024-03-01"),
        ("29/02/2023", "2024-01-01", "UTC", None, None),
        ("12 months ago", "2024-02-29", "UTC", "2023-02-01", "2023-03-01"),
        # Around the turn of the year.
        ("last month", "2024-01-05", "UTC", "2023-12-01", "2024-01-01"),
        ("tháng trước", "2024-01-31", "UTC", "2023-12-01", "2024-01-01"),
        ("last week", "2024-01-03", "UTC", "2023-12-25", "2024-01-01"),
        ("between December and January", "2024-02-01", "UTC", "2023-12-01", "2024-02-01"),
        ("this winter", "2024-01-15", "UTC", "2023-12-01", "2024-03-01"),
        # A month is over when its last day is.
        ("last May", "2023-05-31T23:00", "UTC", "2022-05-01", "2022-06-01"),
        ("last May", "2023-06-01T00:00", "UTC", "2023-05-01", "2023-06-01"),
        # A month ago from the 31st.
        ("last month", "2023-03-31", "UTC", "2023-02-01", "2023-03-01"),
        # Where a datetime ends.
        ("this year", "9999-06-01", "UTC", "9999-01-01", str(datetime.max.replace(tzinfo=UTC))),
        ("last year", "0001-06-01", "UTC", None, None),
        # Nothing has happened yet since a time to come.
        ("since tomorrow", "2023-07-12", "UTC", None, None),
    ]:  # fmt: skip
        window = find_window(question, datetime.fromisoformat(now), zone)
        if start is None or end is None:
            assert window is None, question
        else:
            assert window is not None, question
            expected = [datetime.fromisoformat(moment) for moment in (start, end)]
            assert [window.start, window.end] == [
                moment if moment.tzinfo else moment.replace(tzinfo=UTC) for moment in expected
            ], question


_SPOKEN = {word for question, _ in ENGLISH + VIETNAMESE for word in question.split()}
_ODD = ["9999", "0", "31", "-", "/", ",", "٣", "²", "İ", "ß", "\x00", "\ud800"]
_WORDS = st.sampled_from([*sorted(_SPOKEN), *INNOCENT, *_ODD])
_SENTENCES = st.builds(str.join, st.sampled_from([" ", "  ", "\n"]), st.lists(_WORDS, max_size=12))
_TEXTS = st.one_of(st.text(), _SENTENCES)
_ZONES = st.sampled_from(
    ["UTC", "Asia/Ho_Chi_Minh", "America/New_York", "Pacific/Kiritimati", "Pacific/Pago_Pago"]
)
_MOMENTS = st.one_of(
    st.datetimes(timezones=st.just(UTC)),
    st.datetimes(timezones=_ZONES.map(ZoneInfo)),
    st.datetimes(),
    st.sampled_from([datetime.min, datetime.max, datetime(1, 2, 3), datetime(9999, 12, 30)]),
)


@settings(deadline=None)
@given(_TEXTS, _MOMENTS, _ZONES)
def test_no_text_and_no_moment_raises(text: str, now: datetime, zone: str) -> None:
    window = find_window(text, now, zone)
    if window is not None:
        assert window.start < window.end
        assert window.start.tzinfo is UTC
        assert window.end.tzinfo is UTC
        assert window.text in unicodedata.normalize("NFC", text)
        assert closeness(window, window.start) == 1.0
        assert 0.0 <= closeness(window, NOW) <= 1.0


def test_no_time_raises_at_the_ends_of_the_calendar() -> None:
    ends = [datetime.min, datetime(1, 1, 9), datetime(9999, 12, 25), datetime.max]
    zones = ["Pacific/Kiritimati", "Pacific/Pago_Pago"]
    wrong = []
    for (question, _), now, zone in itertools.product(ENGLISH + VIETNAMESE, ends, zones):
        try:
            window = find_window(question, now.replace(tzinfo=UTC), zone)
        except (ArithmeticError, ValueError) as error:
            wrong.append((question, now, zone, repr(error)))
            continue
        if window is not None and window.start >= window.end:
            wrong.append((question, now, zone, str(window)))
    assert wrong == []


def test_only_the_beginning_of_a_long_text_is_read() -> None:
    assert find_window("word " * 50 + "yesterday", NOW) is not None
    assert find_window("word " * 500 + "yesterday", NOW) is None


_JUNE = Window(datetime(2023, 6, 1, tzinfo=UTC), datetime(2023, 7, 1, tzinfo=UTC), "in June")


def test_closeness_falls_with_the_distance() -> None:
    for moment, score in [
        (datetime(2023, 6, 1, tzinfo=UTC), 1.0),
        (datetime(2023, 6, 30, 23, 59, tzinfo=UTC), 1.0),
        (datetime(2023, 7, 1, tzinfo=UTC), 1.0),
        (datetime(2023, 7, 8, tzinfo=UTC), math.exp(-1)),
        (datetime(2023, 7, 15, tzinfo=UTC), math.exp(-2)),
        (datetime(2023, 7, 15, 7, tzinfo=ZoneInfo("Asia/Ho_Chi_Minh")), math.exp(-2)),
        (datetime(2023, 5, 29, tzinfo=UTC), math.exp(-1)),
        (datetime(2023, 5, 31, 12, tzinfo=UTC), math.exp(-1 / 6)),
        (datetime.max.replace(tzinfo=UTC), 0.0),
        (datetime.min.replace(tzinfo=UTC), 0.0),
    ]:
        assert closeness(_JUNE, moment) == pytest.approx(score)


def test_relative_dates_of_a_statement_are_resolved() -> None:
    for language, clause, rest, dates in [
        ("en", "I moved to Ghent last week", "I moved to Ghent", ["week of 2023-07-03"]),
        ("en", "I went there a month ago", "I went there", ["2023-06"]),
        ("en", "I fly next Friday, today I pack", "I fly, I pack", ["2023-07-21", "2023-07-12"]),
        ("en", "it is done by tomorrow", "it is done by 2023-07-13", []),
        ("en", "a few days ago, on 5 May, in the past month", None, []),
        ("vi", "hôm qua tôi đã đậu", "tôi đã đậu", ["2023-07-11"]),
        ("vi", "tôi chuyển vào thứ hai tuần trước", "tôi chuyển", ["2023-07-03"]),
        ("vi", "tôi làm xong trước năm sau", "tôi làm xong trước 2024", []),
    ]:  # fmt: skip
        found, taken = resolve_dates(clause, language, NOW.date())
        assert found == (clause if rest is None else rest), clause
        assert [moment.text for moment in taken] == dates, clause
