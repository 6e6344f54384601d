"""Entities are found by a part of their name, an alias and an address (D7); contexts name some."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hitherto.v1 import search_pb2
from tests.e2e.conftest import Services
from tests.e2e.curating import change
from tests.e2e.handing_over import document, taken_in
from tests.e2e.methods import ask
from tests.e2e.shelf import ago, fill
from tests.e2e.test_own_name import called
from tests.integration.retrieval.seed import Fact
from tests.integration.retrieval.seed_passages import Paper

DOCUMENTS = search_pb2.SEARCH_SCOPE_DOCUMENTS

MAIL = [
    ("budget", "Sarah Johnson <sarah@company.com>", "Q4 planning: the budget stays as it is."),
    ("lunch", "Sarah Miller <miller@elsewhere.org>", "Lunch on Friday."),
    ("phở", "Nguyễn Thị Ánh <anh@company.com>", "Phở vào thứ Sáu nhé."),
    ("roof", "Maren Weiß-Okonkwo <maren@company.com>", "The roof is done."),
]


async def receive(services: Services) -> None:
    mails = [
        document(
            source_id, text, source_type="gmail", content_type="email", title=source_id,
            metadata={"from": sender},
        )
        for source_id, sender, text in MAIL
    ]  # fmt: skip
    task = document(
        "task", "All of them.", source_type="jira", content_type="task", title="Move the servers",
        metadata={"project": "Project Atlas", "assignee": "Sarah Johnson"},
    )  # fmt: skip
    await taken_in(services, *mails, task)


async def named_in(services: Services, query: str, **fields: Any) -> set[str]:
    """The entities that a search recognises in `query`."""
    found = await ask(services, "SearchMemories", query=query, scopes=[DOCUMENTS], **fields)
    return {entity.name for entity in found.entities}


async def test_d7_a_part_of_a_name_names_its_entity(services: Services) -> None:
    await receive(services)
    both = {"Sarah Johnson", "Sarah Miller"}
    expected: dict[str, set[str]] = {
        "What did Sarah say about the Q4 budget?": both,
        "did JOHNSON write?": {"Sarah Johnson"},
        "Anything from sarah@company.com?": {"Sarah Johnson"},
        "How is Atlas doing?": {"Project Atlas"},
        "How is the project doing?": set(),
        "nguyen muon an gi": {"Nguyễn Thị Ánh"},
        "Maren's roof": {"Maren Weiß-Okonkwo"},
        "sara": set(),
    }
    for query, names in expected.items():
        assert await named_in(services, query) == names, query
    # The filter takes a part of a name too.
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
    found = await ask(services, "FindEntities", name="elsewhere.org")
    assert [entity.name for entity in found.entities] == ["Sarah Miller"]


async def test_i7_document_003_the_score_with_the_sender_of_the_mail(services: Services) -> None:
    """ "Sarah" of the question is the Sarah Johnson who sent it: entity 0.1."""
    await receive(services)
    asked = {"query": "What did Sarah say about the Q4 budget?", "scopes": [DOCUMENTS]}
    found = await ask(services, "SearchMemories", ranking="weighted", explain=True, **asked)
    scores = {each.document_chunk.title: each.breakdown["entity"] for each in found.results}
    assert scores["budget"] == pytest.approx(0.1)
    assert scores["roof"] == 0.0


async def test_what_only_ended_memories_mention_is_not_named(services: Services) -> None:
    soon = datetime.now(UTC) + timedelta(seconds=4)
    await fill(
        services.conninfo,
        "ana",
        memories=[
            Fact("Ana lives in Porto", entities=["Porto"]),
            Fact("Ana finished the course at Lisbon Tech", status="achieved", entities=["Tech"]),
            Fact("Ana lives in Lisbon", status="contradicted", entities=["Lisbon"]),
            Fact("Ana lived with Bo", status="contradicted", entities=["Bo"]),
            Fact("Ana met Bo", entities=["Bo"]),
            Fact("Ana likes Cy", status="superseded", entities=["Cy"]),
            Fact("Ana visits Eve", entities=["Eve"], expires_at=ago(1)),
            Fact("Ana waits for Flo", entities=["Flo"], expires_at=soon),
        ],
        documents=[Paper("gmail", ["From Dee"], mentions=["Dee"], made_at=ago(1))],
    )
    known = {"Porto", "Tech", "Bo", "Dee"}

    async def named() -> set[str]:
        # From the third one on, it is answered from what the process holds of the user.
        told = await ask(services, "GetContext")
        return {entity.name for entity in told.entities}

    for _ in range(3):
        assert await named() - {"Flo"} == known
    while datetime.now(UTC) < soon:
        assert await named() >= known
        await asyncio.sleep(0.2)
    for _ in range(3):
        assert await named() == known
    # The user is left out, and what only has the user's name is not.
    change(services.conninfo, "UPDATE entities SET type = 'person' WHERE name = 'Bo'")
    await called(services, "Bo Tech")
    block = (await ask(services, "GetContext")).prompt_block
    assert "- Tech (topic)" in block
    assert "- Bo (person)" not in block
    found = await ask(services, "FindEntities", name="Lisbon")
    assert [entity.name for entity in found.entities] == ["Lisbon"]
    # A question recognises none that nothing mentions any more.
    for times, names in ((1, ["Porto"]), (0, [])):
        count = "UPDATE entities SET mention_count = %(times)s WHERE name = 'Porto'"
        change(services.conninfo, count, times=times)
        found = await ask(services, "SearchMemories", query="Porto")
        assert [entity.name for entity in found.entities] == names
