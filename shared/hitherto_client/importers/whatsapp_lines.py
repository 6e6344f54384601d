"""The beginning of a line of a WhatsApp chat: when it was written, as phones write it anywhere."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Literal

from hitherto_client.importers.reading import ExportUnreadable

DateOrder = Literal["day", "month", "year"]

LEFT_TO_RIGHT = "\u200e"
"""WhatsApp writes it before what no person wrote: notices, and names of what was attached."""
_MARKS = dict.fromkeys(map(ord, "\u200e\u200f\u202a\u202c\ufeff"))
_HEAD_CHARACTERS = 64
_DASHES = (" - ", " \u2013 ")
# `21.08.26`, `2023. 12. 20.`, `2023年12月20日`.
_DATE = re.compile(r"(\d{1,4})\s?[./\-년年]\s?(\d{1,2})\s?[./\-월月]\s?(\d{1,4})[.일日]?")
# `17:46:05`, `17.46`, `17 h 46`, `5시 46분`.
_TIME = re.compile(r"(\d{1,2})\s?[:.h시時时点]\s?(\d\d)(?:[:.](\d\d))?(?!\d)")
_BEFORE_A_NAME = re.compile(r"\d:\d\d(?::\d\d)?(?: [^\W\d]\.? ?[^\W\d]\.?)?(?=: )")
_BETWEEN_WORDS = re.compile(r"[\s,\u060c\u061b:\-]+")
_MOST_WORDS = 4

_MORNING = frozenset(
    "am πμ ص صباحًا قظ sa sáng 上午 早上 凌晨 清晨 오전 午前 de öö дп проб vm pg pd לפנה״צ "
    "पूर्वाह्न পূর্বাহ্ণ முற்பகல் ก่อนเที่ยง".split()
)
_AFTERNOON = frozenset(
    "pm μμ م مساءً بظ ch chiều tối 下午 中午 晚上 오후 午後 du ös пп слоб nm ptg md אחה״צ "
    "अपराह्न অপরাহ্ণ பிற்பகல் หลังเที่ยง".split()
)
"""The halves of a day as phones name them, without dots."""
_CONNECTING = frozenset("à às at alle h kl klo las lúc o ob om u uhr um в г о об 분 分".split())
_BUDDHIST_YEARS = 543


@dataclass(frozen=True, slots=True)
class Stamp:
    """When a line was written, as far as the line itself says.

    Attributes:
        date: The three numbers of the date, in their order.
        clock: Hour, minute and second, as written.
        half: `am` or `pm`; empty if the line names none.
        unknown: A word beside the time whose meaning is not known; empty if there is none.
    """

    date: tuple[int, int, int]
    clock: tuple[int, int, int]
    half: str
    unknown: str

    def at(self, order: DateOrder, zone: tzinfo) -> datetime | None:
        """The moment; None if there is no such day or time.

        Raises:
            ExportUnreadable: The years are those of a calendar that is not known here.
        """
        a, b, c = self.date
        year, month, day = {"year": (a, b, c), "day": (c, b, a), "month": (c, a, b)}[order]
        if year < 100:
            year += 2000
        elif 2400 <= year < 2800:
            year -= _BUDDHIST_YEARS
        elif 1300 <= year < 1600:
            raise ExportUnreadable(
                f"counts its years as {year}: export the chat with the phone set to the Gregorian"
                " calendar"
            )
        hour, minute, second = self.clock
        if self.half:
            hour = hour % 12 + (12 if self.half == "pm" else 0)
        try:
            return datetime(year, month, day, hour, minute, second, tzinfo=zone)
        except ValueError:
            return None


def stamped(line: str) -> tuple[Stamp, str] | None:
    """The stamp of a line and what follows it; None if the line goes on with the one before."""
    line = line.lstrip("\u200e\u200f\u202a\ufeff ")
    if line.startswith("["):
        end = line.find("]", 0, _HEAD_CHARACTERS)
        ends = [end + 1] if end > 0 else []
    elif line[:1].isdigit():
        ends = [place + len(dash) for dash in _DASHES if (place := _find(line, dash)) >= 0]
        if not ends and (old := _BEFORE_A_NAME.search(line[:_HEAD_CHARACTERS])) is not None:
            ends = [old.end() + 2]
    else:
        return None
    for end in ends:
        stamp = _stamp(line[:end])
        if stamp is not None:
            return stamp, line[end:]
    return None


def _find(line: str, dash: str) -> int:
    return line.replace("\u00a0", " ").find(dash, 0, _HEAD_CHARACTERS)


def _stamp(head: str) -> Stamp | None:
    """What the words before a name say, if they are a date and a time and nothing else."""
    plain = unicodedata.normalize("NFKC", head.translate(_MARKS)).casefold()
    plain = "".join(str(unicodedata.decimal(letter, letter)) for letter in plain)
    date = _DATE.search(plain)
    if date is None:
        return None
    plain = f"{plain[: date.start()]} , {plain[date.end() :]}"
    time = _TIME.search(plain)
    if time is None:
        return None
    rest = f"{plain[: time.start()]} , {plain[time.end() :]}".strip("[]() \u2013")
    words = [
        word
        for word in _BETWEEN_WORDS.split(rest.replace(". ", "").replace(".", ""))
        if word and word != "\u2013"
    ]
    if len(words) > _MOST_WORDS or any(letter.isdigit() for letter in rest):
        return None
    half = next(
        (
            name
            for word in words
            for name, known in (("am", _MORNING), ("pm", _AFTERNOON))
            if word in known
        ),
        "",
    )
    known = _MORNING | _AFTERNOON | _CONNECTING
    a, b, c = (int(number) for number in date.groups())
    hour, minute, second = (int(number or 0) for number in time.groups())
    return Stamp(
        (a, b, c),
        (hour, minute, second),
        half,
        next((word for word in words if word not in known), ""),
    )


def order_of(stamps: Iterable[Stamp]) -> DateOrder:
    """Which part of these dates comes first, as the dates themselves show.

    Raises:
        ExportUnreadable: They can be read in two ways.
    """
    dates = [stamp.date for stamp in stamps]
    first, second = max(date[0] for date in dates), max(date[1] for date in dates)
    if first > 31:
        return "year"
    if first > 12:
        return "day"
    if second > 12:
        return "month"
    raise ExportUnreadable(
        "has dates that can be read in two ways: say which part comes first, with --dates day or"
        " --dates month"
    )


def check_clock(stamps: Iterable[Stamp]) -> None:
    """Make sure that the times can be read.

    Raises:
        ExportUnreadable: The hours go to twelve, and of a word beside them it is not known which
            half of the day it is.
    """
    seen = list(stamps)
    unknown = sorted({stamp.unknown for stamp in seen if stamp.unknown and not stamp.half})
    if unknown and all(1 <= stamp.clock[0] <= 12 for stamp in seen):
        words = " and ".join(f"`{word}`" for word in unknown[:4])
        raise ExportUnreadable(
            f"has times with {words}, of which it is not known whether it is morning or afternoon:"
            " export the chat with the phone set to a clock of 24 hours"
        )
