"""A new wording holds no number that nobody said (row 71), and the check refuses few right ones.

`benchmarks/state` has the conversations of forty people, and a capable model's replies to them,
in eight languages. A wording that is refused is lost to a person, although somebody said it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from benchmarks.state import people, replies
from hitherto_extraction.pipeline.digits import strange
from hitherto_extraction.pipeline.named_days import put_off

REFUSED = {"ar": 0, "de": 0, "en": 2, "es": 0, "hi": 0, "ja": 7, "vi": 1, "zh": 1}
"""What is left, of 1,787 wordings: counts of what was listed, months without a day, and numbers of
messages that the reply does not cite. Lower a number when the check learns to read one more."""


@pytest.fixture(scope="module")
def everybody() -> list[people.Persona]:
    return people.load()


@pytest.mark.parametrize("language", REFUSED)
def test_right_wordings_keep_their_numbers(everybody: list[people.Persona], language: str) -> None:
    spoken = [person for person in everybody if person.language == language]
    wordings = [each for person in spoken for each in _wordings(person)]

    refused = [wording for wording, *said in wordings if strange(wording, *said)]

    assert len(wordings) > 150
    assert len(refused) <= REFUSED[language], refused


def _wordings(person: people.Persona) -> Iterator[tuple[str, list[str], list[Any]]]:
    """Each wording of a person's replies, with the texts it came from and the days of these."""
    recorded, zone = replies.load("extraction_4", person.id), ZoneInfo(person.time_zone)
    values: dict[str, list[str]] = defaultdict(list)
    for session in person.sessions:
        record = recorded[session.id]
        messages = {f"m{number}": each for number, each in enumerate(session.messages, 1)}
        own = [name for name, each in messages.items() if each.role == "user"]
        for kind in ("new_memories", "updated_memories", "profile_changes"):
            for item in record.reply.get(kind, ()):
                path = item.get("path", "")
                if path == "summary":  # Not checked: it sums up more than is cited.
                    continue
                cited = [messages[each] for each in item.get("source_message_ids") or own]
                known = values[path] if path else [record.known.get(item.get("id"), "")]
                sources = [*known, *(each.content for each in cited)]
                days = [each.at.astimezone(zone).date() for each in cited]
                for text in _texts(item.get("content") or item.get("value")):
                    yield text, sources, days
                    values[path].append(text)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _texts(each)
    elif value is not None:
        yield str(value)


# A new wording holds no number that nobody said (faults.md row 71).


DAY = date(2026, 3, 2)


def found(wording: str, *sources: str, days: tuple[date, ...] = (DAY,)) -> list[str]:
    return strange(wording, sources, days)


def test_what_was_said_or_computed_is_no_stranger() -> None:
    for wording, source in [
        ("takes 20 mg of Atorvastatin", "now 20mg"), ("takes 0.5 mg", "0,5 mg at night"),
        ("earns 1,500 euros", "I earn 1500"), ("meets at 14:00", "at 2 pm"),
        ("meets at 14:30", "2:30 in the afternoon"), ("runs 10 km", "chạy १० km"),
        ("has 3 cats", "لدي ٣ قطط"), ("毎朝10キロ走る", "十キロに増やした"),
        ("一页收80块", "现在一页八十"),
        ("年薪350000, 2026年起", "三十五萬，二〇二六年開始"), ("房租4200", "四千二百"),
        ("月薪25000", "2万5千"),
        ("月薪2万5千", "25000元"), ("月薪1.5万", "15000"),
        ("earns 1200000 rupees", "12,00,000 रुपये"),
        ("يكسب 1200", "١٬٢٠٠"), ("takes 3.5 cups", "3½ cups"), ("takes 3 1/2 cups", "3½ cups"),
        ("moved on 2026-03-01", "I moved yesterday"),
        ("phone 0170 1234567", "now 0170/123 45 67"), ("Tel. 01701234567", "0170 123-45-67"),
        ("rooms 101,102", "rooms 101 and 102"), ("ports 80,443", "ports 80 and 443"),
        ("ports 8080 and 443", "ports 8080,443"),
        ("IBAN DE89370400440532013000", "DE89 3704 0044 0532 0130 00"),
        ("0170 / 1234567", "01701234567"), ("80 m²", "80 Quadratmeter"),
        ("call 551234", "55 1234"), ("ab 4/2026", "bis 15.03.2026, ab nächstem Monat"),
        ("bis 15.03.2026", "bis in zwei Wochen"),
        ("since 3/2026", "since this month"),
        ("từ đầu tháng 4/2026", "từ tháng sau"), ("2026年4月に引っ越す", "来月引っ越す"),
        ("bis 15.03.2026. Dann nicht mehr.", "bis in zwei Wochen"),
        ("invoice 2026/0412", "invoice 2026/0412"), ("Az. 2026.1046", "Az. 2026.1046"),
        ("15.03.2026-20.03.2026", "nächste Woche"), ("by 03/15/2026", "in two weeks"),
        ("2026年3月15日まで", "再来週まで"),
        ("moves on 2026-12-24", "we move on Christmas Eve"), ("started in 2026-02", "last month"),
        ("started in 2025", "a year ago"), ("plays chess", "7 years"),
        ("in winter 2026-27", "this winter"), ("Saison 2025/26", "nächste Saison"),
        ("uses Postgres 16", "we went from 15 to 16"),
    ]:  # fmt: skip
        assert found(wording, source) == []


def test_any_other_number_is_one() -> None:
    for wording, source, numbers in [
        ("takes 40 mg", "now 20mg", ["40"]), ("earns 1,500 euros", "I earn 1,600", ["1500"]),
        ("meets at 15:00", "at 2 pm", ["15"]), ("takes 24 mg", "12 mg", ["24"]),
        ("moved on 2024-03-01", "I moved yesterday", ["03", "01"]),
        ("phone 0170 1234568", "now 0170/123 45 67", ["1234568"]), ("34 cats", "3 4 cats", ["34"]),
        ("code 12345", "1 2345", ["12345"]), ("number 20260302", "on 2026-03-02", ["20260302"]),
        ("rent is 95000 euros", "rent is 950.00", ["95000"]), ("rent 125.00", "12500", ["125"]),
        ("Rechnung 4/2026", "Rechnung 3/2026", ["4"]), ("HA 2026.4", "HA 2026.3", ["4"]),
        ("HA 2026.4", "HA 2026.3.1", ["4"]),
        ("1.12.1990", "11.2.1990", ["1", "12"]), ("1.2.3.4", "12.3.4", ["1", "2"]),
        ("seit 1.3.2024", "seit gestern", ["1", "3"]), ("2024年4月", "来月", ["4"]),
        ("version 3.2026.1", "the new version", ["3", "1"]),
        ("on 2026-02-31", "the last day", ["02", "31"]), ("has 3 cats and 4 dogs", "3 cats", ["4"]),
        ("毎朝20キロ走る", "十キロに増やした", ["20"]), ("毎朝20キロ走る", "九" * 5_000, ["20"]),
        ("in winter 2026-28", "this winter", ["28"]), ("in 2011-12", "in 2011", ["12"]),
        ("月薪1.6万", "15000", ["1", "6"]), ("月薪1.50009万", "15000", ["1", "50009"]),
        ("takes 3.25 cups", "3½ cups", ["25"]),
        ("has 10 cats", "12,00,000", ["10"]),
    ]:  # fmt: skip
        assert found(wording, source) == numbers


def test_an_amount_may_write_its_thousands_as_a_word_or_as_digits() -> None:
    for wording, said in [
        ("earns 85,000 euros", "now 85k"), ("1.200 Euro Miete", "die Miete ist jetzt 1,2k"),
        ("raised 2,300,000 euros", "we raised 2.3M!"), ("₦18,000 a day on diesel", "18K diesel"),
        ("lương 1.500.000 đồng", "lương 1,5 triệu đồng"), ("5.000.000 một tháng", "5tr một tháng"),
        ("350,000 euros a year", "350k euros a year"), ("gaji 350.000 rupiah", "gaji 350rb rupiah"),
        ("Umsatz 2.300.000 Euro", "2,3 Mio Euro"), ("dom za 1 200 000 zł", "1,2 mln zł"),
    ]:  # fmt: skip
        assert found(wording, said) == found(said, wording) == [], wording
    for wording, said, numbers in [
        ("earns 850,000 euros", "now 85k", ["850000"]),
        ("earns 86,000 euros", "now 85k", ["86000"]),
        ("rent is 350,000 dollars", "rent is 350 euros", ["350000"]),
        ("rent is 350,000", "rent is 350", ["350000"]), ("350 000 Euro", "350 Euro", ["000"]),
        ("takes 5,000 mg", "5mg at night", ["5000"]), ("takes 5000 mg", "5 mg a day", ["5000"]),
        ("has 35,000 sheep", "has 35 cows and sheep", ["35000"]),
        # Nothing behind both numbers says that they are the same.
        ("takes 4000 mg", "500mg 4x daily", ["4000"]), ("earns 5000 euros", "at 5pm", ["5000"]),
        ("the rent is 350000", "the rent is 350 euros.", ["350000"]),
        ("has 3 cats", "moved here in 3000.", ["3"]), ("room 5A", "code 5000", ["5"]),
        ("earns 8,500,000 a year", "85k a year", ["8500000"]), ("20 000 mg", "20 km", ["000"]),
        ("earns 85,000,000", "85k", ["85000000"]),
        ("owes 5 euros", "owes 5,000 euros", ["5"]),
        ("rent is 2,500 euros", "2 rooms, 500 euros", ["2500"]),
        ("earns 250,000", "earns 1,250,000", ["250000"]), ("earns 1,250", "1,250,000", ["1250"]),
        ("earns 500", "earns 185,500", ["500"]),
    ]:  # fmt: skip
        assert found(wording, said) == numbers, wording


def test_a_fraction_is_the_same_number_in_either_form() -> None:
    for one, other in [
        ("0.5 tablet", "1/2 tablet"), ("0,5 Tablette", "½ Tablette"), ("1,5 tabletki", "1 1/2"),
        ("1.5 tablets", "1½ tablets"), ("0,75 etatu", "3/4 etatu"), ("0.125 mg", "1/8 mg"),
        ("٠٫٥ قرص", "½ قرص"),
    ]:  # fmt: skip
        assert found(f"takes {one}", f"takes {other}") == [], one
        assert found(f"takes {other}", f"takes {one}") == [], other
    for wording, said, numbers in [
        ("takes 0.25 mg", "1/2 mg", ["25"]), ("takes 1.5 mg", "1/2 mg", ["5"]),
        ("takes 2.5 mg", "1 1/2 mg", ["5"]), ("takes 1/4 tablet", "0.5 tablet", ["1", "4"]),
        ("takes 0.5 mg", "since 1/2/2024", ["5"]), ("takes 1.5 mg", "3/2 mg", ["1", "5"]),
        ("takes 0.5 mg", "on page 11/2", ["5"]), ("takes 0.33 mg", "1/3 mg", ["33"]),
        ("uses Python 3.10", "Python 3.1", ["10"]), ("takes 5 mg", "1/2 mg", ["5"]),
        ("takes 50 mg", "1/2 mg", ["50"]), ("takes 5 mg", "½ mg", ["5"]),
    ]:  # fmt: skip
        assert found(wording, said) == numbers, wording


def test_without_a_day_no_date_is_computed() -> None:
    assert found("moved on 2026-03-01", days=()) == ["2026", "03", "01"]
    assert found("moved on 2026-03-01", "on 1.3.2026", days=()) == []


def test_a_day_of_which_only_a_part_was_said_is_computed() -> None:
    """The parts of a date are not taken for numbers that stand alone."""
    for said in ["परीक्षा 14 को है", "the test is on the 14th", "14日だよ", "Am 14."]:
        assert strange("the test is on 2026-06-14", [said], [date(2026, 5, 1)]) == []
        assert strange("the test is on 2031-06-14", [said], [date(2026, 5, 1)]) != []


def test_a_date_may_name_its_month_in_any_language() -> None:
    for said, day in [
        ("I was born on March 15, 1990.", "1990-03-15"),
        ("Ich bin am 5. März 1990 geboren", "1990-03-05"),
        ("nací el 15 de marzo de 1990", "1990-03-15"), ("ولدت في ١٥ مارس ١٩٩٠", "1990-03-15"),
        ("मेरा जन्म 15 मार्च 1990 को हुआ", "1990-03-15"),
        ("from May 2019 to 5 June 2020", "2020-06-05"),
        ("from May 3, 2015 to June 7, 2019", "2015-05-03"),
        ("15 March 1990 at 4 am", "1990-03-15"), ("15 Mar. 1990", "1990-03-15"),
        ("15. Jan. 1990", "1990-01-15"), ("15-Mar-1990", "1990-03-15"),
        ("1990年3月15日生まれ", "1990-03-15"), ("sinh ngày 15 tháng 3 năm 1990", "1990-03-15"),
    ]:  # fmt: skip
        assert found(f"born {day}", said) == []


def test_a_month_long_ago_may_stand_in_words_of_a_known_language() -> None:
    for said in [
        "there since March 2019", "ever since early March of 2019", "desde março de 2019",
        "seit März 2019", "depuis mars 2019", "od marca 2019", "Mart 2019'dan beri",
        "с марта 2019 года", "từ tháng ba năm 2019", "noong marso 2019", "منذ مارس 2019",
        "from March 2019 to May 2021",
    ]:  # fmt: skip
        assert found("there since 2019-03", said) == [], said
        assert found("dort seit 03.2019", said) == [], said
        # Neither another month nor another year, nor one that is named for another one.
        assert found("there since 2019-04", said) == ["04"], said
        assert found("there since 2018-03", said)[-1:] == ["03"], said
    for said, month in [
        ("there since 2019, and in Rome in March", "2019-03"),
        ("in 2019; in March 2021 we moved", "2019-03"), ("March! 2019 was hard", "2019-03"),
        ("in May 2015, and in June 2017", "2015-06"), ("in May 2015, and in June 2017", "2017-05"),
        ("since spring 2019", "2019-03"), ("the march of 20190", "2019-03"),
    ]:  # fmt: skip
        assert found(f"there since {month}", said)[-1:] == [month[-2:]], said


def test_two_wordings_with_dates_are_compared_as_they_stand() -> None:
    assert found("born 1990-03-15", "born April 15, 1990", days=()) == ["03"]
    assert found("there since 2019-05", "there since 2019", days=()) == ["05"]


def test_no_part_of_a_date_is_made_up() -> None:
    for said, day, numbers in [
        ("I was born on March 15, 1990.", "1990-03-16", ["03", "16"]),
        ("I was born on March 15, 1990.", "1991-03-15", ["03"]),
        ("I was born on March 15, 1990.", "1990-13-15", ["13"]),
        ("born in March 1990. 15 cousins came", "1990-03-15", ["03"]),
        ("I have 15 cousins. In 1990 we moved", "1990-03-15", ["03"]),
        ("I have 15 cousins. 1990 was hard", "1990-03-15", ["03"]),
        ("seit 5/1990", "1990-11-05", ["11"]),
        ("born in March 1990; I grew up with 15 cousins", "1990-03-15", ["03"]),
        ("on 3/15/1990", "1990-04-15", ["04"]), ("on 1990-03-15", "1990-04-15", ["04"]),
        ("1990年12月15日生まれ", "1990-04-15", ["04"]), ("tháng 3 năm 2019", "2019-04", ["04"]),
        ("15.3.1990", "1990-04-15", ["04"]), ("3.3.1990", "1990-05-03", ["05"]),
        ("there since 2019", "2019-01", ["01"]), ("there since 2019", "1.2019", ["1"]),
    ]:  # fmt: skip
        assert found(f"born {day}", said) == numbers


def test_the_old_wording_is_a_source_too() -> None:
    assert found("takes 20 mg since 3 weeks", "takes 20 mg", "3 weeks now") == []


def test_an_expiry_moves_with_the_last_day_that_is_named_or_the_last_month() -> None:
    end = datetime(2026, 3, 16, tzinfo=UTC)
    for old, new, days in (
        ("in Dubai until 2026-03-15", "in Dubai until 2026-04-15", 31),
        ("2026-03 sprint, in Dubai until 2026-03-15", "in Dubai until 2026-03-20", 5),
        ("in Dubai until 2026-03-15", "until 2026-03-20, then in Paris in 2026-05", 5),
        ("in Dubai until 2026-03-15", "in Dubai bis 20.03.2026", 0),
        ("in Dubai this month", "in Dubai until 2026-04-15", 0),
        ("in Dubai until 2026-03-15", "from 2026-03-01 until 2026-03-31", 16),
    ):
        assert put_off(end, old, new) == end + timedelta(days=days)
    end, later = datetime(2026, 6, 1, tzinfo=UTC), datetime(2026, 7, 1, tzinfo=UTC)
    for old, new in (
        ("in Dubai until 2026-05", "in Dubai from 2026-03-01 until 2026-06"),
        ("in Dubai from 2026-03-01 until 2026-05", "in Dubai until 2026-06-30"),
        ("in Dubai from 2026-03 until 2026-05", "in Dubai from 2026-04 until 2026-06"),
    ):
        assert put_off(end, old, new) == later
    end = datetime(2026, 3, 16, tzinfo=UTC)
    assert put_off(end, "in Dubai until 2026-03-15", "in Dubai for good") is None
    # A day ends up to 14 hours earlier in the east, and 12 hours later in the west.
    for hours, days in ((-14, 31), (12, 31), (-15, 0), (13, 0)):
        moment = end + timedelta(hours=hours)
        moved = put_off(moment, "in Dubai until 2026-03-15", "in Dubai until 2026-04-15")
        assert moved == moment + timedelta(days=days), hours
