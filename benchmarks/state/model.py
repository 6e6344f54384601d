"""The language model of a run: recorded replies, or a folder in which somebody answers prompts."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.state import replies
from benchmarks.state.people import Person, folding
from benchmarks.state.replies import Record
from tests.scripted_model import ChatAnswer, ChatRequest

_POLL_SECONDS = 0.5

Answer = Callable[[ChatRequest], Awaitable[ChatAnswer]]


@dataclass(eq=False)
class Sessions:
    """Finds out which session a prompt is about, by its first message."""

    people: Sequence[Person]
    _by_message: dict[str, tuple[Person, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Index the sessions."""
        for person in self.people:
            for session in person.sessions:
                key = folding(session.messages[0].content)
                self._by_message[key] = person, session.id

    def messages(self) -> Iterable[str]:
        """The first words of the sessions."""
        return self._by_message

    def of(self, request: ChatRequest) -> tuple[Person, str] | None:
        """The person and the session of an extraction; None for another prompt."""
        if not request.messages:
            return None
        return self._by_message.get(folding(request.messages[0].content))


@dataclass(eq=False)
class Playback:
    """Answers from records; `unknown` counts prompts without one, which get an empty answer."""

    sessions: Sessions
    records: Mapping[str, Mapping[str, Record]]
    unknown: int = 0
    reconciled: int = 0
    tokens: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    async def answer(self, request: ChatRequest) -> ChatAnswer:
        """The reply to a prompt."""
        memories = {each.local_id: each.content for each in request.memories}
        found = self.sessions.of(request)
        kind = "extraction" if request.messages else "reconciliation"
        self.tokens[kind] += len(request.system) + len(request.user)
        if found is not None:
            person, session = found
            record = self.records.get(person.id, {}).get(session)
        else:
            self.reconciled += 1
            record = self._reconciliation(list(memories.values()))
        if record is None:
            self.unknown += 1
            return ChatAnswer.of(new_memories=[], same=[], memories=[])
        return ChatAnswer.of(**record.replayed(memories))

    def _reconciliation(self, shown: Sequence[str]) -> Record | None:
        """The record whose prompt showed most of the same memories."""
        wanted = set(map(folding, shown))
        scored = [
            (len(wanted & set(map(folding, record.shown))) / max(1, len(wanted)), person, key)
            for person, records in self.records.items()
            for key, record in records.items()
            if record.shown
        ]
        share, person, key = max(scored, default=(0.0, "", ""))
        return self.records[person][key] if share >= 0.5 else None


@dataclass(eq=False)
class Recording:
    """Writes each prompt into a folder, waits there for the reply, and keeps the records.

    A prompt is `PERSON/KEY.prompt.txt`; its reply is expected as `PERSON/KEY.reply.json`.
    """

    sessions: Sessions
    folder: Path
    version: str
    records: dict[str, dict[str, Record]]
    _numbers: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    async def answer(self, request: ChatRequest) -> ChatAnswer:
        """The reply that somebody puts into the folder."""
        memories = {each.local_id: each.content for each in request.memories}
        found = self.sessions.of(request)
        if found is None:
            person, key, shown = self._whose(list(memories.values())), "", tuple(memories.values())
            self._numbers[person] += 1
            key = f"reconciliation-{self._numbers[person]}"
        else:
            person, key, shown = found[0].id, found[1], ()
        kept = self.records.setdefault(person, {})
        if key not in kept:
            reply = await self._wait(person, key, request)
            record = replies.recorded(key, reply, memories)
            kept[key] = Record(record.key, record.reply, record.known, shown)
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
        await asyncio.to_thread((self.folder / "SYSTEM.txt").write_text, request.system, "utf-8")
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


def _said(records: Mapping[str, Record]) -> set[str]:
    """The words of every new or updated memory of some replies."""
    return {
        folding(item["content"])
        for record in records.values()
        for kind in ("new_memories", "updated_memories")
        for item in record.reply.get(kind, ())
        if isinstance(item.get("content"), str)
    }
