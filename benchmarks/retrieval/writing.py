"""Fills the database with people as the service would have written them, and with copies of them.

Written, by COPY, are all rows that reading looks at: of each user the row with the statistics of
the keyword index, profile, preferences, entities, conversations with messages and summaries,
memories with their vectors, the vectors of the words behind them, sources, access counters, and the
keyword indexes of memories, messages and summaries. History, usage and jobs are left out. All rows
of a user stand together, as those of one import do.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import psycopg
from pgvector import HalfVector
from pgvector.psycopg import register_vector
from psycopg.types.json import Jsonb

from benchmarks.retrieval.person import (
    Person,
    SyntheticConversation,
    SyntheticMemory,
    SyntheticMessage,
    conversations_of,
)
from benchmarks.retrieval.wording import vector
from benchmarks.words import DIMENSIONS
from hitherto_shared.auth.principal import DEFAULT_TENANT
from hitherto_shared.config import DEFAULT_EMBEDDING_MODEL as MODEL
from hitherto_shared.text.normalise import fold
from hitherto_shared.text.terms import count_terms

TENANT = DEFAULT_TENANT
SEGMENT = 256
"""Postings per row, as the schema's CHECK has it."""

Connection = psycopg.Connection[tuple[Any, ...]]
Row = tuple[Any, ...]
Rows = tuple[str, str, Iterable[Row]]
"""A table, its columns after tenant and user with their types, and the rows."""
Posting = tuple[str, int, list[int], list[int], list[int]]
"""Term, segment, lexical numbers, frequencies, lengths."""

_INDEXED = "lexical_no int4, lexical_length int4, embedding_state text"
_POSTINGS = "term text, segment int4, lexical_nos int4[], frequencies int2[], lengths int2[]"
_VECTOR = "model text, dimensions int4, embedding halfvec"

_MODEL = """
INSERT INTO embedding_models (model, dimensions, active, activated_at)
VALUES (%s, %s, true, clock_timestamp())
"""

# Of the tables with rows of users, in the order in which rows refer to each other. The last part of
# an id, which is random, is made anew for each copy: ids still sort by time.
_TABLES = (
    "users",
    "profiles",
    "profile_versions",
    "preferences",
    "entities",
    "conversations",
    "messages",
    "conversation_summaries",
    "memories",
    "memory_embeddings",
    "memory_source_embeddings",
    "memory_sources",
    "memory_access",
    "postings",
    "entity_mentions",
    "message_embeddings",
    "summary_embeddings",
    "passage_postings",
    "passage_statistics",
)
_WRITTEN_COLUMNS = """
SELECT column_name
FROM information_schema.columns
WHERE table_schema = 'hitherto' AND table_name = %s
  AND is_generated = 'NEVER' AND is_identity = 'NO'
ORDER BY ordinal_position
"""
_NEW = {
    "user_id": "%(user_id)s",
    "memory_id": "overlay({}::text PLACING substr(md5(%(user_id)s || {}), 1, 12) FROM 25)::uuid",
    "entity_id": "md5(%(user_id)s || {})::uuid",
}


def connect(superuser_conninfo: str) -> Connection:
    """An administrator's connection that writes as the owner, without looking up references."""
    connection = psycopg.connect(superuser_conninfo, autocommit=True)
    connection.execute("SET search_path = hitherto, public")
    # Every row is right by construction; the owner alone could not say so.
    connection.execute("SET session_replication_role = replica")
    connection.execute("SET ROLE hitherto_owner")
    register_vector(connection)
    return connection


def load(
    connection: Connection, people: Iterable[Person], loaded: Callable[[Person], None]
) -> None:
    """Register the embedding model and write people, one after the other.

    Args:
        connection: From `connect`.
        people: Whom to write. Nobody's data is kept longer than its turn, if this is a generator.
        loaded: Is told after each of them.
    """
    connection.execute(_MODEL, [MODEL, DIMENSIONS])
    for person in people:
        with connection.transaction():
            _write(connection, person)
        loaded(person)


def _write(connection: Connection, person: Person) -> None:
    """Write all rows of one person."""
    conversations = conversations_of(person)
    for table, columns, rows in chain(
        _user(person),
        _conversations(conversations),
        _messages(person, conversations),
        _memories(person),
        _entities(person),
    ):
        named = [column.strip().split(" ") for column in columns.split(",")]
        names = ["tenant_id", "user_id", *(name for name, _ in named)]
        statement = f"COPY {table} ({', '.join(names)}) FROM STDIN WITH (FORMAT BINARY)"
        with connection.cursor() as cursor, cursor.copy(statement.encode()) as copy:
            copy.set_types(["text", "text", *(kind for _, kind in named)])
            for row in rows:
                copy.write_row((TENANT, person.user_id, *row))


def _user(person: Person) -> Iterator[Rows]:
    count, terms = person.statistics
    topics = sorted({tag for memory in person.learnt[:50] for tag in memory.tags})[:4]
    facts = {"personal": {"location": person.learnt[0].content}}
    summary = person.learnt[-1].content
    profile = {"summary": summary, "current_projects": topics, "facts": facts}
    columns = "audit_key bytea, last_lexical_no int4, lexical_documents int4, lexical_terms int8"
    yield "users", columns, [(os.urandom(32), count, count, terms)]
    columns = "department text, summary text, current_projects text[], facts jsonb"
    yield "profiles", columns, [("engineering", summary, topics, Jsonb(facts))]
    columns = "version int4, profile jsonb, actor text"
    yield "profile_versions", columns, [(1, Jsonb(profile), "benchmark")]
    columns = "type text, key text, value jsonb, confidence float8"
    yield "preferences", columns, (("topic", topic, Jsonb(True), 0.9) for topic in topics)


def _conversations(conversations: Sequence[SyntheticConversation]) -> Iterator[Rows]:
    columns = (
        "conversation_id text, created_at timestamptz, updated_at timestamptz, "
        "ended_at timestamptz, last_said_at timestamptz, last_message_no int4, watermark int4"
    )
    rows: Iterable[Row] = (
        (
            each.conversation_id,
            each.messages[0].at,
            *(each.messages[-1].at,) * 3,
            *(len(each.messages),) * 2,
        )
        for each in conversations
    )
    yield "conversations", columns, rows
    terms = [count_terms(each.text) for each in conversations]
    columns = (
        "conversation_id text, title text, summary text, key_topics text[], outcome text, "
        f"covers_to int4, created_at timestamptz, updated_at timestamptz, {_INDEXED}"
    )
    rows = (
        (
            *(each.conversation_id, each.title, each.summary, list(each.topics), "resolved"),
            *(len(each.messages), each.messages[-1].at, each.messages[-1].at),
            *(number, counts.total(), "stored"),
        )
        for number, (each, counts) in enumerate(zip(conversations, terms, strict=True), 1)
    )
    yield "conversation_summaries", columns, rows
    rows = (
        (each.conversation_id, 1, MODEL, DIMENSIONS, HalfVector(vector(each.text)))
        for each in conversations
    )
    yield "summary_embeddings", f"conversation_id text, text_version int4, {_VECTOR}", rows
    yield from _passages("summaries", terms)


def _messages(person: Person, conversations: Sequence[SyntheticConversation]) -> Iterator[Rows]:
    said = [
        (each.conversation_id, number, message)
        for each in conversations
        for number, message in enumerate(each.messages, 1)
    ]
    terms = [message.terms for _, _, message in said]
    columns = (
        "conversation_id text, message_no int4, message_id text, role text, content text, "
        f"said_at timestamptz, accepted_at timestamptz, {_INDEXED}"
    )
    rows: Iterable[Row] = (
        (
            *(conversation_id, number, message.message_id, message.role, message.content),
            *(message.at, message.at, lexical_no, counts.total(), "stored"),
        )
        for lexical_no, ((conversation_id, number, message), counts) in enumerate(
            zip(said, terms, strict=True), 1
        )
    )
    yield "messages", columns, rows
    rows = (
        (conversation_id, number, MODEL, DIMENSIONS, _message_vector(person, message))
        for conversation_id, number, message in said
    )
    yield "message_embeddings", f"conversation_id text, message_no int4, {_VECTOR}", rows
    yield from _passages("messages", terms)


def _message_vector(person: Person, message: SyntheticMessage) -> HalfVector:
    # What a memory came from is one message here: its vector is made once.
    if message.memory is not None:
        return HalfVector(person.word_vectors[message.memory])
    return HalfVector(vector(message.content))


def _passages(corpus: str, terms: Sequence[Counter[str]]) -> Iterator[Rows]:
    count = len(terms)
    row = (corpus, count, count, sum(counts.total() for counts in terms))
    yield "passage_statistics", "corpus text, last_lexical_no int4, texts int4, terms int8", [row]
    rows = ((corpus, *row) for row in postings(terms))
    yield "passage_postings", f"corpus text, {_POSTINGS}", rows


def _memories(person: Person) -> Iterator[Rows]:
    columns = (
        "memory_id uuid, type text, content text, importance float8, confidence text, source text, "
        "origin text, tags text[], keywords text[], conversation_id text, valid_from timestamptz, "
        f"said_at timestamptz, created_at timestamptz, updated_at timestamptz, {_INDEXED}"
    )
    rows: Iterable[Row] = (
        (
            *(memory.memory_id, memory.type, memory.content, memory.importance),
            *("high" if memory.importance > 0.5 else "medium", "conversation", "user"),
            *(list(memory.tags), list(memory.keywords), memory.conversation_id),
            *(memory.at, memory.at, memory.at, memory.at, number, terms.total(), "stored"),
        )
        for number, (memory, terms) in enumerate(zip(person.learnt, person.terms, strict=True), 1)
    )
    yield "memories", columns, rows
    vectors = zip(person.learnt, person.vectors, strict=True)
    rows = ((m.memory_id, "active", MODEL, DIMENSIONS, HalfVector(made)) for m, made in vectors)
    yield "memory_embeddings", f"memory_id uuid, status text, {_VECTOR}", rows
    vectors = zip(person.learnt, person.word_vectors, strict=True)
    rows = ((m.memory_id, MODEL, DIMENSIONS, HalfVector(made)) for m, made in vectors)
    yield "memory_source_embeddings", f"memory_id uuid, {_VECTOR}", rows
    rows = ((m.memory_id, m.conversation_id, m.message_id) for m in person.learnt)
    yield "memory_sources", "memory_id uuid, conversation_id text, message_id text", rows
    columns = "memory_id uuid, access_count int8, last_accessed_at timestamptz"
    rows = ((m.memory_id, m.accessed, person.now) for m in person.learnt if m.accessed)
    yield "memory_access", columns, rows
    yield "postings", _POSTINGS, postings(person.terms)


def _entities(person: Person) -> Iterator[Rows]:
    ids = person.names
    mentioning: list[SyntheticMemory] = [memory for memory in person.learnt if memory.name]
    times = Counter(memory.name for memory in mentioning)
    columns = "entity_id uuid, name text, name_key text, type text, mention_count int4"
    rows: Iterable[Row] = ((ids[name], name, fold(name), "person", times[name]) for name in ids)
    yield "entities", columns, rows
    rows = ((ids[memory.name], memory.memory_id) for memory in mentioning)
    yield "entity_mentions", "entity_id uuid, memory_id uuid", rows


def postings(texts: Sequence[Counter[str]]) -> Iterator[Posting]:
    """Rows of the index of texts, given by their terms, which are numbered from 1 on."""
    held: defaultdict[str, list[tuple[int, int, int]]] = defaultdict(list)
    for number, counts in enumerate(texts, start=1):
        length = counts.total()
        for term, frequency in counts.items():
            held[term].append((number, frequency, length))
    for term in sorted(held):
        for segment, start in enumerate(range(0, len(held[term]), SEGMENT)):
            rows = held[term][start : start + SEGMENT]
            numbers, frequencies, lengths = ([row[i] for row in rows] for i in range(3))
            yield term, segment, numbers, frequencies, lengths


def clone(connection: Connection, copies: Mapping[str, str]) -> None:
    """Copy users with all that is theirs, inside the database.

    Args:
        connection: From `connect`.
        copies: The ids of the copies by those of the users.
    """
    columns = {
        table: [row[0] for row in connection.execute(_WRITTEN_COLUMNS, [table])]
        for table in _TABLES
    }
    for user_id, copy in copies.items():
        with connection.transaction():
            for table, names in columns.items():
                values = ", ".join(_NEW.get(name, name).format(name, name) for name in names)
                statement = (
                    f"INSERT INTO {table} ({', '.join(names)}) SELECT {values} "
                    f"FROM {table} WHERE tenant_id = %(tenant_id)s AND user_id = %(original)s"
                )
                connection.execute(
                    statement.encode(),
                    {"tenant_id": TENANT, "original": user_id, "user_id": copy},
                )


def settle(connection: Connection) -> None:
    """Leave the database as it is some time after a load: with statistics, and written out."""
    connection.execute("RESET ROLE")
    connection.execute("VACUUM (ANALYZE)")
    connection.execute("CHECKPOINT")
    connection.execute("SET ROLE hitherto_owner")
