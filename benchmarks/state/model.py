"""The language model of a run: recorded replies, or a folder in which somebody answers prompts."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.state import replies
from benchmarks.state.people import Persona, folding
from benchmarks.state.replies import RecordedReply
from tests.scripted_model import ChatAnswer, ChatRequest

_POLL_SECONDS = 0.5
_NOTHING = ChatAnswer.of(
    new_memories=[], memories=[], same=[], replaced=[], doubtful=[], certain=[]
)

Answer = Callable[[ChatRequest], Awaitable[ChatAnswer]]


@dataclass(eq=False)
class TalkIndex:
    """Finds out which session a prompt is about, by its first message."""

    people: Sequence[Persona]
    _by_message: dict[str, tuple[Persona, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Index the sessions."""
        for person in self.people:
            for session in person.sessions:
                key = folding(session.messages[0].content)
                self._by_message[key] = person, session.id

    def messages(self) -> Iterable[str]:
        """The first words of the sessions."""
        return self._by_message

    def of(self, request: ChatRequest) -> tuple[Persona, str] | None:
        """The person and the session of an extraction; None for another prompt."""
        if not request.messages:
            return None
        return self._by_message.get(folding(request.messages[0].content))


@dataclass(eq=False)
class Playback:
    """Answers from records; `unknown` counts prompts without one, which get an empty answer.

    `alike` is the share of a prompt's memories that the prompt of a record must have shown, too.
    `calls` and `letters` count the prompts of each kind and the characters in them.
    """

    sessions: TalkIndex
    records: Mapping[str, Mapping[str, RecordedReply]]
    alike: float = 0.6
    unknown: int = 0
    calls: Counter[str] = field(default_factory=Counter)
    letters: Counter[str] = field(default_factory=Counter)

    async def answer(self, request: ChatRequest) -> ChatAnswer:
        """The reply to a prompt."""
        found = self.known(request)
        return _NOTHING if found is None else found

    def known(self, request: ChatRequest) -> ChatAnswer | None:
        """The recorded reply to a prompt, if there is one."""
        memories = {each.local_id: each.content for each in request.memories}
        kind = kind_of(request)
        self.calls[kind] += 1
        self.letters[kind] += len(request.system) + len(request.user)
        found = self.sessions.of(request)
        if found is not None:
            person, session = found
            record = self.records.get(person.id, {}).get(session)
        else:
            record = self._most_alike(kind, list(memories.values()))
        if record is None:
            self.unknown += 1
            return None
        return ChatAnswer.of(**record.replayed(memories))

    def _most_alike(self, kind: str, shown: Sequence[str]) -> RecordedReply | None:
        """The record of a kind whose prompt showed most of these memories, and least else."""
        wanted = set(map(folding, shown))
        scored = [
            (_overlap(wanted, set(map(folding, record.shown))), person, key)
            for person, records in self.records.items()
            for key, record in records.items()
            if key.startswith(kind)
        ]
        (share, _), person, key = max(scored, default=((0.0, 0.0), "", ""))
        return self.records[person][key] if share >= self.alike else None


@dataclass(eq=False)
class Recording:
    """Writes each prompt without a record into a folder, and keeps the reply that it waits for.

    A prompt is `PERSON/KEY.prompt.txt`; its reply is expected as `PERSON/KEY.reply.json`.
    """

    playback: Playback
    folder: Path
    version: str
    records: dict[str, dict[str, RecordedReply]]

    async def answer(self, request: ChatRequest) -> ChatAnswer:
        """The reply that somebody puts into the folder."""
        if (known := self.playback.known(request)) is not None:
            return known
        memories = {each.local_id: each.content for each in request.memories}
        found = self.playback.sessions.of(request)
        if found is None:
            person, shown = self._whose(list(memories.values())), tuple(memories.values())
            kind = kind_of(request)
            taken = sum(key.startswith(kind) for key in self.records.get(person, {}))
            key = f"{kind}-{taken + 1}"
        else:
            person, key, shown = found[0].id, found[1], ()
        kept = self.records.setdefault(person, {})
        if key not in kept:
            reply = await self._wait(person, key, request)
            record = replies.recorded(key, reply, memories)
            kept[key] = RecordedReply(record.key, record.reply, record.known, shown)
            replies.save(self.version, person, kept)
        return ChatAnswer.of(**kept[key].replayed(memories))

    def _whose(self, shown: Sequence[str]) -> str:
        """The person whose recorded replies hold most of these memories."""
        wanted = set(map(folding, shown))
        scored = [
            (len(wanted & _said(records)), person) for person, records in self.records.items()
        ]
        return max(scored, default=(0, "unknown"))[1]

    async def _wait(self, person: str, key: str, request: ChatRequest) -> dict[str, object]:
        place = self.folder / person
        await asyncio.to_thread(place.mkdir, parents=True, exist_ok=True)
        prompt, reply = place / f"{key}.prompt.txt", place / f"{key}.reply.json"
        await asyncio.to_thread(prompt.write_text, request.user, "utf-8")
        system = self.folder / f"SYSTEM-{kind_of(request)}.txt"
        await asyncio.to_thread(system.write_text, request.system, "utf-8")
        while True:
            if await asyncio.to_thread(reply.exists):
                text = await asyncio.to_thread(reply.read_text, "utf-8")
                try:
                    found: dict[str, object] = json.loads(text)
                except ValueError as error:
                    await asyncio.to_thread(
                        (place / f"{key}.error.txt").write_text, f"not JSON: {error}", "utf-8"
                    )
                else:
                    return found
            await asyncio.sleep(_POLL_SECONDS)


def kind_of(request: ChatRequest) -> str:
    """What a prompt is about: `extraction`, `reconciliation` or `consolidation`."""
    if request.messages:
        return "extraction"
    return "reconciliation" if request.reconciliation else "consolidation"


def _overlap(shown: set[str], recorded: set[str]) -> tuple[float, float]:
    """The share of what is shown that is recorded, and of both together that is in both."""
    both = len(shown & recorded)
    return both / max(1, len(shown)), both / max(1, len(shown | recorded))


def _said(records: Mapping[str, RecordedReply]) -> set[str]:
    """The words of every new or updated memory of some replies."""
    return {
        folding(item["content"])
        for record in records.values()
        for kind in ("new_memories", "updated_memories")
        for item in record.reply.get(kind, ())
        if isinstance(item.get("content"), str)
    }
