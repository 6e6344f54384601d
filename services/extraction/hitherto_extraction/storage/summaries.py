"""Reads, writes and deletes the summaries of conversations.

Writers hold the user's row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from hitherto_extraction.storage.conversations import StoredMessage
from hitherto_extraction.storage.corpora import vectors
from hitherto_extraction.storage.corpora.summaries import SUMMARIES
from hitherto_extraction.storage.sealed_rows import opened, sealing_key, stored
from hitherto_shared.database.arrays import fields_of
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.encryption.rows import MESSAGE, SUMMARY
from hitherto_shared.models import Summary

# A conversation has UTC even if no zone was named.
_READ = """
SELECT c.time_zone, coalesce(s.covers_to, 0), s.lexical_no, coalesce(s.lexical_length, 0),
       s.title, s.summary, s.outcome, s.key_topics, s.technical_topics,
       s.followup_suggestions, s.created_at, s.updated_at,
       sealed_at(s.sealed, s.sealed_version),
       coalesce(left(f.content, 400), ''), f.message_id, f.sealed
FROM conversations AS c
LEFT JOIN LATERAL (
    SELECT g.content, g.message_id, g.sealed
    FROM messages AS g
    WHERE g.tenant_id = %(tenant_id)s AND g.user_id = %(user_id)s
      AND g.conversation_id = c.conversation_id AND g.role = 'user'
    ORDER BY g.message_no
    LIMIT 1
) AS f ON true
LEFT JOIN conversation_summaries AS s
    ON s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s
   AND s.conversation_id = c.conversation_id
WHERE c.tenant_id = %(tenant_id)s AND c.user_id = %(user_id)s
  AND c.conversation_id = %(conversation_id)s
"""

# Without a new number the words are unchanged, and so are their index entries and their vector.
_WRITE = """
INSERT INTO conversation_summaries AS held (tenant_id, user_id, conversation_id, title, summary,
    key_topics, technical_topics, outcome, followup_suggestions, covers_to, created_at, lexical_no,
    lexical_length, embedding_state, sealed, sealed_version)
SELECT tenant_id, user_id, conversation_id, %(title)s, %(summary)s, %(key_topics)s,
       %(technical_topics)s, %(outcome)s, %(followup_suggestions)s, %(covers_to)s, created_at,
       %(lexical_no)s, coalesce(%(lexical_length)s::int, 0),
       CASE WHEN %(sealed)s::bytea IS NULL THEN 'pending' ELSE 'none' END, %(sealed)s::bytea,
       coalesce(%(sealed_version)s::int, 1)
FROM conversations
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
  AND conversation_id = %(conversation_id)s
ON CONFLICT (tenant_id, user_id, conversation_id) DO UPDATE
SET title = EXCLUDED.title, summary = EXCLUDED.summary, key_topics = EXCLUDED.key_topics,
    technical_topics = EXCLUDED.technical_topics, outcome = EXCLUDED.outcome,
    followup_suggestions = EXCLUDED.followup_suggestions,
    covers_to = greatest(held.covers_to, EXCLUDED.covers_to),
    text_version = held.text_version + CASE WHEN %(reworded)s THEN 1 ELSE 0 END,
    lexical_no = CASE WHEN EXCLUDED.sealed IS NULL
                      THEN coalesce(EXCLUDED.lexical_no, held.lexical_no) END,
    lexical_length = CASE WHEN EXCLUDED.lexical_no IS NULL AND EXCLUDED.sealed IS NULL
                          THEN held.lexical_length ELSE EXCLUDED.lexical_length END,
    embedding_state = CASE WHEN EXCLUDED.sealed IS NOT NULL THEN 'none'
                           WHEN EXCLUDED.lexical_no IS NULL THEN held.embedding_state
                           ELSE 'pending' END,
    sealed = EXCLUDED.sealed, updated_at = EXCLUDED.updated_at,
    sealed_version = coalesce(%(sealed_version)s::int, held.sealed_version)
RETURNING text_version
"""

_SEALED_VERSION = """
SELECT sealed_version FROM conversation_summaries
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
  AND conversation_id = %(conversation_id)s
"""

# So that no vector is stored for a summary that is about to be deleted.
_LOCK = """
SELECT FROM conversation_summaries
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
  AND conversation_id = %(conversation_id)s
FOR UPDATE
"""

_DELETE = """
DELETE FROM conversation_summaries
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
  AND conversation_id = %(conversation_id)s
"""

# In the order of _READ.
_COLUMNS = ("title", "summary", "outcome", "key_topics", "technical_topics", "followup_suggestions")
_FIRST_CHARACTERS = 400


@dataclass(frozen=True, slots=True)
class HeldSummary:
    """What is stored about a conversation when more of it has been read.

    Attributes:
        covers_to: The highest message that the summary covers; 0 if there is none.
        lexical_no: Its number in the keyword index; None if it is not indexed.
        first_user_words: The beginning of the user's first message, for a title if there is none.
        summary: None if there is none yet.
        sealed: Whether the summary is sealed, and so not indexed; if there is none yet, whether the
            source of its title is sealed. A new one is sealed too, whatever the user wants now.
    """

    time_zone: str = "UTC"
    covers_to: int = 0
    lexical_no: int | None = None
    lexical_length: int = 0
    first_user_words: str = ""
    summary: Summary | None = None
    sealed: bool = False

    def quoting(self, messages: Iterable[StoredMessage]) -> HeldSummary:
        """The same, sealed if one of the messages is: a text that quotes sealed text is, too."""
        return replace(self, sealed=self.sealed or any(each.sealed for each in messages))


async def read(user: UserRows, conversation_id: str) -> HeldSummary:
    """What is stored about a conversation; the defaults if it does not exist."""
    row = await user.fetch_row(_READ, conversation_id=conversation_id)
    if row is None:
        return HeldSummary()
    time_zone, covers_to, lexical_no, lexical_length, *columns = row
    first_words, message_id, sealed_message = columns[9:]
    if sealed_message is not None:
        message = opened(user.scope, MESSAGE, sealed_message, conversation_id, message_id)
        first_words = message["content"][:_FIRST_CHARACTERS]
    sealed = columns[8]
    words = dict(zip(_COLUMNS, columns[:6], strict=True))
    if sealed is not None:
        words |= opened(user.scope, SUMMARY, sealed, conversation_id)
    summary = None
    if words["title"] is not None:
        summary = Summary(
            conversation_id=conversation_id,
            user_id=user.scope.user_id,
            message_count=0,
            created_at=columns[6],
            updated_at=columns[7],
            **words,
        )
    of_sealed = sealed_message if summary is None else sealed
    return HeldSummary(
        time_zone,
        covers_to,
        lexical_no,
        lexical_length,
        first_words,
        summary,
        sealed=of_sealed is not None,
    )


def summary_content(summary: Summary) -> dict[str, Any]:
    """A summary's content as JSON, for a prompt."""
    columns = fields_of(summary)
    return {name: columns[name] for name in _COLUMNS}


async def write(
    user: UserRows,
    conversation_id: str,
    fields: Mapping[str, Any],
    *,
    held: HeldSummary,
    covers_to: int,
    reworded: bool,
    lexical_no: int | None,
    lexical_length: int | None,
) -> int:
    """Store the summary of a conversation; returns the version of its words.

    `reworded` says whether the new title, summary or topics differ from `held`. `lexical_no` is its
    new number in the keyword index, after which it waits for its vector; None leaves both as they
    are. A sealed one has neither.

    Raises:
        KeyNeeded: It is to be sealed, and the key is not at hand.
    """
    key = await sealing_key(user, stays_sealed=held.sealed)
    values = {"conversation_id": conversation_id, **fields, "sealed_version": None}
    if key is not None:
        row = await user.fetch_row(_SEALED_VERSION, conversation_id=conversation_id)
        values["sealed_version"] = (row[0] if row else 1) + 1
    return int(
        await user.fetch_value(
            _WRITE,
            **{**values, **stored(key, SUMMARY, values)},
            covers_to=covers_to,
            reworded=reworded,
            lexical_no=lexical_no,
            lexical_length=lexical_length,
        )
        or 0
    )


async def lock(user: UserRows, conversation_id: str) -> None:
    """Lock the summary against storing a vector of it. The role is hitherto_removal."""
    await user.execute(_LOCK, conversation_id=conversation_id)


async def delete(user: UserRows, conversation_id: str) -> int:
    """Delete a summary with its vectors, but not its words; returns how many there were."""
    await lock(user, conversation_id)
    await vectors.delete(user, SUMMARIES, [(conversation_id, 0)])
    return (await user.execute(_DELETE, conversation_id=conversation_id)).rowcount
