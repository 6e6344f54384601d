"""What an import finds in the place of its records, if the user went on after it broke off.

Per user, an entity has one name of its type, a document one source, and there is one profile. What
is there by now stays, and the records of the file refer to it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from hitherto_extraction.storage import imported
from hitherto_shared.database.user_rows import UserRows

_KEYS = {"entities": "entity_id", "documents": "document_id", "profiles": "created_at"}
"""Tables whose rows have places of their own for a user, and what identifies a row."""
_OF_ENTITIES = frozenset({"entity_mentions", "document_mentions"})


@dataclass(slots=True)
class NamesTaken:
    """For each such table, the records whose places are taken, by id, with the id of the owner."""

    _owners: dict[str, dict[str, str]] = field(
        default_factory=lambda: {table: {} for table in _KEYS}
    )

    async def free(
        self, user: UserRows, table: str, rows: Sequence[Mapping[str, Any]]
    ) -> Sequence[int]:
        """The indexes of the rows of a table whose places are free, or which need none.

        What tells of the exported profile goes with it.
        """
        if table not in _KEYS:
            replaced = bool(self._owners["profiles"])
            return [i for i, row in enumerate(rows) if not (replaced and _of_profile(table, row))]
        found = await imported.named_otherwise(user, table, rows)
        self._owners[table] |= found
        return [index for index, row in enumerate(rows) if row[_KEYS[table]] not in found]

    def referring(self, table: str, rows: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
        """The rows of a table, which name the entities that are there."""
        owners = self._owners["entities"]
        if table not in _OF_ENTITIES or not owners:
            return rows
        return [
            {**row, "entity_id": owners.get(row["entity_id"], row["entity_id"])} for row in rows
        ]

    @property
    def documents(self) -> Collection[str]:
        """The documents in whose place another one is."""
        return self._owners["documents"].keys()

    @property
    def entities(self) -> Collection[UUID]:
        """The entities to which more refers than their own memories."""
        return [UUID(each) for each in self._owners["entities"].values()]


def _of_profile(table: str, row: Mapping[str, Any]) -> bool:
    return table == "profile_versions" or row.get("subject") == "profile"
