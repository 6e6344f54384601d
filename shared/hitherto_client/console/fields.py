"""What browsers send: fields of forms and of addresses, checked before anything is called."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any
from urllib.parse import parse_qs

from starlette.requests import ClientDisconnect, Request

from hitherto_client.days import first_moment, last_moment, read_day

MOST_FIELDS = 500
WAS = "was"
"""The field of an editor that repeats what its page showed, as JSON."""


class FieldRefused(ValueError):
    """A field cannot be used; the message says which, and what would be right."""


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of a form or an address."""

    given: Mapping[str, Sequence[str]]
    was: Mapping[str, str] = field(default_factory=dict)
    """What the page of an editor showed, by field; the form repeats it."""

    def text(self, name: str, otherwise: str = "") -> str:
        """The last value, without surrounding blanks."""
        return _as_typed(self.given.get(name, [otherwise])[-1])

    def edited(self, name: str) -> bool:
        """Whether a field says otherwise than the page showed.

        What was not edited may have been changed meanwhile by somebody else, and stays.
        """
        return name in self.given and self.text(name) != _as_typed(self.was.get(name, ""))

    def over(self, shown: Mapping[str, str]) -> dict[str, str]:
        """What the fields of an editor hold: what is there now, with the edits of this form."""
        return {**shown, **{name: self.text(name) for name in self.given if self.edited(name)}}

    def lines(self, name: str) -> list[str]:
        """The lines of a text area that hold something."""
        return [line.strip() for line in self.text(name).splitlines() if line.strip()]

    def listed(self, name: str) -> list[str]:
        """Values that stand between commas or on lines of their own."""
        return [
            part.strip() for line in self.lines(name) for part in line.split(",") if part.strip()
        ]

    def ticked(self, name: str) -> bool:
        """Whether a box is ticked."""
        return name in self.given

    def word(self, name: str, known: Iterable[str]) -> Any:
        """One of the known words, or None where nothing is chosen."""
        value = self.text(name)
        if value and value not in known:
            raise FieldRefused(f"{name} is unknown: {value}")
        return value or None

    def words(self, name: str, known: Iterable[str]) -> list[Any]:
        """Any number of the known words."""
        allowed = tuple(known)
        values = [value for value in self.given.get(name, ()) if value]
        for value in values:
            if value not in allowed:
                raise FieldRefused(f"{name} is unknown: {value}")
        return values

    def day(self, name: str) -> datetime | None:
        """When a day of the person begins, or a time; None if it is empty."""
        return self._moment(name, first_moment)

    def day_at_its_end(self, name: str) -> datetime | None:
        """The last moment of a day of the person, or a time; None if it is empty."""
        return self._moment(name, last_moment)

    def _moment(self, name: str, which: Callable[[date | datetime], datetime]) -> datetime | None:
        value = self.text(name)
        if not value:
            return None
        try:
            return which(read_day(value))
        except (ValueError, OverflowError):
            raise FieldRefused(f"{name} should be a day such as 2026-08-21") from None

    def whole(self, name: str, *, least: int, most: int) -> int | None:
        """A whole number; None if it is empty."""
        value = self.text(name)
        if not value:
            return None
        usable = value.removeprefix("-").isdigit() and value.isascii() and len(value) < 12
        if not usable or not least <= int(value) <= most:
            raise FieldRefused(f"{name} should be a whole number from {least} to {most}")
        return int(value)

    def share(self, name: str) -> float | None:
        """A number from 0 to 1; None if it is empty."""
        value = self.text(name)
        if not value:
            return None
        try:
            number = float(value)
        except ValueError:
            number = -1.0
        if not 0 <= number <= 1:
            raise FieldRefused(f"{name} should be a number from 0 to 1")
        return number


async def read_form(request: Request) -> Fields:
    """The fields of a submitted form."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise FieldRefused("Only forms can be sent here.")
    try:
        return _parsed(await request.body())
    except ClientDisconnect:
        raise FieldRefused("The form did not arrive whole.") from None


def read_address(request: Request) -> Fields:
    """The fields of the address."""
    return _parsed(request.scope["query_string"])


def _parsed(encoded: bytes) -> Fields:
    try:
        given = parse_qs(
            encoded.decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=MOST_FIELDS,
        )
        was = json.loads(given.pop(WAS, ["{}"])[-1])
        return Fields(given, {name: str(text) for name, text in was.items()})
    except (ValueError, AttributeError, RecursionError):
        raise FieldRefused("The fields cannot be read: they are too many, or not text.") from None


def _as_typed(text: str) -> str:
    """Browsers send every line break as two characters."""
    return text.replace("\r\n", "\n").strip()
