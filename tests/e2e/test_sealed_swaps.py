"""Whoever may write into the database moves sealed values about (H3; faults.md, section 3).

The values are genuine: sealed with the user's key, for this very row, under another version of it.
Each is put where it does not belong, read through the calls, and put back.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import grpc
import psycopg
import pytest

from tests.e2e.conftest import Services
from tests.e2e.curating import forget, restore, save, update
from tests.e2e.learning import learn, rows, talk
from tests.e2e.leaving import export
from tests.e2e.methods import ask
from tests.e2e.privacy import choose, clear
from tests.e2e.sealing import ENCRYPTING, PERSONAL
from tests.e2e.sessions import refusal_of
from tests.scripted_model import ChatAnswer, ChatRequest

FIRST, SECOND, THIRD = "Ana takes zolpidem", "Ana takes valerian", "Ana drinks lime-blossom tea"


def summing_up(request: ChatRequest) -> ChatAnswer:
    said = request.messages[-1].content
    return ChatAnswer.of(conversation_summary={"title": f"About {said}", "summary": said})


SERVICE_SETTINGS = ENCRYPTING


@pytest.fixture
async def sealing(modelled: Services) -> Services:
    """Services with keys and the scripted model, and Ana, who encrypts."""
    modelled.model.script = summing_up
    await choose(modelled, encrypt_sensitive=True)
    return modelled


@contextmanager
def changed(conninfo: str, table: str, where: str, **columns: str) -> Iterator[None]:
    """The columns of one row set to what SQL expressions say, and set back afterwards."""
    key = f"UPDATE hitherto.{table} SET " + ", ".join(f"{name} = %s" for name in columns)
    with psycopg.connect(conninfo, autocommit=True) as connection:
        read = f"SELECT {', '.join(columns)} FROM hitherto.{table} WHERE {where}"
        (before,) = connection.execute(read.encode()).fetchall()
        to = ", ".join(f"{name} = {value}" for name, value in columns.items())
        connection.execute(f"UPDATE hitherto.{table} SET {to} WHERE {where}".encode())
        (after,) = connection.execute(read.encode()).fetchall()
        assert before != after
        yield
        connection.execute(f"{key} WHERE {where}".encode(), before)


async def reason_of_reading(services: Services, memory_id: str) -> str:
    refusal = await refusal_of(ask(services, "GetMemory", memory_id=memory_id))
    assert refusal.code is grpc.StatusCode.FAILED_PRECONDITION
    return refusal.reason


async def read(services: Services, memory_id: str) -> str:
    reply = await ask(services, "GetMemory", memory_id=memory_id)
    return str(reply.memory.content)


async def told(services: Services, memory_id: str) -> list[str]:
    """The words that the history gives the memory, event by event; "" for an event without."""
    reply = await ask(services, "GetMemoryHistory", memory_id=memory_id)
    contents = {event.version: event.after.fields["content"].string_value for event in reply.events}
    return [contents[version] for version in sorted(contents)]


def earlier(memory_id: str, version: int) -> str:
    return (
        "(SELECT v.sealed FROM hitherto.memory_versions AS v"
        f" WHERE v.memory_id = '{memory_id}' AND v.version = {version})"
    )


async def test_h3_words_of_another_version_do_not_open(sealing: Services) -> None:
    memory_id = (await save(sealing, FIRST, type=PERSONAL)).memory.id
    await update(sealing, memory_id, "content", content=SECOND)
    await update(sealing, memory_id, "content", content=THIRD)
    row = f"memory_id = '{memory_id}'"
    for version in (1, 2):
        with changed(sealing.conninfo, "memories", row, sealed=earlier(memory_id, version)):
            assert await reason_of_reading(sealing, memory_id) == "SEAL_BROKEN"
            refusal = await refusal_of(
                update(sealing, memory_id, "detail", detail="nothing of that")
            )
            assert refusal.reason == "SEAL_BROKEN"
            assert not (await ask(sealing, "ListMemories")).memories
            assert not (await ask(sealing, "SearchMemories", query="What does Ana take?")).results
    # Also where the numbers in clear are turned back with them, or within the value, which is
    # authenticated with its number.
    forged = f"overlay({earlier(memory_id, 1)} placing '\\x03'::bytea from 5)"
    for columns in ({"sealed": earlier(memory_id, 1), "text_version": "1"}, {"sealed": forged}):
        with changed(sealing.conninfo, "memories", row, **columns):
            assert await reason_of_reading(sealing, memory_id) == "SEAL_BROKEN"
    assert await read(sealing, memory_id) == THIRD

    # Versions do not change places.
    assert await told(sealing, memory_id) == [FIRST, SECOND, THIRD]
    present = f"(SELECT m.sealed FROM hitherto.memories AS m WHERE m.memory_id = '{memory_id}')"
    for version, value in ((1, earlier(memory_id, 2)), (2, earlier(memory_id, 1)), (2, present)):
        place = f"{row} AND version = {version}"
        with changed(sealing.conninfo, "memory_versions", place, sealed=value):
            shown = await told(sealing, memory_id)
            exported = (await export(sealing)).of("memory_versions")
        if (version, value) != (2, earlier(memory_id, 1)):
            # Words of a later version stand in no earlier one.
            assert shown[version - 1] == ""
            assert len([line for line in exported if line.get("content") in (SECOND, THIRD)]) < 2
        assert [each for each in shown if each] != [FIRST, SECOND, THIRD]

    # Those that were made without the key open: clearing changes the status of all at once.
    await clear(sealing)
    assert await read(sealing, memory_id) == THIRD
    back = await restore(sealing, memory_id)
    assert (back.content, back.version) == (THIRD, 5)
    gone = await forget(sealing, memory_id)
    assert (gone.content, gone.version) == (THIRD, 6)
    await restore(sealing, memory_id)
    await update(sealing, memory_id, "content", content=FIRST)
    assert await read(sealing, memory_id) == FIRST
    with changed(sealing.conninfo, "memories", row, sealed=earlier(memory_id, 4)):
        assert await reason_of_reading(sealing, memory_id) == "SEAL_BROKEN"


async def test_h3_an_earlier_vector_does_not_answer_for_the_present_words(
    sealing: Services,
) -> None:
    memory_id = (await save(sealing, FIRST, type=PERSONAL)).memory.id
    ((old,),) = rows(sealing.conninfo, "SELECT sealed FROM hitherto.sealed_embeddings")
    await update(sealing, memory_id, "content", content=THIRD)
    whole = await cosine(sealing, THIRD, memory_id)
    assert whole > 0.1
    value = f"'\\x{old.hex()}'::bytea"
    with changed(sealing.conninfo, "sealed_embeddings", "true", sealed=value):
        assert await cosine(sealing, FIRST, memory_id) == 0.0
    with changed(sealing.conninfo, "sealed_embeddings", "true", sealed=value, text_version="1"):
        assert await cosine(sealing, FIRST, memory_id) == 0.0
    assert await cosine(sealing, THIRD, memory_id) == pytest.approx(whole)


async def cosine(services: Services, query: str, memory_id: str) -> float:
    """What the vector of a memory adds to its score."""
    reply = await ask(services, "SearchMemories", query=query, explain=True)
    found = {each.memory.id: each.breakdown.get("semantic", 0.0) for each in reply.results}
    return float(found.get(memory_id, 0.0))


async def test_h3_neither_summaries_nor_messages_change_places(sealing: Services) -> None:
    await learn(sealing, talk("zolpidem", conversation="c1"))
    ((old,),) = rows(sealing.conninfo, "SELECT sealed FROM hitherto.conversation_summaries")
    await learn(sealing, talk("zolpidem", "valerian", conversation="c1"))
    kept = await ask(sealing, "GetConversation", conversation_id="c1")
    assert kept.summary.summary == "valerian"
    earlier_summary = f"'\\x{old.hex()}'::bytea"
    other = "(SELECT m.sealed FROM hitherto.messages AS m WHERE m.message_id = 'c1-2')"
    for table, where, value in (
        ("conversation_summaries", "true", earlier_summary),
        ("messages", "message_id = 'c1-1'", other),
    ):
        with changed(sealing.conninfo, table, where, sealed=value):
            refusal = await refusal_of(ask(sealing, "GetConversation", conversation_id="c1"))
            assert refusal.code is grpc.StatusCode.FAILED_PRECONDITION
            assert refusal.reason == "SEAL_BROKEN"
            listed = (await ask(sealing, "ListConversations")).conversations
            assert [each.summary for each in listed] == ["valerian"] * (table == "messages")
