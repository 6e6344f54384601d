"""`hitherto history`: every change of a memory or of a profile."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from google.protobuf import json_format

from hitherto.v1 import history_pb2
from hitherto_client.command.rpc import CONSISTENCY, USER, Option, Rpc, declare
from hitherto_client.command.show import Column, Rows
from hitherto_client.command.values import short


def change(event: history_pb2.HistoryEvent) -> str:
    """The fields that changed, before and after; of what is new, what it says."""
    before, after = (json_format.MessageToDict(part) for part in (event.before, event.after))
    if not before and isinstance(after.get("content"), str):
        return short(after["content"])
    return "; ".join(
        f"{name}: {_value(before.get(name))} → {_value(after.get(name))}"
        for name in _names(before, after)
        if before.get(name) != after.get(name)
    )


def _names(*parts: dict[str, Any]) -> Iterable[str]:
    return dict.fromkeys(name for part in parts for name in sorted(part))


def _value(value: Any) -> str:
    if value is None:
        return "nothing"
    return short(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), 80)


def _why(event: history_pb2.HistoryEvent) -> str:
    parts = [
        event.reason,
        event.job_id and f"job {event.job_id}",
        event.related_memory_id and f"memory {event.related_memory_id}",
    ]
    return ", ".join(part for part in parts if part)


_HISTORY = Rows(
    "events",
    (
        Column("when", "created_at", whole=True),
        Column("version", lambda event: event.version or "", number=True),
        Column("what", "kind"),
        Column("change", change),
        Column("who", "actor"),
        Column("why", _why),
    ),
    "nothing has changed yet",
)
_OF_MEMORY = Rpc(
    "GetMemoryHistory",
    (
        USER,
        Option(
            "id", "memory_id", "a memory; without it the profile's history is shown", needed=False
        ),
        CONSISTENCY,
    ),
    _HISTORY,
)
_OF_PROFILE = Rpc("GetProfileHistory", (), _HISTORY)


def register(commands: Any) -> None:
    """Add the sub-command."""
    declare(
        commands,
        "history",
        "Show every change of a memory, or of the user's profile.",
        _OF_MEMORY,
        lambda options, output: (_OF_MEMORY if options.memory_id else _OF_PROFILE).run(
            options, output
        ),
    )
