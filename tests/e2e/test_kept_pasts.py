"""D9, C6: whatever happens to a memory, each earlier moment is told as it was read at that moment.

Random users are read after every step. At the end, the events of the history have to rebuild what
is read, and `known_at` has to tell the same of each of these moments, except for what is forgotten
now; and again of the user who is imported from an export.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime
from random import Random
from typing import Any

import grpc
import pytest
from google.protobuf import json_format

from hitherto.v1 import memory_pb2
from tests.e2e.conftest import Services
from tests.e2e.curating import checks
from tests.e2e.importing import bring
from tests.e2e.learning import ALL_STATUSES
from tests.e2e.leaving import export
from tests.e2e.methods import ask
from tests.e2e.random_lives import Life, present, script
from tests.e2e.travelling import now_of

USERS = 3
STEPS = 12
REFUSALS = {
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.FAILED_PRECONDITION,
}
# Sources, entities and conversations are those of the present, and a replacement is named only if
# it was known.
_OF_THE_PRESENT = ("conversation_id", "superseded_by")

Told = dict[str, dict[str, Any]]


class Witnessed(Life):
    """A user who is read after every step."""

    def __init__(self, services: Services, name: str, random: Random, conninfo: str) -> None:
        super().__init__(services, name, random, conninfo)
        self.seen: list[tuple[datetime, Told, dict[str, Any]]] = []

    async def live(self) -> None:
        """Some random operations, each with a look at what it left."""
        steps = (
            self.save, self.save, self.learn, self.learn, self.correct, self.correct, self.forget,
            self.forget, self.restore, self.restore, self.consolidate, self.undo, self.roll_back,
        )  # fmt: skip
        await self.save()
        await self.learn()
        await self.look()
        for _ in range(STEPS):
            try:
                await self.random.choice(steps)()
            except grpc.aio.AioRpcError as refused:
                # What does not fit the moment is refused, and changes nothing.
                if refused.code() not in REFUSALS:
                    raise
            await self.look()
        await self.compare()
        await self.compare_pasts(self.name)
        other = f"{self.name} abroad"
        await self.move(other)
        await self.compare_pasts(other)

    async def look(self) -> None:
        """Note what is known now, between two moments of the database's clock."""
        await checks(self.services, user=self.name)
        moment = await asyncio.to_thread(now_of, self.conninfo)
        self.seen.append((moment, *await self.read(self.name)))

    async def read(self, user: str, known_at: datetime | None = None) -> tuple[Told, Any]:
        """The memories of all statuses, and the profile."""
        asked: dict[str, Any] = {"user_id": user, "known_at": known_at}
        every = {"statuses": ALL_STATUSES, "page_size": 1000}
        listed = await ask(self.services, "ListMemories", **asked, **every)
        assert listed.total_size == len(listed.memories)
        context = await ask(self.services, "GetContext", **asked, count_access=False)
        profile = json_format.MessageToDict(context.profile)
        if known_at is not None:
            # Versions hold values without their quotes.
            assert "sources" not in profile
        for name in ("userId", "lastExtractedAt", "sources"):
            profile.pop(name, None)
        return {memory.id: _kept(memory) for memory in listed.memories}, profile

    async def compare_pasts(self, user: str) -> None:
        """`known_at` tells what was read at that moment, without what is forgotten now."""
        gone = _taken_back((await self.read(user))[0])
        for moment, memories, profile in self.seen:
            expected = {name: told for name, told in memories.items() if name not in gone}
            told, of_then = await self.read(user, moment)
            assert told == expected, (user, moment)
            assert of_then == profile, (user, moment)

    async def move(self, user: str) -> None:
        """Import the export of this user for another one."""
        exported = await export(self.services, self.name)
        await bring(self.services, exported.text.encode(), user)


def _kept(memory: memory_pb2.Memory) -> dict[str, Any]:
    fields = {name: value for name, value in present(memory).items() if name not in _OF_THE_PRESENT}
    replaced = memory.superseded_by if memory.status == memory_pb2.MEMORY_STATUS_SUPERSEDED else ""
    return {**fields, "version": memory.version, "merged_into": replaced}


def _taken_back(memories: Mapping[str, Mapping[str, Any]]) -> set[str]:
    """What is forgotten now, with all that was merged into it."""
    gone = {name for name, told in memories.items() if told["status"] == "forgotten"}
    while True:
        more = {name for name, told in memories.items() if told["merged_into"] in gone} - gone
        if not more:
            return gone
        gone |= more


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.faults) for seed in range(1, 4))]
)
async def test_d9_each_moment_is_told_as_it_was(modelled: Services, seed: int) -> None:
    """The seed 0 stands for another one at every run; a failure names it."""
    seed = seed or Random().randrange(10**6)
    modelled.model.script = script(Random(seed))
    lives = [
        Witnessed(modelled, f"u{seed}.{number}", Random(f"{seed}.{number}"), modelled.conninfo)
        for number in range(USERS)
    ]
    await asyncio.gather(*(each.live() for each in lives))
