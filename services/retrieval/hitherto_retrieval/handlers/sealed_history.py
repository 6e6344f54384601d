"""The history of items that are or were sealed, which holds no text: the versions do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from hitherto_retrieval.handlers.reading import UserReadContext
from hitherto_retrieval.storage import sealed_items
from hitherto_retrieval.storage.history import HistoryEvent
from hitherto_retrieval.storage.sealed_items import VersionWords
from hitherto_retrieval.storage.statement import Statement
from hitherto_shared.encryption.rows import MEMORY, PROFILE_VERSION, Place


async def open_memory_events(
    reading: UserReadContext, memory_id: UUID, events: Sequence[HistoryEvent]
) -> list[HistoryEvent]:
    """Events with the changes in the sealed text of a memory.

    Values that do not open are left out of an event; without a key, all sealed values are.
    """
    versions = await _versions(
        reading,
        sealed_items.versions_of_memory(reading.scope, memory_id, _asked(events)),
        lambda _: MEMORY.place(memory_id),
    )
    return [_opened(event, versions, tuple(MEMORY.columns)) for event in events]


async def open_profile_events(
    reading: UserReadContext, events: Sequence[HistoryEvent]
) -> list[HistoryEvent]:
    """The same for the user's profile."""
    versions = await _versions(
        reading,
        sealed_items.versions_of_profile(reading.scope, _asked(events)),
        PROFILE_VERSION.place,
    )
    return [_opened(event, versions, None) for event in events]


def _asked(events: Sequence[HistoryEvent]) -> list[int]:
    """The versions that events created, and their predecessors."""
    return sorted({v for event in events for v in (event.version - 1, event.version) if v > 0})


async def _versions(
    reading: UserReadContext,
    statement: Statement[dict[int, VersionWords]],
    place: Callable[[int], Place],
) -> dict[int, Mapping[str, Any]]:
    found = await reading.answer(statement)
    if any(sealed is not None for sealed, _ in found.values()):
        await reading.opener.fetch()
    opened = {
        number: clear if sealed is None else reading.opener.values(sealed, place(number))
        for number, (sealed, clear) in found.items()
    }
    return {number: values for number, values in opened.items() if values is not None}


def _opened(
    event: HistoryEvent, versions: Mapping[int, Mapping[str, Any]], fields: Sequence[str] | None
) -> HistoryEvent:
    """The event with the words that its version changed; what it holds itself stays."""
    after = versions.get(event.version)
    before = versions.get(event.version - 1)
    if after is None or (before is None and event.version > 1):
        return event
    names = fields if fields is not None else tuple(after)
    if before is None:
        new = {name: after[name] for name in names if after.get(name)}
        return replace(event, after={**new, **event.after})
    changed = [name for name in names if before.get(name) != after.get(name)]
    return replace(
        event,
        before={**{name: before.get(name) for name in changed}, **event.before},
        after={**{name: after.get(name) for name in changed}, **event.after},
    )
