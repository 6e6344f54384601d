"""Whole memories: reads all fields of one, and is the only writer of its next version.

Only what makes many memories FORGOTTEN or ARCHIVED at once has statements of its own (`clearing`,
`upkeep`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from hitherto_extraction.storage.sealed_rows import WORDS, opened, sealing_key, stored_memory
from hitherto_shared.database.arrays import Texts, fields_of
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.encryption.rows import MEMORY
from hitherto_shared.errors import WrongState, not_found
from hitherto_shared.models import CURRENT_STATUSES, Memory, Scope, SourceRef

_READ = """
SELECT w.*, m.may_replace, m.said_at, m.challenges, m.lexical_no, m.lexical_length,
       m.embedding_state, m.questions
FROM @whole_memories AS w
JOIN memories AS m ON m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s
     AND m.memory_id = w.memory_id
WHERE w.memory_id = ANY(%(memory_ids)s)
"""

_WRITE = """
WITH kept AS @kept_versions((
    SELECT * FROM memories
    WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND memory_id = %(memory_id)s)
), mirrored AS (
    UPDATE memory_embeddings SET status = %(status)s
    WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND memory_id = %(memory_id)s
)
UPDATE memories
SET version = version + 1,
    text_version = CASE WHEN coalesce(%(reworded)s, content <> %(content)s) THEN version + 1
                        ELSE text_version END,
    type = %(type)s, content = %(content)s, detail = %(detail)s,
    importance = %(importance)s, confidence = %(confidence)s, origin = %(origin)s,
    status = %(status)s, tags = %(tags)s, keywords = %(keywords)s, questions = %(questions)s,
    context = %(context)s, metadata = %(metadata)s, sensitive = %(sensitive)s,
    valid_from = %(valid_from)s,
    valid_to = %(valid_to)s, expires_at = %(expires_at)s, superseded_by = %(superseded_by)s,
    supersedes = %(supersedes)s, challenges = %(challenges)s, said_at = %(said_at)s,
    lexical_no = %(lexical_no)s, lexical_length = %(lexical_length)s,
    embedding_state = %(embedding_state)s, sealed = %(sealed)s, doubt = %(doubt)s,
    may_replace = %(may_replace)s,
    updated_at = greatest(updated_at, %(at)s), job_id = %(job_id)s
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND memory_id = %(memory_id)s
"""

# Its replacement counts only while it exists.
_BEFORE = """
SELECT v.status, v.expires_at, s.memory_id, v.doubt, s.status
FROM memory_versions AS v
LEFT JOIN memories AS s ON s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s
     AND s.memory_id = v.superseded_by
WHERE v.tenant_id = %(tenant_id)s AND v.user_id = %(user_id)s AND v.memory_id = %(memory_id)s
  AND v.status <> ALL(%(statuses)s)
ORDER BY v.version DESC
LIMIT 1
"""

_SAYING = (*CURRENT_STATUSES, "quarantined", "superseded")


@dataclass(frozen=True, slots=True)
class EditableMemory:
    """A memory with the fields that only the write side knows.

    Attributes:
        said_at: Event time of the newest evidence for its wording.
        challenges: The memories it would contradict if a review approved it.
        lexical_length: Length of the indexed text in terms.
        embedding_state: pending, stored, refused or sealed.
        sealed: Whether its words are stored sealed; here they are open.
        questions: Indexed questions that its words answer; none for a sealed one.
    """

    memory: Memory
    said_at: datetime
    challenges: Sequence[UUID]
    lexical_no: int
    lexical_length: int
    embedding_state: str
    sealed: bool = False
    questions: Sequence[str] = ()

    @property
    def indexed_text(self) -> tuple[str, list[str], list[str]]:
        """Its own text in the keyword index: content, keywords and questions."""
        return self.memory.content, list(self.memory.keywords), list(self.questions)

    def changed(self, **fields: Any) -> EditableMemory:
        """The same with other fields of its memory."""
        return replace(self, memory=replace(self.memory, **fields))


async def read(user: UserRows, memory_ids: Sequence[UUID]) -> dict[UUID, EditableMemory]:
    """The present state of these memories, by id; ids that the user does not have are left out."""
    rows = await user.fetch_rows(_READ, memory_ids=list(memory_ids))
    return {row[0]: _edited(user.scope, row) for row in rows}


async def read_one(user: UserRows, memory_id: UUID) -> EditableMemory:
    """One memory.

    Raises:
        NotFound: The user has no memory with this id.
    """
    found = await read(user, [memory_id])
    if memory_id not in found:
        raise not_found("memory", memory_id)
    return found[memory_id]


def status_conflict(memory: Memory, message: str) -> WrongState:
    """The error for a change that the status of a memory forbids."""
    return WrongState(
        message,
        reason="MEMORY_STATUS_CONFLICT",
        metadata={"memory_id": str(memory.memory_id), "status": memory.status.upper()},
    )


async def write_version(
    user: UserRows,
    after: EditableMemory,
    *,
    at: datetime,
    job_id: UUID | None,
    reworded: bool | None = None,
) -> EditableMemory:
    """Store `after` as the next version of its memory, keep the previous one, and return it.

    The caller holds the user's row, has read the memory under that lock, and updates index, vectors
    and history if they change. `after` names the version that it follows. Its `updated_at`,
    sources, entities and access counters are ignored; it is stored sealed if it says so. `reworded`
    says whether its content changes, which cannot be seen from two sealed versions; None: compare
    the columns.
    """
    after = after.changed(version=after.memory.version + 1)
    memory = after.memory
    row = {name: getattr(memory, name) for name in (*WORDS, "memory_id", "version")}
    key = await sealing_key(user, stays_sealed=True) if after.sealed else None
    values = {**fields_of(memory), **fields_of(after), **stored_memory(key, row)}
    doubt = None if memory.doubt is None else Jsonb(dict(memory.doubt))
    values |= {"at": at, "job_id": job_id, "reworded": reworded, "doubt": doubt}
    await user.later(_WRITE, **values)
    return after


def _edited(scope: Scope, row: tuple[Any, ...]) -> EditableMemory:
    *columns, sealed, sources, entities, doubt, _, confirmed_at, worded_in, evidence = row[:-7]
    may_replace, said_at, challenges, number, length, state, questions = row[-7:]
    said = [SourceRef(*source) for source in sources]
    quoted = [(SourceRef(*source), quote) for *source, quote in evidence]
    tail = (None, doubt, may_replace, confirmed_at, worded_in, quoted)
    memory = Memory(*(*columns, None, said, entities, *tail))
    if sealed is not None:
        words = opened(scope, MEMORY, sealed, memory.memory_id)
        # The mentions from before it was sealed are about to be swept.
        memory = replace(memory, entities=[], **{name: words[name] for name in WORDS})
    return EditableMemory(
        memory, said_at, challenges, number, length, state, sealed is not None, questions
    )


@dataclass(frozen=True, slots=True)
class EarlierVersion:
    """An earlier version of a memory, as far as it matters to a return to it."""

    status: str
    expires_at: datetime | None = None
    superseded_by: UUID | None = None
    doubt: Mapping[str, Any] | None = None


async def before_it_lapsed(
    user: UserRows, memory_id: UUID, *, lapsed: Sequence[str] = ("forgotten", "archived")
) -> EarlierVersion:
    """The state of a memory before it got one of these statuses; ACTIVE if no version tells.

    One that was merged into a memory without remaining content was ACTIVE before that.
    """
    row = await user.fetch_row(_BEFORE, memory_id=memory_id, statuses=Texts(lapsed))
    if row is None:
        return EarlierVersion("active")
    status, expires_at, successor, doubt, standing = row
    if status == "superseded" and standing not in _SAYING:
        return EarlierVersion("active", expires_at)
    return EarlierVersion(status, expires_at, successor, doubt)
