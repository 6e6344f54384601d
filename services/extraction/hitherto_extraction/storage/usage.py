"""Sums of the cost of work: a tenant's day against its budget, and the groups of `GetUsage`.

The ledger has one row for each day (UTC), job, stage and model: no sum is finer than that.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal

from hitherto_shared.database.arrays import fields_of
from hitherto_shared.database.pool import Connection

DIMENSIONS = ("user", "kind", "day", "model")

_SNAPSHOT = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"

_TODAY = """
SELECT coalesce(sum(cost_usd), 0), count(*),
       extract(epoch FROM (date_trunc('day', clock_timestamp() AT TIME ZONE 'UTC')
                           + interval '1 day') AT TIME ZONE 'UTC' - clock_timestamp())::float8
FROM usage_ledger
WHERE tenant_id = %(tenant_id)s AND day = (clock_timestamp() AT TIME ZONE 'UTC')::date
"""

# Across tenants. Of each, only the rows of today are read.
_TODAY_OF_ALL = """
SELECT tenants.tenant_id, coalesce(spent.usd, 0)
FROM @tenants_of(usage_ledger) AS tenants
CROSS JOIN LATERAL (
    SELECT sum(cost_usd) AS usd FROM usage_ledger AS l
    WHERE l.tenant_id = tenants.tenant_id
      AND l.day = (clock_timestamp() AT TIME ZONE 'UTC')::date) AS spent
"""

# A dimension without grouping has the same value in every row. Days count backwards: the latest is
# first. A day counts if any part of it lies between the two times.
_GROUPED = """
WITH groups AS (
    SELECT CASE WHEN %(by_day)s THEN date '9999-12-31' - day ELSE 0 END AS days_before,
           CASE WHEN %(by_user)s THEN user_id ELSE '' END COLLATE "C" AS of_user,
           CASE WHEN %(by_kind)s THEN kind ELSE '' END COLLATE "C" AS of_kind,
           CASE WHEN %(by_model)s THEN model ELSE '' END COLLATE "C" AS of_model,
           coalesce(sum(calls) FILTER (WHERE stage <> 'embedding'), 0)::bigint,
           coalesce(sum(input_tokens) FILTER (WHERE stage <> 'embedding'), 0)::bigint,
           coalesce(sum(output_tokens), 0)::bigint,
           coalesce(sum(calls) FILTER (WHERE stage = 'embedding'), 0)::bigint,
           coalesce(sum(input_tokens) FILTER (WHERE stage = 'embedding'), 0)::bigint,
           coalesce(sum(cost_usd), 0)
    FROM usage_ledger
    WHERE tenant_id = %(tenant_id)s
      AND (%(user_id)s::text IS NULL OR user_id = %(user_id)s)
      AND (%(kinds)s::text[] IS NULL OR kind = ANY(%(kinds)s))
      AND (%(since)s::timestamptz IS NULL
           OR day >= (%(since)s::timestamptz AT TIME ZONE 'UTC')::date)
      AND (%(until)s::timestamptz IS NULL
           OR day < %(until)s::timestamptz AT TIME ZONE 'UTC')
    GROUP BY 1, 2, 3, 4
)
SELECT groups.*, CASE WHEN %(by_day)s THEN date '9999-12-31' - days_before END
FROM groups
WHERE %(after)s::text[] IS NULL
   OR (days_before, of_user, of_kind, of_model)
      > ((%(after)s::text[])[1]::integer, (%(after)s::text[])[2] COLLATE "C",
         (%(after)s::text[])[3] COLLATE "C", (%(after)s::text[])[4] COLLATE "C")
ORDER BY days_before, of_user, of_kind, of_model
LIMIT %(limit)s
"""

# Across tenants. Concurrent counts wait for this transaction, and start a new row.
_TAKE_QUESTIONS = "DELETE FROM query_usage RETURNING tenant_id, model, calls, tokens"


@dataclass(frozen=True, slots=True)
class SpendingToday:
    """A tenant's spending since midnight UTC, in how many rows, and the seconds until the next."""

    usd: Decimal
    rows: int
    seconds_left: float


@dataclass(frozen=True, slots=True)
class UsageTotals:
    """The usage of calls, in the fields of `Usage`."""

    llm_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    embedding_calls: int = 0
    embedding_tokens: int = 0
    cost_usd: Decimal = Decimal(0)


@dataclass(frozen=True, slots=True)
class UsageFilter:
    """Which costs to sum; None means all."""

    user_id: str | None = None
    kinds: Sequence[str] | None = None
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class UsageGroup:
    """The cost of a group, and its place in the list; dimensions without grouping are empty."""

    user_id: str
    kind: str
    model: str
    day: date | None
    used: UsageTotals
    place: tuple[str, ...]


async def hold_still(connection: Connection) -> None:
    """Let all reads in this transaction see one moment. Must be its first statement."""
    await connection.later(_SNAPSHOT, ())


async def spent_today(connection: Connection, tenant_id: str) -> SpendingToday:
    """What a tenant has spent on the database's current day."""
    [today] = await connection.fetch(SpendingToday, _TODAY, {"tenant_id": tenant_id})
    return today


async def spent_today_by_tenant(connection: Connection) -> dict[str, Decimal]:
    """What each tenant with usage has spent on the database's day (role hitherto_maintenance)."""
    return dict(await connection.fetch_rows(_TODAY_OF_ALL, {}))


async def take_questions(connection: Connection) -> list[tuple[str, str, int, int]]:
    """Take the uncharged usage of queries out of the counts: tenant, model, calls, tokens."""
    return sorted(await connection.fetch_rows(_TAKE_QUESTIONS))


async def sum_up(
    connection: Connection,
    tenant_id: str,
    wanted: UsageFilter,
    *,
    by: Collection[str],
    after: Sequence[str] | None,
    limit: int,
) -> tuple[list[UsageGroup], bool]:
    """A page of groups, the latest day first, and whether more follow.

    `by` are some of `DIMENSIONS`; none gives one group of everything. `after` is the `place` of the
    last group of the previous page.
    """
    values = {
        "tenant_id": tenant_id,
        **fields_of(wanted),
        **{f"by_{name}": name in by for name in DIMENSIONS},
        "after": None if after is None else list(after),
        "limit": limit + 1,
    }
    found = await connection.fetch_rows(_GROUPED, values)
    groups = [
        UsageGroup(
            user_id, kind, model, day, UsageTotals(*sums), (str(days_before), user_id, kind, model)
        )
        for days_before, user_id, kind, model, *sums, day in found[:limit]
    ]
    return groups, len(found) > limit


async def total(connection: Connection, tenant_id: str, wanted: UsageFilter) -> UsageTotals:
    """The sum of everything selected."""
    groups, _ = await sum_up(connection, tenant_id, wanted, by=(), after=None, limit=1)
    return groups[0].used if groups else UsageTotals()
