"""Reads whole summaries by conversation."""

from __future__ import annotations

from collections.abc import Sequence

from hitherto_retrieval.storage.passage_filters import of
from hitherto_retrieval.storage.statement import Statement
from hitherto_shared.database.arrays import Texts
from hitherto_shared.models import Scope, Summary

_BY_CONVERSATIONS = """
SELECT s.conversation_id, s.user_id, s.title, s.summary, s.outcome,
       (SELECT count(*) FROM messages AS m
        WHERE m.tenant_id = s.tenant_id AND m.user_id = s.user_id
          AND m.conversation_id = s.conversation_id),
       s.created_at, s.updated_at, s.key_topics, s.technical_topics, s.followup_suggestions,
       c.last_said_at, sealed_at(s.sealed, s.sealed_version)
FROM unnest(%(conversation_ids)s::text[]) WITH ORDINALITY AS k (conversation_id, place)
JOIN conversation_summaries AS s ON s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s
     AND s.conversation_id = k.conversation_id
JOIN conversations AS c ON c.tenant_id = %(tenant_id)s AND c.user_id = %(user_id)s
     AND c.conversation_id = k.conversation_id
ORDER BY k.place
"""


def by_conversations(scope: Scope, conversation_ids: Sequence[str]) -> Statement[list[Summary]]:
    """Summaries in the order of the ids; conversations without one are left out."""
    return Statement(
        _BY_CONVERSATIONS,
        {**of(scope), "conversation_ids": Texts(conversation_ids)},
        lambda rows: [Summary(*row) for row in rows],
    )
