"""Ends jobs that must not continue, and removes deleted input from others.

Each function runs on the caller's connection and so in its transaction. The caller holds the rows
of the user or of the conversations, and notifies workers.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from hitherto_extraction.queue import jobs
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.identifiers import uuid7

# What a job for appended messages would have taken had it started.
_OWN_BACKLOG = """
UPDATE jobs AS j
SET range_from = c.watermark + 1, range_to = c.last_message_no, done_to = c.watermark
FROM unnest(%(conversations)s::text[], %(watermarks)s::int[], %(lasts)s::int[])
    AS c (conversation_id, watermark, last_message_no)
WHERE j.tenant_id = %(tenant_id)s AND j.user_id = %(user_id)s AND j.kind = 'memory-extraction'
  AND j.range_to IS NULL AND j.state IN ('queued', 'failed', 'running')
  AND c.conversation_id = j.conversation_id
RETURNING j.conversation_id
"""

# Messages without a job get one that was cancelled, which a repeated submission then finds.
_OWN_REST = """
INSERT INTO jobs (job_id, tenant_id, user_id, kind, state, conversation_id, range_from, range_to,
                  done_to, max_attempts, finished_at, error, error_reason)
VALUES (%(job_id)s, %(tenant_id)s, %(user_id)s, 'memory-extraction', 'cancelled',
        %(conversation_id)s, %(range_from)s, %(range_to)s, %(range_from)s::int - 1,
        %(max_attempts)s, clock_timestamp(), 'CANCELLED_BY_CALLER', 'CANCELLED_BY_CALLER')
"""

# Of a conversation, or of all.
_LEARNING = """
SELECT job_id
FROM jobs
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
  AND kind IN ('memory-extraction', 'consolidation', 'reconciliation')
  AND state IN ('queued', 'failed', 'running')
  AND (%(conversation_id)s::text IS NULL OR conversation_id = %(conversation_id)s)
"""

# Jobs that ended without success count as done: run again, they find nothing left to read.
_COUNT_AS_DONE = """
UPDATE jobs SET done_to = range_to
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND kind = 'memory-extraction'
  AND state IN ('dead', 'cancelled') AND done_to < range_to
"""

# A job without a range owns nothing and cannot be run again: the numbers it knew may be assigned to
# the messages of a new conversation of the same name.
_DISOWN = """
UPDATE jobs SET range_from = NULL, range_to = NULL, done_to = NULL
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
  AND conversation_id = %(conversation_id)s
"""

_JOBS_THAT_READ = """
SELECT DISTINCT j.job_id
FROM unnest(%(conversations)s::text[], %(message_nos)s::int[]) AS gone (conversation_id, message_no)
JOIN jobs AS j ON j.tenant_id = %(tenant_id)s AND j.user_id = %(user_id)s
     AND j.conversation_id = gone.conversation_id
     AND gone.message_no BETWEEN j.range_from AND j.range_to
"""

# A worker that has read the messages may still be waiting for the model's reply about them. The job
# loses its claim and starts again with what is left, without counting the attempt. Waiting jobs are
# updated too, so that none is claimed before the messages are gone.
_TAKE_BACK = """
UPDATE jobs
SET state = CASE state WHEN 'running' THEN 'queued' ELSE state END,
    attempt = CASE state WHEN 'running' THEN greatest(attempt - 1, 0) ELSE attempt END,
    run_after = CASE state WHEN 'running' THEN clock_timestamp() ELSE run_after END,
    lease_until = NULL, claim_no = claim_no + 1
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND job_id = ANY(%(job_ids)s)
  AND state IN ('queued', 'failed', 'running')
"""

_DELETE_JOBS = """
DELETE FROM jobs
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
  AND job_id = ANY (ARRAY(SELECT job_id FROM jobs
                          WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
                          LIMIT %(limit)s))
RETURNING job_id
"""


async def own_backlog(
    user: UserRows, backlog: Sequence[tuple[str, int, int]], *, max_attempts: int
) -> None:
    """Assign every accepted message without a job to a job, so that none is learnt from later.

    `backlog` names conversations with the last message learnt from and the last one accepted.
    RetryJob learns from them in at most `max_attempts`, unless `cancel_learning` follows.
    """
    conversations, watermarks, lasts = (
        [list(column) for column in zip(*backlog, strict=True)] if backlog else ([], [], [])
    )
    owned = set(
        await user.fetch_values(
            _OWN_BACKLOG, conversations=conversations, watermarks=watermarks, lasts=lasts
        )
    )
    await user.later_for_each(
        _OWN_REST,
        [
            {
                "job_id": uuid7(),
                "conversation_id": conversation_id,
                "range_from": watermark + 1,
                "range_to": last,
                "max_attempts": max_attempts,
            }
            for conversation_id, watermark, last in backlog
            if conversation_id not in owned
        ],
    )


async def cancel_learning(user: UserRows) -> None:
    """Cancel the user's learning and merging jobs for good."""
    await _cancel_open(user, None, "CANCELLED_BY_CALLER")
    await user.later(_COUNT_AS_DONE)


async def cancel_of_conversation(user: UserRows, conversation_id: str) -> int:
    """Cancel the open jobs of a conversation; returns how many were open."""
    return await _cancel_open(user, conversation_id, "CONVERSATION_DELETED")


async def _cancel_open(user: UserRows, conversation_id: str | None, reason: str) -> int:
    open_jobs = await user.fetch_values(_LEARNING, conversation_id=conversation_id)
    tenant_id = user.scope.tenant_id
    return len(await jobs.cancel(user.connection, tenant_id, open_jobs, reason=reason))


async def disown(user: UserRows, conversation_id: str) -> None:
    """Keep the jobs of a deleted conversation from being run again; their ranges are gone."""
    await user.execute(_DISOWN, conversation_id=conversation_id)


async def take_back(user: UserRows, messages: Sequence[tuple[str, int]]) -> list[UUID]:
    """Restart the jobs that read these messages, without them; returns those jobs.

    Each message is given by its conversation and its number there.
    """
    job_ids: list[UUID] = await user.fetch_values(
        _JOBS_THAT_READ,
        conversations=[conversation_id for conversation_id, _ in messages],
        message_nos=[message_no for _, message_no in messages],
    )
    await user.execute(_TAKE_BACK, job_ids=job_ids)
    return job_ids


async def remove_some(user: UserRows, *, limit: int) -> list[UUID]:
    """Delete up to `limit` jobs of the user; returns their ids."""
    return await user.fetch_values(_DELETE_JOBS, limit=limit)
