"""Carries out a roll-back, in one transaction with the role hitherto_removal."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from uuid import UUID

from hitherto_extraction.consolidation.writing import leave_alone
from hitherto_extraction.job_calls import own_waiting
from hitherto_extraction.pipeline import conversation_summary
from hitherto_extraction.pipeline.conversation_summary import drop_summary
from hitherto_extraction.pipeline.message_removal import require_named
from hitherto_extraction.pipeline.reply_vectors import Vectors
from hitherto_extraction.pipeline.resting_values import drop_resting_on
from hitherto_extraction.pipeline.summarise import merge_summary
from hitherto_extraction.queue import cancelling, jobs
from hitherto_extraction.reconciliation.said_meanwhile import join_said_meanwhile, keep_forgotten
from hitherto_extraction.rollback.histories import vouched_for
from hitherto_extraction.rollback.memories import Rebuilding
from hitherto_extraction.rollback.merges import take_merge_back
from hitherto_extraction.rollback.profile import rebuild_profile
from hitherto_extraction.storage import (
    conversations,
    documents,
    editing,
    statements,
    summaries,
    superseded,
    users,
)
from hitherto_extraction.storage import rollback as storage
from hitherto_extraction.storage.rollback import MessageRange
from hitherto_extraction.storage.statements import StatementReference
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.errors import NotFound
from hitherto_shared.models import CURRENT_STATUSES, Memory, Summary

REASON = "its source was taken back"


@dataclass(frozen=True, slots=True)
class RollbackTarget:
    """What to roll back: a conversation, a document or a job, or else what models taught.

    Of the latter, everything by a `model`, with a `prompt_version`, from `since` until `until`.
    """

    conversation_id: str = ""
    document_id: UUID | None = None
    job_id: UUID | None = None
    model: str | None = None
    prompt_version: str | None = None
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class _SourceEffects:
    """What a source taught; see `Rebuilding`.

    `begins` are the memories that it touched, and since when; None: nobody knows.
    """

    job_ids: Sequence[UUID] = ()
    messages: Sequence[MessageRange] = ()
    statements: Sequence[StatementReference] = ()
    stated: dict[UUID, bool] = field(default_factory=dict)
    named: Collection[UUID] = ()
    begins: Mapping[UUID, datetime | None] = field(default_factory=dict)
    anew: Mapping[UUID, Sequence[MessageRange]] = field(default_factory=dict)

    @property
    def said_of(self) -> set[UUID]:
        """The memories about which it said something."""
        return {each.memory_id for each in self.statements if each.memory_id is not None}

    @property
    def touched(self) -> set[UUID]:
        """The memories that are to be rebuilt without it."""
        return self.begins.keys() | self.said_of


async def roll_back(
    user: UserRows, source: RollbackTarget, *, actor: str, max_attempts: int
) -> dict[str, int]:
    """Roll a source back; returns what changed, by name.

    `max_attempts` is that of a job for messages that have none yet.

    Raises:
        NotFound: The user has no such conversation, document or job.
        WrongState: The user was erased.
    """
    await users.enter_alone(user)
    begun = await users.database_now(user.connection)
    taught = await _but_for_hands(user, await _taught(user, source))
    cancelled = await _cancel_learning(user, source, taught.job_ids, max_attempts)
    await statements.take_back(user, [each.statement_id for each in taught.statements])
    undone = await _undo_merges(user, taught, actor)
    originals = {each.memory_id: each for parts in undone for each in parts}
    # What ended a merged memory has ended its originals too, and may be taken back itself.
    ended = {m for m, each in originals.items() if each.status not in CURRENT_STATUSES}
    rebuilding = Rebuilding(
        user,
        job_ids=taught.job_ids,
        stated=taught.stated,
        messages=taught.messages,
        named=taught.named,
        anew=taught.anew,
        actor=actor,
        reason=REASON,
    )
    counts = {
        "jobs_cancelled": cancelled,
        "consolidations_undone": len(undone),
        **await rebuilding.run(taught.touched | ended),
    }
    hidden = await keep_forgotten(user, rebuilding.changed | originals.keys(), since=begun)
    await join_said_meanwhile(user, (rebuilding.back | originals.keys()) - hidden)
    # What something else ended too, or what waits for review, is not back.
    now = await editing.read(user, sorted(rebuilding.rewritten | originals.keys()))
    counts["memories_restored"] = sum(
        each.memory.status in CURRENT_STATUSES for each in now.values()
    )
    if originals:
        await leave_alone(user, sorted(originals))
    counts["profile_fields"] = await rebuild_profile(
        user, taught.job_ids, actor=actor, reason=REASON
    ) + await drop_resting_on(user, rebuilding.changed | hidden, actor=actor)
    counts["summaries_removed"] = counts["summaries_restored"] = 0
    if source.conversation_id:
        counts["summaries_removed"] = await drop_summary(user, source.conversation_id)
        return counts
    for conversation_id in dict.fromkeys(
        each.conversation_id for each in taught.statements if each.subject == "summary"
    ):
        assert conversation_id is not None
        outcome = await rebuild_summary(user, conversation_id)
        if outcome is not None:
            counts[f"summaries_{outcome}"] += 1
    return counts


async def _taught(user: UserRows, source: RollbackTarget) -> _SourceEffects:
    if source.document_id is not None:
        await documents.require(user, source.document_id)
        said = await statements.find(user, document_id=source.document_id)
        named = set(await storage.of_document(user, source.document_id))
        return _SourceEffects(statements=said, named=named - {each.memory_id for each in said})
    if source.job_id is not None:
        return await _of_jobs(user, [source.job_id], await _messages_of_job(user, source.job_id))
    if not source.conversation_id:
        found = await storage.jobs_of_model(
            user,
            model=source.model,
            prompt_version=source.prompt_version,
            since=source.since,
            until=source.until,
        )
        ranges = [messages for _, messages in found if messages is not None]
        job_ids = [job_id for job_id, _ in found]
        if source.model is None and source.prompt_version is None:
            job_ids += await _without_job(user, source)
        return await _of_jobs(user, job_ids, ranges)
    await require_named(user, source.conversation_id)
    job_ids = await storage.jobs_of_conversation(user, source.conversation_id)
    return await _of_jobs(
        user,
        job_ids,
        [MessageRange(source.conversation_id)],
        conversation_id=source.conversation_id,
    )


async def _cancel_learning(
    user: UserRows, source: RollbackTarget, job_ids: Sequence[UUID], max_attempts: int
) -> int:
    """Cancel what has yet to learn from a conversation, or a job; returns how many were open.

    Else it would teach afterwards what is taken back now. Messages that no job owns yet get one
    that was cancelled, so that RetryJob can still learn from all of them.
    """
    connection, scope = user.connection, user.scope
    if source.conversation_id:
        name = source.conversation_id
        held = await conversations.lock_conversation(user, name)
        if held is not None and held.watermark < held.last_message_no:
            backlog = [(name, held.watermark, held.last_message_no)]
            await cancelling.own_backlog(user, backlog, max_attempts=max_attempts)
            await conversations.move_watermark(user, name, watermark=held.last_message_no)
    elif source.job_id is not None:
        for job in await jobs.get_jobs(connection, scope.tenant_id, job_ids):
            if job.user_id == scope.user_id:
                await own_waiting(connection, job)
    else:
        return 0
    return len(await jobs.cancel(connection, scope.tenant_id, job_ids, only_user=scope.user_id))


async def _messages_of_job(user: UserRows, job_id: UUID) -> list[MessageRange]:
    """The messages that a job read; none are known of one that was not imported with its user.

    Raises:
        NotFound: The user has no such job, and nothing that it taught.
    """
    try:
        job = await jobs.get_job(
            user.connection, user.scope.tenant_id, job_id, only_user=user.scope.user_id
        )
    except NotFound:
        if await storage.taught_by(user, job_id):
            return []
        raise
    if job.conversation_id is None or job.range_from is None:
        return []
    return [MessageRange(job.conversation_id, job.range_from, job.range_to)]


async def _without_job(user: UserRows, source: RollbackTarget) -> list[UUID]:
    """The jobs of a time that were not imported with their user."""
    taught = await storage.taught_between(user, source.since, source.until)
    known = await jobs.get_jobs(user.connection, user.scope.tenant_id, taught)
    here = {job.job_id for job in known if job.user_id in (None, user.scope.user_id)}
    return [job_id for job_id in taught if job_id not in here]


async def _of_jobs(
    user: UserRows,
    job_ids: Sequence[UUID],
    messages: Sequence[MessageRange],
    conversation_id: str | None = None,
) -> _SourceEffects:
    stated: dict[UUID, bool] = {}
    for each in messages:
        for memory_id, alone in (await storage.stated_by(user, each)).items():
            stated[memory_id] = stated.get(memory_id, False) or alone
    return _SourceEffects(
        job_ids=job_ids,
        messages=messages,
        statements=await statements.find(user, job_ids=job_ids, conversation_id=conversation_id),
        stated=stated,
    )


async def _but_for_hands(user: UserRows, taught: _SourceEffects) -> _SourceEffects:
    """What a source taught, but for what somebody has vouched for since.

    Who restores a memory that nothing states any more vouches for its messages, also where another
    memory stands for it. Of the source only counts what it has said since, about it or what it
    stands for.
    """
    written = await storage.written_by(user, taught.job_ids)
    found = {*taught.stated, *taught.named, *written, *taught.said_of}
    vouched = await vouched_for(user, found)
    # When it touched each of them, and by which job it said so.
    since = defaultdict[UUID, list[tuple[datetime, UUID | None]]](list)
    for memory_id, versions in written.items():
        since[memory_id] += [(at, None) for at in versions]
    for each in taught.statements:
        if each.memory_id is not None:
            since[each.memory_id].append((each.recorded_at, each.job_id))
    spared = {m for m, begin in vouched.items() if any(at <= begin for at, _ in since[m])}
    for memory_id, begin in vouched.items():
        since[memory_id] = [(at, job_id) for at, job_id in since[memory_id] if at > begin]
    begins = {memory_id: min(at for at, _ in each) for memory_id, each in since.items() if each}
    kept = vouched.keys() | (taught.stated.keys() & await superseded.above(user, vouched))
    anew: dict[UUID, Sequence[MessageRange]] = {}
    for memory_id in kept:
        stood_for = set(await superseded.standing_for(user, [memory_id]))
        if not (parts := stood_for & begins.keys()):
            continue
        begins.setdefault(memory_id, min(begins[each] for each in parts))
        # Nobody knows the messages of a job that was not imported with its user.
        anew[memory_id] = taught.messages
        if stood_for & spared:
            again = {job_id for each in parts for _, job_id in since[each] if job_id is not None}
            anew[memory_id] = [m for job_id in again for m in await _messages_of_job(user, job_id)]
    stated = {m: alone for m, alone in taught.stated.items() if m not in kept}
    named = [m for m in taught.named if m not in kept]
    return replace(
        taught,
        stated=stated,
        named=named,
        begins={**dict.fromkeys((*stated, *named)), **begins},
        anew=anew,
    )


async def _undo_merges(user: UserRows, taught: _SourceEffects, actor: str) -> list[list[Memory]]:
    """Take apart merged memories that the source made or that were made of something of it.

    Not those of whose originals it only said something afterwards. Returns the originals of each.
    """
    above = await superseded.merged_above(user, taught.begins)
    made = await storage.merged_by(user, taught.job_ids)
    return [
        await take_merge_back(user, memory_id, actor=actor, reason=REASON, share=True)
        for memory_id in dict.fromkeys([*above, *made])
    ]


async def rebuild_summary(user: UserRows, conversation_id: str) -> str | None:
    """Write the summary from the remaining jobs, or delete it: "restored", "removed" or None."""
    held = await summaries.read(user, conversation_id)
    if held.summary is None:
        return None
    said = await statements.of_summary(user, conversation_id)
    left = [each for each in said if not each.taken]
    await conversation_summary.drop_summary(user, conversation_id)
    if not left:
        return "removed"
    summary: Summary | None = None
    covers_to = 0
    for each in left:
        fields = merge_summary(
            summary,
            each.said,
            first_user_words=held.first_user_words,
            late=each.version <= covers_to,
        )
        summary = replace(held.summary, **asdict(fields))
        covers_to = max(covers_to, each.version)
    await conversation_summary.write(
        user,
        conversation_id,
        fields,
        held=replace(held, summary=None, lexical_no=None, lexical_length=0, covers_to=0),
        done_to=covers_to,
        # Its words are indexed now; its vector is back-filled.
        vectors=Vectors(wanted=()),
    )
    return "restored"
