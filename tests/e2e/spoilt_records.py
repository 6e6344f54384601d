"""Ways in which a record of an export is not one, each to be refused by its number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4


def nested(depth: int) -> dict[str, Any]:
    """An object in an object, and so on."""
    found: dict[str, Any] = {}
    for _ in range(depth):
        found = {"a": found}
    return found


FROM_NOWHERE = {
    "subject": "profile",
    "action": "patched",
    "memory_id": None,
    "said": {
        "changes": [
            {
                "path": ["summary"],
                "value": "Sails.",
                "ended": False,
                "said_at": "2026-01-01T00:00:00+00:00",
                "source": {"path": ["summary"]},
            }
        ]
    },
}
"""A value of a profile whose source names no message."""

SOURCE = {
    "path": ["summary"],
    "conversation_id": "",
    "message_id": "",
    "said_at": "2026-01-01T00:00:00+00:00",
    "memory_ids": [],
    "quote": "",
}
"""Where a value of a profile comes from."""

Spoil = Callable[[dict[str, Any]], object]
SPOILT: dict[str, tuple[str, Spoil]] = {
    "another user's": ("memories", lambda line: line["row"].update(user_id="eve")),
    "another tenant's": ("messages", lambda line: line["row"].update(tenant_id="others")),
    "an unknown table": ("memories", lambda line: line.update(table="pg_authid")),
    "an unknown column": ("memories", lambda line: line["row"].update(audit_key="\\x00")),
    "an unknown enum": ("memories", lambda line: line["row"].update(status="holy")),
    "a wrong type": ("memories", lambda line: line["row"].update(importance="0.5")),
    "out of range": ("memories", lambda line: line["row"].update(importance=7)),
    "no number": ("memories", lambda line: line["row"].update(importance=float("nan"))),
    "no id": ("memories", lambda line: line["row"].update(memory_id="1; --")),
    "nobody's": ("memory_sources", lambda line: line["row"].update(memory_id="0" * 32)),
    "too long": ("memories", lambda line: line["row"].update(content="x" * 9000)),
    "empty": ("memories", lambda line: line["row"].update(content=" ")),
    "with NUL": ("messages", lambda line: line["row"].update(content="a\x00b")),
    "with a surrogate": ("messages", lambda line: line["row"].update(content="\ud800")),
    "below a surrogate": (
        "memories",
        lambda line: line["row"].update(metadata={"\ud800": "a\x00"}),
    ),
    "in year 9999": (
        "memories",
        lambda line: line["row"].update(created_at="9999-01-01T00:00:00+00:00"),
    ),
    "without offset": ("history", lambda line: line["row"].update(recorded_at="2026-01-01")),
    "contradictory": (
        "memories",
        lambda line: line["row"].update(valid_to="1999-01-01T00:00:00+00:00"),
    ),
    "deep": ("memories", lambda line: line["row"].update(metadata=nested(400))),
    "large": ("memories", lambda line: line["row"].update(metadata={"a": "x" * 200_000})),
    "sources of another shape": (
        "profiles",
        lambda line: line["row"].update(sources={"facts.personal.name": {"quote": "Ana"}}),
    ),
    "null": ("conversations", lambda line: line["row"].update(watermark=None)),
    "ahead of its messages": ("conversations", lambda line: line["row"].update(watermark=10**6)),
    "huge": ("conversations", lambda line: line["row"].update(last_message_no=10**12)),
    "at the end of all numbers": (
        "memories",
        lambda line: line["row"].update(version=2**31 - 1),
    ),
    "a last message": (
        "conversations",
        lambda line: line["row"].update(last_message_no=2**31 - 1),
    ),
    "a version that cannot stand again": (
        "memory_versions",
        lambda line: line["row"].update(status="superseded", superseded_by=None),
    ),
    # What roll-backs, extraction and reads rely on in free-form JSON.
    "no words": ("statements", lambda line: line["row"].update(said={})),
    "no pairs": ("statements", lambda line: line["row"]["said"].update(entities=["x"])),
    "no time": ("statements", lambda line: line["row"]["said"].update(valid_from=7)),
    "no ends": ("statements", lambda line: line["row"]["said"].update(ended_by=[["a"]])),
    "no links": ("statements", lambda line: line["row"]["said"].update(may_replace=["x"])),
    "no source": ("statements", lambda line: line["row"].update(FROM_NOWHERE)),
    "an end by nobody": (
        "statements",
        lambda line: line["row"]["said"].update(ended_by=[["a", "2026-01-01T00:00:00Z"]]),
    ),
    "an end at no time": (
        "statements",
        lambda line: line["row"]["said"].update(ended_by=[[str(uuid4()), 7]]),
    ),
    "another action": ("statements", lambda line: line["row"].update(action="patched")),
    "no item": ("messages", lambda line: line["row"].update(context_items=[["a"]])),
    "no profile": ("profile_versions", lambda line: line["row"]["profile"].update(facts=7)),
    "no times": ("profiles", lambda line: line["row"].update(said_at={"summary": 7})),
    "no cause": (
        "memories",
        lambda line: line["row"].update(
            doubt={"because": None, "reason": "", "since": "2026-01-01T00:00:00+00:00"}
        ),
    ),
    "no value": (
        "profiles",
        lambda line: line["row"].update(sources={"facts": SOURCE | {"path": ["facts"]}}),
    ),
    "below a text": (
        "profiles",
        lambda line: line["row"].update(sources={"summary": SOURCE | {"path": ["summary", "a"]}}),
    ),
    "no recent item": ("recent_items", lambda line: line["row"].update(items=[7])),
    # Columns that the checks of a whole row compare.
    "no status": ("memories", lambda line: line["row"].pop("status")),
    "no memory": ("memory_versions", lambda line: line["row"].pop("memory_id")),
    "no subject": ("statements", lambda line: line["row"].pop("subject")),
    "without a row": ("memories", lambda line: line.pop("row")),
    "a list": ("memories", lambda line: line.update(row=[1])),
}
