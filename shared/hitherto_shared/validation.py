"""Validation of requests: collects every violation and reports them together.

Limits are the contract's. Text comes out in normal form C.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID
from zoneinfo import available_timezones

from google.protobuf.struct_pb2 import Struct, Value
from google.protobuf.timestamp_pb2 import Timestamp

from hitherto_shared.errors import FieldViolation, InvalidRequest
from hitherto_shared.identifiers import parse_uuid
from hitherto_shared.text.normalise import has_visible, nfc, unusable_characters

MAX_ID = 256
MAX_KEY = 128
MAX_STRUCT_BYTES = 64 * 1024
MAX_STRUCT_DEPTH = 16
MAX_ITEMS = 100
"""Maximum items in a list of enumerated words, such as statuses: more than there are."""
_MAX_VIOLATIONS = 1_000
"""Maximum violations to collect; no reply has room for more, and an invalid request should not cost
more than a valid one."""
_MOST_SHRUNK = 4
"""The factor by which a text may have more characters than its normal form: four become ᾂ."""
_MOST_SHRUNK_BYTES = 3
"""The same for bytes: three letters of Hangul, of three bytes each, become one syllable."""
_ZONES = frozenset(available_timezones())


def normal_identifier(value: str) -> str:
    """An identifier in normal form, as `Checks.identifier` returns it, for comparisons before that.

    What is too long for any identifier is returned as it is: it equals none, is refused later, and
    to normalise megabytes of accents takes seconds.
    """
    return nfc(value) if len(value) <= _MOST_SHRUNK * MAX_ID else value


class Checks:
    """Collects violations; `done` raises them together."""

    def __init__(self) -> None:
        self._violations: list[FieldViolation] = []
        self._uncounted = 0

    def add(
        self,
        field: str,
        description: str,
        *,
        reason: str = "INVALID_FIELD",
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        """Record a violation."""
        if len(self._violations) < _MAX_VIOLATIONS:
            self._violations.append(FieldViolation(field, description, reason, metadata or {}))
        else:
            self._uncounted += 1

    def done(self) -> None:
        """Raise InvalidRequest if there are violations."""
        if self._violations:
            raise InvalidRequest(self._violations, uncounted=self._uncounted)

    def identifier(
        self, field: str, value: str, *, required: bool = True, max_chars: int = MAX_ID
    ) -> str:
        """An id chosen by a caller: 1 to 256 printable characters, or as many as `max_chars`.

        At least one of them is visible, so that no id looks empty.
        """
        if len(value) > _MOST_SHRUNK * max_chars:
            self.add(field, f"must have at most {max_chars} characters, this has {len(value)}")
            return ""
        text = nfc(value)
        if not text:
            if required:
                self.add(field, "is required")
        elif len(text) > max_chars:
            self.add(field, f"must have at most {max_chars} characters, this has {len(text)}")
        elif (why := unusable_characters(text)) is not None:
            self.add(field, why)
        elif not text.isprintable() and any(
            unicodedata.category(ch) in ("Cc", "Zl", "Zp") for ch in text
        ):
            self.add(field, "must contain printable characters only")
        elif not has_visible(text):
            self.add(field, "must contain a character that can be seen")
        return text

    def uuid(self, field: str, value: str) -> UUID:
        """An id created by the server."""
        found = parse_uuid(value)
        if found is None:
            self.add(field, "must be an id as the service returned it (a UUID)")
            return UUID(int=0)
        return found

    def text(
        self,
        field: str,
        value: str,
        *,
        max_bytes: int,
        required: bool = False,
        visible: bool = False,
    ) -> str:
        """Free text of at most `max_bytes` in UTF-8.

        `visible`: it is not empty, and something of it can be seen.
        """
        most = _MOST_SHRUNK_BYTES * max_bytes
        if len(value) > most or _size(value) > most:
            # It stays too long in any form.
            self.add(field, f"must have at most {max_bytes} bytes, this has {len(value)} and more")
            return ""
        if (required or visible) and not value.strip():
            self.add(field, "is required")
            return value
        if (why := unusable_characters(value)) is not None:
            self.add(field, why)
            return value
        normal = nfc(value)
        size = _size(normal)
        if size > max_bytes:
            self.add(field, f"must have at most {max_bytes} bytes, this has {size}")
        elif visible and not has_visible(normal):
            self.add(field, "must contain a character that can be seen")
        return normal

    def idempotency_key(self, value: str, *, field: str = "idempotency_key") -> str | None:
        """The caller's key, or None if there is none."""
        if not value:
            return None
        if len(value) > MAX_KEY:
            self.add(field, f"must have at most {MAX_KEY} characters")
        elif (why := unusable_characters(value)) is not None:
            self.add(field, why)
        return value

    def limit(self, field: str, value: int, *, default: int, maximum: int) -> int:
        """A requested number of items: 0 means the default, too large values are clamped."""
        if value < 0:
            self.add(field, f"must not be negative; leave it out for {default}")
        return min(value, maximum) if value else default

    def optional_limit(self, field: str, value: int | None, *, default: int, maximum: int) -> int:
        """See `limit`; an explicit 0 means none."""
        if value is None:
            return default
        if value < 0:
            self.add(field, f"must not be negative; 0 is none, leave it out for {default}")
            return default
        return min(value, maximum)

    def one_of(self, field: str, number: int, names: Mapping[int, str]) -> str | None:
        """The word for an enum number; None for unset."""
        if number == 0:
            return None
        if number not in names:
            self.add(field, f"has no meaning for the number {number}")
            return None
        return names[number]

    def all_of(self, field: str, numbers: Sequence[int], names: Mapping[int, str]) -> list[str]:
        """The words for a list of enum numbers."""
        if len(numbers) > MAX_ITEMS:
            self.add(field, f"must have at most {MAX_ITEMS} items, this has {len(numbers)}")
            return []
        found = []
        for i, number in enumerate(numbers):
            if number not in names:
                self.add(f"{field}[{i}]", f"has no meaning for the number {number}")
            else:
                found.append(names[number])
        return found

    def texts(
        self, field: str, values: Sequence[str], *, maximum: int, max_chars: int
    ) -> list[str]:
        """A list of short texts."""
        if len(values) > maximum:
            self.add(field, f"must have at most {maximum} items, this has {len(values)}")
            return []
        return [self._short(f"{field}[{i}]", value, max_chars) for i, value in enumerate(values)]

    def _short(self, field: str, value: str, max_chars: int) -> str:
        """A short text; empty if it is refused."""
        why: str | None = f"must have 1 to {max_chars} characters"
        if value and len(value) <= max_chars:
            why = unusable_characters(value)
        if why is None:
            return nfc(value)
        self.add(field, why)
        return ""

    def moment(self, field: str, message: Any, name: str) -> datetime | None:
        """The timestamp in `message.name`, or None if it is unset.

        `field` is the path for errors, `name` the field of the message.
        """
        if not message.HasField(name):
            return None
        stamp: Timestamp = getattr(message, name)
        try:
            found = stamp.ToDatetime(UTC)
        except (ValueError, OverflowError):
            found = None
        # Postgres accepts later years, clients' calendars do not.
        if found is None or not 1900 <= found.year <= 2200:
            self.add(field, "must lie between the years 1900 and 2200")
            return None
        return found

    def struct(self, field: str, value: Struct) -> dict[str, Any]:
        """Free-form JSON within the contract's size and depth."""
        if value.ByteSize() > MAX_STRUCT_BYTES:
            self.add(field, f"must have at most {MAX_STRUCT_BYTES} bytes")
            return {}
        found: dict[str, Any] = {}
        for key, item in value.fields.items():
            found[nfc(key)] = self._value(f"{field}.{key[:64]}", key, item, 1)
        return found

    def time_zone(self, field: str, value: str) -> str | None:
        """An IANA time zone, or None if unset."""
        if not value:
            return None
        if value not in _ZONES:
            self.add(field, "must be an IANA time zone such as Europe/Berlin")
            return None
        return value

    def all_known(self, field: str, values: Sequence[str], names: Collection[str]) -> list[str]:
        """A list of such words."""
        if len(values) > MAX_ITEMS:
            self.add(field, f"must have at most {MAX_ITEMS} items, this has {len(values)}")
            return []
        for i, value in enumerate(values):
            if value not in names:
                self.add(f"{field}[{i}]", f"must be one of {', '.join(sorted(names))}")
        return list(values)

    def known(self, field: str, value: str, names: Collection[str]) -> str:
        """One of a few words."""
        if value and value not in names:
            self.add(field, f"must be one of {', '.join(sorted(names))}")
        return value

    def _value(self, field: str, key: str, value: Value, depth: int) -> Any:
        if (why := unusable_characters(key)) is not None:
            self.add(field, why)
        if depth > MAX_STRUCT_DEPTH:
            self.add(field, f"must not be nested deeper than {MAX_STRUCT_DEPTH}")
            return None
        kind = value.WhichOneof("kind")
        if kind == "string_value":
            if (why := unusable_characters(value.string_value)) is not None:
                self.add(field, why)
            return nfc(value.string_value)
        if kind == "number_value":
            if not math.isfinite(value.number_value):
                self.add(field, "must be a finite number")
                return None
            return value.number_value
        if kind == "bool_value":
            return value.bool_value
        if kind == "list_value":
            return [
                self._value(f"{field}[{i}]", "", item, depth + 1)
                for i, item in enumerate(value.list_value.values)
            ]
        if kind == "struct_value":
            return {
                nfc(inner): self._value(f"{field}.{inner[:64]}", inner, item, depth + 1)
                for inner, item in value.struct_value.fields.items()
            }
        return None


def _size(text: str) -> int:
    """Bytes in UTF-8; a lone surrogate is refused elsewhere."""
    return len(text.encode("utf-8", "surrogatepass"))
