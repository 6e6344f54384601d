"""Documents from end to end (B16): handed over, found in lists, replaced, deleted.

Rows of the fault catalogue: 43 (size), 45 (NUL), 46 (normal forms), 48 (bad fields).
"""

from __future__ import annotations

import unicodedata
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc

from hitherto.v1 import extraction_service_pb2 as pb
from hitherto.v1 import job_pb2, search_pb2
from tests.e2e.conftest import Services, StartServices
from tests.e2e.curating import change, save
from tests.e2e.handing_over import (
    check_index,
    chunks,
    delete,
    document,
    entities,
    hand_over,
    listed,
    taken_in,
    vector_states,
)
from tests.e2e.learning import ended, learn, memories, rows, talk
from tests.e2e.methods import METHODS, ask, refused
from tests.e2e.privacy import choose
from tests.e2e.sessions import refusal_of
from tests.e2e.test_delete_conversation import everything

INGEST = METHODS["ExtractionService/IngestDocuments"]
NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
LONG = " ".join(f"Sentence number {n} is about tea." for n in range(100))
MAIL: dict[str, Any] = {
    "source_type": "gmail",
    "content_type": "email",
    "title": "Q4 Planning",
    "author": "Sarah Johnson",
    "metadata": {"from": "Sarah Johnson <sarah@company.com>", "to": ["tom@company.com"]},
}


async def get(services: Services, document_id: str, user: str = "ana") -> Any:
    reply = await ask(services, "GetDocument", user_id=user, document_id=document_id)
    return reply.document


async def reason_of(call: Any) -> str:
    return (await refusal_of(call)).reason


async def test_a_document_is_stored_whole_and_made_findable(modelled: Services) -> None:
    """Chunks, words, vectors and entities; one embedding call for the job, none of a chat model."""
    sent = [
        document("m1", LONG, created_at=NOON, **MAIL),
        document("t1", "Fix the login.", content_type="task", metadata={"project": "Apollo"}),
        document("e1", title="Stand-up", content_type="event", metadata={"location": "Hà Nội"}),
    ]
    ids, job = await taken_in(modelled, *sent)
    assert dict(job.result.counts) == {"documents": 3, "chunks": 6, "entities": 4}
    assert (modelled.model.calls["embeddings"], modelled.model.calls["chat"]) == (1, 0)
    assert job.result.usage.embedding_calls == 1
    assert rows(modelled.conninfo, "SELECT kind, stage, calls FROM usage_ledger") == [
        ("document-ingestion", "embedding", 1)
    ]
    assert vector_states(modelled.conninfo) == {"stored": 6}
    check_index(modelled.conninfo)
    assert " ".join(chunks(modelled.conninfo, "m1")) == LONG
    assert all(
        text.startswith("Q4 Planning\n") for text in modelled.model.embedding_requests[0].texts[:4]
    )
    assert chunks(modelled.conninfo, "e1") == ["Stand-up"]
    assert entities(modelled.conninfo) == {
        "Sarah Johnson": ("person", 1, "sarah@company.com"),
        "tom@company.com": ("person", 1, "tom@company.com"),
        "Apollo": ("project", 1, ""),
        "Hà Nội": ("place", 1, ""),
    }
    shown = await get(modelled, ids[0])
    assert (shown.content, shown.title, shown.author) == (LONG, "Q4 Planning", "Sarah Johnson")
    assert shown.metadata["from"] == "Sarah Johnson <sarah@company.com>"
    assert (shown.id, shown.created_at.ToDatetime(UTC)) == (ids[0], NOON)
    # Without a time of its own, what takes its place keeps that of the source.
    await taken_in(modelled, document("m1", "Shorter.", **MAIL))
    assert (await get(modelled, ids[0])).created_at.ToDatetime(UTC) == NOON


async def test_an_unchanged_document_costs_nothing(modelled: Services) -> None:
    sent = document("m1", LONG, created_at=NOON, **MAIL)
    ids, job = await taken_in(modelled, sent)
    before = rows(modelled.conninfo, "SELECT * FROM documents")
    again = await hand_over(modelled, sent)
    assert (again.new_count, again.replaced_count, again.unchanged_count) == (0, 0, 1)
    assert (list(again.document_ids), again.job.id) == (ids, job.id)
    assert again.job.state == job_pb2.JOB_STATE_SUCCEEDED
    assert again.job.consistency_token
    assert rows(modelled.conninfo, "SELECT * FROM documents") == before
    assert rows(modelled.conninfo, "SELECT count(*) FROM jobs") == [(1,)]
    assert modelled.model.calls["embeddings"] == 1
    # Without its job, a finished one is the answer.
    change(modelled.conninfo, "DELETE FROM jobs")
    again = await hand_over(modelled, sent)
    assert (again.job.state, again.unchanged_count) == (job_pb2.JOB_STATE_SUCCEEDED, 1)
    assert (await ended(modelled, again.job.id)).result.counts["documents"] == 0
    # A key replays the first answer.
    first, again = [await hand_over(modelled, document("d1", "Tea."), key="k") for _ in range(2)]
    assert (again.job.id, again.new_count, again.unchanged_count) == (first.job.id, 1, 0)
    assert again.document_ids == first.document_ids
    reason = await reason_of(hand_over(modelled, document("d1", "Coffee."), key="k"))
    assert reason == "IDEMPOTENCY_KEY_REUSED"


async def test_every_field_makes_a_document_another_one(services: Services) -> None:
    fields: dict[str, Any] = {"content": "Tea.", "created_at": NOON}
    for changed in (
        {"title": "T"},
        {"summary": "S"},
        {"content": "Coffee."},
        {"author": "A"},
        {"content_type": "task"},
        {"created_at": NOON + timedelta(days=1)},
        {"metadata": {"label": "x"}},
        {"metadata": {"label": ["x"]}},
    ):
        fields |= changed
        assert (await hand_over(services, document("d1", **fields))).replaced_count + (
            changed == {"title": "T"}
        ) == 1
    fields["content"] = unicodedata.normalize("NFD", "cà phê")
    assert (await hand_over(services, document("d1", **fields))).replaced_count == 1
    fields["content"] = unicodedata.normalize("NFC", "cà phê")
    assert (await hand_over(services, document("d1", **fields))).unchanged_count == 1


async def test_what_stays_of_a_changed_document_is_not_embedded_again(modelled: Services) -> None:
    """It keeps its id; a new sentence costs one chunk, a new label nothing."""
    ids, _ = await taken_in(modelled, document("m1", LONG, **MAIL))
    vectors = "SELECT chunk_id, embedding::text FROM document_chunk_embeddings ORDER BY 1"
    before = rows(modelled.conninfo, vectors)
    relabelled = {**MAIL, "metadata": {"from": "bo@company.com"}}
    assert (await taken_in(modelled, document("m1", LONG, **relabelled)))[0] == ids
    assert modelled.model.calls["embeddings"] == 1
    assert rows(modelled.conninfo, vectors) == before
    assert set(entities(modelled.conninfo)) == {"bo@company.com", "Sarah Johnson"}
    await taken_in(modelled, document("m1", "Mango first. " + LONG, **relabelled))
    assert chunks(modelled.conninfo, "m1")[0].startswith("Mango first.")
    last = modelled.model.embedding_requests[-1].texts
    assert 1 <= len(last) < len(before) + 1
    check_index(modelled.conninfo)
    await taken_in(modelled, document("m1", LONG, **{**relabelled, "title": "Other"}))
    assert len(modelled.model.embedding_requests[-1].texts) == len(before)
    check_index(modelled.conninfo)
    assert vector_states(modelled.conninfo) == {"stored": len(before)}


async def test_chunks_may_change_places(services: Services) -> None:
    """The words of earlier versions go."""
    first, second = "A sentence of the zanzibarquux. " * 25, "Words of the second part. " * 30
    ids, _ = await taken_in(services, document("d1", f"{first}\n\n{second}", title="zanzibarquux"))
    pieces = "SELECT chunk_id FROM document_chunks ORDER BY position"
    before = rows(services.conninfo, pieces)
    await taken_in(services, document("d1", f"{second}\n\n{first}", title="zanzibarquux"))
    assert chunks(services.conninfo) == [second.strip(), first.strip()]
    assert rows(services.conninfo, f"{pieces} DESC") == before
    await taken_in(services, document("d1", "About tea.", author="quuxperson"))
    assert "zanzibarquux" not in everything(services.conninfo)
    await taken_in(services, document("d1", " "))
    assert chunks(services.conninfo) == []
    check_index(services.conninfo)
    await delete(services, ids[0])
    assert rows(services.conninfo, "SELECT 1 FROM passage_postings") == []
    assert entities(services.conninfo) == {}


async def test_bounds_of_a_document(services: Services) -> None:
    """Rows 45 and 48; all violations at once."""

    async def fields(*documents: Any) -> set[str]:
        request = pb.IngestDocumentsRequest(user_id="ana", documents=documents)
        return set((await refused(services, INGEST, request)).fields)

    assert await fields(
        document("", source_type=""),
        document("x" * 1025, source_type="y" * 65, content_type="z" * 65),
        document("a\x07b", "a\x00b", title="t" * 4097, summary="s" * 65_537, author="a" * 1025),
        document("big", metadata={"k": "x" * 65_600}),
    ) == {
        "documents[0].source_type", "documents[0].source_id", "documents[1].source_type",
        "documents[1].source_id", "documents[1].content_type", "documents[2].source_id",
        "documents[2].content", "documents[2].title", "documents[2].summary",
        "documents[2].author", "documents[3].metadata",
    }  # fmt: skip
    for number in (0, 101):
        assert await fields(*(document(str(n)) for n in range(number))) == {"documents"}
    # A source stands in a request once.
    composed, decomposed = document("é"), document(unicodedata.normalize("NFD", "é"))
    assert await fields(composed, document("x"), decomposed) == {"documents[2].source_id"}
    fine = document("x" * 1024, source_type="y" * 64, created_at=datetime(1900, 1, 1, tzinfo=UTC))
    other = document("é", source_type="jira")
    assert (await hand_over(services, fine, composed, other)).new_count == 3


async def test_a_request_of_four_mebibytes(services: Services) -> None:
    """Row 43: just below the bound everything is taken in, above it nothing.

    Space makes up most of it: more chunks than are written at once, and not thousands.
    """
    sentence = "Sentence with some words in it, and ế too. "
    words = sentence * 18_000
    space = " " * (4 * 1024 * 1024 - 200 - len(words.encode()))
    accepted = await hand_over(services, document("d1", words[:-1] + space + sentence))
    job = await ended(services, accepted.job.id, within=900)
    assert job.state == job_pb2.JOB_STATE_SUCCEEDED, job.error
    assert job.result.counts["chunks"] == len(chunks(services.conninfo)) > 512
    held = "".join("".join(chunks(services.conninfo)).split())
    assert held == "".join((words + sentence).split())
    check_index(services.conninfo)
    refusal = await refusal_of(hand_over(services, document("d2", words + space + sentence * 100)))
    assert refusal.code is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_with_memory_off_nothing_is_stored(start_services: StartServices) -> None:
    async with start_services(memory_enabled=False) as services:
        reply = await hand_over(services, document("d1", "Tea."))
        assert reply.job.state == job_pb2.JOB_STATE_CANCELLED
        assert reply.job.error.startswith("MEMORY_DISABLED: ")
        assert (reply.new_count, list(reply.document_ids)) == (0, [])
        assert rows(services.conninfo, "SELECT 1 FROM documents") == []
        shown = await ask(services, "ListDocuments")
        assert shown.reason == "MEMORY_DISABLED"


async def test_documents_are_knowledge_and_not_learning(services: Services) -> None:
    """An alias finds them."""
    await choose(services, learning_enabled=False)
    await taken_in(services, document("d1", "One.", **MAIL))
    other: dict[str, Any] = {"content_type": "email"}
    other["metadata"] = {"cc": "Sári <sarah@company.com>"}
    await taken_in(services, document("d2", "Two.", **other))
    assert chunks(services.conninfo) == ["One."]
    assert set(await listed(services, entity="sari")) == {"d1", "d2"}


async def test_i7_document_003_a_question_gets_the_prompt_with_context_and_entities(
    modelled: Services,
) -> None:
    """D2: three lines for each document, also beside memories and messages that answer."""
    asked = "What did Sarah say about the Q4 budget?"
    said = "Sarah mentioned we need to increase marketing spend by 15% for the Q4 budget"
    await taken_in(
        modelled,
        document("mail", said, **{**MAIL, "title": "Q4 Budget Discussion"}, created_at=NOON),
    )
    await save(modelled, "Sarah said the Q4 budget is late")
    template = search_pb2.PROMPT_TEMPLATE_RELEVANT_CONTEXT
    told = await ask(modelled, "GetContext", query=asked, template=template, line_dates=False)
    lines = told.prompt_block.splitlines()
    at = lines.index("[GMAIL] Q4 Budget Discussion")
    assert lines[at + 1 : at + 3] == [said, "---"]
    assert "## Relevant Context:" in lines[:at]
    assert "- [FACT] Sarah said the Q4 budget is late" in lines
    assert lines[-3:-1] == ["## Known Entities:", "- Sarah Johnson (person): sarah@company.com"]
    dated = await ask(modelled, "GetContext", query=asked, template=template)
    assert "[GMAIL] 2026-03-02 Q4 Budget Discussion" in dated.prompt_block.splitlines()


async def test_lists_filter_and_page(services: Services) -> None:
    """Newest at the source first, without content."""
    await taken_in(
        services,
        *(
            document(
                f"d{n}",
                f"Text {n}.",
                source_type="gmail" if n % 2 else "jira",
                content_type="email" if n % 2 else "task",
                created_at=NOON + timedelta(days=n // 2),
                metadata={"assignee": "Sarah Johnson" if n < 3 else "Bo", "n": n},
            )
            for n in range(7)
        ),
    )
    everything_listed = await listed(services)
    assert everything_listed[0] == "d6"
    assert set(everything_listed) == {f"d{n}" for n in range(7)}
    paged, token = [], ""
    while True:
        page = await ask(services, "ListDocuments", page_size=3, page_token=token)
        assert page.total_size == 7
        assert all(not found.content and found.id for found in page.documents)
        paged += [found.source_id for found in page.documents]
        token = page.next_page_token
        if not token:
            break
    assert paged == everything_listed
    assert set(await listed(services, source_types=["gmail"])) == {"d1", "d3", "d5"}
    assert set(await listed(services, content_types=["task", "x"])) == {"d0", "d2", "d4", "d6"}
    assert set(await listed(services, entity="sarah JOHNSON")) == {"d0", "d1", "d2"}
    assert await listed(services, entity="nobody") == []
    assert set(await listed(services, created_after=NOON + timedelta(days=2))) == {"d4", "d5", "d6"}
    assert set(await listed(services, created_before=NOON + timedelta(days=1))) == {"d0", "d1"}
    assert await listed(services, metadata_filter={"n": 3, "assignee": "Bo"}) == ["d3"]
    assert await listed(services, user_id="bea") == []


async def test_deleting_leaves_no_trace_but_what_was_learnt(services: Services) -> None:
    """Row 57's measure: a canary in every table, gone with the document."""
    await learn(services, talk("My name is Ana. I live in Lisbon."))
    learnt = await memories(services)
    canary = "zanzibarquux"
    kept, _ = await taken_in(services, document("d0", LONG, metadata={"project": "Apollo"}))
    ids, _ = await taken_in(
        services,
        document("d1", LONG + f" {canary}.", title=f"About {canary}", summary=f"{canary} too",
                 content_type="email", author=f"{canary} Smith",
                 metadata={"from": f"Ana <{canary}@x.org>", "project": "Apollo"}),
    )  # fmt: skip
    assert entities(services.conninfo)["Apollo"] == ("project", 2, "")
    counts = dict((await delete(services, ids[0])).counts)
    assert counts == {
        "documents": 1,
        "document_chunks": len(chunks(services.conninfo, "d0")) + 0,
        "document_chunk_embeddings": len(chunks(services.conninfo, "d0")),
        "document_mentions": 3,
        "entities": counts["entities"],
    }
    assert canary not in everything(services.conninfo).lower()
    assert entities(services.conninfo)["Apollo"] == ("project", 1, "")
    check_index(services.conninfo)
    assert await memories(services) == learnt
    assert await listed(services) == ["d0"]
    assert (await get(services, kept[0])).source_id == "d0"
    assert await reason_of(get(services, ids[0])) == "DOCUMENT_NOT_FOUND"


async def test_a_second_time_there_is_nothing_to_delete(services: Services) -> None:
    """NOT_FOUND without a key; with one the first counts again (B4); nothing of others (row 60)."""
    ids, _ = await taken_in(services, document("d1", "Tea."))
    assert await reason_of(delete(services, ids[0], user="bea")) == "DOCUMENT_NOT_FOUND"
    assert await reason_of(get(services, ids[0], user="bea")) == "DOCUMENT_NOT_FOUND"
    first = dict((await delete(services, ids[0], key="k")).counts)
    assert first["documents"] == 1
    assert dict((await delete(services, ids[0], key="k")).counts) == first
    assert await reason_of(delete(services, ids[0])) == "DOCUMENT_NOT_FOUND"
    assert (await hand_over(services, document("d1", "Tea."))).document_ids != ids


async def test_entities_of_memories_and_documents_are_the_same(services: Services) -> None:
    """What a document said of somebody goes with it; that memories mention them stays."""
    await learn(services, talk("My name is Sarah Johnson."))
    (known,) = rows(services.conninfo, "SELECT entity_id, mention_count FROM entities")
    ids, _ = await taken_in(services, document("d1", "Hi.", **MAIL))
    assert entities(services.conninfo)["Sarah Johnson"] == (
        "person",
        known[1] + 1,
        "sarah@company.com",
    )
    await delete(services, ids[0])
    assert entities(services.conninfo) == {"Sarah Johnson": ("person", known[1], "")}
    assert rows(services.conninfo, "SELECT entity_id, mention_count FROM entities") == [known]
