"""Handing documents over and looking at what was made of them, for the end-to-end tests."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hitherto.v1 import document_pb2, job_pb2
from hitherto.v1 import extraction_service_pb2 as pb
from hitherto.v1 import retrieval_service_pb2 as retrieval
from hitherto_shared.text.terms import count_terms
from tests.e2e.conftest import Services
from tests.e2e.learning import ended, rows


def document(source_id: str = "d1", content: str = "", **fields: Any) -> document_pb2.Document:
    """A document; `metadata` may be a dict."""
    metadata = fields.pop("metadata", {})
    made = document_pb2.Document(
        **{"source_type": "gdrive", "source_id": source_id, "content": content, **fields}
    )
    if metadata:
        made.metadata.update(metadata)
    return made


async def hand_over(
    services: Services, *documents: document_pb2.Document, user: str = "ana", key: str = ""
) -> pb.IngestDocumentsResponse:
    return await services.extraction.IngestDocuments(
        pb.IngestDocumentsRequest(user_id=user, documents=documents, idempotency_key=key)
    )


async def taken_in(
    services: Services, *documents: document_pb2.Document, user: str = "ana"
) -> tuple[list[str], job_pb2.Job]:
    """Ingest one batch; the ids, and the job once it has succeeded."""
    accepted = await hand_over(services, *documents, user=user)
    job = await ended(services, accepted.job.id)
    assert job.state == job_pb2.JOB_STATE_SUCCEEDED, job.error
    return list(accepted.document_ids), job


async def delete(
    services: Services, document_id: str, *, user: str = "ana", key: str = ""
) -> pb.DeleteDocumentResponse:
    return await services.extraction.DeleteDocument(
        pb.DeleteDocumentRequest(user_id=user, document_id=document_id, idempotency_key=key)
    )


async def listed(services: Services, **fields: Any) -> list[str]:
    """The source ids that a list shows, in its order."""
    metadata = fields.pop("metadata_filter", {})
    request = retrieval.ListDocumentsRequest(**{"user_id": "ana", **fields})
    if metadata:
        request.metadata_filter.update(metadata)
    reply = await services.retrieval.ListDocuments(request)
    return [found.source_id for found in reply.documents]


def chunks(conninfo: str, source_id: str = "d1") -> list[str]:
    """The chunks of a document, in order."""
    return [
        row[0]
        for row in rows(
            conninfo,
            "SELECT c.content FROM document_chunks c JOIN documents d USING (document_id)"
            f" WHERE d.source_id = '{source_id}' ORDER BY c.position",
        )
    ]


def vector_states(conninfo: str) -> Counter[str]:
    """How many chunks are in each state."""
    return Counter(row[0] for row in rows(conninfo, "SELECT embedding_state FROM document_chunks"))


def entities(conninfo: str) -> dict[str, tuple[str, int, str]]:
    """Type, mentions and address of each entity by its name."""
    return {
        row[0]: (row[1], row[2], row[3])
        for row in rows(
            conninfo,
            "SELECT name, type, mention_count, coalesce(metadata ->> 'email', '') FROM entities",
        )
    }


def check_index(conninfo: str) -> None:
    """The keyword index holds the words of the chunks that are there, and nothing else."""
    wanted: dict[int, Counter[str]] = {}
    for number, length, heading, content in rows(
        conninfo,
        "SELECT c.lexical_no, c.lexical_length, d.ingested_heading, c.content"
        " FROM document_chunks c JOIN documents d USING (document_id)",
    ):
        wanted[number] = count_terms(f"{heading}\n{content}")
        assert wanted[number].total() == length
    held: dict[int, Counter[str]] = {}
    for term, numbers, frequencies in rows(
        conninfo,
        "SELECT term, lexical_nos, frequencies FROM passage_postings WHERE corpus = 'documents'",
    ):
        assert numbers == sorted(set(numbers))
        for number, frequency in zip(numbers, frequencies, strict=True):
            held.setdefault(number, Counter())[term] += frequency
    assert held == wanted
    counted = rows(
        conninfo,
        "SELECT sum(texts), sum(terms) FROM passage_statistics WHERE corpus = 'documents'",
    )
    assert counted[0] == (
        (len(wanted), sum(words.total() for words in wanted.values())) if wanted else counted[0]
    )
    if not wanted:
        assert counted[0] in [(None, None), (0, 0)]
