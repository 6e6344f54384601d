"""Reads conversations: summaries by activity, in pages, and their messages."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from hitherto_retrieval.storage.moment import PRESENT, Moment
from hitherto_retrieval.storage.statement import Rows, Statement
from hitherto_shared.database.arrays import Texts
from hitherto_shared.models import Message, Scope, Summary

MOST_BYTES = 32 * 1024 * 1024
"""Maximum bytes of the messages of several conversations in one reply."""
SPARE = 5
"""Summaries to read beyond the wanted number, because some sealed ones may not open."""

# Conversations that have a summary, the last active first, after a named one. At another time:
# those with a summary written by then, that have not gone on since. What taught something that is
# forgotten or in quarantine takes no place, but in a snapshot of all of them.
_RECENT = """
SELECT c.conversation_id, c.user_id, c.title, c.summary, c.outcome, c.message_count, c.created_at,
       c.updated_at, c.key_topics, c.technical_topics, c.followup_suggestions, c.last_said_at,
       c.sealed_words AS sealed, CASE WHEN %(to_show)s THEN '{}' ELSE c.withheld END AS withheld,
       c.partly_until
FROM @short_conversations AS c
WHERE c.summarised_at IS NOT NULL
  AND (%(with_sealed)s OR NOT c.is_sealed)
  AND (%(known_at)s::timestamptz IS NULL OR c.summarised_at <= %(known_at)s)
  AND (%(as_of)s::timestamptz IS NULL OR c.active_at <= %(as_of)s)
  AND (NOT %(to_show)s OR c.conversation_id NOT IN (
      SELECT s.conversation_id
      FROM memories AS f
      JOIN memory_sources AS s ON s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s
           AND s.memory_id = f.memory_id
      WHERE f.tenant_id = %(tenant_id)s AND f.user_id = %(user_id)s
        AND f.status IN ('forgotten', 'quarantined')))
ORDER BY (c.conversation_id = %(first)s) DESC, c.active_at DESC, c.conversation_id DESC
LIMIT %(limit)s
"""

_BY_CONVERSATIONS = """
SELECT c.conversation_id, c.user_id, c.title, c.summary, c.outcome, c.message_count, c.created_at,
       c.updated_at, c.key_topics, c.technical_topics, c.followup_suggestions, c.last_said_at,
       c.sealed_words AS sealed, c.withheld, c.partly_until
FROM unnest(%(conversation_ids)s::text[]) WITH ORDINALITY AS k (conversation_id, place)
JOIN @short_conversations AS c ON c.conversation_id = k.conversation_id
     AND (%(with_unread)s OR c.summarised_at IS NOT NULL)
     AND (%(known_at)s::timestamptz IS NULL OR c.summarised_at <= %(known_at)s)
     AND (%(as_of)s::timestamptz IS NULL OR c.active_at <= %(as_of)s)
ORDER BY k.place
"""

# The last messages of each conversation, in the order in which they were said: the last one of
# each, then the last but one, as long as all of them together are not too large.
_MESSAGES = """
SELECT t.conversation_id, t.message_id, t.role, t.name, t.content, t.said_at, t.context_items,
       t.pending_action_ids, t.metadata, t.sealed
FROM (
    SELECT named.conversation_id, m.*,
           sum(m.bytes) OVER (ORDER BY m.from_the_end, named.place
                              ROWS UNBOUNDED PRECEDING) AS bytes_so_far
    FROM unnest(%(conversation_ids)s::text[]) WITH ORDINALITY AS named (conversation_id, place)
    CROSS JOIN LATERAL (
        SELECT g.message_id, g.role, g.name, g.content, g.said_at, g.context_items,
               g.pending_action_ids, g.metadata, g.message_no, g.sealed,
               row_number() OVER (ORDER BY g.message_no DESC) AS from_the_end,
               octet_length(g.content) + octet_length(g.metadata::text)
                   + octet_length(g.context_items::text)
                   + coalesce(octet_length(g.sealed), 0) AS bytes
        FROM messages AS g
        WHERE g.tenant_id = %(tenant_id)s AND g.user_id = %(user_id)s
          AND g.conversation_id = named.conversation_id
        ORDER BY g.message_no DESC
        LIMIT %(limit)s
    ) AS m
) AS t
WHERE %(most_bytes)s::bigint IS NULL OR t.bytes_so_far <= %(most_bytes)s
ORDER BY t.conversation_id, t.message_no
"""

# A message and the last ones before it, backwards. The message is looked up by itself: as a join,
# a plan without statistics about the user went through the conversation for each of its messages.
_MESSAGES_BEFORE = """
SELECT m.conversation_id, m.message_id, m.role, m.name, m.content, m.said_at, m.context_items,
       m.pending_action_ids, m.metadata, m.sealed
FROM messages AS m
WHERE m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s
  AND m.conversation_id = %(conversation_id)s
  AND m.message_no <= (
    SELECT b.message_no
    FROM messages AS b
    WHERE b.tenant_id = %(tenant_id)s AND b.user_id = %(user_id)s
      AND b.conversation_id = %(conversation_id)s
      AND md5(b.message_id) = md5(%(before)s) AND b.message_id = %(before)s)
ORDER BY m.message_no DESC
LIMIT %(limit)s
"""

# Conversations with a summary, and those with messages that no job has read yet. The total comes
# with an empty page, too. What went on since the first page (`since`) and has its place on pages
# that were read comes at the end, as in lists of memories.
_PAGE = """
WITH listed AS MATERIALIZED (
    SELECT c.conversation_id, c.active_at, c.arrived_at
    FROM @short_conversations AS c
    WHERE (c.summarised_at IS NOT NULL OR c.message_count > 0)
      AND (%(with_sealed)s OR NOT c.is_sealed)
      AND (%(outcomes)s::text[] IS NULL OR c.outcome = ANY(%(outcomes)s))
      AND (%(created_after)s::timestamptz IS NULL OR c.created_at >= %(created_after)s)
      AND (%(created_before)s::timestamptz IS NULL OR c.created_at < %(created_before)s)
), told AS (
    SELECT conversation_id, active_at, NULL::timestamptz AS arrived_at
    FROM listed
    WHERE %(after_arrived)s::timestamptz IS NULL
      AND (%(after_active)s::timestamptz IS NULL
           OR (active_at, conversation_id) < (%(after_active)s, %(after_id)s::text))
    UNION ALL
    SELECT conversation_id, active_at, arrived_at
    FROM listed
    WHERE arrived_at > %(since)s::timestamptz
      AND CASE WHEN %(after_arrived)s::timestamptz IS NULL
               THEN (active_at, conversation_id) >= (%(after_active)s, %(after_id)s::text)
               ELSE (arrived_at, conversation_id) > (%(after_arrived)s, %(after_id)s::text) END
), placed AS (
    SELECT conversation_id, arrived_at,
           row_number() OVER (
               ORDER BY arrived_at NULLS FIRST,
                        CASE WHEN arrived_at IS NULL THEN active_at END DESC,
                        CASE WHEN arrived_at IS NULL THEN conversation_id END DESC,
                        conversation_id) AS place
    FROM told
    ORDER BY place
    LIMIT %(limit)s
)
SELECT (SELECT count(*) FROM listed),
       c.active_at::text, p.arrived_at::text, now()::text,
       c.conversation_id, c.user_id, c.title, c.summary, c.outcome, c.message_count,
       c.created_at, c.updated_at, c.key_topics, c.technical_topics, c.followup_suggestions,
       c.last_said_at, c.sealed_words AS sealed
FROM (SELECT) AS always
LEFT JOIN placed AS p ON true
LEFT JOIN @short_conversations AS c ON c.conversation_id = p.conversation_id
ORDER BY p.place
"""


# Conversations with messages that no job owns, how many, and the time of the last one's arrival.
_PENDING = """
SELECT c.conversation_id, count(*)::int, max(c.updated_at)
FROM conversations AS c
JOIN messages AS m ON m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s
     AND m.conversation_id = c.conversation_id AND m.message_no > c.watermark
     AND m.role IN ('user', 'assistant')
WHERE c.tenant_id = %(tenant_id)s AND c.user_id = %(user_id)s
  AND c.watermark < c.last_message_no
GROUP BY c.conversation_id
"""


def recent(
    scope: Scope,
    *,
    first: str | None,
    limit: int,
    with_sealed: bool = True,
    to_show: bool = True,
    moment: Moment = PRESENT,
) -> Statement[list[Summary]]:
    """The last active conversations in short; `first` names one to put first.

    Left out are those that may repeat a memory that is forgotten or in quarantine; if they are not
    `to_show`, all are returned.
    Summaries have no versions: those that were rewritten after `moment.known_at`, or of
    conversations that continued after `moment.as_of`, are left out.
    """
    return Statement(
        _RECENT,
        scope.bind(
            first=first,
            limit=limit,
            with_sealed=with_sealed,
            to_show=to_show,
            **moment.parameters(),
        ),
        lambda rows: [Summary(*row) for row in rows],
        planned_anew=not moment.present,
    )


def last_messages(
    scope: Scope, conversation_ids: Sequence[str], *, limit: int, most_bytes: int | None = None
) -> Statement[dict[str, list[Message]]]:
    """The last `limit` messages of each conversation, in the order in which they were said.

    With `most_bytes`, as many of them as have no more bytes together.
    """

    def read(rows: Rows) -> dict[str, list[Message]]:
        found: dict[str, list[Message]] = {}
        for row in rows:
            found.setdefault(row[0], []).append(Message(*row))
        return found

    values = scope.bind(
        conversation_ids=Texts(conversation_ids), limit=limit, most_bytes=most_bytes
    )
    return Statement(_MESSAGES, values, read)


def pending(scope: Scope) -> Statement[dict[str, tuple[int, datetime]]]:
    """By conversation, its messages that no job has read, and when the last one arrived."""
    return Statement(
        _PENDING, scope.bind(), lambda rows: {row[0]: (row[1], row[2]) for row in rows}
    )


def messages_before(
    scope: Scope, conversation_id: str, *, before: str, limit: int
) -> Statement[list[Message] | None]:
    """The last `limit` messages before the message `before`, in the order in which they were said.

    None if the conversation has no such message.
    """
    return Statement(
        _MESSAGES_BEFORE,
        scope.bind(conversation_id=conversation_id, before=before, limit=limit + 1),
        lambda rows: [Message(*row) for row in reversed(rows[1:])] if rows else None,
    )


def page(
    scope: Scope,
    *,
    outcomes: Sequence[str] = (),
    created_after: datetime | None = None,
    created_before: datetime | None = None,
    with_sealed: bool,
    after: tuple[str, ...] | None,
    limit: int,
) -> Statement[tuple[list[Summary], tuple[str, ...] | None, int]]:
    """A page of conversations, the start of the next one, and the total number.

    Without `outcomes`, those of all; without `with_sealed`, none with a sealed summary.
    """
    active, last_id, since, arrived = (*(after or ()), *[""] * 4)[:4]

    def read(rows: Rows) -> tuple[list[Summary], tuple[str, ...] | None, int]:
        found = [row for row in rows if row[1] is not None]
        following = None
        if len(found) > limit:
            _, active_at, arrived_at, now, conversation_id = found[limit - 1][:5]
            following = active_at, conversation_id, since or now, arrived_at or ""
        return [Summary(*row[4:]) for row in found[:limit]], following, rows[0][0]

    values = scope.bind(
        outcomes=list(outcomes) or None,
        created_after=created_after,
        created_before=created_before,
        with_sealed=with_sealed,
        after_active=active or None,
        after_id=last_id or None,
        after_arrived=arrived or None,
        since=since or None,
        limit=limit + 1,
    )
    return Statement(_PAGE, values, read)


def by_conversations(
    scope: Scope,
    conversation_ids: Sequence[str],
    *,
    with_unread: bool = False,
    moment: Moment = PRESENT,
) -> Statement[list[Summary]]:
    """Summaries in the order of the ids; conversations without one are left out.

    With `with_unread`, conversations that no job has read yet are not. At another time, those that
    `recent` leaves out are left out as well.
    """
    return Statement(
        _BY_CONVERSATIONS,
        scope.bind(
            conversation_ids=Texts(conversation_ids),
            with_unread=with_unread,
            **moment.parameters(),
        ),
        lambda rows: [Summary(*row) for row in rows],
        planned_anew=not moment.present,
    )
