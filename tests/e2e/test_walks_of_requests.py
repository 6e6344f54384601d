"""Random lives with joins, merges, requests to forget and roll-backs, seen from outside.

At every step nothing is told that somebody asked to forget, now or of an earlier time, unless the
request was taken back, the words were restored, or the user has said them again since. What a
roll-back ends stood on what was taken back. And when everything is taken back that came after some
time, the answers are as at that time. Several wordings say each thing; reconciliations join some of
them.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random
from typing import Any

import grpc

from hitherto.v1 import memory_pb2
from tests.e2e.conftest import Services
from tests.e2e.curating import checks, save
from tests.e2e.learning import ALL_STATUSES, ended, memories, submit, talk
from tests.e2e.methods import ask
from tests.e2e.random_lives import side_by_side, take_back_as_told
from tests.scripted_model import ChatAnswer, ChatRequest
from tests.scripted_model.answers import change, merged
from tests.scripted_model.answers import memory as new_memory

USERS, TURNS, LAST_TURNS = 4, 14, 4
THINGS = (
    ("Ana avoids meat", "Ana does not eat any meat", "Ana is a vegetarian"),
    ("Ana keeps bees", "Ana has hives of bees", "Ana is a keeper of bees"),
)
CURRENT = (memory_pb2.MEMORY_STATUS_ACTIVE, memory_pb2.MEMORY_STATUS_ACHIEVED)
TAG = "habits"
_MARK = re.compile(r"#(\w+)")

Answering = Callable[[ChatRequest, str], dict[str, Any]]
"""What a model makes of a message, and its text."""

SERVICE_SETTINGS = {"reconcile": True}


def thing_of(content: str) -> int | None:
    """Which thing some words are about."""
    found = [n for n, words in enumerate(THINGS) if any(each in content for each in words)]
    return found[0] if found else None


@dataclass
class Happened:
    """Words that somebody asked to forget, or said or restored, and the job that did it."""

    asked: bool
    words: Collection[str]
    conversation: str = ""
    job_id: str = ""


class Life:
    """A user of several conversations, whom reconciliations and merges serve too."""

    def __init__(self, services: Services, name: str, random: Random, replies: Any) -> None:
        self.services, self.name, self.random, self.replies = services, name, random, replies
        self.turn = 0
        self.events: list[Happened] = []
        self.story: list[str] = []
        self.moments = [datetime.now(UTC)]

    async def live(self) -> None:
        learning = [self.say, self.say, self.say, self.update, self.contradict, self.request]
        await self.say()
        by_hand = [self.save, self.save, self.forget, self.restore, self.merge, self.undo]
        for _ in range(TURNS):
            await self.one([*learning, *by_hand, self.take_back, self.take_back])
        await self.settled()
        before = await self.answers()
        since = datetime.now(UTC)
        events = list(self.events)
        for _ in range(LAST_TURNS):
            await self.one([*learning, self.merge])
        await self.settled()
        self.story.append("everything since is taken back")
        await ask(self.services, "RollbackSource", user_id=self.name, since=since)
        self.events = events
        after = await self.answers()
        assert after == before, self.told(f"{after - before} instead of {before - after}")

    async def one(self, acts: list[Callable[[], Awaitable[None]]]) -> None:
        """One act of these, and what holds whatever it was."""
        await self.random.choice(acts)()
        await self.settled()
        forbidden = self.forbidden()
        told = {each.content for each in await self.held(*CURRENT)}
        assert not told & forbidden, self.told(f"{told & forbidden} is told")
        await self.look_back()

    async def look_back(self) -> None:
        """What is forgotten is told of no time, with all that it stands for."""
        every = await self.held()
        forgotten = memory_pb2.MEMORY_STATUS_FORGOTTEN
        gone = _represented(every, {each.id for each in every if each.status == forgotten})
        moment = self.random.choice(self.moments)
        self.moments.append(datetime.now(UTC))
        for past in ({"as_of": moment}, {"known_at": moment}):
            asked = {"statuses": ALL_STATUSES, "page_size": 1000, **past}
            listed = await ask(self.services, "ListMemories", user_id=self.name, **asked)
            told = {each.content for each in listed.memories if each.id in gone}
            assert not told, self.told(f"{told} is told of {past}")

    def told(self, what: str) -> str:
        return "\n".join([f"{self.name}: {what}", *self.story])

    async def settled(self) -> None:
        await checks(self.services, user=self.name)

    async def held(self, *statuses: Any) -> list[memory_pb2.Memory]:
        found = await memories(self.services, user=self.name, statuses=statuses or ALL_STATUSES)
        return sorted(found, key=lambda each: each.id)

    async def answers(self) -> set[Any]:
        """What is told, and on what it rests."""
        return {
            (
                each.content,
                each.status,
                frozenset(source.conversation_id for source in each.sources),
                frozenset(each.tags),
                each.doubt.because_memory_id,
            )
            for each in await self.held(*CURRENT)
        }

    def forbidden(self) -> set[str]:
        """What somebody asked to forget last."""
        found = set[str]()
        for each in self.events:
            found = found | set(each.words) if each.asked else found - set(each.words)
        return found

    async def words_of(self, memory: memory_pb2.Memory) -> set[str]:
        """The words of a memory, and of what was joined to it, which nothing else tells."""
        every = await self.held()
        names = _represented(every, {memory.id})
        words = {m.content for m in every if m.id in names}
        elsewhere = {m.content for m in every if m.status in CURRENT and m.id not in names}
        return words - elsewhere

    async def tell(
        self, does: str, answer: Callable[[ChatRequest, str], Any], **event: Any
    ) -> None:
        """One message, of a random conversation, and what the model makes of it."""
        self.turn += 1
        mark = f"{self.name}x{self.turn}"
        conversation = self.random.choice(("a", "b", "c", "d"))
        text = f"#{mark}: {does}"
        self.replies[mark] = lambda request: answer(request, text)
        transcript = talk(text, user=self.name, conversation=conversation, at=datetime.now(UTC))
        transcript.messages[0].id = mark
        (job_id,) = await submit(self.services, transcript)
        job = await ended(self.services, job_id, within=240)
        assert not job.error, job.error
        self.story.append(f"{conversation} {job_id}: {does}")
        if event:
            self.events.append(Happened(conversation=conversation, job_id=job_id, **event))

    async def say(self) -> None:
        words = self.random.choice(self.random.choice(THINGS))

        def answer(request: ChatRequest, text: str) -> Any:
            return {"new_memories": [new_memory(words, ["m1"], tags=[TAG])]}

        await self.tell(f"says {words}", answer, asked=False, words={words})

    async def save(self) -> None:
        """Save by hand, which sets a reconciliation off."""
        words = self.random.choice(self.random.choice(THINGS))
        self.story.append(f"saves {words}")
        saved = await save(self.services, words, user=self.name, tags=[TAG])
        if saved.memory.status in CURRENT:
            self.events.append(Happened(False, {words}))

    async def known(self) -> memory_pb2.Memory | None:
        found = [m for m in await self.held(*CURRENT) if thing_of(m.content) is not None]
        return self.random.choice(found) if found else None

    async def update(self) -> None:
        if (known := await self.known()) is None:
            return
        content = f"{known.content} on day {self.turn}"

        def answer(request: ChatRequest, text: str) -> Any:
            return {
                "updated_memories": [
                    change(each.local_id, text, "m1", content=content)
                    for each in request.memories
                    if each.content == known.content
                ]
            }

        await self.tell(f"updates {known.content}: {content}", answer)

    async def contradict(self) -> None:
        if (known := await self.known()) is None:
            return
        new = f"Ana thinks otherwise since {self.turn}"

        def answer(request: ChatRequest, text: str) -> Any:
            return {
                "new_memories": [new_memory(new, ["m1"])],
                "contradicted_memories": [
                    change(each.local_id, text, "m1", by=0)
                    for each in request.memories
                    if each.content == known.content
                ],
            }

        await self.tell(f"ends {known.content}: {new}", answer)

    async def request(self) -> None:
        if (known := await self.known()) is None:
            return
        words = await self.words_of(known)

        def answer(request: ChatRequest, text: str) -> Any:
            return {
                "forgotten_memories": [
                    change(each.local_id, text, "m1")
                    for each in request.memories
                    if each.content == known.content
                ]
            }

        await self.tell(f"asks to forget {known.content}", answer, asked=True, words=words)
        forgotten = memory_pb2.MEMORY_STATUS_FORGOTTEN
        if known.id not in {each.id for each in await self.held(forgotten)}:
            self.events.pop()

    async def forget(self) -> None:
        if (known := await self.known()) is None:
            return
        self.events.append(Happened(True, await self.words_of(known)))
        self.story.append(f"forgets {known.content} ({known.id})")
        await ask(self.services, "ForgetMemory", user_id=self.name, memory_id=known.id)

    async def restore(self) -> None:
        forgotten = await self.held(
            memory_pb2.MEMORY_STATUS_FORGOTTEN, memory_pb2.MEMORY_STATUS_SUPERSEDED
        )
        if not forgotten:
            return
        one = self.random.choice(forgotten)
        words = {one.content, *(await self.words_of(one))}
        self.story.append(f"restores {one.content} ({one.id})")
        if await self.done("RestoreMemory", memory_id=one.id):
            self.events.append(Happened(False, words))

    async def merge(self) -> None:
        self.story.append("merges")
        reply = await ask(self.services, "Consolidate", user_id=self.name, tag=TAG)
        await ended(self.services, reply.job.id, within=240)

    async def undo(self) -> None:
        made = [m for m in await self.held() if m.source == memory_pb2.MEMORY_SOURCE_CONSOLIDATION]
        if not made:
            return
        one = self.random.choice(made)
        words = await self.words_of(one)
        self.story.append(f"undoes {one.content} ({one.id})")
        if await self.done("UndoConsolidation", memory_id=one.id):
            self.events.append(Happened(False, words))

    async def done(self, rpc: str, **fields: Any) -> bool:
        """Whether a call is possible in the state of its memory."""
        try:
            await ask(self.services, rpc, user_id=self.name, **fields)
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.FAILED_PRECONDITION:
                raise
            self.story.append("refused")
            return False
        return True

    async def take_back(self) -> None:
        """Take a conversation or a job back; what ends stood on it."""
        listed = (await ask(self.services, "ListJobs", user_id=self.name, page_size=200)).jobs
        if not listed:
            return
        job = self.random.choice(sorted(listed, key=lambda each: each.id))
        whole = bool(job.conversation_id) and self.random.random() < 0.5
        source = {"conversation_id": job.conversation_id} if whole else {"job_id": job.id}
        self.story.append(f"takes back {source} ({job.kind})")
        before = {each.id: each for each in await self.held(*CURRENT)}
        await take_back_as_told(self.services, self.name, **source)
        self.events = [
            each
            for each in self.events
            if each.job_id != job.id and not (whole and each.conversation == job.conversation_id)
        ]
        after = {each.id: each for each in await self.held()}
        told = {each.content for each in after.values() if each.status in CURRENT}
        for memory_id, each in before.items():
            now = after[memory_id]
            sources = {source.conversation_id for source in each.sources}
            if now.status in CURRENT or each.source == memory_pb2.MEMORY_SOURCE_CONSOLIDATION:
                continue
            stood_on_it = job.conversation_id in sources
            assert stood_on_it or each.content in told, self.told(f"{each.content} has gone")


def _represented(every: Collection[memory_pb2.Memory], names: Collection[str]) -> set[str]:
    """These memories, and all that they stand for: merged into one of them, or joined to it."""
    superseded = [m for m in every if m.status == memory_pb2.MEMORY_STATUS_SUPERSEDED]
    found = set(names)
    while more := {m.id for m in superseded if m.superseded_by in found} - found:
        found |= more
    return found


def script(replies: dict[str, Any], dice: Random) -> Callable[[ChatRequest], ChatAnswer]:
    """What a model makes of messages; it joins, replaces and merges wordings of one thing."""

    def answer(request: ChatRequest) -> ChatAnswer:
        same = [[m for m in request.memories if thing_of(m.content) == n] for n in (0, 1)]
        if request.reconciliation:
            found: dict[str, Any] = {"same": [], "replaced": [], "doubtful": [], "certain": []}
            for each in same:
                if len(each) > 1 and dice.random() < 0.6:
                    keep, other = dice.sample(each, 2)
                    found["same"].append({"keep": keep.local_id, "others": [other.local_id]})
                elif len(each) > 1 and dice.random() < 0.4:
                    old, new = dice.sample(each, 2)
                    found["replaced"].append({"old": old.local_id, "new": new.local_id})
            return ChatAnswer.of(**found)
        if request.consolidation:
            groups = [[m.local_id for m in each] for each in same if len(each) > 1]
            return ChatAnswer.of(
                memories=[merged(f"{THINGS[n][0]} and more", ids) for n, ids in enumerate(groups)]
            )
        marks = _MARK.findall("\n".join(message.content for message in request.messages))
        return ChatAnswer.of(**replies[marks[-1]](request)) if marks else ChatAnswer.of()

    return answer


async def test_row_72_requests_hold_and_everything_can_be_taken_back(modelled: Services) -> None:
    seed = Random().randrange(10**6)
    replies: dict[str, Any] = {}
    modelled.model.script = script(replies, Random(f"{seed}.0"))
    lives = [Life(modelled, f"u{n}", Random(f"{seed}.{n}"), replies) for n in range(USERS)]
    await side_by_side([life.live for life in lives], seed)
