"""The rows that may be sealed: which of their columns are, and the place to which they are bound.

A sealed value opens only at the place for which it was sealed: the row's kind and ids. Each version
of a profile has a place of its own. All versions of a memory share the memory's, so that a row
copied to `memory_versions` stays readable: many versions change only the status, and are written by
upkeep, which has no key. The value itself names the version under which it was sealed (see
`user_key`); so do those of vectors and summaries.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hitherto_shared.encryption.user_key import UserKey

Place = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SealedRow:
    """A kind of row with a column `sealed`.

    Attributes:
        kind: The first part of its place.
        ids: The columns that name the row, which are the rest of the place.
        columns: The sealed columns, each with what it holds while its value is sealed.
        whole: Whether the only one of them is an object, whose members are the sealed values.
        version: The column with the version that a sealed value names; empty: values name none.
        also: What only the sealed value holds, of rows that have it.
    """

    kind: str
    ids: tuple[str, ...]
    columns: Mapping[str, Any]
    whole: bool = False
    version: str = ""
    also: tuple[str, ...] = ()

    def place(self, *ids: object) -> Place:
        """The place of the row with these ids."""
        return (self.kind, *map(str, ids))

    def seal(self, key: UserKey, row: Mapping[str, Any]) -> bytes:
        """The sealed value of a row, which has the ids, the version and the columns in clear."""
        values = {name: row[name] for name in self.columns}
        values |= {name: row[name] for name in self.also if row.get(name) is not None}
        if self.whole:
            (values,) = values.values()
        place = self.place(*(row[name] for name in self.ids))
        return key.seal(values, place, version=row[self.version] if self.version else 0)

    def open(self, key: UserKey, sealed: bytes, *ids: object) -> dict[str, Any]:
        """The columns in clear of the row with these ids; raises as `UserKey.open`."""
        values = key.open(sealed, self.place(*ids))
        return dict.fromkeys(self.columns, values) if self.whole else values


MEMORY = SealedRow(
    "memory",
    ("memory_id",),
    {"content": "", "detail": "", "tags": [], "keywords": [], "context": {}, "metadata": {}},
    version="version",
)
MESSAGE = SealedRow(
    "message",
    ("conversation_id", "message_id"),
    {"name": "", "content": "", "context_items": [], "metadata": {}},
    also=("unredacted",),
)
"""`unredacted` is the content as it was sent, for a user who has secrets sealed."""
SUMMARY = SealedRow(
    "summary",
    ("conversation_id",),
    {
        "title": "",
        "summary": "",
        "key_topics": [],
        "technical_topics": [],
        "followup_suggestions": [],
    },
    version="sealed_version",
)
PROFILE = SealedRow(
    "profile",
    ("version",),
    {
        "summary": "",
        "current_projects": [],
        "preferences": {},
        "frequent_intents": [],
        "facts": {},
        "metadata": {},
        "said_at": {},
        "sources": {},
    },
)
PROFILE_VERSION = SealedRow("profile", ("version",), {"profile": {}}, whole=True)
STATEMENT = SealedRow("statement", ("statement_id",), {"said": {}}, whole=True)
REPLY = SealedRow("reply", ("job_id", "claim_no"), {"sealed_reply": ""})
"""What it seals is sealed already, with the installation's secret."""
VECTOR = SealedRow("vector", ("memory_id", "model"), {}, version="text_version")
"""Its value is bytes, not columns."""

BY_TABLE: Mapping[str, SealedRow] = {
    "memories": MEMORY,
    "memory_versions": MEMORY,
    "messages": MESSAGE,
    "conversation_summaries": SUMMARY,
    "profiles": PROFILE,
    "profile_versions": PROFILE_VERSION,
    "statements": STATEMENT,
    "unusable_replies": REPLY,
}
"""By the name of the table, without those whose sealed values are read by themselves."""
