"""The result of one model call; writes its profile, its summary and the observed preferences.

Each function works in the transaction of a caller that holds the user's row.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from hitherto_extraction.pipeline import behaviour, conversation_summary, trust
from hitherto_extraction.pipeline.answer import Answer
from hitherto_extraction.pipeline.evidence import Witnesses
from hitherto_extraction.pipeline.profile import (
    FIELDS,
    MAX_VALUES,
    count_values,
    merge_profile,
)
from hitherto_extraction.pipeline.profile_support import supported
from hitherto_extraction.pipeline.reply_vectors import Vectors
from hitherto_extraction.pipeline.result import Result
from hitherto_extraction.pipeline.source_statements import of_profile, of_summary
from hitherto_extraction.pipeline.summarise import SummaryFields
from hitherto_extraction.prices import Charge
from hitherto_extraction.queue.claims import Claim
from hitherto_extraction.storage import conversations, ledger, preferences, profiles, statements
from hitherto_extraction.storage.statements import NewStatement
from hitherto_extraction.storage.summaries import HeldSummary
from hitherto_shared.database.pool import Connection
from hitherto_shared.models import Profile
from hitherto_shared.offloading import beside_loop


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """The result of one model call, and the progress of the job with it.

    `concluded` is the stored summary with what the reply makes of it, if that was needed before.
    `sampled`: the new memories are checked; see `quality_sample`.
    """

    answer: Answer
    witnesses: Witnesses
    local_memories: Mapping[str, UUID]
    vectors: Vectors
    time_zone: str
    charges: Sequence[Charge]
    result: Result
    done_to: int
    last: bool
    concluded: tuple[HeldSummary, SummaryFields] | None = None
    sampled: bool = False


async def write_profile(
    connection: Connection,
    held: Claim,
    outcome: BatchOutcome,
    result: Result,
    known: tuple[Profile, dict[str, str]],
    *,
    encrypts: bool,
) -> Result:
    """Merge the user's statements about themselves; nobody else's words change a profile."""
    scope = held.scope
    profile, said_at = known
    evidence = outcome.witnesses.for_change(outcome.answer.profile_source_ids)
    patch = outcome.answer.profile or {}
    given = {name: patch.get(name) for name in FIELDS}
    values = count_values(given)
    if evidence is None or not evidence.trusted or not 0 < values <= MAX_VALUES:
        await profiles.mark_extracted(connection, scope)
        return result.refusing_profile(1 if values else 0)
    heard = outcome.witnesses.heard(evidence)
    kept, suspect = await asyncio.to_thread(trust.without_overrides, given)
    said, unsupported = await asyncio.to_thread(supported, kept, profile, heard)
    result = result.refusing_profile(suspect + unsupported)
    change = await asyncio.to_thread(merge_profile, profile, said_at, said, evidence.said_at)
    stated = of_profile(said, evidence, change.profile.version, made_version=bool(change.changed))
    await statements.record(connection, scope, [_placed(held, stated, sealed=encrypts)])
    if change.changed:
        await profiles.write_profile(
            connection,
            scope,
            profile,
            change.profile,
            change.said_at,
            actor=ledger.ACTOR,
            job_id=held.job_id,
            changed=change.changed,
        )
    else:
        await profiles.mark_extracted(connection, scope)
    return replace(
        result, profile_version=change.profile.version if change.changed else result.profile_version
    ).refusing_profile(change.dropped)


async def write_behaviour(
    connection: Connection, held: Claim, outcome: BatchOutcome, at: datetime
) -> None:
    """Learn from how the user wrote, whatever the contents."""
    scope = held.scope
    placed = await conversations.knows_time_zone(connection, scope, held.conversation)
    said = outcome.witnesses.messages
    seen = await beside_loop(
        sum(len(message.content) for message in said),
        behaviour.observe,
        said,
        outcome.time_zone if placed else None,
    )
    if seen:
        known = await preferences.read_preferences(connection, scope)
        await preferences.write_preferences(connection, scope, behaviour.learn(known, seen, at))


async def write_summary(
    connection: Connection,
    held: Claim,
    outcome: BatchOutcome,
    held_summary: HeldSummary,
    *,
    encrypts: bool,
) -> None:
    """Merge the summary field by field; a conversation that was read always has one."""
    if outcome.concluded is not None and outcome.concluded[0] == held_summary:
        concluded = outcome.concluded[1]
    else:
        concluded = await conversation_summary.conclude(
            held_summary, outcome.answer.summary, done_to=outcome.done_to
        )
    await conversation_summary.write(
        connection,
        held.scope,
        held.conversation,
        concluded,
        held=held_summary,
        done_to=outcome.done_to,
        # Text from before encryption was turned on is about to be sealed too.
        messages=() if encrypts else outcome.witnesses.messages,
        vectors=outcome.vectors,
        sealed=_seals_summary(outcome, held_summary, encrypts=encrypts),
    )


def summary_statement(
    held: Claim, outcome: BatchOutcome, held_summary: HeldSummary, *, encrypts: bool
) -> NewStatement:
    """What the reply said in the summary."""
    stated = of_summary(outcome.answer.summary, outcome.witnesses, outcome.done_to)
    sealed = _seals_summary(outcome, held_summary, encrypts=encrypts)
    return _placed(held, stated, sealed=sealed)


def _seals_summary(outcome: BatchOutcome, held_summary: HeldSummary, *, encrypts: bool) -> bool:
    """Text that quotes sealed text is sealed, even if the user has turned encryption off."""
    quoted = (each.sealed for each in outcome.witnesses.messages)
    return encrypts or held_summary.sealed or any(quoted)


def _placed(held: Claim, stated: NewStatement, *, sealed: bool) -> NewStatement:
    return replace(stated, conversation_id=held.conversation, job_id=held.job_id, sealed=sealed)
