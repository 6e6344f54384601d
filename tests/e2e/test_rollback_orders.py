"""RollbackSource of any of several sources in any order: what stands is what the rest says.

Conversations and a document say things of one memory and one profile in a random order, with event
times in another. Then random ones of them are taken back, one after another and by random means.
After each step the memory and the profile are compared with a model that hears only the rest.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from google.protobuf import json_format

from hitherto.v1 import memory_pb2, search_pb2
from tests.e2e.conftest import Services, StartServices
from tests.e2e.curating import save
from tests.e2e.handing_over import document, taken_in
from tests.e2e.learning import ALL_STATUSES, ended, memories, shown, submit, talk
from tests.e2e.methods import ask
from tests.e2e.privacy import choose
from tests.e2e.random_lives import side_by_side, take_back_as_told
from tests.e2e.sealing import ENCRYPTING
from tests.scripted_model import ChatAnswer, ChatRequest, ScriptedModel
from tests.scripted_model.answers import memory as new_memory
from tests.scripted_model.answers import quoting

USERS = 12
MARCH = datetime(2026, 3, 1, tzinfo=UTC)
BEES = "The user wants to keep bees"
MORE = ("in the garden", "with Lan", "on the roof of the old mill", "before winter")
CONFIDENCES = ("low", "medium", "high")
_MARK = re.compile(r"#(\w+)")


@dataclass
class Said:
    """One statement of a source, and what it says of the memory and of the profile."""

    source: str
    kind: str
    at: datetime
    job_id: str = ""
    content: str = ""
    importance: float = 0.5
    confidence: str = "medium"
    detail: str = ""
    tags: tuple[str, ...] = ()
    entities: tuple[str, ...] = ()
    profile: dict[str, Any] = field(default_factory=dict)


@dataclass
class Person:
    """A user with sources that speak of one goal."""

    name: str
    random: Random
    services: Services
    replies: dict[str, Any]
    said: list[Said] = field(default_factory=list)
    memory_id: str = ""
    documents: dict[str, str] = field(default_factory=dict)
    encrypts: bool = False

    async def live(self) -> None:
        """Let the sources speak, then take them back one by one."""
        if self.encrypts:
            await choose(self.services, user=self.name, encrypt_sensitive=True)
        sources = self.random.choice((["a", "b"], ["a", "b", "c"], ["a", "b", "doc"]))
        turns = [source for source in sources for _ in range(self.random.randint(1, 2))]
        self.random.shuffle(turns)
        hours = self.random.sample(range(500), len(turns))
        for number, source in enumerate(turns):
            at = MARCH + timedelta(hours=hours[number])
            if source == "doc":
                await self.save(source)
            else:
                await self.tell(source, at, number, last=number == len(turns) - 1)
        await self.compare("nothing", set())
        gone: set[str] = set()
        for source in self.random.sample(sources, self.random.randint(1, len(sources))):
            gone.add(source)
            await self.take_back(source)
            await self.compare(source, gone)

    async def tell(self, source: str, at: datetime, number: int, *, last: bool) -> None:
        """One message of a conversation and what a model makes of it."""
        held = await self.held()
        kinds = ["said"] if held is None else ["said", "updated", "updated"]
        if last and held is not None:
            # Afterwards: what is reached or was contradicted is repeated as another memory.
            kinds += ["contradicted"] if self.encrypts else ["achieved", "contradicted"]
            at = datetime.now(UTC)
        said = Said(source, self.random.choice(kinds), at)
        said.content = held.content if held is not None else BEES
        said.importance = self.random.choice((0.4, 0.5, 0.6, 0.7))
        said.confidence = self.random.choice(CONFIDENCES)
        said.detail = self.random.choice(("", f"told by {source}{number}"))
        said.tags = tuple(self.random.sample(("bees", "garden", source), 2))
        said.entities = tuple(self.random.sample(("Lan", "Huy", f"Club {source}"), 1))
        said.profile = {
            "summary": self.random.choice(("", f"A keeper of bees, says {source}{number}.")),
            "current_projects": self.random.sample(["honey house", "pond", f"project {source}"], 1),
            "preferences": self.random.choice(({}, {source: {"level": number}})),
            "facts": {
                "personal": {"location": f"town {source}{number}"},
                "preferences": {
                    "topics": self.random.sample(["honey", "wax", f"topic {source}"], 2)
                },
            },
        }
        if said.kind == "updated":
            said.content = f"{BEES} {self.random.choice(MORE)}"
        mark = f"{self.name}x{number}"
        self.replies[mark] = lambda request: self.reply(request, said)
        words = f"I say #{mark}: {said.content}, {said.detail} {said.entities} {said.profile}"
        if said.kind == "contradicted":
            words += ". I no longer want to keep bees. I am afraid of insects"
        transcript = talk(words, user=self.name, conversation=source, at=said.at)
        transcript.messages[0].id = mark
        (job_id,) = await submit(self.services, transcript)
        job = await ended(self.services, job_id, within=240)
        assert not job.error, job.error
        said.job_id = job.id
        if said.kind == "updated" and job.result.dropped_items:
            # Refused by a guard: then the source said nothing of the memory.
            said.kind = "refused"
        if said.kind in ("achieved", "contradicted"):
            assert job.result.goals_achieved + job.result.memories_contradicted == 1
        self.said.append(said)

    def reply(self, request: ChatRequest, said: Said) -> ChatAnswer:
        """What the model finds in the message."""
        answer: dict[str, Any] = {
            "profile": {**said.profile, "source_message_ids": ["m1"]},
            "conversation_summary": {"summary": f"Of {said.at.isoformat()}."},
        }
        known: dict[str, Any] = {"source_message_ids": ["m1"]}
        if said.kind != "said":
            known["id"] = shown(request, "bees")
        match said.kind:
            case "said":
                answer["new_memories"] = [
                    new_memory(
                        said.content, type="personal" if self.encrypts else "goal",
                        importance=said.importance, confidence=said.confidence, detail=said.detail,
                        tags=list(said.tags),
                        entities=[{"name": name, "type": "person"} for name in said.entities],
                    )
                ]  # fmt: skip
            case "updated":
                update = {"content": said.content, "tags": list(said.tags)}
                answer["updated_memories"] = [{**known, **update}]
            case "achieved":
                answer["achieved_goals"] = [{**known, "by": None}]
            case "contradicted":
                answer["new_memories"] = [new_memory("The user is afraid of insects")]
                answer["contradicted_memories"] = [{**known, "by": 0}]
        return quoting(request, **answer)

    async def save(self, source: str) -> None:
        """A statement saved from a document."""
        if source not in self.documents:
            letter = document("letter", "Plans for the summer.", title="A letter")
            (self.documents[source],), _ = await taken_in(self.services, letter, user=self.name)
        held = await self.held()
        said = Said(source, "said", datetime.now(UTC))
        said.content = held.content if held is not None else BEES
        said.importance = self.random.choice((0.3, 0.8))
        said.detail = self.random.choice(("", "as the letter says"))
        said.tags = ("letter",)
        # What is saved mentions the known names in it, whoever made them known.
        known = {name for each in self.said if each.kind == "said" for name in each.entities}
        said.entities = tuple(name for name in known if name in said.content)
        saved = await save(
            self.services, said.content, user=self.name, type=self.type, detail=said.detail,
            importance=said.importance, confidence=memory_pb2.CONFIDENCE_MEDIUM, tags=said.tags,
            metadata={"document_id": self.documents[source]},
        )  # fmt: skip
        assert saved.deduplicated == (held is not None)
        self.said.append(said)

    @property
    def type(self) -> memory_pb2.MemoryType.ValueType:
        """Of the memory; one of a personal kind is sealed for a user who encrypts."""
        personal = memory_pb2.MEMORY_TYPE_PERSONAL
        return personal if self.encrypts else memory_pb2.MEMORY_TYPE_GOAL

    async def held(self) -> memory_pb2.Memory | None:
        """The memory as it is, whatever its status."""
        found = await memories(self.services, user=self.name, statuses=ALL_STATUSES)
        # A rewording that a guard refuses waits for review beside it, and may be taken back. Once
        # what it would have reworded is gone, it counts by itself.
        known = [each for each in found if each.type == self.type]
        about = [each for each in known if self.memory_id in ("", each.id)]
        assert len(about) <= 1, about
        refused = {said.content for said in self.said if said.kind == "refused"}
        active = [each for each in known if each.status == memory_pb2.MEMORY_STATUS_ACTIVE]
        current = [e for e in active if e.id == self.memory_id or e.content not in refused]
        assert len(current) <= 1, current
        self.memory_id = about[0].id if about else ""
        return about[0] if about else None

    async def take_back(self, source: str) -> None:
        """Take a source back as a whole, or job by job."""
        job_ids = [said.job_id for said in self.said if said.source == source]
        if source in self.documents:
            each: list[dict[str, Any]] = [{"document_id": self.documents[source]}]
        elif self.random.random() < 0.5:
            each = [{"conversation_id": source}]
        else:
            each = [{"job_id": job_id} for job_id in self.random.sample(job_ids, len(job_ids))]
        for fields in each:
            await take_back_as_told(self.services, self.name, **fields)

    async def compare(self, step: str, gone: set[str]) -> None:
        """The memory and the profile are what the sources say that are left."""
        left = [said for said in self.said if said.source not in gone]
        story = "\n".join(map(str, [self.name, step, *self.said]))
        held = await self.held()
        assert held is not None
        expected = expected_memory(left)
        if expected is not None and self.encrypts:
            # What is sealed mentions nobody.
            expected["entities"] = set()
        if expected is None:
            assert held.status == memory_pb2.MEMORY_STATUS_FORGOTTEN, story
        else:
            assert told(held) == expected, story
            sources = {source.conversation_id for source in held.sources}
            assert sources <= {said.source for said in left}, story
        profile = (await ask(self.services, "GetContext", user_id=self.name)).profile
        assert {
            "summary": profile.summary,
            "current_projects": list(profile.current_projects),
            "preferences": json_format.MessageToDict(profile.preferences),
            "facts": json_format.MessageToDict(profile.facts),
        } == expected_profile(left), story
        scopes = [search_pb2.SEARCH_SCOPE_SUMMARIES]
        found = await ask(self.services, "SearchMemories", user_id=self.name, scopes=scopes)
        summaries = {each.summary.conversation_id: each.summary.summary for each in found.results}
        assert summaries == {
            said.source: f"Of {said.at.isoformat()}." for said in left if said.job_id
        }, story


def told(held: memory_pb2.Memory) -> dict[str, Any]:
    """What of a memory the sources decide."""
    return {
        "content": held.content,
        "detail": held.detail,
        "importance": round(held.importance, 6),
        "confidence": memory_pb2.Confidence.Name(held.confidence)[len("CONFIDENCE_") :].lower(),
        "tags": set(held.tags),
        "entities": set(held.entities),
        "status": memory_pb2.MemoryStatus.Name(held.status).removeprefix("MEMORY_STATUS_").lower(),
        "document": "document_id" in held.metadata,
    }


def expected_memory(left: list[Said]) -> dict[str, Any] | None:
    """What the statements make of the memory, heard one after another; None if none makes it."""
    held: dict[str, Any] | None = None
    latest = MARCH - timedelta(days=1)
    for said in left:
        if said.kind not in ("said", "updated"):
            continue
        new = held is None
        if held is None:
            held = {
                "content": said.content,
                "detail": said.detail if said.kind == "said" else "",
                "importance": said.importance if said.kind == "said" else 0.5,
                "confidence": said.confidence if said.kind == "said" else "medium",
                "tags": set(said.tags),
                "entities": set(),
                "status": "active",
                "document": False,
            }
        newer = said.at > latest
        if said.kind == "said":
            held["entities"] |= set(said.entities)
            held["document"] = held["document"] or not said.job_id
            if not new:
                if newer and said.content != held["content"]:
                    held["content"] = said.content
                    held["detail"] = said.detail or held["detail"]
                held["detail"] = held["detail"] or said.detail
                held["importance"] = max(held["importance"], said.importance)
                both = (held["confidence"], said.confidence)
                held["confidence"] = max(both, key=CONFIDENCES.index)
                held["tags"] |= set(said.tags)
        elif newer and not new:
            if said.content != held["content"]:
                # What was told about the other words goes with them.
                held["content"], held["detail"] = said.content, ""
            held["tags"] |= set(said.tags)
        latest = max(latest, said.at)
    for said in left:
        if held is not None and said.kind in ("achieved", "contradicted") and said.at > latest:
            held["status"] = said.kind
            if said.kind == "achieved":
                held["importance"] = round(held["importance"] / 2, 6)
    return held


def expected_profile(left: list[Said]) -> dict[str, Any]:
    """What the statements make of the profile."""
    heard = [said for said in left if said.profile]
    in_time = sorted(heard, key=lambda said: said.at)
    facts: dict[str, Any] = {}
    if heard:
        topics = [t for said in heard for t in said.profile["facts"]["preferences"]["topics"]]
        facts = {
            "personal": in_time[-1].profile["facts"]["personal"],
            "preferences": {"topics": list(dict.fromkeys(topics))},
        }
    preferences: dict[str, Any] = {}
    for said in in_time:
        preferences |= said.profile["preferences"]
    summaries = [said.profile["summary"] for said in in_time if said.profile["summary"]]
    projects = [project for said in heard for project in said.profile["current_projects"]]
    return {
        "summary": summaries[-1] if summaries else "",
        "current_projects": list(dict.fromkeys(projects)),
        "preferences": preferences,
        "facts": facts,
    }


def anybody(users: int) -> list[str]:
    """A seed for each of so many users, new at every run; a failure shows them."""
    seed = Random().randrange(10**6)
    return [f"{seed}.{number}" for number in range(users)]


async def live(
    services: Services, model: ScriptedModel, seeds: Sequence[str], *, encrypts: bool = False
) -> None:
    """Let users live side by side, each with a random of its own."""
    replies: dict[str, Any] = {}

    def script(request: ChatRequest) -> ChatAnswer:
        marks = _MARK.findall("\n".join(message.content for message in request.messages))
        return replies[marks[-1]](request) if marks else ChatAnswer.of(new_memories=[])

    model.script = script
    people = [
        Person(f"u{number}", Random(seed), services, replies, encrypts=encrypts)
        for number, seed in enumerate(seeds)
    ]
    await side_by_side([person.live for person in people], seeds)


async def test_row_72_any_sources_in_any_order(modelled: Services) -> None:
    """The poison never stays, and nothing goes that another source says."""
    await live(modelled, modelled.model, anybody(USERS))


async def test_row_72_sources_that_once_left_a_trace(modelled: Services) -> None:
    """Who saves a statement in the words that are known says all of it, also its detail.

    And two refused rewordings wait for review; they count once nobody says the memory any more.
    """
    await live(modelled, modelled.model, ["987097.4", "682128.9"])


async def test_row_72_any_sources_of_what_is_sealed(
    start_services: StartServices, model: ScriptedModel
) -> None:
    """The same for a user who encrypts."""
    async with start_services(model, **ENCRYPTING) as services:
        await live(services, model, anybody(4), encrypts=True)
