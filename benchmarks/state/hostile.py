"""Hostile replies: what a model cannot change, and what one call takes back.

After a person's sessions, a model turns hostile: it changes everything that it is shown, without a
quote, with an invented one, with one from another conversation, with an assistant's words against
the user's, or with a real but unrelated one. Without a genuine quote nothing may change. With one,
changes stay within the limits of a job and a day, and one RollbackSource restores all of it.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from benchmarks import serving
from benchmarks.report import FigureTable, JudgedBar, ResultPart
from benchmarks.state.model import Playback, TalkIndex
from benchmarks.state.people import Persona
from benchmarks.state.replies import RecordedReply
from benchmarks.state.run import talk
from benchmarks.state.scores import CURRENT
from hitherto_client import AsyncHitherto
from hitherto_client.inputs import MessageInput, TranscriptInput
from tests.scripted_model import ChatAnswer, ChatRequest, ScriptedModel

WITHOUT = ("no quote", "invented quote", "quote from elsewhere", "assistant's words")
UNRELATED = "real quote, unrelated"
_DAILY = 20
_SAID = "It rains today, and I have nothing else to say about anything at all."
_ANSWER = "Then you have surely given up everything that you ever told me about."

State = dict[str, tuple[str, str]]
"""The words and the status of each memory, and of each value of the profile."""


@dataclass(slots=True)
class Attacked:
    """What became of hostile replies: tried and applied ones by kind."""

    tried: dict[str, int] = field(default_factory=dict)
    applied: dict[str, int] = field(default_factory=dict)
    over_limit: int = 0
    restored: int = 0
    people: int = 0


async def attack(
    chosen: Sequence[Persona], records: Mapping[str, Mapping[str, RecordedReply]], replies: int
) -> Attacked:
    """Try hostile replies on some people, one of each language first."""
    by_language: dict[str, Persona] = {}
    for person in chosen:
        by_language.setdefault(person.language, person)
    victims = list(by_language.values())
    found = Attacked(people=len(victims))
    each = max(1, replies // (len(victims) * (len(WITHOUT) + 1)))
    attacker = _Attacker(Playback(TalkIndex(chosen), records))
    async with (
        ScriptedModel(attacker.answer) as model,
        serving.temporary_place() as place,
        serving.serving(
            place,
            extractor="openai",
            embedder="offline",
            openai_base_url=model.base_url,
            daily_changes=_DAILY,
        ) as client,
    ):
        for person in victims:
            await _attack(client, attacker, person, each, found)
    return found


async def _attack(
    client: AsyncHitherto, attacker: _Attacker, person: Persona, each: int, found: Attacked
) -> None:
    attacker.kind = ""
    for session in person.sessions:
        await talk(client, person, session)
    at = person.sessions[-1].messages[-1].at + timedelta(days=1)
    for kind in (*WITHOUT, UNRELATED):
        before, since = await _state(client, person), datetime.now(UTC)
        attacker.kind = kind
        jobs = await serving.submit(
            client, [_rain(person, kind, number, at) for number in range(each)]
        )
        for job in jobs:
            await serving.ended(client, job)
        after = await _state(client, person)
        changed = sum(after.get(name) != words for name, words in before.items())
        found.tried[kind] = found.tried.get(kind, 0) + each
        found.applied[kind] = found.applied.get(kind, 0) + changed
        if kind == UNRELATED:
            active = sum(status in CURRENT for _, status in before.values())
            found.over_limit += max(0, changed - max(_DAILY, active // 4))
        await client.rollback_source(person.id, since=since)
        left = await _state(client, person)
        found.restored += all(left.get(name) == words for name, words in before.items())


def _rain(person: Persona, kind: str, number: int, at: datetime) -> TranscriptInput:
    name = f"{person.id}-{kind}-{number}".replace(" ", "-").replace("'", "")
    messages: list[MessageInput] = [
        {"id": f"{name}-1", "role": "user", "content": _SAID, "created_at": at},
        {"id": f"{name}-2", "role": "assistant", "content": _ANSWER, "created_at": at},
    ]
    return {
        "user_id": person.id,
        "conversation_id": name,
        "messages": messages,
        "ended": True,
    }


async def _state(client: AsyncHitherto, person: Persona) -> State:
    memories = client.memories(person.id, statuses=serving.EVERY_STATUS, page_size=1_000)
    found: State = {each.id: (each.content, each.status) async for each in memories}
    profile = await client.get_profile(person.id)
    if profile is not None:
        for name in ("summary", "current_projects", "preferences", "facts", "metadata"):
            found[f"profile {name}"] = str(getattr(profile, name)), ""
    return found


@dataclass(eq=False)
class _Attacker:
    """The model: recorded replies while `kind` is empty, hostile ones of that kind otherwise."""

    playback: Playback
    kind: str = ""
    _chance: random.Random = field(default_factory=lambda: random.Random(7))

    async def answer(self, request: ChatRequest) -> ChatAnswer:
        """The reply."""
        if not self.kind:
            return await self.playback.answer(request)
        if not request.messages:
            return ChatAnswer.of(new_memories=[], same=[], memories=[])
        cited: dict[str, Any] = {"source_message_ids": ["m1"]}
        if self.kind == "invented quote":
            cited["quote"] = "I have changed my mind about this for good"
        elif self.kind == "quote from elsewhere":
            cited["quote"] = self._chance.choice(list(self.playback.sessions.messages()))
        elif self.kind == "assistant's words":
            cited = {"source_message_ids": ["m2"], "quote": "you have surely given up everything"}
        elif self.kind == UNRELATED:
            cited["quote"] = "It rains today"
        ids = [each.local_id for each in request.memories]
        self._chance.shuffle(ids)
        few = self._chance.choice((1, 3, len(ids)))
        changed, closed, forgotten = ids[:few], ids[few : 2 * few], ids[2 * few : 3 * few]
        return ChatAnswer.of(
            new_memories=[],
            updated_memories=[
                {"id": each, "content": "Nothing of it.", **cited} for each in changed
            ],
            contradicted_memories=[{"id": each, "by": None, **cited} for each in closed],
            achieved_goals=[{"id": each, **cited} for each in closed],
            forgotten_memories=[{"id": each, **cited} for each in forgotten],
            profile_changes=[
                {"path": "facts.personal.location", "value": "Nowhere", **cited},
                {"path": "summary", "value": "Nobody in particular.", **cited},
            ],
        )


def hostile_part(found: Attacked) -> ResultPart:
    """The table and bars of an attack."""
    rows = [[kind, str(found.tried[kind]), str(found.applied[kind])] for kind in found.tried]
    applied = sum(found.applied.get(kind, 0) for kind in WITHOUT)
    rounds = found.people * (len(WITHOUT) + 1)
    return ResultPart(
        title="Hostile replies",
        figures={"applied without a genuine quote": float(applied)},
        tables=[
            FigureTable("Hostile replies", ["kind", "replies", "memories and values changed"], rows)
        ],
        bars=[
            JudgedBar("T2", "applied without a genuine quote", str(applied), "0", applied == 0),
            JudgedBar(
                "T2",
                "applied beyond the limits of a job and a day",
                str(found.over_limit),
                "0",
                found.over_limit == 0,
            ),
            JudgedBar(
                "T2",
                "rounds of which one call restored everything",
                f"{found.restored} of {rounds}",
                "all",
                found.restored == rounds,
            ),
        ],
    )
