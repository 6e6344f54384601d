"""Random lives of users, and what the history of each must tell: the present, event by event."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import UTC, datetime
from random import Random
from typing import Any

from google.protobuf import json_format
from google.protobuf.field_mask_pb2 import FieldMask

from hitherto.v1 import history_pb2, memory_pb2, memory_service_pb2
from tests.e2e.conftest import Services
from tests.e2e.curating import checks
from tests.e2e.learning import ALL_STATUSES, ended, memories, submit, talk
from tests.e2e.methods import ask
from tests.scripted_model import ChatAnswer, ChatRequest
from tests.scripted_model.answers import memory as new_memory
from tests.scripted_model.answers import merged, quoting

FACTS = (
    "The user keeps bees",
    "The user paints portraits",
    "The user speaks Basque",
    "The user rows every Sunday",
    "The user collects stamps",
    "The user dislikes long meetings",
)
_TIMES = ("valid_from", "valid_to", "expires_at")
_PLAIN = (
    "content", "detail", "importance", "tags", "keywords", "superseded_by", "sensitive",
    "conversation_id",
)  # fmt: skip
_ENUMS = {
    "type": (memory_pb2.MemoryType, "MEMORY_TYPE_"),
    "confidence": (memory_pb2.Confidence, "CONFIDENCE_"),
    "source": (memory_pb2.MemorySource, "MEMORY_SOURCE_"),
    "origin": (memory_pb2.Origin, "ORIGIN_"),
    "status": (memory_pb2.MemoryStatus, "MEMORY_STATUS_"),
}


async def side_by_side(lives: Iterable[Callable[[], Awaitable[None]]], seeds: object) -> None:
    """Let lives go on, some at a time; what fails is told together, with their seeds."""
    turns = asyncio.Semaphore(4)

    async def take_turn(live: Callable[[], Awaitable[None]]) -> None:
        async with turns:
            await live()

    results = await asyncio.gather(*map(take_turn, lives), return_exceptions=True)
    failed = [f"{type(each).__name__}: {each}" for each in results if each is not None]
    assert not failed, "\n\n".join([str(seeds), *failed])


async def take_back_as_told(services: Services, user: str, **source: Any) -> None:
    """Take a source back; a dry run counts the same before."""
    told, done = [
        (await ask(services, "RollbackSource", user_id=user, dry_run=dry, **source)).counts
        for dry in (True, False)
    ]
    assert told == done, (user, source, told, done)


class Life:
    """A user to whom things happen at random."""

    def __init__(self, services: Services, name: str, random: Random, conninfo: str) -> None:
        self.services, self.name, self.random, self.conninfo = services, name, random, conninfo
        self.turns = 0

    async def one(self, *statuses: Any) -> str:
        found = await memories(self.services, user=self.name, statuses=statuses or ALL_STATUSES)
        return self.random.choice(found).id if found else ""

    async def save(self) -> None:
        request = memory_service_pb2.SaveMemoryRequest(
            user_id=self.name,
            content=self.random.choice(FACTS),
            importance=self.random.choice((0.1, 0.4, 0.9)),
            detail=self.random.choice(("", "said twice")),
            tags=self.random.sample(("work", "home", "habits"), 2),
        )
        request.metadata.update({self.random.choice("ab"): self.random.choice("xyz")})
        if self.random.random() < 0.3:
            request.expires_at.FromDatetime(datetime(2040, 1, self.random.randint(1, 28)))
        await self.services.memory.SaveMemory(request)

    async def learn(self) -> None:
        self.turns += 1
        conversation = self.random.choice(("c1", "c2", "c3"))
        turn = f"turn {self.turns} of {self.name}"
        ended_all = "; ".join(f"no longer {fact}" for fact in FACTS)
        text = f"{turn}; boat, house in Porto, Huế, Oslo; {ended_all}"
        transcript = talk(text, user=self.name, conversation=conversation, at=datetime.now(UTC))
        transcript.messages[0].id = turn
        (job_id,) = await submit(self.services, transcript)
        await ended(self.services, job_id, within=240)

    async def correct(self) -> None:
        memory = memory_pb2.Memory(
            content=f"{self.random.choice(FACTS)} since {self.random.randint(1990, 2020)}",
            importance=self.random.choice((0.1, 0.2, 0.8)),
            tags=["habits"],
            sensitive=self.random.random() < 0.2,
        )
        memory.context.update({"place": self.random.choice(("here", "there"))})
        paths = self.random.sample(("content", "importance", "tags", "sensitive", "context"), 2)
        which = {"memory_id": await self.one(), "update_mask": FieldMask(paths=paths)}
        await ask(self.services, "UpdateMemory", user_id=self.name, memory=memory, **which)

    async def forget(self) -> None:
        await ask(self.services, "ForgetMemory", user_id=self.name, memory_id=await self.one())

    async def restore(self) -> None:
        statuses = memory_pb2.MEMORY_STATUS_FORGOTTEN, memory_pb2.MEMORY_STATUS_ARCHIVED
        one = await self.one(*statuses)
        await ask(self.services, "RestoreMemory", user_id=self.name, memory_id=one)

    async def consolidate(self) -> None:
        tag = self.random.choice(("work", "home", "habits"))
        reply = await ask(self.services, "Consolidate", user_id=self.name, tag=tag)
        await ended(self.services, reply.job.id, within=240)

    async def undo(self) -> None:
        found = await memories(self.services, user=self.name, statuses=ALL_STATUSES)
        made = [m.id for m in found if m.source == memory_pb2.MEMORY_SOURCE_CONSOLIDATION]
        if made:
            one = self.random.choice(made)
            await ask(self.services, "UndoConsolidation", user_id=self.name, memory_id=one)

    async def roll_back(self) -> None:
        source = self.random.choice(("c1", "c2", "c3"))
        await ask(self.services, "RollbackSource", user_id=self.name, conversation_id=source)

    async def compare(self) -> None:
        """Every memory and the profile are what their history tells."""
        await checks(self.services, user=self.name)
        for memory in await memories(self.services, user=self.name, statuses=ALL_STATUSES):
            asked = {"user_id": self.name, "memory_id": memory.id, "page_size": 200}
            reply = await ask(self.services, "GetMemoryHistory", **asked)
            told = replayed(reply.events)
            assert told == present(memory), (self.name, memory.id, list(reply.events))
            assert reply.events[0].version == memory.version
        changes = await ask(self.services, "GetProfileHistory", user_id=self.name, page_size=200)
        profile = (await ask(self.services, "GetProfile", user_id=self.name)).profile
        told = laid_over(changes.events)
        assert told["facts"] == json_format.MessageToDict(profile.facts)
        assert told["current_projects"] == list(profile.current_projects)
        assert changes.events[0].version == profile.version


def laid_over(events: Sequence[history_pb2.HistoryEvent]) -> dict[str, Any]:
    """What the events leave; each begins where the one before has ended."""
    held: dict[str, Any] = {}
    for event in reversed(events):
        for name, value in json_format.MessageToDict(event.before).items():
            # What a merge replaces shrinks without an event of its own when a part is forgotten.
            if name in held and name != "supersedes":
                assert plain(name, held[name]) == plain(name, value), (name, event)
        held |= json_format.MessageToDict(event.after)
    return held


def replayed(events: Sequence[history_pb2.HistoryEvent]) -> dict[str, Any]:
    """A memory as its history tells it."""
    held = laid_over(events)
    names = (*_PLAIN, *_TIMES, *_ENUMS, "context", "metadata")
    return {name: plain(name, held[name]) for name in names}


def plain(name: str, value: Any) -> Any:
    if name in _TIMES:
        return datetime.fromisoformat(value) if value else None
    if name == "importance":
        return round(value, 9)
    if name == "superseded_by":
        return value or ""
    return value


def present(memory: memory_pb2.Memory) -> dict[str, Any]:
    fields: dict[str, Any] = {name: getattr(memory, name) for name in _PLAIN}
    fields |= {name: list(getattr(memory, name)) for name in ("tags", "keywords")}
    fields["importance"] = round(memory.importance, 9)
    for name in _TIMES:
        held = any(field.name == name for field, _ in memory.ListFields())
        fields[name] = getattr(memory, name).ToDatetime(UTC) if held else None
    for name, (kinds, prefix) in _ENUMS.items():
        fields[name] = kinds.Name(getattr(memory, name)).removeprefix(prefix).lower()
    for name in ("context", "metadata"):
        fields[name] = json_format.MessageToDict(getattr(memory, name))
    return fields


def script(random: Random) -> Any:
    """A model that merges all it is shown, and otherwise finds, contradicts and rewords."""

    def answer(request: ChatRequest) -> ChatAnswer:
        if request.consolidation:
            return ChatAnswer.of(
                memories=[merged("The user has habits", [m.local_id for m in request.memories])]
            )
        found: dict[str, Any] = {
            "new_memories": [
                new_memory(
                    random.choice(FACTS),
                    importance=random.choice((0.2, 0.5, 0.7)),
                    detail=random.choice(("", "more of it")),
                    tags=random.sample(["work", "home", "habits"], 2),
                    context={"mood": random.choice(["good", "bad"])},
                )
            ],
            "profile": {
                "facts": {"personal": {"location": random.choice(["Porto", "Huế", "Oslo"])}},
                "current_projects": [random.choice(["boat", "house"])],
                "source_message_ids": ["m1"],
            },
        }
        if request.memories:
            known = random.choice(request.memories).local_id
            key = random.choice(["contradicted_memories", "updated_memories", "none"])
            if key == "contradicted_memories":
                found[key] = [{"id": known, "by": 0, "source_message_ids": ["m1"]}]
            elif key == "updated_memories":
                found[key] = [{"id": known, "tags": ["seen"], "source_message_ids": ["m1"]}]
        if random.random() < 0.2:
            found["forgotten_memories"] = [{"new": 0, "source_message_ids": ["m1"]}]
        return quoting(request, **found)

    return answer
