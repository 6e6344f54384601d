"""What the last answer was based on comes back for the follow-up question (F4)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from hitherto_retrieval.storage import chunks, previous_items
from hitherto_shared.identifiers import uuid7
from tests.integration.retrieval.questions import ANA, Reader, answer
from tests.integration.retrieval.seed import Fact, remember
from tests.integration.retrieval.seed_passages import (
    Outline,
    Paper,
    Turn,
    converse,
    hand_over,
    sum_up,
)


async def test_the_items_of_the_last_answer(reader: Reader) -> None:
    items: list[dict[str, object]] = [
        {"id": "b", "relevance": 0.25},
        {"id": "a"},
        {"id": "c", "relevance": 1},
    ]
    turns = [
        Turn("old", "assistant", context_items=[{"id": "old", "relevance": 1}]),
        Turn("new", "assistant", context_items=items),
        Turn("and the second one?", context_items=[{"id": "a user's", "relevance": 1}]),
    ]
    silent = [*turns, Turn("It is B.", "assistant")]
    await converse(reader.superuser, "ana", {"c": turns, "silent": silent, "none": turns[2:]})
    await converse(reader.superuser, "minh", {"theirs": turns})

    async def last(conversation_id: str) -> Sequence[tuple[str, float]]:
        asked = previous_items.context_items_of_last_answer(ANA, conversation_id)
        return (await answer(reader, asked)).named

    for _ in range(12):
        assert await last("c") == [("b", 0.25), ("a", 0.0), ("c", 1.0)]
    # An answer that was based on nothing is the last one all the same.
    assert await last("silent") == []
    assert await last("none") == []
    assert await last("theirs") == []


async def test_ids_of_every_kind_are_known_again(reader: Reader) -> None:
    facts = [
        Fact("current"),
        Fact("forgotten", status="forgotten"),
        Fact("replaced", status="superseded"),
        Fact("expired", expires_at=datetime.now(UTC) - timedelta(days=1)),
    ]
    ids = await remember(reader.superuser, "ana", facts)
    (theirs,) = await remember(reader.superuser, "minh", [Fact("x")])
    stored, _ = await hand_over(reader.superuser, "ana", [Paper("gmail", ["one", "two"])])
    other, _ = await hand_over(reader.superuser, "minh", [Paper("gmail", ["x"])])
    (chunk,) = await answer(reader, chunks.by_ids(ANA, [stored[0][1]]))
    now = datetime.now(UTC)
    await converse(
        reader.superuser,
        "ana",
        {
            "here": [Turn("x", message_id="twice", said_at=now - timedelta(days=9))],
            "there": [Turn("x", message_id="twice", said_at=now), Turn("x", message_id="once")],
            "tool": [Turn("x", "tool", message_id="output")],
        },
    )
    await converse(reader.superuser, "minh", {"c": [Turn("x", message_id="their message")]})
    uuid_named = str(uuid7())
    await sum_up(reader.superuser, "ana", [Outline("here", "x"), Outline(uuid_named, "x")])
    await sum_up(reader.superuser, "minh", [Outline("theirs", "x")])

    expected = {
        str(stored[0][1]): ("document", stored[0][1]),
        str(ids[0]).upper(): ("memory", ids[0]),
        "twice": ("message", ("here", 1)),
        str(chunk.document_id): ("document", stored[0][0]),
        "here": ("summary", "here"),
        "once": ("message", ("there", 2)),
        uuid_named: ("summary", uuid_named),
    }
    strangers = [
        *map(str, (ids[1], ids[2], ids[3], theirs, other[0][0], uuid7())),
        *("", "no uuid", "theirs", "their message", "there", "output", "Hà Nội 🦢", "x" * 256),
    ]
    for _ in range(12):
        found = await answer(
            reader, previous_items.known(ANA, "here", [*strangers, *expected, *strangers])
        )
        assert found == expected
        # As sent they stand in their order, so that "the second one" can be told.
        assert list(found) == list(expected)
    elsewhere = await answer(reader, previous_items.known(ANA, "none", ["twice"]))
    assert elsewhere == {"twice": ("message", ("there", 1))}
    assert await answer(reader, previous_items.known(ANA, "here", [])) == {}
