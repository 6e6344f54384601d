"""CrewAI's memory in our storage, in an environment with nothing but both packages.

tests/e2e/test_frameworks.py runs it, with a scripted model and real services, and looks at what
the model was told and what is kept.
"""

from __future__ import annotations

import asyncio
import copy
import os
from datetime import UTC, datetime, timedelta
from typing import Any

# Nothing is sent to CrewAI, and nothing asks for it.
os.environ |= {"CREWAI_DISABLE_TELEMETRY": "true", "CREWAI_TRACING_ENABLED": "false"}

from crewai import Agent, Memory
from crewai.memory.storage.backend import StorageBackend
from crewai.memory.types import MemoryRecord

from hitherto_client import Hitherto, HithertoCallError
from hitherto_client.integrations.crewai import HithertoStorage

MODEL = "openai/gpt-4o-mini"


def asked(storage: HithertoStorage, question: str, **how: Any) -> list[str]:
    """What a search finds, best first."""
    [vector] = storage.embedder([question])
    return [record.content for record, _ in storage.search(vector, **how)]


def records_come_back(memory: Hitherto) -> None:
    """Every field of a record, in both directions, and its versions."""
    storage = HithertoStorage(memory, user="bea", min_relevance=0)
    assert isinstance(storage, StorageBackend)
    assert copy.deepcopy(storage) is storage
    record = MemoryRecord(
        content="Bea sống ở Đà Nẵng 🏖️",
        scope="/crew/home",
        categories=["Places & homes", "!!!"],
        metadata={"n": 3, "nested": {"list": [1.5, None, "\x00é"]}},
        importance=0.9,
        created_at=datetime(2026, 3, 1, 12),
        source="bea",
        private=True,
    )
    storage.save([record])
    storage.save([record])
    assert storage.count() == 1
    kept = storage.get_record(record.id)
    assert kept is not None
    assert kept.model_dump(exclude={"last_accessed"}) == record.model_dump(
        exclude={"last_accessed"}
    )
    assert storage.get_record("unknown") is None
    # CrewAI's consolidation writes a record anew, without its source.
    corrected = {"content": "Bea sống ở Huế", "source": None, "private": False}
    storage.update(record.model_copy(update=corrected))
    kept = storage.get_record(record.id)
    assert kept is not None
    assert (kept.content, kept.source, kept.private) == ("Bea sống ở Huế", "bea", True)
    [held] = memory.memories("bea")
    assert (held.version, held.tags) == (2, ("places_homes",))
    assert held.valid_from == datetime(2026, 3, 1, 12, tzinfo=UTC)
    # Another scope, and another user.
    storage.save([MemoryRecord(content="bea sống ở Huế.", scope="/team")])
    assert (len(list(memory.memories("bea"))), storage.count()) == (1, 2)
    assert HithertoStorage(memory, user="cem").count() == 0
    storage.update(record.model_copy(update={"content": "Bea sống ở Vinh"}))
    assert sorted(each.content for each in storage.list_records()) == [
        "Bea sống ở Huế",
        "Bea sống ở Vinh",
    ]


def scopes_and_filters(memory: Hitherto) -> None:
    """Lists, counts and searches within scopes, categories and metadata; deletion, and a reset."""
    storage = HithertoStorage(memory, user="dan", min_relevance=0)
    days = [datetime(2026, 1, 1) + timedelta(days=day) for day in range(4)]
    storage.save(
        [
            MemoryRecord(content="root note", created_at=days[0], metadata={"env": "dev"}),
            MemoryRecord(content="sales note", scope="/crew/sales", created_at=days[1]),
            MemoryRecord(
                content="engine note",
                scope="crew/eng/",
                categories=["b", "a"],
                metadata={"env": "prod"},
                created_at=days[2],
            ),
            MemoryRecord(
                content="crews note", scope="/crews", categories=["b"], created_at=days[3]
            ),
        ]
    )
    listed = [each.content for each in storage.list_records()]
    assert listed == ["crews note", "engine note", "sales note", "root note"]
    assert [each.content for each in storage.list_records("/crew", limit=1, offset=1)] == [
        "sales note"
    ]
    assert storage.list_scopes() == ["/crew", "/crews"]
    assert storage.list_categories() == {"a": 1, "b": 2}
    info = storage.get_scope_info("/crew/")
    assert info.model_dump() == {
        "path": "/crew",
        "record_count": 2,
        "categories": ["a", "b"],
        "oldest_record": days[1],
        "newest_record": days[2],
        "child_scopes": ["/crew/eng", "/crew/sales"],
    }
    assert set(asked(storage, "note", scope_prefix="/crew")) == {"sales note", "engine note"}
    assert asked(storage, "note", categories=["a", "c"]) == ["engine note"]
    assert asked(storage, "note", metadata_filter={"env": "dev"}) == ["root note"]
    assert asked(storage, "sales note", limit=1) == ["sales note"]
    assert asked(storage, "note", limit=0) == []
    [vector] = storage.embedder(["sales note"])
    [(_, score), *_] = asyncio.run(storage.asearch(vector))
    assert 0.9 < score <= 1
    assert storage.delete(record_ids=[]) == 0
    assert storage.delete(older_than=days[1].replace(tzinfo=UTC)) == 1
    assert asyncio.run(storage.adelete("/crew", categories=["a"])) == 1
    storage.reset("/crew")
    assert [each.content for each in storage.list_records()] == ["crews note"]
    storage.reset()
    assert storage.count() == 0
    # What CrewAI has deleted may be remembered again.
    asyncio.run(storage.asave([MemoryRecord(content="crews note")]))
    assert [(each.scope, each.categories) for each in storage.list_records()] == [("/", [])]


def the_user_comes_first(memory: Hitherto) -> None:
    """A record changes nothing that the user said, and brings back nothing that was forgotten."""
    storage = HithertoStorage(memory, user="eve")
    said = memory.save_memory("eve", "Eve is allergic to peanuts.").memory
    record = MemoryRecord(content="Eve is allergic to peanuts")
    storage.save([record])
    storage.update(record.model_copy(update={"content": "Eve eats anything."}))
    assert [each.content for each in storage.list_records()] == ["Eve eats anything."]
    storage.save([record])
    storage.reset()
    assert [(each.id, each.origin) for each in memory.memories("eve")] == [(said.id, "user")]
    memory.forget_memory("eve", said.id)
    try:
        storage.save([record, MemoryRecord(content="Eve likes tea.")])
    except HithertoCallError as error:
        refusal = error.reason
    assert refusal == "MEMORY_STATUS_CONFLICT"
    assert [each.content for each in storage.list_records()] == ["Eve likes tea."]
    try:
        storage.search([0.1, 0.2, 0.3, 0.4])
    except ValueError as error:
        unknown = str(error)
    assert "embedder=storage.embedder" in unknown


def agent_of(memory: Hitherto, user: str) -> Agent:
    """An agent that remembers."""
    storage = HithertoStorage(memory, user=user)
    return Agent(
        role="Assistant",
        goal="Be brief.",
        backstory="You answer.",
        llm=MODEL,
        memory=Memory(storage=storage, embedder=storage.embedder, llm=MODEL),
    )


def agents_remember(memory: Hitherto) -> None:
    """An agent's words are extracted by its model; another agent of the same user is told them."""
    monday = agent_of(memory, "ana")
    monday.kickoff("I live in Porto.")
    monday.memory.drain_writes()
    for user in ("ana", "bob"):
        print(f"{user}: {agent_of(memory, user).kickoff('Where do I live?').raw}")
    # CrewAI's model is asked about what is near, and corrects it.
    kept = agent_of(memory, "ana").memory
    [found] = kept.recall("Where is Porto mentioned?")
    assert (found.record.scope, found.record.metadata["entities"]) == ("/user/home", ["Porto"])
    kept.remember("The user lives in Porto.", scope="/user", categories=[], importance=0.5)
    [found] = kept.scope("/user").recall("Porto", depth="shallow")
    assert found.record.content == "The user lives in Porto, in Bonfim."
    assert found.record.scope == "/user/home"


def main() -> None:
    with Hitherto() as memory:
        records_come_back(memory)
        scopes_and_filters(memory)
        the_user_comes_first(memory)
        agents_remember(memory)


main()
