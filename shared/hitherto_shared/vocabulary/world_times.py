"""Common times in languages other than English and Vietnamese: "昨天", "la semana pasada", "3日前".

There are words for near days and periods, for counted units ("3 days ago") and, except in Thai,
Arabic and Indonesian, for dates. Words that mean something else at least as often are left out,
such as German "morgen" (tomorrow, morning).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from typing import NamedTuple

from hitherto_shared.vocabulary.spans import (
    InYear,
    Span,
    Which,
    choose_weekday,
    choose_year,
    day_span,
    days_in_year,
    month_in_year,
    months_span,
    shift_days,
    unit_of,
    year_span,
)
from hitherto_shared.vocabulary.times import FOREIGN_MONTHS, FOREIGN_WEEKDAYS

_TABLE = """
day -3 大前天
day -2 前天 一昨日 おととい 그저께 เมื่อวานซืน anteayer antier anteontem avant_hier vorgestern
day -2 altro_ieri ieri_l_altro позавчера أول_أمس kemarin_lusa
day -1 昨天 昨日 昨晚 昨夜 昨晩 きのう ゆうべ 어제 어젯밤 เมื่อวาน เมื่อคืน ayer anoche ontem
day -1 hier gestern ieri вчера أمس امس البارحة kemarin
day 0 今天 今日 今晚 今晩 今早 今朝 今夜 きょう 오늘 วันนี้ hoy hoje aujourd_hui heute oggi
day 0 сегодня اليوم hari_ini
day 1 明天 明日 明晚 あした 내일 พรุ่งนี้ amanhã demain domani завтра غدا besok
day 2 明後日 あさって 모레 pasado_mañana après_demain übermorgen dopodomani послезавтра بعد_غد
day 2 lusa
week -2 上上周 上上週 上上星期 上上个星期 先々週 지지난주
week -1 上周 上週 上星期 上个星期 上個星期 上礼拜 上個禮拜 先週 지난주 지난_주 저번_주 일주일_전
week -1 สัปดาห์ที่แล้ว อาทิตย์ที่แล้ว สัปดาห์ก่อน semana_pasada semana_passada semaine_dernière
week -1 semaine_passée letzte_woche letzter_woche vergangene_woche vorige_woche settimana_scorsa
week -1 scorsa_settimana прошлой_неделе прошлая_неделя прошлую_неделю الأسبوع_الماضي minggu_lalu
week 0 这周 本周 這週 本週 这个星期 這個星期 这星期 今週 이번_주 이번주 สัปดาห์นี้ อาทิตย์นี้
week 0 esta_semana nesta_semana cette_semaine diese_woche dieser_woche questa_settimana
week 0 этой_неделе هذا_الأسبوع minggu_ini
week 1 下周 下週 下星期 下个星期 下個星期 来週 다음_주 다음주 สัปดาห์หน้า próxima_semana
week 1 semana_que_viene semaine_prochaine nächste_woche nächster_woche prossima_settimana
week 1 следующей_неделе الأسبوع_القادم الأسبوع_المقبل minggu_depan
weekend -1 上周末 上週末 先週末 지난_주말 지난주말 fin_de_semana_pasado week_end_dernier
weekend -1 letztes_wochenende letzten_wochenende scorso_weekend weekend_scorso прошлых_выходных
weekend 0 这周末 本周末 這週末 今週末 이번_주말 이번주말 este_fin_de_semana ce_week_end
weekend 0 dieses_wochenende questo_weekend этих_выходных
month -2 上上个月 上上個月 上上月 先々月 지지난달
month -1 上月 上个月 上個月 先月 지난달 지난_달 เดือนที่แล้ว เดือนก่อน mes_pasado mês_passado
month -1 mois_dernier mois_passé letzten_monat letztem_monat vergangenen_monat mese_scorso
month -1 scorso_mese прошлом_месяце الشهر_الماضي bulan_lalu
month 0 这个月 這個月 本月 今月 이번_달 이번달 เดือนนี้ este_mes este_mês neste_mês ce_mois
month 0 diesen_monat diesem_monat questo_mese этом_месяце هذا_الشهر bulan_ini
month 1 下月 下个月 下個月 来月 다음_달 다음달 เดือนหน้า próximo_mes mes_que_viene próximo_mês
month 1 mois_prochain nächsten_monat prossimo_mese следующем_месяце الشهر_القادم bulan_depan
year -2 前年 一昨年 おととし 재작년
year -1 去年 昨年 작년 지난해 ปีที่แล้ว año_pasado ano_passado année_dernière an_dernier
year -1 letztes_jahr letzten_jahr vergangenes_jahr voriges_jahr anno_scorso прошлом_году
year -1 العام_الماضي السنة_الماضية tahun_lalu
year 0 今年 올해 금년 ปีนี้ este_año este_ano neste_ano cette_année dieses_jahr diesem_jahr
year 0 quest_anno этом_году هذا_العام هذه_السنة tahun_ini
year 1 明年 来年 내년 ปีหน้า próximo_año próximo_ano année_prochaine nächstes_jahr prossimo_anno
year 1 следующем_году العام_القادم tahun_depan
"""
"""A unit, how many of it from the present one, and the words; `_` is a space or a hyphen."""
_PERIODS = {
    word: (unit, int(shift))
    for unit, shift, *words in map(str.split, _TABLE.strip().splitlines())
    for word in words
}


def _by_word(table: str) -> dict[str, str]:
    """The first word of each line, by the others."""
    lines = map(str.split, table.strip().splitlines())
    return {word: first for first, *words in lines for word in words}


_UNITS = _by_word("""
day 天 日 일 วัน día días dia dias jour jours tag tage tagen giorno giorni день дня дней يوم
day أيام hari
week 周 週 週間 星期 个星期 個星期 礼拜 주 주일 สัปดาห์ อาทิตย์ semana semanas semaine semaines
week woche wochen settimana settimane неделю недели недель أسبوع أسابيع minggu
month 个月 個月 か月 ヶ月 カ月 ヵ月 ケ月 개월 달 เดือน mes meses mês mois monat monate monaten
month mese mesi месяц месяца месяцев شهر أشهر شهور bulan
year 年 년 ปี año años ano anos an ans année années jahr jahre jahren anno anni год года лет سنة
year سنوات عام أعوام tahun
""")
_NUMBERS_BY_WORD = _by_word("""
1 一 한 un una uno um uma une einem einer один одну satu หนึ่ง
2 二 两 兩 두 dos dois duas deux zwei due два две dua สอง
3 三 세 tres três trois drei tre три ثلاثة tiga สาม
4 四 네 cuatro quatro quatre vier quattro четыре أربعة empat สี่
5 五 다섯 cinco cinq fünf cinque пять خمسة lima ห้า
6 六 여섯 seis six sechs sei шесть ستة enam
7 七 일곱 siete sete sept sieben sette семь سبعة tujuh
8 八 여덟 ocho oito huit acht otto восемь ثمانية delapan
9 九 아홉 nueve nove neuf neun девять تسعة sembilan
10 十 열 diez dez dix zehn dieci десять عشرة sepuluh
""")
_NUMBERS = {word: int(number) for word, number in _NUMBERS_BY_WORD.items()}
_ALONE = frozenset("неделю месяц год يوم أسبوع شهر سنة عام".split())
"""Units that mean one of them without a number ("неделю назад")."""
_DUALS = {"يومين": "day", "أسبوعين": "week", "شهرين": "month", "سنتين": "year", "عامين": "year"}
_AGO_BEFORE = frozenset({("hace",), ("há",), ("vor",), ("il", "y", "a"), ("قبل",), ("منذ",)})
_AGO_AFTER = frozenset({("fa",), ("atrás",), ("назад",), ("lalu",), ("yang", "lalu")})
_LAST_BEFORE = frozenset({"letzten", "vergangenen", "прошлый", "прошлую"})
_LAST_AFTER = frozenset({"pasado", "passado", "passada", "dernier", "scorso", "scorsa"})
_IN = frozenset({"en", "em", "im", "в", "seit", "desde", "depuis"})
_OF = frozenset({"de", "del", "er"})
# "Hier" is "here" in German, "Mars" a planet in English: times only beside French words.
_ONLY_FRENCH = frozenset({"hier", "mars"})
_FRENCH = frozenset(
    "j je nous vous ai as avons avez est était ce c que qu quoi le la les mon ma au avec pour dit "
    "fait soir matin en depuis".split()
)
_MAX_WORDS = 5
_PHRASES = {tuple(word.split("_")): period for word, period in _PERIODS.items()}
# In Arabic, "and", "by" and the article are written together with the word after them.
_PHRASES |= {
    (before + words[0], *words[1:]): period
    for words, period in list(_PHRASES.items())
    if "\u0600" <= words[0][0] <= "\u06ff"
    for before in ("و", "ب", "ف", "ل", "بال", "وال")
}
_JOINED = {word.replace("_", ""): period for word, period in _PERIODS.items()}
_STARTS = frozenset(words[0] for words in _PHRASES)
_UNSPACED = re.compile("[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
"""Scripts in which a word may go on without a space: Thai, Japanese, Chinese, Korean."""


def _any(words: Iterable[str]) -> str:
    """A pattern of those words that are in a script without spaces."""
    unspaced = (word for word in words if _UNSPACED.match(word))
    return "|".join(sorted(unspaced, key=len, reverse=True)).replace("_", r"\s?")


# "上周一" is a Monday, "上周一起" is "together last week".
_WEEKDAY = (
    r"(?:(?:的|の)?(?P<weekday>[一二三四五六日天](?![起直些个個次样樣共下家位年月日])|[月火水木金土日]曜"
    r"|\s?[월화수목금토일](?=요일)))?"
)
_FROM_MONDAY = {
    day: number
    for days in ("一二三四五六日", "月火水木金土天", "월화수목금토일")
    for number, day in enumerate(days)
}
_UNSPACED_TIME = re.compile(
    rf"(?<![\d月월一二三四五六七八九十百])(?P<number>\d{{1,3}}|{_any(_NUMBERS)})\s?"
    rf"(?P<unit>{_any(_UNITS)})\s?(?:之前|以前|前|전|ก่อน|ที่แล้ว)"
    r"|(?<!\d)(?P<year>(?:19|20)\d\d)\s?[年년](?:\s?(?P<month>\d{1,2})\s?[月월]"
    r"(?:\s?(?P<day>\d{1,2})\s?[日号號일])?)?"
    r"|(?<!\d)(?P<yearly>\d{1,2})[月월](?:\s?(?P<yearly_day>\d{1,2})\s?[日号號일])?"
    r"|(?<![\uac00-\ud7af])"
    rf"(?P<period>{_any(_PERIODS)})"
    rf"{_WEEKDAY}"
)


class NamedTime(NamedTuple):
    """A time in a text: where it stands, and the days it means.

    `unit` is `day`, `week`, `weekend`, `month` or `year`; `shift` counts these from the present one
    and is None for a date.
    """

    start: int
    end: int
    unit: str
    shift: int | None
    span: Span


def named_times(lower: str, words: Sequence[tuple[int, str]], today: date) -> Iterator[NamedTime]:
    """The times in a text, in no order.

    Args:
        lower: The text in lower case.
        words: Its words and where each starts.
        today: The day on which it was written.
    """
    for index, (_, word) in enumerate(words):
        if found := _at(words, index, word, today):
            yield found
    if not lower.isascii() and _UNSPACED.search(lower):
        for match in _UNSPACED_TIME.finditer(lower):
            if found := _unspaced(match, today):
                yield found


def _at(words: Sequence[tuple[int, str]], index: int, word: str, today: date) -> NamedTime | None:
    """The time that begins with a word; a date begins with its month."""
    if word in _ONLY_FRENCH and not any(each in _FRENCH for _, each in words):
        return None
    if word in _STARTS:
        ahead = tuple(each for _, each in words[index : index + _MAX_WORDS])
        for length in range(len(ahead), 0, -1):
            period = _PHRASES.get(ahead[:length])
            if period:
                return _shifted(words, index, index + length, *period, today)
    if word in FOREIGN_MONTHS:
        return _date(words, index, today)
    if word in FOREIGN_WEEKDAYS:
        return _last_weekday(words, index, today)
    if word in _UNITS or word in _DUALS:
        return _ago(words, index, today)
    return None


def _shifted(
    words: Sequence[tuple[int, str]], first: int, end: int, unit: str, shift: int, today: date
) -> NamedTime | None:
    span = unit_of(unit, today, shift)
    return span and NamedTime(words[first][0], _end(words, end - 1), unit, shift, span)


def _ago(words: Sequence[tuple[int, str]], index: int, today: date) -> NamedTime | None:
    """A counted unit with what makes it past before or after it; the unit stands at `index`."""
    word = words[index][1]
    first, number = index, 2 if word in _DUALS else 1
    before = words[index - 1][1] if index else ""
    if before in _NUMBERS or (before.isdecimal() and len(before) <= 3):
        first, number = index - 1, _NUMBERS.get(before) or int(before)
    elif word not in _ALONE and word not in _DUALS:
        return None
    unit = _DUALS.get(word) or _UNITS[word]
    for length in (1, 2, 3):
        ahead = tuple(each for _, each in words[first - length : first])
        if first >= length and ahead in _AGO_BEFORE:
            return _shifted(words, first - length, index + 1, unit, -number, today)
        behind = tuple(each for _, each in words[index + 1 : index + 1 + length])
        if behind in _AGO_AFTER:
            return _shifted(words, first, index + 1 + length, unit, -number, today)
    return None


def _last_weekday(words: Sequence[tuple[int, str]], index: int, today: date) -> NamedTime | None:
    first, end = index, index + 1
    if index and words[index - 1][1] in _LAST_BEFORE:
        first -= 1
    elif end < len(words) and words[end][1] in _LAST_AFTER:
        end += 1
    else:
        return None
    span = choose_weekday(FOREIGN_WEEKDAYS[words[index][1]], today, Which.LAST)
    return NamedTime(words[first][0], _end(words, end - 1), "day", None, span)


def _date(words: Sequence[tuple[int, str]], index: int, today: date) -> NamedTime | None:
    """A month with a day before it, a year behind it, or a word such as "in" before it."""
    month = FOREIGN_MONTHS[words[index][1]]
    first, last, day, year = index, index, 0, 0
    at = index - 2 if index > 1 and words[index - 1][1] in _OF else index - 1
    before = words[at][1] if at >= 0 else ""
    if before.isdecimal() and len(before) <= 2:
        first, day = at, int(before)
    at = index + 2 if index + 1 < len(words) and words[index + 1][1] in _OF else index + 1
    after = words[at][1] if at < len(words) else ""
    if after.isdecimal() and len(after) == 4:
        last, year = at, int(after)
    if not day and not year and not (index and words[index - 1][1] in _IN):
        return None
    return _dated(words[first][0], _end(words, last), year, month, day, today)


def _dated(start: int, end: int, year: int, month: int, day: int, today: date) -> NamedTime | None:
    """A date; without a year the latest that has begun, without a month a whole year."""
    span: Span | None
    if not month:
        span = year_span(year)
    elif year:
        span = day_span(year, month, day) if day else months_span(year, month)
    elif month > 12:
        span = None
    else:
        in_year: InYear = days_in_year(month, day) if day else month_in_year(month)
        span = choose_year(in_year, today)
    unit = "day" if day else "month" if month else "year"
    return span and NamedTime(start, end, unit, None, span)


def _unspaced(match: re.Match[str], today: date) -> NamedTime | None:
    parts = match.groupdict(default="")
    start, end = match.span()
    if parts["number"]:
        unit = _UNITS[parts["unit"]]
        shift = -(_NUMBERS.get(parts["number"]) or int(parts["number"]))
        span = unit_of(unit, today, shift)
        return span and NamedTime(start, end, unit, shift, span)
    if not parts["period"]:
        year, month, day = (
            int(parts[name] or 0)
            for name in ("year", *(("month", "day") if parts["year"] else ("yearly", "yearly_day")))
        )
        return _dated(start, end, year, month, day, today)
    unit, shift = _JOINED["".join(parts["period"].split())]
    span = unit_of(unit, today, shift)
    if span and parts["weekday"] and unit == "week":
        only = shift_days(span.first, _FROM_MONDAY[parts["weekday"].strip()[0]])
        return NamedTime(start, end, "day", None, Span(only, only))
    return span and NamedTime(start, end, unit, shift, span)


def _end(words: Sequence[tuple[int, str]], index: int) -> int:
    start, word = words[index]
    return start + len(word)
