"""Decay and the limit on memories: finds memories across users, and archives them user by user.

The role is hitherto_maintenance. Code that archives holds the rows of the users concerned, and the
archiving statement checks the rule again: memories used in the meantime stay.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from hitherto_extraction.storage import ledger, users
from hitherto_extraction.storage.ledger import ChangeEvent
from hitherto_shared.database.arrays import Uuids
from hitherto_shared.database.pool import Connection
from hitherto_shared.database.together import together
from hitherto_shared.models import Scope

REASONS = {
    "low_importance": "of little importance and not used for 30 days",
    "context": "context that is older than 90 days",
    "over_limit": "more memories than are kept: least important, longest unused",
}
"""By rule, as the history tells them."""

# Across users. A bounded scan of the index memories_fading, whose predicate is repeated here word
# for word: so many rows are examined, whether or not they are archived.
_LOOK = """
WITH looked AS MATERIALIZED (
    SELECT m.tenant_id, m.user_id, m.memory_id
    FROM memories AS m
    WHERE m.tenant_id = %(tenant_id)s
      AND m.status IN ('active', 'achieved') AND m.type <> 'decision'
      AND (m.importance < 0.3 OR m.type = 'context')
      AND (m.user_id, m.memory_id) > (%(after_user)s, %(after_memory)s)
    ORDER BY m.user_id, m.memory_id
    LIMIT %(limit)s
)
SELECT m.user_id, m.memory_id, coalesce(least(m.context_ends_at, m.fades_at) < %(at)s, false)
FROM looked
JOIN @memory_ages(m.user_id) AS m ON m.user_id = looked.user_id
     AND m.memory_id = looked.memory_id
ORDER BY m.user_id, m.memory_id
"""

# Across users: users with a writer at this moment are skipped, so that this statement neither waits
# for a writer nor, holding other users, makes one wait for a third; so are those being imported.
_LOCK_USERS = """
WITH free AS (
    SELECT user_id
    FROM users
    WHERE tenant_id = %(tenant_id)s AND user_id = ANY(%(user_ids)s) AND erased_at IS NULL
      AND (importing_until > now()) IS NOT TRUE
    ORDER BY user_id
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE users AS u SET revision = u.revision + %(leap)s
FROM free
WHERE u.tenant_id = %(tenant_id)s AND u.user_id = free.user_id
RETURNING u.user_id
"""

# Across users. One table per call: its transaction locks the table until it ends.
_ANALYSE_GROWN = "SELECT analyse_grown()"

# Across users. The same on each node of a cluster, whose tables are the shards, which Citus lets
# nobody lock otherwise; the coordinator may have some too. A failure's first line quotes no rows.
_ANALYSE_GROWN_SHARDS = """
SELECT nodeid AS node, success AS succeeded, split_part(result, E'\\n', 1) AS said
FROM run_command_on_all_nodes($$
    SELECT CASE set_config('citus.enable_manual_changes_to_shards', 'on', true)
           WHEN 'on' THEN hitherto.analyse_grown() END
$$)
WHERE NOT success OR result <> ''
"""

# By the rules of decay, or, with `surplus`, because there are too many.
_ARCHIVE = """
WITH kept AS @kept_versions((
    SELECT m.* FROM memories AS m JOIN @ended_by_upkeep AS f ON f.memory_id = m.memory_id
    WHERE m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s)
), mirrored AS (
    UPDATE memory_embeddings AS e SET status = 'archived'
    FROM @ended_by_upkeep AS f
    WHERE e.tenant_id = %(tenant_id)s AND e.user_id = %(user_id)s AND e.memory_id = f.memory_id
)
UPDATE memories AS m
SET version = m.version + 1, status = 'archived', job_id = %(job_id)s,
    updated_at = greatest(m.updated_at, %(at)s), expires_at = least(m.expires_at, f.ends_at)
FROM @ended_by_upkeep AS f
WHERE m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s AND m.memory_id = f.memory_id
RETURNING m.memory_id, m.version, f.status, f.rule
"""

# Across users, or for one.
_COUNT_FADING = """
SELECT CASE WHEN m.context_ends_at < %(at)s THEN 'context' ELSE 'low_importance' END, count(*)
FROM @memory_ages(m.user_id) AS m
WHERE (%(user_id)s::text IS NULL OR m.user_id = %(user_id)s)
  AND m.status IN ('active', 'achieved') AND m.type <> 'decision'
  AND (m.importance < 0.3 OR m.type = 'context')
  AND least(m.context_ends_at, m.fades_at) < %(at)s
GROUP BY 1
"""

# Across users, or for one. What a person sees of the active memories; those that decay would
# archive are not counted twice.
_COUNT_SURPLUS = """
SELECT coalesce(sum(least(greatest(shown - fading - %(most)s, 0), removable - fading)), 0)
FROM (
    SELECT m.user_id, count(*) AS shown,
           count(*) FILTER (WHERE m.type <> 'decision') AS removable,
           count(*) FILTER (WHERE m.type <> 'decision'
                              AND least(m.context_ends_at, m.fades_at) < %(at)s) AS fading
    FROM @memory_ages(m.user_id) AS m
    WHERE (%(user_id)s::text IS NULL OR m.user_id = %(user_id)s)
      AND m.status = 'active' AND (m.expires_at IS NULL OR m.expires_at > %(at)s)
    GROUP BY m.user_id
    HAVING count(*) > %(most)s) AS user_counts
"""

# Across users: a bounded scan over the users, with those above the limit marked.
_CROWDED = """
SELECT u.user_id,
       (SELECT count(*) > %(most)s FROM memories AS m
        WHERE m.tenant_id = %(tenant_id)s AND m.user_id = u.user_id AND m.status = 'active')
FROM users AS u
WHERE u.tenant_id = %(tenant_id)s AND u.user_id > %(after_user)s
ORDER BY u.user_id
LIMIT %(limit)s
"""

_SURPLUS = """
SELECT m.memory_id
FROM @memory_ages(%(user_id)s) AS m
WHERE m.status = 'active'
  AND m.type <> 'decision' AND (m.expires_at IS NULL OR m.expires_at > %(at)s)
ORDER BY m.importance, m.used_at, m.memory_id
LIMIT least(%(limit)s, greatest(0, (
    SELECT count(*) - %(most)s FROM memories AS n
    WHERE n.tenant_id = %(tenant_id)s AND n.user_id = %(user_id)s AND n.status = 'active'
      AND (n.expires_at IS NULL OR n.expires_at > %(at)s))))
"""

FIRST = UUID(int=0)
"""Before every memory."""

Named = tuple[str, UUID]
"""A memory by its user and its id."""


async def look(
    connection: Connection, tenant_id: str, *, user_id: str | None, after: Named, limit: int
) -> tuple[list[Named], Named | None]:
    """Of the next `limit` memories, of all users or of one, those to archive; and the last one.

    The scan for one user begins after a memory of theirs, or after `FIRST`. Nothing is locked:
    `archive` checks again. The last one is None if nothing was left to examine.
    """
    assert user_id in (None, after[0])
    values = {
        "tenant_id": tenant_id,
        "after_user": after[0],
        "after_memory": after[1],
        "limit": limit,
        "at": await users.database_now(connection),
    }
    rows = await connection.fetch_rows(_LOOK, values)
    # The scan for one user ends where it reaches the next one.
    found = [row for row in rows if user_id in (None, row[0])]
    last = (found[-1][0], found[-1][1]) if found else None
    return [(row[0], row[1]) for row in found if row[2]], last


async def lock_users(
    connection: Connection, tenant_id: str, user_ids: Sequence[str], *, wait: bool
) -> set[str]:
    """Become the only writer of these users' memories; returns those that could be locked.

    Without `wait`, busy users are left out. Wait for only one user at a time: a transaction that
    holds others meanwhile could deadlock.

    Raises:
        Conflict: With `wait`, the user is being imported.
    """
    assert len(user_ids) == 1 or not wait
    if wait:
        state = await users.lock_user(connection.of(Scope(tenant_id, user_ids[0])))
        users.refuse_while_imported(state)
        return set() if state is None or state.erased else {user_ids[0]}
    values = {"tenant_id": tenant_id, "user_ids": list(user_ids), "leap": users.leap()}
    return set(await connection.fetch_values(_LOCK_USERS, values))


async def archive(
    connection: Connection,
    tenant_id: str,
    memories: Sequence[Named],
    *,
    at: datetime,
    job_id: UUID,
    surplus: bool = False,
) -> dict[str, int]:
    """Archive those of `memories` to which a rule applies at `at`; returns the number by rule.

    The caller holds their users' rows, and `at` is the database's clock since. `surplus` ones are
    archived because there are too many, whatever the other rules say.
    """
    by_user: dict[str, list[UUID]] = {}
    for user_id, memory_id in memories:
        by_user.setdefault(user_id, []).append(memory_id)
    owners = [connection.of(Scope(tenant_id, user_id)) for user_id in by_user]
    archived = await together(
        connection,
        *(
            user.fetch_rows(
                _ARCHIVE, memory_ids=Uuids(those), at=at, surplus=surplus, job_id=job_id
            )
            for user, those in zip(owners, by_user.values(), strict=True)
        ),
    )
    counts = Counter[str]()
    for user, rows in zip(owners, archived, strict=True):
        counts.update(rule for *_, rule in rows)
        events = [
            ChangeEvent(
                "archived", version, REASONS[rule], memory_id, old_status=status,
                new_status="archived",
            )
            for memory_id, version, status, rule in rows
        ]  # fmt: skip
        await ledger.record(user, job_id, events, actor="decay", quotes=False)
    return dict(counts)


async def find_crowded(
    connection: Connection, tenant_id: str, *, most: int, after: str, limit: int
) -> tuple[list[str], str | None]:
    """Among the next `limit` users those with more than `most` active memories, and the last one.

    None as the last one is the end.
    """
    rows = await connection.fetch_rows(
        _CROWDED, {"tenant_id": tenant_id, "most": most, "after_user": after, "limit": limit}
    )
    return [row[0] for row in rows if row[1]], rows[-1][0] if rows else None


async def find_surplus(
    connection: Connection, tenant_id: str, user_id: str, *, most: int, at: datetime, limit: int
) -> list[Named]:
    """The user's least important, longest unused memories beyond `most`; never decisions."""
    values = {"tenant_id": tenant_id, "user_id": user_id, "most": most, "at": at, "limit": limit}
    return [(user_id, each) for each in await connection.fetch_values(_SURPLUS, values)]


async def count(
    connection: Connection, tenant_id: str, *, user_id: str | None, most: int
) -> dict[str, int]:
    """How many memories each rule would archive now; `most` 0 means no limit."""
    values: dict[str, Any] = {
        "tenant_id": tenant_id,
        "user_id": user_id,
        "most": most,
        "at": await users.database_now(connection),
    }
    found: dict[str, int] = dict(await connection.fetch_rows(_COUNT_FADING, values))
    if most:
        found["over_limit"] = int(await connection.fetch_value(_COUNT_SURPLUS, values) or 0)
    return found


@dataclass(frozen=True, slots=True)
class OfNode:
    """What a node of a cluster did: the table that it analysed, or why it failed."""

    node: int
    succeeded: bool
    said: str


async def analyse_grown(connection: Connection) -> str | None:
    """Analyse a table that has doubled since its last analysis; its name, None if none has."""
    table: str | None = await connection.fetch_value(_ANALYSE_GROWN)
    return table


async def analyse_grown_shards(connection: Connection) -> list[OfNode]:
    """The same for a shard on every node of a cluster; nothing of a node where none has."""
    if not connection.is_distributed:
        return []
    return await connection.fetch(OfNode, _ANALYSE_GROWN_SHARDS)
