"""Carries a roll-back out, in one transaction on the role hitherto_removal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from hitherto_extraction.consolidation.undo import undo_merge
from hitherto_extraction.curation.profile_edit import FIELDS, edit_profile
from hitherto_extraction.pipeline.concluding import drop_summary
from hitherto_extraction.pipeline.reindex import reindex
from hitherto_extraction.pipeline.sealed_memories import write_sealed
from hitherto_extraction.queue import jobs
from hitherto_extraction.rollback import profile as profile_rules
from hitherto_extraction.storage import editing, ledger, profiles, users
from hitherto_extraction.storage import rollback as storage
from hitherto_extraction.storage.editing import Edited
from hitherto_extraction.storage.ledger import Event
from hitherto_extraction.storage.rollback import Messages
from hitherto_shared.database.pool import Connection
from hitherto_shared.encryption.sealed import UserKey
from hitherto_shared.errors import NotFound
from hitherto_shared.models import Scope

_FORGETTABLE = ("active", "achieved", "quarantined", "archived")
_REASON = "its source was taken back"


@dataclass(frozen=True, slots=True)
class Source:
    """What is taken back; one of the three is set."""

    conversation_id: str = ""
    document_id: UUID | None = None
    job_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class _Taught:
    """What a source taught.

    Attributes:
        job_ids: The jobs that read it.
        messages: Its messages, if it has any.
        only: Memories that only it states.
        also: Memories that others state too.
    """

    job_ids: Sequence[UUID] = ()
    messages: Messages | None = None
    only: set[UUID] = field(default_factory=set)
    also: set[UUID] = field(default_factory=set)


async def roll_back(
    connection: Connection,
    scope: Scope,
    source: Source,
    *,
    actor: str,
    key: UserKey | None = None,
) -> dict[str, int]:
    """Take a source back; what changed, by name.

    Raises:
        KeyNeeded: Something of it is sealed, and there is no `key`.
        NotFound: The user has no such conversation, document or job.
        WrongState: The user was erased.
    """
    await users.enter_user(connection, scope)
    await users.lock_user(connection, scope)
    taught = await _taught(connection, scope, source, key)
    counts = {"consolidations_undone": await _undo_merges(connection, scope, taught, actor, key)}
    # A merge that was undone may have brought back memories that only the source states.
    taught = await _taught(connection, scope, source, key)
    counts["memories_forgotten"] = await _forget(connection, scope, taught.only, actor, key)
    counts["memories_restored"] = await _restore(connection, scope, taught, actor, key)
    counts["sources_removed"] = 0
    if taught.messages is not None and taught.also:
        counts["sources_removed"] = await storage.drop_sources(
            connection, scope, sorted(taught.also), taught.messages
        )
    counts["profile_fields"] = await _clean_profile(connection, scope, taught, actor, key)
    if source.conversation_id:
        counts["summaries_removed"] = await drop_summary(connection, scope, source.conversation_id)
    return counts


async def _taught(
    connection: Connection, scope: Scope, source: Source, key: UserKey | None
) -> _Taught:
    if source.document_id is not None:
        if not await storage.document_exists(connection, scope, source.document_id):
            raise NotFound(
                "this user has no such document",
                reason="DOCUMENT_NOT_FOUND",
                metadata={"document_id": str(source.document_id)},
            )
        return _Taught(
            only=set(await storage.of_document(connection, scope, source.document_id, key))
        )
    if source.job_id is not None:
        job = await jobs.get_job(
            connection, scope.tenant_id, source.job_id, only_user=scope.user_id
        )
        messages = None
        if job.conversation_id is not None and job.range_from is not None:
            messages = Messages(job.conversation_id, job.range_from, job.range_to)
        return await _of_jobs(connection, scope, [job.job_id], messages)
    if not await storage.conversation_exists(connection, scope, source.conversation_id):
        raise NotFound(
            "this user has no such conversation",
            reason="CONVERSATION_NOT_FOUND",
            metadata={"conversation_id": source.conversation_id},
        )
    job_ids = await storage.jobs_of_conversation(connection, scope, source.conversation_id)
    return await _of_jobs(connection, scope, job_ids, Messages(source.conversation_id))


async def _of_jobs(
    connection: Connection, scope: Scope, job_ids: Sequence[UUID], messages: Messages | None
) -> _Taught:
    stated = await storage.stated_by(connection, scope, messages) if messages else {}
    sourceless = await storage.sourceless(connection, scope, job_ids)
    return _Taught(
        job_ids=job_ids,
        messages=messages,
        only={memory_id for memory_id, only in stated.items() if only} | set(sourceless),
        also={memory_id for memory_id, only in stated.items() if not only},
    )


async def _undo_merges(
    connection: Connection, scope: Scope, taught: _Taught, actor: str, key: UserKey | None
) -> int:
    """Take merged memories apart that the source made or that something of it went into."""
    merged = {
        *await storage.merged_by(connection, scope, taught.job_ids),
        *await storage.merged_from(connection, scope, sorted(taught.only | taught.also)),
    }
    for memory_id in sorted(merged):
        await undo_merge(connection, scope, memory_id, actor=actor, reason=_REASON, key=key)
    return len(merged)


async def _forget(
    connection: Connection, scope: Scope, memory_ids: set[UUID], actor: str, key: UserKey | None
) -> int:
    known = await editing.read(connection, scope, sorted(memory_ids), key)
    forgotten = [held for held in known.values() if held.memory.status in _FORGETTABLE]
    for held in forgotten:
        after = replace(held.memory, status="forgotten", superseded_by=None, expires_at=None)
        await _write(
            connection, scope, held, replace(held, memory=after, challenges=()), actor, key
        )
    await profiles.recount_mentions(
        connection, scope, [held.memory.memory_id for held in forgotten]
    )
    return len(forgotten)


async def _restore(
    connection: Connection, scope: Scope, taught: _Taught, actor: str, key: UserKey | None
) -> int:
    """Give memories that the source's jobs changed the version from before them."""
    rewritten = await storage.rewritten_by(connection, scope, taught.job_ids)
    known = await editing.read(
        connection,
        scope,
        [memory_id for memory_id in rewritten if memory_id not in taught.only],
        key,
    )
    reworded: list[UUID] = []
    restored = 0
    for memory_id, held in known.items():
        version = rewritten[memory_id]
        if version is None:
            continue
        earlier = await storage.read_version(connection, scope, memory_id, version, key)
        after = _as_before(held, earlier)
        if after.memory.content != held.memory.content:
            reworded.append(memory_id)
        if held.memory.superseded_by is not None:
            await storage.no_longer_supersedes(
                connection, scope, memory_id, held.memory.superseded_by
            )
        await _write(connection, scope, held, after, actor, key)
        restored += 1
    await reindex(connection, scope, reworded)
    return restored


def _as_before(held: Edited, earlier: Mapping[str, Any]) -> Edited:
    said_at = earlier["said_at"] or held.said_at
    apart = ("said_at", "sealed")
    fields = {name: value for name, value in earlier.items() if name not in apart}
    memory = replace(held.memory, **fields)
    # What was sealed at any time is not brought back in clear.
    sealed = held.sealed or earlier["sealed"]
    same = memory.content == held.memory.content
    return replace(
        held,
        memory=memory,
        said_at=said_at,
        challenges=(),
        embedding_state=held.embedding_state if same else "pending",
        sealed=sealed,
    )


async def _write(
    connection: Connection,
    scope: Scope,
    held: Edited,
    after: Edited,
    actor: str,
    key: UserKey | None,
) -> None:
    at = await users.database_now(connection)
    if after.sealed:
        await write_sealed(connection, scope, key, held, after, at=at)
    else:
        await editing.write_version(connection, scope, after, at=at)
    before, changed = editing.difference(held.memory, after.memory, sealed=after.sealed)
    event = Event(
        "memory",
        "rolled_back",
        held.memory.version + 1,
        _REASON,
        held.memory.memory_id,
        before=before,
        after=changed,
    )
    await ledger.record(connection, scope, None, [event], actor=actor)


async def _clean_profile(
    connection: Connection, scope: Scope, taught: _Taught, actor: str, key: UserKey | None
) -> int:
    """Undo what the source's jobs changed in the profile; how many values."""
    events = await storage.profile_events(connection, scope, taught.job_ids, key)
    if not events:
        return 0
    current, said_at = await profiles.read_profile(connection, scope, key)
    content = profiles.profile_content(current)
    cleaned, paths = profile_rules.undo(content, events)
    if not paths:
        return 0
    at = await users.database_now(connection)
    fields = dict.fromkeys(path[0] for path in paths if path[0] in FIELDS)
    # The values go back with their own age: what is said later may still replace them.
    edit = edit_profile(current, said_at, cleaned, [(name,) for name in fields], at)
    sealed = await profiles.write_profile(
        connection, scope, edit.profile, said_at, actor=actor, job_id=None, key=key
    )
    event = profiles.change_event(
        "rolled_back", edit.profile, before=current, sealed=sealed, reason=_REASON
    )
    await ledger.record(connection, scope, None, [event], actor=actor)
    return len(paths)
