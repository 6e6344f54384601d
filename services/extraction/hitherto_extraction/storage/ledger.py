"""The history of memories and profiles, and the usage of models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from hitherto_extraction.prices import Charge
from hitherto_extraction.storage import users
from hitherto_shared import metrics
from hitherto_shared.database.arrays import Integers, Uuids, fields_of, records
from hitherto_shared.database.pool import Connection
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.identifiers import uuid7
from hitherto_shared.models import Scope

ACTOR = "extraction"
NOBODY = ""
"""The user for what is charged to a whole tenant."""

# Rows of one statement are read in their order too.
_RECORD = """
INSERT INTO history (tenant_id, user_id, event_id, recorded_at, subject, memory_id, action, version,
                     actor, reason, job_id, before, after, related_memory_id)
SELECT u.tenant_id, u.user_id, event.event_id,
       statement_timestamp() + make_interval(secs => 1e-6 * event.place), event.subject,
       event.memory_id, event.action, event.version, %(actor)s, event.reason, %(job_id)s,
       event.before, event.after, event.related
FROM @its_user AS u
CROSS JOIN json_to_recordset(%(rows)s) AS event (place integer, event_id uuid, subject text,
     memory_id uuid, action text, version integer, reason text, before jsonb, after jsonb,
     related uuid)
"""

# Whatever the history records is told to those who wait for changes, in the same transaction.
_TELL = """
INSERT INTO memory_changes (tenant_id, user_id, memory_id, action, version, old_status, new_status,
                            related_memory_id, job_id)
SELECT %(tenant_id)s, %(user_id)s, memory_id, action, version,
       CASE WHEN new_status IS DISTINCT FROM old_status THEN old_status END,
       CASE WHEN new_status IS DISTINCT FROM old_status THEN new_status END, related, %(job_id)s
FROM json_to_recordset(%(rows)s) AS event (memory_id uuid, action text, version integer,
     related uuid, old_status text, new_status text)
"""

# Events after or before which their memory is sealed, by memory and version.
_SEALED = """
SELECT e.memory_id, e.version
FROM unnest(%(memory_ids)s::uuid[], %(versions)s::int[]) AS e (memory_id, version)
WHERE EXISTS (
        SELECT FROM memories AS m
        WHERE m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s
          AND m.memory_id = e.memory_id AND m.sealed IS NOT NULL)
   OR EXISTS (
        SELECT FROM memory_versions AS v
        WHERE v.tenant_id = %(tenant_id)s AND v.user_id = %(user_id)s
          AND v.memory_id = e.memory_id AND v.version = e.version - 1 AND v.sealed IS NOT NULL)
"""

_CHARGE = """
INSERT INTO usage_ledger (tenant_id, user_id, day, job_id, stage, model, kind, calls,
                          input_tokens, output_tokens, cost_usd)
SELECT %(tenant_id)s, %(user_id)s, (now() AT TIME ZONE 'UTC')::date, %(job_id)s, stage, model,
       %(kind)s, sum(calls), sum(input_tokens), sum(output_tokens), sum(cost_usd)
FROM json_to_recordset(%(rows)s) AS charge (stage text, model text, calls integer,
     input_tokens bigint, output_tokens bigint, cost_usd numeric)
GROUP BY stage, model
ON CONFLICT (tenant_id, user_id, day, job_id, stage, model) DO UPDATE
SET calls = usage_ledger.calls + EXCLUDED.calls,
    input_tokens = usage_ledger.input_tokens + EXCLUDED.input_tokens,
    output_tokens = usage_ledger.output_tokens + EXCLUDED.output_tokens,
    cost_usd = usage_ledger.cost_usd + EXCLUDED.cost_usd
"""

# Changes of the user's memories by models in one day, by the database's clock. A memory that had
# ended already, and ends earlier because of late words, is none of them; nor is what was forgotten
# as soon as it was stated, or a doubt, which the reconciliation records as an update, or what was
# joined without a model, which no job does.
_CHANGES_OF_A_DAY = """
SELECT count(*) FILTER (WHERE action <> 'updated'),
       count(*) FILTER (WHERE action = 'updated' AND actor = 'extraction')
FROM history AS h
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
  AND actor IN ('extraction', 'reconciliation') AND subject = 'memory'
  AND (actor <> 'reconciliation' OR job_id IS NOT NULL)
  AND action IN ('contradicted', 'achieved', 'updated', 'superseded', 'forgotten')
  AND recorded_at > clock_timestamp() - interval '24 hours' AND version > 1
  AND (SELECT v.status FROM memory_versions AS v
       WHERE v.tenant_id = %(tenant_id)s AND v.user_id = %(user_id)s
         AND v.memory_id = h.memory_id AND v.version = h.version - 1)
      IS DISTINCT FROM 'contradicted'
"""


@dataclass(frozen=True, slots=True)
class ChangeEvent:
    """One change, which made a version that holds its contents, and may concern another memory.

    `entities` are the names of a memory before and after, if they changed: no version holds them.
    """

    action: str
    version: int
    reason: str
    memory_id: UUID | None = None
    old_status: str | None = None
    new_status: str | None = None
    related: UUID | None = None
    entities: tuple[Sequence[str], Sequence[str]] | None = None
    subject: str = "memory"  # or "profile"


async def record(
    user: UserRows,
    job_id: UUID | None,
    events: Sequence[ChangeEvent],
    *,
    actor: str = ACTOR,
    quotes: bool = True,
) -> None:
    """Append to the history what `actor`, a job or the subject of a credential, has done.

    Without the words of memories that are sealed, or were until now: a reason may quote them,
    unless it is one of a fixed few (`quotes`). Memories are written before their events.
    """
    if not events:
        return
    secret = await _sealed(user, events) if quotes else set()
    rows = [
        {
            **fields_of(event),
            "place": place,
            "event_id": uuid7(),
            "reason": "" if hidden else event.reason,
            **({} if hidden or event.entities is None else _named(event.entities)),
        }
        for place, event in enumerate(events)
        for hidden in [(event.memory_id, event.version) in secret]
    ]
    told = records(rows)
    await user.later(_RECORD, actor=actor, job_id=job_id, rows=told)
    await user.later(_TELL, job_id=job_id, rows=told)


def _named(entities: tuple[Sequence[str], Sequence[str]]) -> dict[str, dict[str, list[str]]]:
    before, after = entities
    return {"before": {"entities": [*before]}, "after": {"entities": [*after]}}


async def _sealed(user: UserRows, events: Sequence[ChangeEvent]) -> set[tuple[UUID | None, int]]:
    """The events, by memory and version, of which no words may be told."""
    about = [(each.memory_id, each.version) for each in events if each.memory_id is not None]
    if not about or (await users.encryption_of(user)).key_id is None:
        return set()
    rows = await user.fetch_rows(
        _SEALED,
        memory_ids=Uuids(memory_id for memory_id, _ in about),
        versions=Integers(version for _, version in about),
    )
    return {(row[0], row[1]) for row in rows}


async def changes_of_a_day(user: UserRows) -> tuple[int, int]:
    """The number of memories that models closed and updated in the last 24 hours."""
    [(closed, updated)] = await user.fetch_rows(_CHANGES_OF_A_DAY)
    return closed, updated


async def payer(user: UserRows) -> UserRows:
    """Keep out the user's erasure; returns the user to charge: of one who is gone, the tenant."""
    state = await users.keep(user)
    known = state is not None and not state.erased
    return user if known else user.connection.of(replace(user.scope, user_id=NOBODY))


async def charge(user: UserRows, job_id: UUID, kind: str, charges: Sequence[Charge]) -> None:
    """Add to today's usage of a job of `kind`."""
    if not charges:
        return
    rows = records(list(map(fields_of, charges)))
    await user.later(_CHARGE, job_id=job_id, kind=kind, rows=rows)
    user.connection.once_committed(lambda: _count(user.scope.tenant_id, charges))


async def charge_tenant(
    connection: Connection, tenant_id: str, job_id: UUID, kind: str, charges: Sequence[Charge]
) -> None:
    """`charge` for work about no user in particular."""
    await charge(connection.of(Scope(tenant_id, NOBODY)), job_id, kind, charges)


def _count(tenant_id: str, charges: Sequence[Charge]) -> None:
    tenant = metrics.tenant_label(tenant_id)
    for item in charges:
        metrics.CHARGED_USD.labels(item.stage, tenant).inc(float(item.cost_usd))
        metrics.CHARGED_TOKENS.labels(item.stage, "input", tenant).inc(item.input_tokens)
        metrics.CHARGED_TOKENS.labels(item.stage, "output", tenant).inc(item.output_tokens)
