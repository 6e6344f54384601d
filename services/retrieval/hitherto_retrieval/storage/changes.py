"""Changes in their order, with the places up to which there are, and are no longer, any."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hitherto_retrieval.storage.statement import Rows, Statement
from hitherto_shared.changes import ToldChange

# One statement, so that the last place belongs to the same moment as the changes. Of somebody who
# is erased, or has memory switched off, nothing is told. No place means behind every one: with a
# comparison to NULL, Citus cannot plan this.
_OF_USER = """
SELECT p.given, p.deleted, pg_is_in_recovery(), c.user_id, c.position, c.memory_id, c.action,
       c.version, c.old_status, c.new_status, c.related_memory_id, c.job_id, c.recorded_at
FROM change_positions AS p
LEFT JOIN LATERAL (
    SELECT c.user_id, c.position, c.memory_id, c.action, c.version, c.old_status, c.new_status,
           c.related_memory_id, c.job_id, c.recorded_at
    FROM memory_changes AS c
    JOIN users AS u ON u.tenant_id = %(tenant_id)s AND u.user_id = %(user_id)s
         AND u.erased_at IS NULL AND coalesce(u.memory_enabled, %(memory_enabled)s)
    WHERE c.tenant_id = %(tenant_id)s AND c.user_id = %(user_id)s
      AND c.position > coalesce(%(after)s::bigint, 9223372036854775807)
    ORDER BY c.position
    LIMIT %(limit)s
) AS c ON true
ORDER BY c.position
"""

# Across users.
_OF_TENANT = """
SELECT p.given, p.deleted, pg_is_in_recovery(), c.user_id, c.position, c.memory_id, c.action,
       c.version, c.old_status, c.new_status, c.related_memory_id, c.job_id, c.recorded_at
FROM change_positions AS p
LEFT JOIN LATERAL (
    SELECT c.user_id, c.position, c.memory_id, c.action, c.version, c.old_status, c.new_status,
           c.related_memory_id, c.job_id, c.recorded_at
    FROM memory_changes AS c
    JOIN users AS u ON u.tenant_id = c.tenant_id AND u.user_id = c.user_id
         AND u.erased_at IS NULL AND coalesce(u.memory_enabled, %(memory_enabled)s)
    WHERE c.tenant_id = %(tenant_id)s
      AND c.position > coalesce(%(after)s::bigint, 9223372036854775807)
    ORDER BY c.position
    LIMIT %(limit)s
) AS c ON true
ORDER BY c.position
"""

_BEFORE_CHANGE = 3
"""The number of columns before those of the change, which are NULL if there is none."""


@dataclass(frozen=True, slots=True)
class ReadChanges:
    """Some changes after a place.

    Attributes:
        upto: The place up to which these are all.
        deleted: The last place whose change was deleted for its age.
        more: Whether there are further changes already.
        standby: Whether a standby said so, which may lag behind.
    """

    changes: Sequence[ToldChange]
    upto: int
    deleted: int
    more: bool
    standby: bool


def after_place(
    tenant_id: str, user_id: str | None, after: int | None, *, memory_enabled: bool, limit: int
) -> Statement[ReadChanges]:
    """The first `limit` changes after a place, of a user or of everybody in the tenant.

    `after` None: none, with the last place.
    """

    def read(rows: Rows) -> ReadChanges:
        given, deleted, standby = rows[0][:_BEFORE_CHANGE]
        found = [ToldChange(*row[_BEFORE_CHANGE:]) for row in rows if row[_BEFORE_CHANGE]]
        more = len(found) == limit
        return ReadChanges(found, found[-1].position if more else given, deleted, more, standby)

    values = {
        "tenant_id": tenant_id,
        "after": after,
        "memory_enabled": memory_enabled,
        "limit": limit,
    }
    if user_id is None:
        return Statement(_OF_TENANT, values, read)
    return Statement(_OF_USER, values | {"user_id": user_id}, read)
