"""Days as people and models write them: those of the person whose data it is.

`2026-09-01` begins at midnight where the person lives, for filters, for what is saved and for what
is shown. The zone is that of the person's settings (`UserSettings.time_zone`), else UTC.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from hitherto.v1 import privacy_service_pb2
from hitherto_client.errors import HithertoCallError

_ZONE: ContextVar[tzinfo] = ContextVar("zone of the person", default=UTC)
SETTINGS_SECONDS = 5.0
"""How long the settings may take; days are in UTC if they take longer."""


def zone_named(name: str) -> tzinfo:
    """The zone of an IANA name; UTC if this machine knows none of that name."""
    try:
        return ZoneInfo(name) if name else UTC
    except (KeyError, OSError, ValueError):
        return UTC


def zone_of(connection: Any, user_id: str) -> tzinfo:
    """The zone of a person.

    `connection` is that of a synchronous client.

    Raises:
        HithertoCallError: The settings cannot be read.
    """
    request = privacy_service_pb2.GetUserSettingsRequest(user_id=user_id)
    reply = connection.privacy.GetUserSettings(request, timeout=SETTINGS_SECONDS)
    return zone_named(reply.user_settings.time_zone)


def zone_or_utc(connection: Any, user_id: str) -> tzinfo:
    """The zone of a person; UTC if the settings cannot be read."""
    try:
        return zone_of(connection, user_id)
    except HithertoCallError:
        return UTC


def use_zone(zone: tzinfo) -> None:
    """Read and show days of this zone from now on, in this task or thread."""
    _ZONE.set(zone)


@contextmanager
def days_in(zone: tzinfo) -> Iterator[None]:
    """Read and show days of this zone."""
    before = _ZONE.set(zone)
    try:
        yield
    finally:
        _ZONE.reset(before)


def read_day(text: str) -> date | datetime:
    """A day, or a time, which may name no zone.

    Raises:
        ValueError: It is neither.
    """
    text = text.strip()
    given = datetime.fromisoformat(text)
    return given if any(sign in text for sign in ":T t") else given.date()


def needs_zone(given: object) -> bool:
    """Whether it depends on the zone when that is."""
    return isinstance(given, date) and getattr(given, "tzinfo", None) is None


def first_moment(given: date | datetime) -> datetime:
    """When a day begins, or the time itself, in UTC.

    Raises:
        OverflowError: It is out of range.
    """
    if not isinstance(given, datetime):
        given = datetime.combine(given, time())
    return (given if given.tzinfo else given.replace(tzinfo=_ZONE.get())).astimezone(UTC)


def last_moment(given: date | datetime) -> datetime:
    """The last microsecond of a day, or the time itself, in UTC.

    Raises:
        OverflowError: It is out of range.
    """
    if isinstance(given, datetime):
        return first_moment(given)
    return first_moment(given + timedelta(days=1)) - timedelta(microseconds=1)


def local(at: datetime) -> datetime:
    """The same moment in the person's zone; in UTC at the ends of the calendar."""
    try:
        return at.astimezone(_ZONE.get())
    except OverflowError:
        return at.astimezone(UTC)


def iso_day(at: datetime) -> str:
    """The person's day of a moment, such as `2026-09-01`."""
    return local(at).date().isoformat()
