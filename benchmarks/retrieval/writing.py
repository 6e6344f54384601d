"""Writes one person as the service would have, by COPY.

Written are all rows that reading looks at: of each user the row with the statistics of the keyword
index, profile, preferences, entities, conversations with messages and summaries, memories with
their vectors, the vectors of the words behind them, sources, access counters, and the keyword
indexes of memories, messages and summaries. History, usage and jobs are left out. All rows of a
user stand together, as those of one import do.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import psycopg
from pgvector import HalfVector
from psycopg.types.json import Jsonb

from benchmarks.embeddings_reply import DIMENSIONS
from benchmarks.retrieval.person import Person
from benchmarks.retrieval.talk import Conversation, SyntheticMessage, conversations_of
from benchmarks.retrieval.wording import vector
from hitherto_shared.auth.principal import DEFAULT_TENANT
from hitherto_shared.config import DEFAULT_EMBEDDING_MODEL as MODEL
from hitherto_shared.text.normalise import fold
from hitherto_shared.text.terms import count_terms

TENANT = DEFAULT_TENANT

Connection = psycopg.Connection[tuple[Any, ...]]
Row = tuple[Any, ...]

_INDEXED = "lexical_no int4, lexical_length int4, embedding_state text"
_POSTINGS = "term text, segment int4, lexical_nos int4[], frequencies int2[], lengths int2[]"
_VECTOR = "model text, dimensions int4, embedding halfvec"


def write(connection: Connection, person: Person) -> None:
    """Write all rows of one person."""
    conversations = conversations_of(person)
    count, terms = person.statistics
    _copy(
        connection,
        person,
        "users",
        "audit_key bytea, last_lexical_no int4, lexical_documents int4, lexical_terms int8",
        [(os.urandom(32), count, count, terms)],
    )
    _write_profile(connection, person)
    _write_conversations(connection, person, conversations)
    _write_messages(connection, person, conversations)
    _write_memories(connection, person)
    _write_entities(connection, person)


def _write_profile(connection: Connection, person: Person) -> None:
    topics = sorted({tag for memory in person.learnt[:50] for tag in memory.tags})[:4]
    facts = {"personal": {"location": person.learnt[0].content}}
    summary = person.learnt[-1].content
    profile = {"summary": summary, "current_projects": topics, "facts": facts}
    _copy(
        connection,
        person,
        "profiles",
        "department text, summary text, current_projects text[], facts jsonb",
        [("engineering", summary, topics, Jsonb(facts))],
    )
    _copy(
        connection,
        person,
        "profile_versions",
        "version int4, profile jsonb, actor text",
        [(1, Jsonb(profile), "benchmark")],
    )
    _copy(
        connection,
        person,
        "preferences",
        "type text, key text, value jsonb, confidence float8",
        (("topic", topic, Jsonb(True), 0.9) for topic in topics),
    )


def _write_conversations(
    connection: Connection, person: Person, conversations: Sequence[Conversation]
) -> None:
    _copy(
        connection,
        person,
        "conversations",
        "conversation_id text, created_at timestamptz, updated_at timestamptz, "
        "ended_at timestamptz, last_message_no int4, watermark int4, last_said_at timestamptz",
        (
            (
                each.conversation_id,
                each.messages[0].at,
                *(each.messages[-1].at,) * 2,
                *(len(each.messages),) * 2,
                each.messages[-1].at,
            )
            for each in conversations
        ),
    )
    terms = [count_terms(each.text) for each in conversations]
    _copy(
        connection,
        person,
        "conversation_summaries",
        "conversation_id text, title text, summary text, key_topics text[], outcome text, "
        f"covers_to int4, created_at timestamptz, updated_at timestamptz, {_INDEXED}",
        (
            (
                each.conversation_id,
                each.title,
                each.summary,
                list(each.topics),
                "resolved",
                len(each.messages),
                *(each.messages[-1].at,) * 2,
                number,
                counts.total(),
                "stored",
            )
            for number, (each, counts) in enumerate(zip(conversations, terms, strict=True), 1)
        ),
    )
    _copy(
        connection,
        person,
        "summary_embeddings",
        f"conversation_id text, text_version int4, {_VECTOR}",
        (
            (each.conversation_id, 1, MODEL, DIMENSIONS, HalfVector(vector(each.text)))
            for each in conversations
        ),
    )
    _write_passages(connection, person, "summaries", terms)


def _write_messages(
    connection: Connection, person: Person, conversations: Sequence[Conversation]
) -> None:
    said = [
        (each.conversation_id, number, message)
        for each in conversations
        for number, message in enumerate(each.messages, 1)
    ]
    terms = [message.terms for _, _, message in said]
    _copy(
        connection,
        person,
        "messages",
        "conversation_id text, message_no int4, message_id text, role text, content text, "
        f"said_at timestamptz, accepted_at timestamptz, {_INDEXED}",
        (
            (
                conversation_id,
                number,
                message.message_id,
                message.role,
                message.content,
                *(message.at,) * 2,
                lexical_no,
                counts.total(),
                "stored",
            )
            for lexical_no, ((conversation_id, number, message), counts) in enumerate(
                zip(said, terms, strict=True), 1
            )
        ),
    )
    _copy(
        connection,
        person,
        "message_embeddings",
        f"conversation_id text, message_no int4, {_VECTOR}",
        (
            (conversation_id, number, MODEL, DIMENSIONS, _message_vector(person, message))
            for conversation_id, number, message in said
        ),
    )
    _write_passages(connection, person, "messages", terms)


def _message_vector(person: Person, message: SyntheticMessage) -> HalfVector:
    # What a memory came from is one message here: its vector is made once.
    if message.memory is not None:
        return HalfVector(person.word_vectors[message.memory])
    return HalfVector(vector(message.content))


def _write_passages(
    connection: Connection, person: Person, corpus: str, terms: Sequence[Any]
) -> None:
    _copy(
        connection,
        person,
        "passage_statistics",
        "corpus text, last_lexical_no int4, texts int4, terms int8",
        [(corpus, len(terms), len(terms), sum(counts.total() for counts in terms))],
    )
    _copy(
        connection,
        person,
        "passage_postings",
        f"corpus text, {_POSTINGS}",
        ((corpus, *row) for row in postings(terms)),
    )


def _write_memories(connection: Connection, person: Person) -> None:
    _copy(
        connection,
        person,
        "memories",
        "memory_id uuid, type text, content text, importance float8, confidence text, source text, "
        "origin text, tags text[], keywords text[], conversation_id text, valid_from timestamptz, "
        f"said_at timestamptz, created_at timestamptz, updated_at timestamptz, {_INDEXED}",
        _memories(person),
    )
    _copy(
        connection,
        person,
        "memory_embeddings",
        f"memory_id uuid, status text, {_VECTOR}",
        (
            (memory.memory_id, "active", MODEL, DIMENSIONS, HalfVector(made))
            for memory, made in zip(person.learnt, person.vectors, strict=True)
        ),
    )
    _copy(
        connection,
        person,
        "memory_source_embeddings",
        f"memory_id uuid, {_VECTOR}",
        (
            (memory.memory_id, MODEL, DIMENSIONS, HalfVector(made))
            for memory, made in zip(person.learnt, person.word_vectors, strict=True)
        ),
    )
    _copy(
        connection,
        person,
        "memory_sources",
        "memory_id uuid, conversation_id text, message_id text",
        ((memory.memory_id, memory.conversation_id, memory.message_id) for memory in person.learnt),
    )
    _copy(
        connection,
        person,
        "memory_access",
        "memory_id uuid, access_count int8, last_accessed_at timestamptz",
        (
            (memory.memory_id, memory.accessed, person.now)
            for memory in person.learnt
            if memory.accessed
        ),
    )
    _copy(connection, person, "postings", _POSTINGS, postings(person.terms))


def _memories(person: Person) -> Iterator[Row]:
    for number, (memory, terms) in enumerate(zip(person.learnt, person.terms, strict=True), 1):
        yield (
            memory.memory_id,
            memory.type,
            memory.content,
            memory.importance,
            "high" if memory.importance > 0.5 else "medium",
            "conversation",
            "user",
            list(memory.tags),
            list(memory.keywords),
            memory.conversation_id,
            *(memory.at,) * 4,
            number,
            terms.total(),
            "stored",
        )


def _write_entities(connection: Connection, person: Person) -> None:
    ids = person.names
    mentioning = [memory for memory in person.learnt if memory.name]
    _copy(
        connection,
        person,
        "entities",
        "entity_id uuid, name text, name_key text, type text, mention_count int4",
        (
            (ids[name], name, fold(name), "person", sum(m.name == name for m in mentioning))
            for name in ids
        ),
    )
    _copy(
        connection,
        person,
        "entity_mentions",
        "entity_id uuid, memory_id uuid",
        ((ids[memory.name], memory.memory_id) for memory in mentioning),
    )


def _copy(
    connection: Connection, person: Person, table: str, columns: str, rows: Iterable[Row]
) -> None:
    """Write rows of a person; `columns` are those after tenant and user, with their types."""
    named = [column.strip().split(" ") for column in columns.split(",")]
    names = ["tenant_id", "user_id", *(name for name, _ in named)]
    statement = f"COPY {table} ({', '.join(names)}) FROM STDIN WITH (FORMAT BINARY)"
    with connection.cursor() as cursor, cursor.copy(statement.encode()) as copy:
        copy.set_types(["text", "text", *(kind for _, kind in named)])
        for row in rows:
            copy.write_row((TENANT, person.user_id, *row))


SEGMENT = 256
"""Postings per row, as the schema's CHECK has it."""

Posting = tuple[str, int, list[int], list[int], list[int]]
"""Term, segment, lexical numbers, frequencies, lengths."""


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
