"""Entities are found by a part of their name, by an alias and by an address (D7)."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.struct_pb2 import Struct

from hitherto.v1 import document_pb2, search_pb2
from hitherto.v1 import retrieval_service_pb2 as pb
from tests.e2e.conftest import Services
from tests.e2e.handing_over import taken_in
from tests.e2e.methods import ask

DOCUMENTS = search_pb2.SEARCH_SCOPE_DOCUMENTS

MAIL = [
    ("budget", "Sarah Johnson <sarah@company.com>", "Q4 planning: the budget stays as it is."),
    ("lunch", "Sarah Miller <miller@elsewhere.org>", "Lunch on Friday."),
    ("phở", "Nguyễn Thị Ánh <anh@company.com>", "Phở vào thứ Sáu nhé."),
    ("roof", "Maren Weiß-Okonkwo <maren@company.com>", "The roof is done."),
]


async def receive(services: Services) -> None:
    documents = []
    for source_id, sender, text in MAIL:
        metadata = Struct()
        metadata.update({"from": sender})
        documents.append(
            document_pb2.Document(
                source_type="gmail",
                source_id=source_id,
                content_type="email",
                title=source_id,
                content=text,
                metadata=metadata,
            )
        )
    metadata = Struct()
    metadata.update({"project": "Project Atlas", "assignee": "Sarah Johnson"})
    documents.append(
        document_pb2.Document(
            source_type="jira",
            source_id="task",
            content_type="task",
            title="Move the servers",
            content="All of them.",
            metadata=metadata,
        )
    )
    await taken_in(services, *documents)


async def named_in(services: Services, query: str, **fields: Any) -> set[str]:
    """The entities that a search recognises in `query`."""
    found = await ask(services, "SearchMemories", query=query, scopes=[DOCUMENTS], **fields)
    return {entity.name for entity in found.entities}


async def test_d7_a_part_of_a_name_names_its_entity(services: Services) -> None:
    await receive(services)
    both = {"Sarah Johnson", "Sarah Miller"}
    expected: dict[str, set[str]] = {
        "What did Sarah say about the Q4 budget?": both,
        "What did Sarah Johnson say?": both,
        "did JOHNSON write?": {"Sarah Johnson"},
        "Anything from sarah@company.com?": {"Sarah Johnson"},
        "How is Atlas doing?": {"Project Atlas"},
        "How is the project doing?": set(),
        "Ánh muốn ăn gì?": {"Nguyễn Thị Ánh"},
        "nguyen muon an gi": {"Nguyễn Thị Ánh"},
        "Maren's roof": {"Maren Weiß-Okonkwo"},
        "sara": set(),
    }
    for query, names in expected.items():
        assert await named_in(services, query) == names, query


async def test_d7_the_filter_takes_a_part_of_a_name_too(services: Services) -> None:
    await receive(services)
    for name, titles in {
        "Sarah": {"budget", "lunch", "Move the servers"},
        "miller@elsewhere.org": {"lunch"},
        "atlas": {"Move the servers"},
        "Ánh": {"phở"},
        "Sarah Johnson": {"budget", "Move the servers"},
        "nobody": set(),
    }.items():
        found = await ask(services, "SearchMemories", entity=name, scopes=[DOCUMENTS], limit=50)
        assert {each.document_chunk.title for each in found.results} == titles, name
        listed = await ask(services, "ListDocuments", entity=name)
        assert {document.title for document in listed.documents} == titles, name


async def test_i7_document_003_the_score_with_the_sender_of_the_mail(services: Services) -> None:
    """ "Sarah" of the question is the Sarah Johnson who sent it: entity 0.1."""
    await receive(services)
    found = await services.retrieval.SearchMemories(
        pb.SearchMemoriesRequest(
            user_id="ana",
            query="What did Sarah say about the Q4 budget?",
            scopes=[DOCUMENTS],
            ranking="weighted",
            explain=True,
        )
    )
    scores = {each.document_chunk.title: each.breakdown["entity"] for each in found.results}
    assert scores["budget"] == pytest.approx(0.1)
    assert scores["roof"] == 0.0


async def test_d7_entities_are_found_by_a_part_of_an_address(services: Services) -> None:
    await receive(services)
    found = await ask(services, "FindEntities", name="elsewhere.org")
    assert [entity.name for entity in found.entities] == ["Sarah Miller"]
