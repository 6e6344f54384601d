"""What each source said about memories, the profile and in summaries: written once, for roll-back.

For a sealed memory, and for the profile and summaries of a user with encryption on, the words are
sealed too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from hitherto_extraction.storage.sealed_rows import opened, sealed_among, sealing_key, stored
from hitherto_shared.database.arrays import fields_of, records
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.encryption.rows import STATEMENT
from hitherto_shared.identifiers import uuid7
from hitherto_shared.models import Scope

_INSERT = """
INSERT INTO statements (tenant_id, user_id, statement_id, subject, memory_id, conversation_id,
    document_id, job_id, action, version, made_version, origin, said_at, said, sealed,
    recorded_at, taken_back_at)
SELECT u.tenant_id, u.user_id, new.statement_id, new.subject, new.memory_id,
    new.conversation_id, new.document_id, new.job_id, new.action, new.version, new.made_version,
    new.origin, new.said_at, new.said, new.sealed,
    statement_timestamp() + make_interval(secs => 1e-6 * new.place),
    CASE WHEN new.taken THEN statement_timestamp() END
FROM @its_user AS u
CROSS JOIN json_to_recordset(%(rows)s) AS new (place integer, statement_id uuid,
    subject text, memory_id uuid, conversation_id text, document_id uuid, job_id uuid,
    action text, version integer, made_version boolean, origin text, said_at timestamptz,
    said jsonb, sealed bytea, taken boolean)
"""

_OF_MEMORIES = """
SELECT statement_id, memory_id, conversation_id, job_id, action, version, made_version,
       origin, said_at, said, taken_back_at IS NOT NULL, document_id, taken_back_at, sealed
FROM statements
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND memory_id = ANY(%(memory_ids)s)
ORDER BY memory_id, version, recorded_at, statement_id
"""

_OF_PROFILE = """
SELECT statement_id, memory_id, conversation_id, job_id, action, version, made_version,
       origin, said_at, said, taken_back_at IS NOT NULL, document_id, taken_back_at, sealed
FROM statements
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND subject = 'profile'
ORDER BY recorded_at, statement_id
"""

# A statement of its own: for both, the plan that Postgres keeps would read all of a user.
_OF_SUMMARY = """
SELECT statement_id, memory_id, conversation_id, job_id, action, version, made_version,
       origin, said_at, said, taken_back_at IS NOT NULL, document_id, taken_back_at, sealed
FROM statements
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND subject = 'summary'
  AND md5(conversation_id) = md5(%(conversation_id)s) AND conversation_id = %(conversation_id)s
ORDER BY recorded_at, statement_id
"""

# Each standing statement of a source, by its subject.
_FIND = """
SELECT statement_id, subject, memory_id, conversation_id, recorded_at, job_id
FROM statements
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND taken_back_at IS NULL
  AND (job_id = ANY(%(job_ids)s)
       OR (md5(conversation_id) = md5(%(conversation_id)s)
           AND conversation_id = %(conversation_id)s)
       OR document_id = %(document_id)s)
"""

# Also if all of them were taken back.
_NAME_CONVERSATION = """
SELECT EXISTS (
    SELECT FROM statements
    WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
      AND md5(conversation_id) = md5(%(conversation_id)s)
      AND conversation_id = %(conversation_id)s)
"""

# By the clock: the transaction may have begun before others that held the user's row. What was
# taken back before keeps its time: somebody may have restored since then what it had stated.
_TAKE_BACK = """
UPDATE statements SET taken_back_at = clock.at
FROM @clock AS clock
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
  AND statement_id = ANY(%(statement_ids)s) AND taken_back_at IS NULL
"""

_DROP_OF_SUMMARY = """
DELETE FROM statements
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND subject = 'summary'
  AND md5(conversation_id) = md5(%(conversation_id)s) AND conversation_id = %(conversation_id)s
"""

_UNNAME_CONVERSATION = """
UPDATE statements SET conversation_id = NULL
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
  AND md5(conversation_id) = md5(%(conversation_id)s) AND conversation_id = %(conversation_id)s
"""


@dataclass(frozen=True, slots=True)
class NewStatement:
    """A statement to be stored.

    Attributes:
        version: The version of its subject after it was said; for a summary, the last message that
            it covers.
        made_version: Whether it made that version.
        rests_on_sealed: Whether it quotes sealed text, or is about a summary that is sealed. Its
            words are then sealed although the user may have turned encryption off.
        taken: Whether it is stored as rolled back.
        subject: memory, profile or summary.
    """

    action: str
    version: int
    made_version: bool
    origin: str
    said_at: datetime
    said: Mapping[str, Any] = field(default_factory=dict)
    memory_id: UUID | None = None
    conversation_id: str | None = None
    document_id: UUID | None = None
    job_id: UUID | None = None
    rests_on_sealed: bool = False
    taken: bool = False
    subject: str = "memory"


@dataclass(frozen=True, slots=True)
class StoredStatement:
    """A stored statement, with its words opened; `taken_at`: since when it counts no longer."""

    statement_id: UUID
    memory_id: UUID | None
    conversation_id: str | None
    job_id: UUID | None
    action: str
    version: int
    made_version: bool
    origin: str
    said_at: datetime
    said: Mapping[str, Any]
    taken: bool
    document_id: UUID | None = None
    taken_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class StatementReference:
    """A statement of a source, by its subject."""

    statement_id: UUID
    subject: str
    memory_id: UUID | None
    conversation_id: str | None
    recorded_at: datetime
    job_id: UUID | None


async def record(user: UserRows, statements: Sequence[NewStatement]) -> None:
    """Store statements, in order. Memories are written before what is said about them.

    Raises:
        KeyNeeded: One is to be sealed, and the key is not at hand.
    """
    secret = await sealed_among(user, {each.memory_id for each in statements if each.memory_id})
    rows: list[dict[str, Any]] = []
    for each in statements:
        statement_id, said, key = uuid7(), dict(each.said), None
        if said and each.memory_id in secret:
            key = await sealing_key(user, stays_sealed=True)
        elif said and each.subject != "memory":
            key = await sealing_key(user, stays_sealed=each.rests_on_sealed)
        if key is not None:
            # Sealed statements mention no entities.
            said.pop("entities", None)
        row = {"statement_id": statement_id, "said": said}
        place = {"place": len(rows)}
        rows.append(fields_of(each) | row | stored(key, STATEMENT, row) | place)
    if rows:
        await user.later(_INSERT, rows=records(rows))


async def of_memories(
    user: UserRows, memory_ids: Sequence[UUID]
) -> dict[UUID, list[StoredStatement]]:
    """Everything that was said about memories, in order."""
    found: dict[UUID, list[StoredStatement]] = {memory_id: [] for memory_id in memory_ids}
    make = partial(_statement, user.scope)
    for each in await user.fetch(make, _OF_MEMORIES, memory_ids=list(memory_ids)):
        assert each.memory_id is not None
        found[each.memory_id].append(each)
    return found


async def of_profile(user: UserRows) -> list[StoredStatement]:
    """Everything that was said about the profile, in order."""
    return await user.fetch(partial(_statement, user.scope), _OF_PROFILE)


async def of_summary(user: UserRows, conversation_id: str) -> list[StoredStatement]:
    """The statements behind the summary of a conversation, in order."""
    make = partial(_statement, user.scope)
    return await user.fetch(make, _OF_SUMMARY, conversation_id=conversation_id)


async def find(
    user: UserRows,
    *,
    job_ids: Sequence[UUID] = (),
    conversation_id: str | None = None,
    document_id: UUID | None = None,
) -> list[StatementReference]:
    """The statements of a source that were not rolled back yet."""
    return await user.fetch(
        StatementReference,
        _FIND,
        job_ids=list(job_ids),
        conversation_id=conversation_id,
        document_id=document_id,
    )


async def name_conversation(user: UserRows, conversation_id: str) -> bool:
    """Whether any statement was made in a conversation, even if it was rolled back."""
    return bool(await user.fetch_value(_NAME_CONVERSATION, conversation_id=conversation_id))


async def take_back(user: UserRows, statement_ids: Sequence[UUID]) -> None:
    """Mark statements as rolled back. The role is hitherto_removal."""
    if statement_ids:
        await user.execute(_TAKE_BACK, statement_ids=list(statement_ids))


async def forget_conversation(user: UserRows, conversation_id: str) -> None:
    """Delete the statements behind a conversation's summary, and its name from all others.

    The role is hitherto_removal.
    """
    await user.execute(_DROP_OF_SUMMARY, conversation_id=conversation_id)
    await user.execute(_UNNAME_CONVERSATION, conversation_id=conversation_id)


def _statement(scope: Scope, *columns_and_sealed: Any) -> StoredStatement:
    *columns, sealed = columns_and_sealed
    found = StoredStatement(*columns)
    if sealed is None:
        return found
    return replace(found, said=opened(scope, STATEMENT, sealed, found.statement_id)["said"])
