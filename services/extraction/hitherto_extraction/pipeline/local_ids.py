"""Reads the ids in a reply, which are local to one call: `m1` names a message, `e1` a memory.

Models copy them with the brackets of the prompt, in capitals or with the words that follow, and
cite messages by bare numbers.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

_ID = re.compile(r"([a-z]?[0-9]{1,6})(?:[\])\s:]|\Z)", re.IGNORECASE)
_MOST = 999_999


def local_id(value: Any) -> str:
    """The id that a text names; empty for anything else."""
    found = _ID.match(value.lstrip("[( \n\t")) if isinstance(value, str) else None
    return found[1].lower() if found else ""


def message_ids(given: list[Any], shown: Collection[str]) -> list[str]:
    """The messages that were `shown` among those that an item cites, in its order."""
    found = []
    for value in given:
        number = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST
        name = local_id(str(value) if number else value)
        found += [name if name in shown else f"m{name}"]
    return [name for name in found if name in shown]
