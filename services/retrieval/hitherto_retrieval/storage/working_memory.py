"""Reads working memory, without items that have expired by the database's clock."""

from __future__ import annotations

from typing import Any

from hitherto_retrieval.storage.statement import Statement
from hitherto_shared.models import PendingAction, Scope

MAX_ACTIONS = 200
"""Maximum number of open actions returned; no real session has more, and one reply would not hold
them."""

_CONTEXT = """
SELECT context
FROM session_contexts
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND session_id = %(session_id)s
  AND expires_at > clock_timestamp()
"""

_RECENT = """
SELECT items
FROM recent_items
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND expires_at > clock_timestamp()
"""

_ACTIONS = """
SELECT action_id, session_id, type, params, description, state, result, created_at, expires_at
FROM (SELECT *
      FROM pending_actions
      WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND session_id = %(session_id)s
        AND state IN ('pending_confirmation', 'confirmed') AND expires_at > clock_timestamp()
      ORDER BY created_at DESC, action_id DESC
      LIMIT %(limit)s) AS newest
ORDER BY created_at, action_id
"""


def context(scope: Scope, session_id: str) -> Statement[dict[str, Any]]:
    """The free-form JSON of a session; empty if there is none."""
    return Statement(
        _CONTEXT, scope.bind(session_id=session_id), lambda rows: rows[0][0] if rows else {}
    )


def recent_items(scope: Scope) -> Statement[list[dict[str, Any]]]:
    """The user's recent items, with `id` and `relevance`."""
    return Statement(
        _RECENT,
        scope.parameters,
        lambda rows: list(rows[0][0]) if rows else [],
    )


def open_actions(scope: Scope, session_id: str) -> Statement[list[PendingAction]]:
    """The actions of a session that are not final, oldest first.

    If there are too many, the newest.
    """
    return Statement(
        _ACTIONS,
        scope.bind(session_id=session_id, limit=MAX_ACTIONS),
        lambda rows: [PendingAction(*row) for row in rows],
    )
