"""The state of forgotten and archived memories before that."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from hitherto_shared.database.pool import Connection
from hitherto_shared.models import CURRENT_STATUSES, Scope

# Its replacement counts only while it exists.
_BEFORE = """
SELECT v.status, v.expires_at, s.memory_id, s.status
FROM memory_versions AS v
LEFT JOIN memories AS s ON s.tenant_id = v.tenant_id AND s.user_id = v.user_id
     AND s.memory_id = v.superseded_by
WHERE v.tenant_id = %(tenant_id)s AND v.user_id = %(user_id)s AND v.memory_id = %(memory_id)s
  AND v.status NOT IN ('forgotten', 'archived')
ORDER BY v.version DESC
LIMIT 1
"""


_SAYING = (*CURRENT_STATUSES, "quarantined", "superseded")


@dataclass(frozen=True, slots=True)
class EarlierVersion:
    """The last version that was neither forgotten nor archived."""

    status: str
    expires_at: datetime | None = None
    superseded_by: UUID | None = None


async def before_it_lapsed(connection: Connection, scope: Scope, memory_id: UUID) -> EarlierVersion:
    """The earlier state of a forgotten or archived memory; ACTIVE if no version tells.

    One that was merged into a memory without remaining content was ACTIVE before that.
    """
    row = await connection.fetch_row(_BEFORE, scope.bind(memory_id=memory_id))
    if row is None:
        return EarlierVersion("active")
    status, expires_at, successor, standing = row
    if status == "superseded" and standing not in _SAYING:
        return EarlierVersion("active", expires_at)
    return EarlierVersion(status, expires_at, successor)
