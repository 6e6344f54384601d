"""Working memory: contexts of sessions, recent items, pending actions.

Items past their expiry, by the database's clock, count as absent; a sweep deletes them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from psycopg.types.json import Jsonb

from hitherto_extraction.storage import users
from hitherto_shared.database.arrays import fields_of
from hitherto_shared.database.pool import Connection
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.models import PendingAction

ACTION_SECONDS = 24 * 3600
"""Seconds for which an action waits for its next step."""

ACTION_KEPT_DAYS = 7
"""Days for which an action is stored past its expiry, so that a late decision learns its
outcome."""

_SWEEP = 500

_WRITE_CONTEXT = """
INSERT INTO session_contexts (tenant_id, user_id, session_id, context, expires_at)
VALUES (%(tenant_id)s, %(user_id)s, %(session_id)s, %(context)s,
        clock_timestamp() + make_interval(secs => %(seconds)s))
ON CONFLICT (tenant_id, user_id, session_id) DO UPDATE
SET context = EXCLUDED.context, updated_at = EXCLUDED.updated_at, expires_at = EXCLUDED.expires_at
"""

# Expired items stay expired: only a new context starts the session again.
_RENEW_CONTEXT = """
UPDATE session_contexts
SET updated_at = statement_timestamp(),
    expires_at = statement_timestamp() + make_interval(secs => %(seconds)s)
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND session_id = %(session_id)s
  AND expires_at > statement_timestamp()
"""

_READ_CONTEXT = """
SELECT context
FROM session_contexts
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND session_id = %(session_id)s
  AND expires_at > clock_timestamp()
"""

_WRITE_RECENT = """
INSERT INTO recent_items (tenant_id, user_id, items, expires_at)
VALUES (%(tenant_id)s, %(user_id)s, %(items)s,
        clock_timestamp() + make_interval(secs => %(seconds)s))
ON CONFLICT (tenant_id, user_id) DO UPDATE
SET items = EXCLUDED.items, updated_at = EXCLUDED.updated_at, expires_at = EXCLUDED.expires_at
"""

_READ_RECENT = """
SELECT items
FROM recent_items
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND expires_at > clock_timestamp()
"""

# Ids are short enough to be read out, and so may be taken.
_ADD_ACTION = """
INSERT INTO pending_actions (tenant_id, user_id, action_id, session_id, type, params, description,
                             expires_at)
VALUES (%(tenant_id)s, %(user_id)s, %(action_id)s, %(session_id)s, %(type)s, %(params)s,
        %(description)s, statement_timestamp() + make_interval(secs => %(seconds)s))
ON CONFLICT (tenant_id, user_id, action_id) DO NOTHING
RETURNING action_id, session_id, type, params, description, state, result, created_at, expires_at
"""

_READ_ACTION = """
SELECT action_id, session_id, type, params, description,
    CASE WHEN state IN ('pending_confirmation', 'confirmed') AND expires_at <= clock_timestamp()
         THEN 'expired' ELSE state END,
    result, created_at, expires_at
FROM pending_actions
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND action_id = %(action_id)s
"""

# Of two concurrent decisions, the second waits here and then sees the first.
_LOCK_ACTION = """
SELECT FROM pending_actions
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND action_id = %(action_id)s
FOR UPDATE
"""

_MOVE_ACTION = """
UPDATE pending_actions
SET state = %(state)s, result = coalesce(%(result)s, result), updated_at = %(at)s::timestamptz,
    expires_at = CASE WHEN %(state)s::text = 'confirmed' THEN %(until)s::timestamptz
                      ELSE expires_at END
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND action_id = %(action_id)s
RETURNING action_id, session_id, type, params, description,
    CASE WHEN state IN ('pending_confirmation', 'confirmed')
              AND expires_at <= %(at)s::timestamptz
         THEN 'expired' ELSE state END,
    result, created_at, expires_at
"""

# Across users. Expiry is checked again on the row itself: it may have been renewed meanwhile.
_DROP_CONTEXTS = """
DELETE FROM session_contexts AS s
USING (SELECT tenant_id, user_id, session_id FROM session_contexts
       WHERE expires_at <= now() ORDER BY expires_at LIMIT %(limit)s) AS old
WHERE s.tenant_id = old.tenant_id AND s.user_id = old.user_id AND s.session_id = old.session_id
  AND s.expires_at <= now()
"""

_DROP_RECENT = """
DELETE FROM recent_items AS r
USING (SELECT tenant_id, user_id FROM recent_items
       WHERE expires_at <= now() ORDER BY expires_at LIMIT %(limit)s) AS old
WHERE r.tenant_id = old.tenant_id AND r.user_id = old.user_id AND r.expires_at <= now()
"""

_DROP_ACTIONS = """
DELETE FROM pending_actions AS p
USING (SELECT tenant_id, user_id, action_id FROM pending_actions
       WHERE expires_at <= now() - make_interval(days => %(kept_days)s)
       ORDER BY expires_at LIMIT %(limit)s) AS old
WHERE p.tenant_id = old.tenant_id AND p.user_id = old.user_id AND p.action_id = old.action_id
  AND p.expires_at <= now() - make_interval(days => %(kept_days)s)
"""

_DROPS = (_DROP_CONTEXTS, _DROP_RECENT, _DROP_ACTIONS)


@dataclass(frozen=True, slots=True)
class Proposal:
    """An action that an assistant proposes."""

    session_id: str
    type: str
    params: Mapping[str, Any]
    description: str


async def write_context(
    user: UserRows, session_id: str, context: Mapping[str, Any], *, seconds: int
) -> None:
    """Replace the context of a session, which then expires after `seconds`."""
    await user.execute(
        _WRITE_CONTEXT, session_id=session_id, context=Jsonb(context), seconds=seconds
    )


async def renew_context(user: UserRows, session_id: str, *, seconds: int) -> None:
    """Extend the context of a session, if it has one, to `seconds` from now."""
    await user.execute(_RENEW_CONTEXT, session_id=session_id, seconds=seconds)


async def read_context(user: UserRows, session_id: str) -> dict[str, Any]:
    """The context of a session; empty if there is none."""
    row = await user.fetch_row(_READ_CONTEXT, session_id=session_id)
    return {} if row is None else row[0]


async def write_recent(user: UserRows, items: Sequence[Mapping[str, Any]], *, seconds: int) -> None:
    """Replace the user's recent items; the list expires after `seconds`."""
    await user.execute(_WRITE_RECENT, items=Jsonb(list(items)), seconds=seconds)


async def read_recent(user: UserRows) -> list[dict[str, Any]]:
    """The user's recent items, with `id` and `relevance`."""
    row = await user.fetch_row(_READ_RECENT)
    return [] if row is None else row[0]


async def add_action(user: UserRows, action_id: str, proposal: Proposal) -> PendingAction | None:
    """Add an action that waits for confirmation; None if the user has one with this id."""
    values = fields_of(proposal) | {"params": Jsonb(proposal.params)}
    return await user.fetch_one(
        PendingAction, _ADD_ACTION, **values, action_id=action_id, seconds=ACTION_SECONDS
    )


async def read_action(user: UserRows, action_id: str) -> PendingAction | None:
    """The present state of an action."""
    return await user.fetch_one(PendingAction, _READ_ACTION, action_id=action_id)


async def lock_action(user: UserRows, action_id: str) -> PendingAction | None:
    """An action, locked until this transaction ends."""
    await user.execute(_LOCK_ACTION, action_id=action_id)
    return await read_action(user, action_id)


async def move_action(
    user: UserRows, action_id: str, *, state: str, result: Mapping[str, Any] | None
) -> PendingAction:
    """Change the state of a locked action; None keeps its result. A confirmed one waits anew."""
    at = await users.database_now(user.connection)
    [moved] = await user.fetch(
        PendingAction,
        _MOVE_ACTION,
        action_id=action_id,
        state=state,
        result=None if result is None else Jsonb(result),
        at=at,
        until=at + timedelta(seconds=ACTION_SECONDS),
    )
    return moved


async def drop_expired(connection: Connection) -> bool:
    """Delete some expired items, across users; returns whether there may be more."""
    full = False
    for statement in _DROPS:
        cursor = await connection.execute(
            statement, {"limit": _SWEEP, "kept_days": ACTION_KEPT_DAYS}
        )
        full = full or cursor.rowcount >= _SWEEP
    return full
