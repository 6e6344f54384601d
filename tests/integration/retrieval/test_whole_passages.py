"""Messages, summaries and chunks read whole, in the order they are asked for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

from hitherto_retrieval.storage import chunks, conversations, messages
from hitherto_shared.identifiers import uuid7
from tests.integration.retrieval.questions import ANA, Reader, answer
from tests.integration.retrieval.seed_passages import (
    Outline,
    Paper,
    Turn,
    converse,
    hand_over,
    sum_up,
)

NOW = datetime.now(UTC)


async def test_messages_with_what_was_said_around_them(reader: Reader) -> None:
    said = {
        name: [Turn(f"{name}{n}", "tool" if n == 3 else "user") for n in range(1, 8)]
        for name in ("c", "d")
    }
    said["c"][4] = Turn(
        "c5", "assistant", "Minh", NOW, {"k": [1]}, [{"id": "x", "relevance": 0.5}], "an id"
    )
    await converse(reader.superuser, "ana", said)
    await converse(reader.superuser, "minh", {"theirs": [Turn("x")]})
    await converse(reader.superuser, "ana", {"another": [Turn("x")]}, tenant="another")

    wanted = [("d", 7), ("theirs", 1), ("c", 5), ("c", 99), ("another", 1), ("c", 1)]
    shown = [("d", 7), ("c", 5), ("c", 1)]
    for _ in range(12):
        near = await answer(reader, messages.around(ANA, wanted, excerpt=2))
        assert list(near) == shown
        assert [[number for _, number in keys] for keys in near.values()] == [
            [5, 6, 7],
            [2, 4, 5, 6, 7],
            [1, 2, 4],
        ]
        assert all(key[0] == source[0] for source, keys in near.items() for key in keys)
        assert near["c", 1]["c", 1] == len("c1") + len("{}[]")
        found = await answer(reader, messages.by_keys(ANA, wanted))
        assert list(found) == shown
    message = found["c", 5]
    assert (message.conversation_id, message.message_id, message.role) == (
        "c",
        "an id",
        "assistant",
    )
    assert (message.name, message.content, message.said_at) == ("Minh", "c5", NOW)
    assert message.context_items == [{"id": "x", "relevance": 0.5}]
    assert (message.metadata, message.pending_action_ids) == ({"k": [1]}, [])
    assert await answer(reader, messages.around(ANA, [], excerpt=2)) == {}


async def test_summaries(reader: Reader) -> None:
    await converse(reader.superuser, "ana", {"c": [Turn("x"), Turn("y")], "bare": [Turn("x")]})
    said_at = NOW - timedelta(days=2)
    outlines = [Outline("c", "about c", "C"), Outline("d", "về Hà Nội", "D", said_at)]
    await sum_up(reader.superuser, "ana", outlines)
    await sum_up(reader.superuser, "minh", [Outline("theirs", "x")])
    for _ in range(12):
        found = await answer(
            reader, conversations.by_conversations(ANA, ["d", "bare", "theirs", "none", "c"])
        )
        assert [(s.conversation_id, s.title, s.summary, s.message_count) for s in found] == [
            ("d", "D", "về Hà Nội", 0),
            ("c", "C", "about c", 2),
        ]
    assert (found[0].last_said_at, found[0].user_id, found[0].outcome) == (
        said_at,
        "ana",
        "ongoing",
    )


async def test_chunks_with_the_head_of_their_document(reader: Reader) -> None:
    papers = [
        Paper("gmail", ["one", "two"], "Subject", "email", NOW, {"from": "lan@example.org"}),
        Paper("jira", ["three"]),
    ]
    stored, _ = await hand_over(reader.superuser, "ana", papers)
    theirs, _ = await hand_over(reader.superuser, "minh", [Paper("gmail", ["x"])])
    other, _ = await hand_over(reader.superuser, "ana", [Paper("gmail", ["x"])], tenant="another")
    wanted: list[UUID] = [stored[1][0], theirs[0][0], stored[0][1], other[0][0], uuid7()]
    for _ in range(12):
        found = await answer(reader, chunks.by_ids(ANA, wanted))
        assert [chunk.content for chunk in found] == ["three", "two"]
    chunk = found[1]
    assert (chunk.chunk_id, chunk.position, chunk.title) == (stored[0][1], 1, "Subject")
    assert (chunk.source_type, chunk.content_type, chunk.author) == ("gmail", "email", "An author")
    assert (chunk.source_id, chunk.created_at) == (str(chunk.document_id), NOW)
    assert (chunk.metadata, chunk.summary) == ({"from": "lan@example.org"}, "")
