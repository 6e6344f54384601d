"""Updates everything derived from a document: chunks, words, vectors and mentions.

Each function runs in the transaction of a caller that holds the user's row.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from hitherto_extraction.documents.entities import Mention, settle
from hitherto_extraction.storage import document_mentions, documents
from hitherto_extraction.storage.corpora import index
from hitherto_extraction.storage.corpora import vectors as store
from hitherto_extraction.storage.corpora.corpus import EmbeddableText
from hitherto_extraction.storage.corpora.documents import DOCUMENTS, indexed_text
from hitherto_extraction.storage.documents import IndexedChunk
from hitherto_shared.database.pool import Connection
from hitherto_shared.embeddings.protocol import Vector
from hitherto_shared.identifiers import uuid7
from hitherto_shared.models import Scope
from hitherto_shared.text.normalise import fold
from hitherto_shared.text.terms import count_terms


@dataclass(frozen=True, slots=True)
class ChunkChanges:
    """The new chunks of a document compared with the stored ones.

    Attributes:
        stays: New positions of chunks that stay, by id.
        goes: Chunks to delete.
        comes: Positions of new chunks.
    """

    stays: Mapping[UUID, int]
    goes: Sequence[IndexedChunk]
    comes: Sequence[int]


def compare(
    contents: Sequence[str], held: Sequence[IndexedChunk], *, same_heading: bool
) -> ChunkChanges:
    """Which chunks stay; none if their common heading has changed."""
    by_content: defaultdict[str, deque[IndexedChunk]] = defaultdict(deque)
    if same_heading:
        for chunk in held:
            by_content[chunk.content].append(chunk)
    stays: dict[UUID, int] = {}
    comes = []
    for position, content in enumerate(contents):
        if by_content[content]:
            stays[by_content[content].popleft().chunk_id] = position
        else:
            comes.append(position)
    return ChunkChanges(stays, [chunk for chunk in held if chunk.chunk_id not in stays], comes)


@dataclass(frozen=True, slots=True)
class PreparedDocument:
    """A document and what is to be written; a skipped one has only its id.

    Attributes:
        heading: Precedes each chunk in the indexes.
        terms: Terms of new chunks by position, as far as they are computed already.
        vectors: Their vectors, in the same way.
    """

    document_id: UUID
    content_hash: bytes = b""
    heading: str = ""
    chunks: Sequence[str] = ()
    mentions: Sequence[Mention] = ()
    terms: Mapping[int, Counter[str]] = field(default_factory=dict)
    model: str = ""
    vectors: Mapping[int, Vector] = field(default_factory=dict)


async def replace_chunks(
    connection: Connection, scope: Scope, prepared: PreparedDocument, *, heading_before: str
) -> None:
    """Store the chunks of a document, in order; a new one without a vector waits for it.

    `heading_before` preceded the stored chunks in the indexes.
    """
    document_id, contents, heading = prepared.document_id, prepared.chunks, prepared.heading
    held = await documents.read_chunks(connection, scope, document_id)
    change = compare(contents, held, same_heading=heading == heading_before)
    if change.goes:
        # Under the heading before: the index knows them by it.
        await documents.delete_chunks(connection, scope, [chunk.chunk_id for chunk in change.goes])
    await documents.move_chunks(connection, scope, change.stays)
    counted = [
        prepared.terms.get(position) or count_terms(indexed_text(heading, contents[position]))
        for position in change.comes
    ]
    numbers = (await index.add(connection, scope, {DOCUMENTS: counted}))[DOCUMENTS]
    new = [
        IndexedChunk(uuid7(), contents[position], position, number, words.total())
        for position, number, words in zip(change.comes, numbers, counted, strict=True)
    ]
    await documents.insert_chunks(connection, scope, document_id, new)
    found = {
        EmbeddableText(
            (scope.tenant_id, scope.user_id, str(chunk.chunk_id), 0), (chunk.content,)
        ): [prepared.vectors[chunk.position]]
        for chunk in new
        if chunk.position in prepared.vectors
    }
    await store.write(connection, DOCUMENTS, found, model=prepared.model)
    await store.settle(connection, DOCUMENTS, found, model=prepared.model, state="stored")


async def replace_mentions(
    connection: Connection, scope: Scope, document_id: UUID, mentions: Sequence[Mention]
) -> int:
    """Make `mentions` the mentions of a document; returns the number of entities."""
    before = await document_mentions.withdraw(connection, scope, document_id)
    names = {name for one in mentions for name in (one.name, one.email) if name}
    known = await document_mentions.find(
        connection, scope, name_keys=list(map(fold, names)), names=list(names)
    )
    entities = settle(mentions, known, uuid7)
    await document_mentions.write(connection, scope, entities)
    named = [(entity.entity_id, entity.names) for entity in entities if entity.names]
    await document_mentions.mention(connection, scope, document_id, named)
    await document_mentions.drop_unmentioned(connection, scope, before)
    return len(named)
