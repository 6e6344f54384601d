"""Reads what surrounds messages: the adjacent messages, and the memories learnt from them.

Rankings raise the score of a message by its neighbours and by the memories learnt from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Self
from uuid import UUID

from hitherto_retrieval.storage import message_candidates
from hitherto_retrieval.storage.candidate import Candidate, MessageKey
from hitherto_retrieval.storage.item_query import ItemQuery
from hitherto_retrieval.storage.messages import columns_of
from hitherto_retrieval.storage.statement import Rows, Statement
from hitherto_shared.database.arrays import Uuids
from hitherto_shared.models import Scope

# Distances are counted in turns, as the rankings count them: 0 between adjacent messages of one
# speaker, else 1, and 1 more for each number that is missing in between. The limit never
# cuts anything off: it has Postgres read a range of numbers, and not the whole conversation.
_AROUND = """
WITH given AS (
    SELECT conversation_id, message_no
    FROM unnest(%(conversation_ids)s::text[], %(message_nos)s::int[])
        AS g (conversation_id, message_no)
), near AS (
    SELECT given.conversation_id, given.message_no AS given_no, m.message_no,
           CASE WHEN m.message_no = 1 + lag(m.message_no) OVER in_order
                     AND m.role = lag(m.role) OVER in_order
                     AND m.name = lag(m.name) OVER in_order
                     AND m.role IN ('user', 'assistant')
                THEN 0
                ELSE m.message_no - lag(m.message_no) OVER in_order
           END AS step
    FROM given
    CROSS JOIN LATERAL (
        SELECT message_no, role, name
        FROM messages
        WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
          AND conversation_id = given.conversation_id
          AND message_no BETWEEN given.message_no - %(farthest)s::int
                             AND given.message_no + %(farthest)s::int
        ORDER BY message_no
        LIMIT 2 * %(farthest)s::int + 1) AS m
    WINDOW in_order AS (
        PARTITION BY given.conversation_id, given.message_no ORDER BY m.message_no)
), placed AS (
    SELECT conversation_id, given_no, message_no,
           coalesce(sum(step) OVER (
               PARTITION BY conversation_id, given_no ORDER BY message_no), 0) AS turn
    FROM near
), measured AS (
    SELECT conversation_id, message_no,
           turn - max(turn) FILTER (WHERE message_no = given_no)
                      OVER (PARTITION BY conversation_id, given_no) AS distance
    FROM placed
), pool AS (
    SELECT conversation_id, message_no FROM measured WHERE abs(distance) <= %(turns)s::int
    EXCEPT
    SELECT conversation_id, message_no FROM given
)
SELECT m.*
FROM pool AS p
JOIN @compared_messages AS m
    ON m.conversation_id = p.conversation_id AND m.message_no = p.message_no
"""

# Ids are compared by their digests, which are indexed, and then by themselves.
_SOURCES = """
SELECT s.memory_id, m.conversation_id, m.message_no
FROM memory_sources AS s
JOIN messages AS m ON m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s
     AND m.conversation_id = s.conversation_id
     AND md5(m.message_id) = md5(s.message_id) AND m.message_id = s.message_id
WHERE s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s
  AND s.memory_id = ANY(%(memory_ids)s::uuid[])
ORDER BY s.memory_id, m.conversation_id, m.message_no
"""

# What holds in place of memories that have ended, if that is known in words and has not expired.
_INSTEAD = """
SELECT ended.memory_id, left(instead.content, 300)
FROM memories AS ended
JOIN memories AS instead ON instead.tenant_id = %(tenant_id)s AND instead.user_id = %(user_id)s
     AND instead.memory_id = ended.superseded_by AND instead.status IN ('active', 'achieved')
     AND (instead.expires_at IS NULL OR instead.expires_at > now()) AND instead.content <> ''
WHERE ended.tenant_id = %(tenant_id)s AND ended.user_id = %(user_id)s
  AND ended.memory_id = ANY(%(memory_ids)s::uuid[])
"""

# Messages are looked up by their keys before anything is joined. Conditions on ids and on their
# digests count as if each were rarer than the other: joined as one, all sources of the user were
# compared with each of the messages, with statistics too.
_FACTS = """
WITH said AS MATERIALIZED (
    SELECT g.conversation_id, g.message_no, m.message_id
    FROM unnest(%(conversation_ids)s::text[], %(message_nos)s::int[])
        AS g (conversation_id, message_no)
    CROSS JOIN LATERAL (
        SELECT message_id FROM messages
        WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
          AND conversation_id = g.conversation_id AND message_no = g.message_no
        LIMIT 1) AS m
)
SELECT said.conversation_id, said.message_no,
       max((SELECT -(e.embedding <#> %(vector)s::halfvec)
            FROM memory_embeddings AS e
            WHERE e.tenant_id = %(tenant_id)s AND e.user_id = %(user_id)s
              AND e.memory_id = f.memory_id AND e.model = %(model)s
              AND e.text_version = f.text_version)),
       array_agg(f.lexical_no)
FROM said
JOIN memory_sources AS s ON s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s
     AND md5(s.conversation_id) = md5(said.conversation_id)
     AND md5(s.message_id) = md5(said.message_id)
     AND s.conversation_id = said.conversation_id AND s.message_id = said.message_id
JOIN memories AS f ON f.tenant_id = %(tenant_id)s AND f.user_id = %(user_id)s
     AND f.memory_id = s.memory_id
WHERE f.status IN ('active', 'achieved') AND (f.expires_at IS NULL OR f.expires_at > now())
GROUP BY said.conversation_id, said.message_no
"""

# Of each message: whether a memory of it may not be shown, until when a contradicted one held, and
# what holds in its place. A reply may repeat what it answers: of a message that
# is not the user's, also whether a memory of what was said before it in its exchange may not be
# shown. An exchange begins after the last thing that the assistant had said before the user spoke.
# Only so many numbers are looked at, and the limits have Postgres read these, and not the whole
# conversation.
_CAVEATS = """
WITH given AS (
    SELECT conversation_id, message_no
    FROM unnest(%(conversation_ids)s::text[], %(message_nos)s::int[])
        AS g (conversation_id, message_no)
), told AS (
    SELECT conversation_id, message_no, message_no AS told_no FROM given
    UNION ALL
    SELECT g.conversation_id, g.message_no, m.message_no
    FROM given AS g
    JOIN messages AS reply ON reply.tenant_id = %(tenant_id)s AND reply.user_id = %(user_id)s
         AND reply.conversation_id = g.conversation_id AND reply.message_no = g.message_no
         AND reply.role <> 'user'
    CROSS JOIN LATERAL (
        SELECT coalesce(
            (SELECT message_no + 1 FROM messages
             WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
               AND conversation_id = g.conversation_id AND role = 'assistant'
               AND message_no >= g.message_no - %(exchange)s::int
               AND message_no < (
                   SELECT message_no FROM messages
                   WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
                     AND conversation_id = g.conversation_id AND role = 'user'
                     AND message_no >= g.message_no - %(exchange)s::int
                     AND message_no < g.message_no
                   ORDER BY message_no DESC
                   LIMIT 1)
             ORDER BY message_no DESC
             LIMIT 1),
            g.message_no - %(exchange)s::int) AS message_no
        LIMIT 1) AS first
    CROSS JOIN LATERAL (
        SELECT message_no FROM messages
        WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
          AND conversation_id = g.conversation_id
          AND message_no >= first.message_no AND message_no < g.message_no
        ORDER BY message_no
        LIMIT %(exchange)s::int) AS m
)
SELECT t.conversation_id, t.message_no, bool_or(f.status <> 'contradicted'), min(ended.valid_to),
       (array_agg(left(instead.content, 300) ORDER BY ended.valid_to, instead.memory_id)
            FILTER (WHERE instead.content <> ''))[1]
FROM told AS t
CROSS JOIN LATERAL @learnt_from_message(t.conversation_id, t.told_no) AS f
LEFT JOIN memories AS ended ON ended.tenant_id = %(tenant_id)s AND ended.user_id = %(user_id)s
     AND ended.memory_id = f.memory_id AND ended.status = 'contradicted'
LEFT JOIN memories AS instead ON instead.tenant_id = %(tenant_id)s AND instead.user_id = %(user_id)s
     AND instead.memory_id = ended.superseded_by AND instead.status IN ('active', 'achieved')
     AND (instead.expires_at IS NULL OR instead.expires_at > now())
WHERE f.status IN ('quarantined', 'forgotten')
   OR (f.status = 'contradicted' AND t.told_no = t.message_no)
GROUP BY t.conversation_id, t.message_no
"""

# What tools returned, and what the assistant said while it used them, may stand in between.
_ANSWERED = """
SELECT g.conversation_id, g.message_no, asked.message_no
FROM unnest(%(conversation_ids)s::text[], %(message_nos)s::int[]) AS g (conversation_id, message_no)
CROSS JOIN LATERAL (
    SELECT message_no FROM messages
    WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
      AND conversation_id = g.conversation_id AND role = 'user'
      AND message_no >= g.message_no - %(exchange)s::int AND message_no < g.message_no
    ORDER BY message_no DESC
    LIMIT 1) AS asked
"""

EXCHANGE = 100
"""How far back an exchange is read, in messages."""


@dataclass(frozen=True, slots=True)
class MessageFlags:
    """What a prompt must know of messages, from the memories learnt from them.

    Attributes:
        withheld: The messages that are not shown: a memory of theirs is quarantined or forgotten,
            or they reply to such a message, whose words a reply repeats.
        until: Until when a memory of theirs holds, or held, that a newer one contradicts.
        instead: The beginning of the memory that holds in its place, if it is known in words.
    """

    withheld: frozenset[MessageKey] = frozenset()
    until: Mapping[MessageKey, datetime] = field(default_factory=dict)
    instead: Mapping[MessageKey, str] = field(default_factory=dict)

    @classmethod
    def of(cls, rows: Rows) -> MessageFlags:
        """From rows of conversation, number, whether it is withheld, its end, what is instead."""
        return cls(
            frozenset((row[0], row[1]) for row in rows if row[2]),
            {(row[0], row[1]): row[3] for row in rows if row[3] is not None},
            {(row[0], row[1]): row[4] for row in rows if row[4]},
        )

    def with_replies(self, said: Iterable[tuple[MessageKey, str]]) -> Self:
        """The same, with the replies to what is withheld.

        Args:
            said: All messages with their roles, in the order of their keys.
        """
        withheld = set(self.withheld)
        if not withheld:
            return self
        conversation: str | None = None
        told: int | None = None
        answered = False
        for key, role in said:
            if key[0] != conversation or (role == "user" and answered):
                conversation, told, answered = key[0], None, False
            if role != "user" and told is not None and key[1] - told <= EXCHANGE:
                withheld.add(key)
            if key in self.withheld:
                told = key[1]
            answered = answered or role == "assistant"
        return replace(self, withheld=frozenset(withheld))


# Not frozen, for the same reason as candidates.
@dataclass(slots=True)
class Facts:
    """The current memories learnt from a message.

    Attributes:
        cosine: Of the nearest of them; None if none has a vector.
        lexical_nos: Their numbers in the keyword index of memories.
    """

    cosine: float | None
    lexical_nos: Sequence[int]


def around(
    query: ItemQuery, keys: Sequence[MessageKey], *, turns: int, farthest: int
) -> Statement[list[Candidate]]:
    """User and assistant messages in the turns around given messages.

    Consecutive messages of one speaker are one turn. The given messages are not included; each
    other message is returned once, unordered. They are at most `turns` away (0: in the same turn)
    and `farthest` message numbers.
    """
    return Statement(
        _AROUND,
        {**query.parameters(), **columns_of(keys), "turns": turns, "farthest": farthest},
        lambda rows: message_candidates.candidates(rows, query.bm25),
    )


def sources_of(scope: Scope, memory_ids: Sequence[UUID]) -> Statement[dict[UUID, list[MessageKey]]]:
    """The messages that memories came from.

    Memories whose messages are all gone are left out.
    """

    def read(rows: Rows) -> dict[UUID, list[MessageKey]]:
        found: dict[UUID, list[MessageKey]] = {}
        for memory_id, conversation_id, message_no in rows:
            found.setdefault(memory_id, []).append((conversation_id, message_no))
        return found

    return Statement(_SOURCES, {**scope.parameters, "memory_ids": Uuids(memory_ids)}, read)


def facts_about(query: ItemQuery, keys: Sequence[MessageKey]) -> Statement[dict[MessageKey, Facts]]:
    """What was learnt from each message; messages without memories are left out."""
    return Statement(
        _FACTS,
        {**query.parameters(), **columns_of(keys)},
        lambda rows: {(row[0], row[1]): Facts(row[2], row[3]) for row in rows},
    )


def instead_of(scope: Scope, memory_ids: Sequence[UUID]) -> Statement[dict[UUID, str]]:
    """The beginnings of the memories that hold in place of those that have ended."""
    return Statement(
        _INSTEAD,
        {**scope.parameters, "memory_ids": Uuids(memory_ids)},
        lambda rows: {row[0]: row[1] for row in rows},
    )


def caveats(scope: Scope, keys: Sequence[MessageKey]) -> Statement[MessageFlags]:
    """What a prompt must know of these messages."""
    return Statement(
        _CAVEATS,
        {**scope.parameters, **columns_of(keys), "exchange": EXCHANGE},
        MessageFlags.of,
    )


def answered(scope: Scope, keys: Sequence[MessageKey]) -> Statement[Mapping[MessageKey, int]]:
    """The number of the user's last message before each message, which a reply answers."""
    return Statement(
        _ANSWERED,
        {**scope.parameters, **columns_of(keys), "exchange": EXCHANGE},
        lambda rows: {(row[0], row[1]): row[2] for row in rows},
    )
