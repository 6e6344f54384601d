"""The source words of memories, as far as the messages still exist."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from uuid import UUID

from hitherto_shared.database.pool import Connection
from hitherto_shared.models import Scope, SourceRef

# For a user with encryption on, messages are sealed or about to be: no index gets their words.
_READ = """
SELECT memory_id, conversation_id, message_id, content
FROM (
    SELECT s.memory_id, s.conversation_id, s.message_id, left(m.content, %(characters)s) AS content,
           row_number() OVER (PARTITION BY s.memory_id ORDER BY m.said_at DESC, m.message_no DESC)
               AS place
    FROM memory_sources AS s
    JOIN messages AS m ON m.tenant_id = s.tenant_id AND m.user_id = s.user_id
         AND m.conversation_id = s.conversation_id AND md5(m.message_id) = md5(s.message_id)
         AND m.message_id = s.message_id AND m.sealed IS NULL
    WHERE s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s
      AND s.memory_id = ANY(%(memory_ids)s)
) AS said
WHERE place <= %(newest)s
ORDER BY memory_id, place
"""


async def read_words(
    connection: Connection,
    scope: Scope,
    memory_ids: Sequence[UUID],
    *,
    newest: int,
    characters: int,
) -> dict[UUID, list[tuple[SourceRef, str]]]:
    """The `newest` messages behind each memory, newest first, each cut at `characters`.

    Sealed ones are left out: an index of their words would reveal them.
    """
    cursor = await connection.execute(
        _READ, scope.bind(memory_ids=list(memory_ids), newest=newest, characters=characters)
    )
    found: defaultdict[UUID, list[tuple[SourceRef, str]]] = defaultdict(list)
    for memory_id, conversation_id, message_id, said in await cursor.fetchall():
        found[memory_id].append((SourceRef(conversation_id, message_id), said))
    return dict(found)
