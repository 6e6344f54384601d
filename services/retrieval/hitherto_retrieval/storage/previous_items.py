"""Reads what the last answer of a conversation was based on, for follow-up questions (F4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from hitherto_retrieval.storage.candidate import Key, Kind
from hitherto_retrieval.storage.statement import Rows, Statement
from hitherto_shared.database.arrays import Texts, Uuids
from hitherto_shared.models import Scope

_LAST_ANSWER = """
SELECT item ->> 'id', coalesce((item ->> 'relevance')::float8, 0), answer.message_id, answer.sealed
FROM (SELECT context_items, message_id, sealed
      FROM messages
      WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
        AND conversation_id = %(conversation_id)s AND role = 'assistant'
      ORDER BY message_no DESC
      LIMIT 1) AS answer
LEFT JOIN LATERAL jsonb_array_elements(answer.context_items) WITH ORDINALITY AS i (item, place)
     ON true
ORDER BY i.place
"""

# Callers name items of any kind by a bare id. A message id is unique only within its conversation:
# this conversation's message takes precedence, then the newest.
_KNOWN = """
SELECT 1, m.memory_id::text, m.memory_id, NULL::text, NULL::int
FROM memories AS m
WHERE m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s
  AND m.memory_id = ANY(%(uuids)s::uuid[])
  AND m.status IN ('active', 'achieved') AND (m.expires_at IS NULL OR m.expires_at > now())
UNION ALL
SELECT 2, c.chunk_id::text, c.chunk_id, NULL, NULL
FROM document_chunks AS c
WHERE c.tenant_id = %(tenant_id)s AND c.user_id = %(user_id)s
  AND c.chunk_id = ANY(%(uuids)s::uuid[])
  AND c.chunk_id NOT IN (
      SELECT chunk_id FROM @expired_chunks AS e)
UNION ALL
SELECT 3, c.document_id::text, c.chunk_id, NULL, NULL
FROM document_chunks AS c
WHERE c.tenant_id = %(tenant_id)s AND c.user_id = %(user_id)s
  AND c.document_id = ANY(%(uuids)s::uuid[]) AND c.position = 0
  AND c.chunk_id NOT IN (
      SELECT chunk_id FROM @expired_chunks AS e)
UNION ALL
SELECT 4, s.conversation_id, NULL, s.conversation_id, NULL
FROM conversation_summaries AS s
WHERE s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s
  AND s.conversation_id = ANY(%(ids)s::text[])
UNION ALL
(SELECT DISTINCT ON (m.message_id) 5, m.message_id, NULL::uuid, m.conversation_id, m.message_no
 FROM messages AS m
 WHERE m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s
   AND md5(m.message_id) = ANY(ARRAY(SELECT md5(id) FROM unnest(%(ids)s::text[]) AS g (id)))
   AND m.message_id = ANY(%(ids)s::text[])
   AND m.role IN ('user', 'assistant')
 ORDER BY m.message_id, m.conversation_id = %(conversation_id)s DESC, m.said_at DESC,
          m.conversation_id DESC)
"""
_KINDS: dict[int, Kind] = {1: "memory", 2: "document", 3: "document", 4: "summary", 5: "message"}


@dataclass(frozen=True, slots=True)
class LastAnswer:
    """What the last answer of a conversation was based on.

    Attributes:
        named: Ids and relevance as submitted; 0 where none was given.
        message_id: The answer itself; empty if the assistant has said nothing.
        sealed: Its text and sources, for a user with encryption on; `named` is then empty.
    """

    named: Sequence[tuple[str, float]] = field(default_factory=list)
    message_id: str = ""
    sealed: bytes | None = None


PreviousItem = tuple[Kind, Key]
"""The item behind an id: its kind and its key."""


def context_items_of_last_answer(scope: Scope, conversation_id: str) -> Statement[LastAnswer]:
    """What the assistant's last message was based on, as submitted."""

    def read(rows: Rows) -> LastAnswer:
        if not rows:
            return LastAnswer()
        named = [(row[0], row[1]) for row in rows if row[0] is not None]
        return LastAnswer(named, rows[0][2], rows[0][3])

    return Statement(_LAST_ANSWER, scope.bind(conversation_id=conversation_id), read)


def known(
    scope: Scope, conversation_id: str, ids: Sequence[str]
) -> Statement[dict[str, PreviousItem]]:
    """The items behind ids: the user's current memories, chunks, documents and so on.

    A document resolves to its first chunk, a conversation to its summary. Other ids are left out.

    Args:
        scope: The user.
        conversation_id: The conversation that named the ids; its messages take precedence.
        ids: Any text.
    """
    uuids = {text: value for text in ids if (value := _uuid(text)) is not None}

    def read(rows: Rows) -> dict[str, PreviousItem]:
        found: dict[str, PreviousItem] = {}
        for order, text, uuid, conversation, message_no in sorted(rows, key=lambda row: row[0]):
            key: Key = uuid or (conversation if message_no is None else (conversation, message_no))
            found.setdefault(text, (_KINDS[order], key))
        meant = {text: found.get(str(uuids.get(text)), found.get(text)) for text in ids}
        return {text: item for text, item in meant.items() if item is not None}

    return Statement(
        _KNOWN,
        scope.bind(conversation_id=conversation_id, ids=Texts(ids), uuids=Uuids(uuids.values())),
        read,
    )


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
