"""RollbackSource where memories were also merged, reworded, forgotten and reviewed by hand.

Conversations teach, in a random order, and between them somebody corrects, forgets, restores and
reviews memories, and consolidation merges some and is undone. Then the conversations are taken
back in a random order. What only they said stands nowhere, what the others say stays, and what a
hand did last holds. Every source and every hand says words of its own, by which it is known again.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import grpc
import psycopg

from hitherto.v1 import memory_pb2
from tests.e2e.conftest import Services, StartServices
from tests.e2e.curating import APPROVE, REJECT, update
from tests.e2e.learning import ALL_STATUSES, ended, memories, submit, talk
from tests.e2e.methods import ask, read_refusal
from tests.e2e.random_lives import side_by_side, take_back_as_told
from tests.scripted_model import ChatAnswer, ChatRequest, ScriptedModel
from tests.scripted_model.answers import memory as new_memory
from tests.scripted_model.answers import merged, quoting

USERS = 10
TURNS = 12
MARCH = datetime(2026, 3, 1, tzinfo=UTC)
ROSES = "The user grows roses"
STANDING = (memory_pb2.MEMORY_STATUS_ACTIVE, memory_pb2.MEMORY_STATUS_ACHIEVED)
_WORD = re.compile(r"\b(?:src|hand)[a-z]+\b")
_SOURCES = ("srca", "srcb", "srcc")
_CLAIMED = "claim"


def letters(number: int) -> str:
    """A number as letters: words of one's own that are no numbers and no names."""
    return "".join("qwxzjkvyfp"[int(digit)] for digit in f"{number:03}")


def script(request: ChatRequest) -> ChatAnswer:
    """A model that learns what a message says after its verbs, and merges what it is shown."""
    if request.consolidation:
        shown = request.memories[:4]
        if len(shown) < 2:
            return ChatAnswer.of(memories=[])
        content = ". ".join(each.content.rstrip(".") for each in shown)
        return ChatAnswer.of(
            memories=[merged(content, [each.local_id for each in shown], type="fact")]
        )
    said, by = request.messages[-1].content, request.messages[-1].local_id
    found: dict[str, Any] = {"new_memories": [], "conversation_summary": {"title": "Talk"}}
    statements = [each for each in said.split(" | ") if each.startswith("The user")]
    for each in statements:
        found["new_memories"].append(new_memory(each, [by], tags=["garden"]))
    roses = [each for each in request.memories if ROSES in each.content]
    if said.startswith("more") and roses:
        addition = said.rpartition(" ")[2]
        content = f"{ROSES} with {addition}"
        found["updated_memories"] = [
            {"id": roses[0].local_id, "content": content, "source_message_ids": [by]}
        ]
    if said.startswith(("no longer", _CLAIMED)) and roses and statements:
        found["contradicted_memories"] = [
            {"id": roses[0].local_id, "by": 0, "source_message_ids": [by]}
        ]
    return quoting(request, **found)


class Person:
    """A user whose memory several sources and a hand have a part in."""

    def __init__(self, name: str, random: Random, services: Services) -> None:
        self.name = name
        self.random = random
        self.services = services
        self.words = 0
        self.by_hand: dict[str, str] = {}
        self.forgotten: set[str] = set()
        self.said: dict[str, set[str]] = {source: set() for source in _SOURCES}
        self.story: list[str] = []

    def word(self, source: str) -> str:
        """A word that nobody else says."""
        self.words += 1
        return f"{source}{letters(self.words)}"

    async def live(self) -> None:
        """Learn, change by hand, merge; then take the sources back."""
        await self.teach()
        acts: list[Callable[[], Awaitable[None]]] = [
            self.teach, self.teach, self.teach, self.correct, self.forget, self.restore,
            self.merge, self.merge, self.undo, self.claim, self.review,
        ]  # fmt: skip
        for _ in range(TURNS):
            await self.random.choice(acts)()
        gone: set[str] = set()
        for source in self.random.sample(_SOURCES, self.random.randint(1, len(_SOURCES))):
            before = await self.held()
            self.story.append(f"take back {source}")
            await self.take_back(source)
            gone.add(source)
            await self.compare(gone, before)

    async def teach(self) -> None:
        """A source says something of its own, says what all say, or adds to it."""
        source = self.random.choice(_SOURCES)
        word = self.word(source)
        text = self.random.choice(
            [
                f"I grow {word} | The user grows {word}",
                f"I grow roses and {word} | {ROSES} | The user grows {word}",
                f"more of the roses with {word}",
                f"no longer roses, I grow {word} | The user no longer grows roses but {word}",
            ]
        )
        if "The user grows" in text:
            self.said[source].add(f"The user grows {word}")
        await self.tell(source, text)

    async def claim(self) -> None:
        """What the assistant claims against the user's word waits for review."""
        source = self.random.choice(_SOURCES)
        word = self.word(source)
        text = f"{_CLAIMED}: no roses but {word} | The user no longer grows roses but {word}"
        await self.tell(source, ("assistant", text))

    async def tell(self, source: str, *lines: Any, hour: int | None = None) -> None:
        """Let a conversation go on."""
        number = self.words
        hour = self.random.randint(0, 500) if hour is None else hour
        at = MARCH + timedelta(hours=hour)
        transcript = talk(*lines, user=self.name, conversation=source, at=at)
        transcript.messages[0].id = f"{source}-{number}"
        self.story.append(f"{source}: {lines}")
        (job_id,) = await submit(self.services, transcript)
        job = await ended(self.services, job_id, within=240)
        assert not job.error, job.error

    async def correct(self) -> None:
        one = await self.one(*STANDING)
        if one is not None:
            content = f"The user owns {self.word('hand')}"
            self.story.append(f"hand: {one.content} -> {content}")
            await update(self.services, one.id, "content", user=self.name, content=content)
            self.by_hand[one.id] = content

    async def forget(self) -> None:
        one = await self.one(*STANDING)
        if one is not None:
            self.story.append(f"forget: {one.content}")
            await ask(self.services, "ForgetMemory", user_id=self.name, memory_id=one.id)
            self.forgotten.add(one.id)

    async def restore(self) -> None:
        one = await self.one(memory_pb2.MEMORY_STATUS_FORGOTTEN)
        if one is not None:
            self.story.append(f"restore: {one.content}")
            await ask(self.services, "RestoreMemory", user_id=self.name, memory_id=one.id)
            self.forgotten.discard(one.id)

    async def review(self) -> None:
        """Somebody decides about what waits."""
        one = await self.one(memory_pb2.MEMORY_STATUS_QUARANTINED)
        if one is not None:
            decided = {"memory_id": one.id, "decision": self.random.choice((APPROVE, REJECT))}
            self.story.append(f"review {decided['decision']}: {one.content}")
            await ask(self.services, "ReviewMemory", user_id=self.name, **decided)

    async def merge(self) -> None:
        """Consolidation joins some memories."""
        self.story.append("merge")
        reply = await ask(self.services, "Consolidate", user_id=self.name, tag="garden")
        await ended(self.services, reply.job.id, within=240)

    async def undo(self) -> None:
        found = [
            each
            for each in await memories(self.services, user=self.name)
            if each.source == memory_pb2.MEMORY_SOURCE_CONSOLIDATION and each.supersedes
        ]
        if found:
            one = self.random.choice(found)
            self.story.append(f"undo: {one.content}")
            await ask(self.services, "UndoConsolidation", user_id=self.name, memory_id=one.id)

    async def one(self, *statuses: memory_pb2.MemoryStatus.ValueType) -> memory_pb2.Memory | None:
        """Any memory of these statuses."""
        found = [each for each in (await self.held()).values() if each.status in statuses]
        return self.random.choice(found) if found else None

    async def held(self) -> dict[str, memory_pb2.Memory]:
        found = await memories(self.services, user=self.name, statuses=ALL_STATUSES)
        return {each.id: each for each in found}

    async def take_back(self, source: str) -> None:
        """Take a conversation back, if it has said anything."""
        try:
            await take_back_as_told(self.services, self.name, conversation_id=source)
        except grpc.aio.AioRpcError as error:
            if read_refusal(error).reason != "CONVERSATION_NOT_FOUND":
                raise

    async def compare(self, gone: set[str], before: dict[str, memory_pb2.Memory]) -> None:
        """What stands is what is left, and what a hand did."""
        after = await self.held()
        story = "\n".join([self.name, *self.story])
        standing = {each.id: each for each in after.values() if each.status in STANDING}
        for one in standing.values():
            by_hand = self.by_hand.get(one.id, "")
            poison = [
                word
                for word in _WORD.findall(one.content)
                if word[: len("srca")] in gone and word not in by_hand
            ]
            assert not poison, f"{story}\n{poison} stands: {one}"
            left = {source.conversation_id for source in one.sources}
            assert not left & gone, f"{story}\nnames {left & gone}: {one}"
            # Nobody brings back what a hand had forgotten.
            assert one.id not in self.forgotten, f"{story}\nback: {one}"
        for memory_id, content in self.by_hand.items():
            one = after[memory_id]
            if memory_id in standing and before[memory_id].status in STANDING:
                assert "hand" in one.content or before[memory_id].content == one.content, (
                    f"{story}\n{content} became {one}"
                )
        texts = [each.content for each in standing.values()]
        for source in set(_SOURCES) - gone:
            for content in self.said[source]:
                own = [each for each in after.values() if each.content == content]
                kept = any(content in text for text in texts)
                touched = any(
                    each.id in self.forgotten or each.id in self.by_hand
                    for each in after.values()
                    if each.content == content or content in before[each.id].content
                )
                closed = any(each.status not in STANDING for each in own)
                assert kept or touched or closed or not own, f"{story}\n{content} is gone"


async def test_row_72_sources_go_from_what_was_merged_and_changed_by_hand(
    start_services: StartServices, model: ScriptedModel
) -> None:
    """In any interleaving of sources, merges and hands."""
    model.script = script
    # Nothing is merged but when the test wants it.
    async with start_services(model, consolidate_above=1_000) as services:
        seed = Random().randrange(10**6)
        people = [Person(f"p{n}", Random(f"{seed}.{n}"), services) for n in range(USERS)]
        await side_by_side([each.live for each in people], seed)


async def test_row_72_memories_without_statements_are_rebuilt_from_their_versions(
    modelled: Services,
) -> None:
    """What was learnt before statements were kept goes with its source too."""
    modelled.model.script = script
    person = Person("old", Random(7), modelled)
    for source, text in (
        ("srca", f"I grow roses | {ROSES}"),
        ("srcb", "more of the roses with srcbqqq"),
        ("srcb", "I grow srcbqqw | The user grows srcbqqw"),
        ("srcc", "no longer roses but srccqqe | The user no longer grows roses but srccqqe"),
    ):
        person.words += 1
        await person.tell(source, text, hour=person.words)
    with psycopg.connect(modelled.conninfo, autocommit=True) as connection:
        connection.execute("DELETE FROM statements")
    found = {each.content: each for each in (await person.held()).values()}
    closed = memory_pb2.MEMORY_STATUS_CONTRADICTED
    assert found[f"{ROSES} with srcbqqq"].status == closed
    await person.take_back("srcc")
    found = {each.content: each for each in (await person.held()).values()}
    assert found[f"{ROSES} with srcbqqq"].status in STANDING
    await person.take_back("srcb")
    standing = [each.content for each in (await person.held()).values() if each.status in STANDING]
    assert standing == [ROSES]
    await person.take_back("srca")
    assert not [each for each in (await person.held()).values() if each.status in STANDING]
