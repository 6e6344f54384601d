"""The index entries of summaries: their numbers in the keyword index, and their vectors.

Code that assigns a number holds the user's row.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pgvector import HalfVector

from hitherto_shared.database.lean import later
from hitherto_shared.database.pool import Connection
from hitherto_shared.embeddings.protocol import Vector
from hitherto_shared.models import Scope
from hitherto_shared.text.passages import MAX_EMBEDDED, summary_text

# Only if its words are still those that were embedded.
_WRITE_VECTORS = """
INSERT INTO summary_embeddings (tenant_id, user_id, conversation_id, model, dimensions,
                                text_version, embedding)
SELECT s.tenant_id, s.user_id, s.conversation_id, %(model)s, %(dimensions)s, s.text_version,
       new.embedding
FROM unnest(%(tenants)s::text[], %(users)s::text[], %(conversations)s::text[],
            %(text_versions)s::int[], %(vectors)b::halfvec[])
    AS new (tenant_id, user_id, conversation_id, text_version, embedding)
JOIN conversation_summaries AS s ON s.tenant_id = new.tenant_id AND s.user_id = new.user_id
     AND s.conversation_id = new.conversation_id AND s.text_version = new.text_version
JOIN embedding_models AS m ON m.model = %(model)s AND m.dimensions = %(dimensions)s
WHERE s.sealed IS NULL
ORDER BY s.tenant_id, s.user_id, s.conversation_id
FOR KEY SHARE OF s
ON CONFLICT (tenant_id, user_id, conversation_id, model) DO UPDATE
SET embedding = EXCLUDED.embedding, text_version = EXCLUDED.text_version
"""

# Run after the vectors are inserted: their foreign key locks the model's row, so that no change of
# the active model comes in between, and an earlier one is seen here.
_SETTLE = """
UPDATE conversation_summaries AS s SET embedding_state = %(state)s
FROM unnest(%(tenants)s::text[], %(users)s::text[], %(conversations)s::text[],
            %(text_versions)s::int[]) AS done (tenant_id, user_id, conversation_id, text_version)
WHERE s.tenant_id = done.tenant_id AND s.user_id = done.user_id
  AND s.conversation_id = done.conversation_id AND s.text_version = done.text_version
  AND s.embedding_state = 'pending'
  AND EXISTS (SELECT FROM embedding_models WHERE active AND model = %(model)s)
"""

# Across users: summaries from before the index existed.
_FIND_LEFT = """
SELECT s.tenant_id, s.user_id, s.conversation_id
FROM conversation_summaries AS s
JOIN users AS u ON u.tenant_id = s.tenant_id AND u.user_id = s.user_id AND u.erased_at IS NULL
WHERE s.lexical_no IS NULL AND s.sealed IS NULL
ORDER BY s.updated_at
LIMIT %(limit)s
"""

_UNINDEXED = """
SELECT tenant_id, user_id, conversation_id, text_version, title, summary, key_topics,
       technical_topics
FROM conversation_summaries
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
  AND conversation_id = ANY(%(conversations)s) AND lexical_no IS NULL
  AND sealed IS NULL
"""

_NUMBER = """
UPDATE conversation_summaries AS s
SET lexical_no = new.lexical_no, lexical_length = new.lexical_length, embedding_state = 'pending'
FROM unnest(%(conversations)s::text[], %(lexical_nos)s::int[], %(lexical_lengths)s::int[])
    AS new (conversation_id, lexical_no, lexical_length)
WHERE s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s
  AND s.conversation_id = new.conversation_id
"""

# Across users.
_FIND_PENDING = """
SELECT tenant_id, user_id, conversation_id, text_version, title, summary, key_topics,
       technical_topics
FROM conversation_summaries
WHERE embedding_state = 'pending' AND NOT tenant_id = ANY(%(without)s)
ORDER BY updated_at
LIMIT %(limit)s
"""

_INDEXED = """
SELECT tenant_id, user_id, conversation_id, text_version, title, summary, key_topics,
       technical_topics, lexical_no, lexical_length
FROM conversation_summaries
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
  AND conversation_id = %(conversation_id)s AND lexical_no IS NOT NULL
"""

_DELETE_VECTORS = """
DELETE FROM summary_embeddings
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
  AND conversation_id = %(conversation_id)s
"""


@dataclass(frozen=True, slots=True)
class SummaryWords:
    """A summary of any user with its words and their version."""

    tenant_id: str
    user_id: str
    conversation_id: str
    text_version: int
    title: str
    summary: str
    key_topics: Sequence[str]
    technical_topics: Sequence[str]
    lexical_no: int | None = None
    lexical_length: int = 0

    @property
    def text_id(self) -> tuple[str, str, str, int]:
        """Identifies these words among waiting texts."""
        return self.tenant_id, self.user_id, self.conversation_id, self.text_version

    @property
    def text(self) -> str:
        """The indexed text."""
        return summary_text(self.title, self.summary, self.key_topics, self.technical_topics)

    @property
    def texts(self) -> list[str]:
        """The texts to embed."""
        return [self.text[:MAX_EMBEDDED]]


async def read_indexed(
    connection: Connection, scope: Scope, conversation_id: str
) -> SummaryWords | None:
    """The summary of a conversation with its words, if it is in the keyword index.

    Sealed ones are not, so no key is needed.
    """
    cursor = await connection.execute(_INDEXED, _key(scope, conversation_id))
    row = await cursor.fetchone()
    return None if row is None else SummaryWords(*row)


async def write_vectors(
    connection: Connection,
    vectors: Mapping[tuple[str, str, str, int], Vector],
    *,
    model: str,
) -> None:
    """Store vectors of summaries of any user, identified by `SummaryWords.text_id`.

    Vectors of words that have changed since, or of an unknown model, are skipped.
    """
    if not vectors:
        return
    await later(
        connection,
        _WRITE_VECTORS,
        {
            **_of_anybody(vectors),
            "model": model,
            "dimensions": len(next(iter(vectors.values()))),
            "vectors": [HalfVector(vector) for vector in vectors.values()],
        },
    )


async def settle(
    connection: Connection,
    summaries: Collection[tuple[str, str, str, int]],
    *,
    model: str,
    state: str,
) -> int:
    """Mark waiting summaries as `stored` or `refused`, if `model` is still active.

    Returns how many were marked.
    """
    if not summaries:
        return 0
    values = {**_of_anybody(summaries), "model": model, "state": state}
    return (await connection.execute(_SETTLE, values)).rowcount


async def find_left(connection: Connection, *, limit: int) -> list[tuple[Scope, str]]:
    """Conversations whose summaries are not in the keyword index, oldest first.

    The role is hitherto_maintenance.
    """
    cursor = await connection.execute(_FIND_LEFT, {"limit": limit})
    return [(Scope(row[0], row[1]), row[2]) for row in await cursor.fetchall()]


async def unindexed(
    connection: Connection, scope: Scope, conversation_ids: Sequence[str]
) -> list[SummaryWords]:
    """Those of the conversations' summaries that have no number yet."""
    cursor = await connection.execute(
        _UNINDEXED, {**scope.parameters, "conversations": list(conversation_ids)}
    )
    return [SummaryWords(*row) for row in await cursor.fetchall()]


async def number(
    connection: Connection, scope: Scope, numbered: Mapping[str, tuple[int, int]]
) -> None:
    """Assign summaries their number and length in the keyword index.

    They wait for their vectors.
    """
    await later(
        connection,
        _NUMBER,
        {
            **scope.parameters,
            "conversations": list(numbered),
            "lexical_nos": [lexical_no for lexical_no, _ in numbered.values()],
            "lexical_lengths": [length for _, length in numbered.values()],
        },
    )


async def find_pending(
    connection: Connection, *, limit: int, without: Collection[str] = ()
) -> list[SummaryWords]:
    """Summaries that wait for a vector, oldest first. The role is hitherto_maintenance."""
    cursor = await connection.execute(_FIND_PENDING, {"limit": limit, "without": list(without)})
    return [SummaryWords(*row) for row in await cursor.fetchall()]


async def delete_vectors(connection: Connection, scope: Scope, conversation_id: str) -> None:
    """Delete the vectors of a summary, of every model. The role is hitherto_removal."""
    await later(connection, _DELETE_VECTORS, _key(scope, conversation_id))


def _key(scope: Scope, conversation_id: str) -> dict[str, Any]:
    return {**scope.parameters, "conversation_id": conversation_id}


def _of_anybody(summaries: Collection[tuple[str, str, str, int]]) -> dict[str, Any]:
    return {
        "tenants": [tenant_id for tenant_id, _, _, _ in summaries],
        "users": [user_id for _, user_id, _, _ in summaries],
        "conversations": [conversation_id for _, _, conversation_id, _ in summaries],
        "text_versions": [text_version for _, _, _, text_version in summaries],
    }
