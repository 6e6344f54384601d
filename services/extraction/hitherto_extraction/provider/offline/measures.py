"""Amounts with a unit of measure, to tell a goal that is reached from one that is on its way."""

from __future__ import annotations

import re

_UNITS = {
    name: unit
    for unit, names in {
        "km": "km kms kilometre kilometres kilometer kilometers",
        "mi": "mi mile miles dặm",
        "m": "m metre metres meter meters mét",
        "kg": "kg kgs kilo kilos kilogram kilograms ký kí cân",
        "lb": "lb lbs pound pounds",
        "h": "h hr hrs hour hours giờ tiếng",
        "min": "min mins minute minutes phút",
        "page": "page pages trang",
        "book": "book books cuốn quyển",
        "word": "word words từ",
        "%": "% percent",
        "push-up": "push-ups pushups",
    }.items()
    for name in names.split()
}
_AMOUNT = re.compile(r"(?<![\w.,:/-])(\d{1,9}(?:[.,]\d{1,3})?)[ -]?([^\W\d_]+(?:-[^\W\d_]+)?|%)")


def quantities(text: str) -> dict[str, float]:
    """The largest amount of each unit that a text names in digits."""
    found: dict[str, float] = {}
    for number, name in _AMOUNT.findall(text.casefold()):
        unit = _UNITS.get(name)
        if unit is not None:
            found[unit] = max(found.get(unit, 0.0), _value(number))
    return found


def _value(number: str) -> float:
    whole, mark, rest = number.replace(",", ".").partition(".")
    # Three digits after the mark group thousands: 10,000 words.
    return float(whole + rest) if len(rest) == 3 else float(f"{whole}{mark}{rest}")
