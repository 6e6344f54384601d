"""The words that memories came from, as far as the messages are still held."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from uuid import UUID

from recollect_extraction.storage.sealed_rows import opened
from recollect_shared.database.pool import Connection
from recollect_shared.encryption.places import message_place
from recollect_shared.encryption.sealed import UserKey
from recollect_shared.models import Scope, SourceRef

# Of a user who encrypts what was said is sealed, or is about to be: no index gets its words.
_READ = """
SELECT memory_id, conversation_id, message_id, content, sealed
FROM (
    SELECT s.memory_id, s.conversation_id, s.message_id, left(m.content, %(characters)s) AS content,
           m.sealed,
           row_number() OVER (PARTITION BY s.memory_id ORDER BY m.said_at DESC, m.message_no DESC)
               AS place
    FROM memory_sources AS s
    JOIN messages AS m ON m.tenant_id = s.tenant_id AND m.user_id = s.user_id
         AND m.conversation_id = s.conversation_id AND md5(m.message_id) = md5(s.message_id)
         AND m.message_id = s.message_id AND m.sealed IS NULL
    WHERE s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s
      AND s.memory_id = ANY(%(memory_ids)s) AND (m.sealed IS NULL OR %(sealed_too)s)
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
    key: UserKey | None = None,
) -> dict[UUID, list[tuple[SourceRef, str]]]:
    """The `newest` messages behind each memory, newest first, each cut at `characters`.

    Those that are sealed are left out unless there is a `key`. Whoever makes an index of the words
    has none: it would tell in clear what is sealed.
    """
    cursor = await connection.execute(
        _READ,
        {
            "tenant_id": scope.tenant_id,
            "user_id": scope.user_id,
            "memory_ids": list(memory_ids),
            "newest": newest,
            "characters": characters,
            "sealed_too": key is not None,
        },
    )
    found: defaultdict[UUID, list[tuple[SourceRef, str]]] = defaultdict(list)
    for memory_id, conversation_id, message_id, content, sealed in await cursor.fetchall():
        said = content
        if sealed is not None:
            words = opened(key, sealed, message_place(conversation_id, message_id))
            said = words["content"][:characters]
        found[memory_id].append((SourceRef(conversation_id, message_id), said))
    return dict(found)
