"""Rebuilds the memories that a rolled-back source has affected."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from hitherto_extraction.pipeline import doubts
from hitherto_extraction.pipeline.message_removal import reindex
from hitherto_extraction.pipeline.versions import write_next
from hitherto_extraction.rollback.following import name_newer
from hitherto_extraction.rollback.histories import Gone, MemoryHistory, read_histories
from hitherto_extraction.rollback.otherwise import clear_doubts, confirmed_otherwise
from hitherto_extraction.rollback.rebuilt import FIELDS
from hitherto_extraction.storage import (
    ledger,
    memories,
    mentions,
    reconciliation,
    statements,
    superseded,
    users,
)
from hitherto_extraction.storage import rollback as storage
from hitherto_extraction.storage.editing import EditableMemory
from hitherto_extraction.storage.ledger import ChangeEvent
from hitherto_extraction.storage.rollback import MessageRange, StoredVersion
from hitherto_extraction.storage.statements import NewStatement, StoredStatement
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.models import CURRENT_STATUSES


@dataclass(slots=True)
class Rebuilding:
    """Rebuilds memories from the remaining statements.

    Attributes:
        job_ids: The jobs to roll back.
        stated: Memories that the source supports by its messages, and whether nothing else does.
        messages: The messages of the source, which are no sources of what stays any more.
        named: Memories that name the source as their document, and about which it said nothing.
        anew: Its messages that state a memory which somebody restored before that.
        gone: After the run, the memories that nothing states any more,
        changed: those that are not as before,
        rewritten: those that got a version, and
        back: those that are current again, or open again.
    """

    user: UserRows
    job_ids: Sequence[UUID]
    stated: Mapping[UUID, bool]
    messages: Sequence[MessageRange]
    named: Collection[UUID]
    actor: str
    reason: str
    anew: Mapping[UUID, Sequence[MessageRange]] = field(default_factory=dict)
    gone: Gone = field(default_factory=Gone)
    changed: set[UUID] = field(default_factory=set)
    rewritten: set[UUID] = field(default_factory=set)
    back: set[UUID] = field(default_factory=set)

    async def run(self, touched: Collection[UUID]) -> dict[str, int]:
        """Rebuild memories, and those that were closed or held back by removed ones."""
        histories = await self._read_all(touched)
        await self._record_taken(histories)
        counts = {"memories_forgotten": 0, "sources_removed": 0}
        reworded = []
        events: list[ChangeEvent] = []
        unmentioned: list[UUID] = []
        rebuilt: dict[UUID, EditableMemory] = {}
        at = await users.database_now(self.user.connection)
        for memory_id, each in histories.items():
            after = rebuilt[memory_id] = without_what_is_gone(each, self.gone)
            event = await self._write(each, after, at)
            if event is not None:
                events.append(event)
                self.rewritten.add(memory_id)
                if memory_id in self.gone.every:
                    counts["memories_forgotten"] += 1
                if after.indexed_text != each.held.indexed_text:
                    reworded.append(memory_id)
            unmentioned += await self._unmention(each)
        await ledger.record(self.user, None, events, actor=self.actor)
        for memory_id, each in histories.items():
            await self._link(memory_id, each.held, rebuilt[memory_id])
        await storage.move(self.user, _moved(histories.values()))
        await name_newer(self.user, histories, rebuilt, self.gone.every)
        await self._part(histories, rebuilt)
        await self._drop_sources(histories, rebuilt, counts)
        # Even if its own words stay: the index also has those of the source.
        await reindex(self.user, sorted({*reworded, *touched}))
        await storage.embed_anew(self.user, sorted(touched))
        await mentions.recount(self.user, sorted(histories), also=unmentioned)
        return counts

    async def _drop_sources(
        self,
        histories: Mapping[UUID, MemoryHistory],
        rebuilt: Mapping[UUID, EditableMemory],
        counts: dict[str, int],
    ) -> None:
        """Remove messages that count no longer from the sources of what is told.

        What stays forgotten keeps them: they say it, and are told as little.
        """
        lost: list[tuple[MessageRange, Collection[UUID]]] = [
            *((messages, self.stated) for messages in self.messages),
            *((messages, [m]) for m, again in self.anew.items() for messages in again),
        ]
        for messages, stated in lost:
            stay = sorted(m for m in stated if rebuilt[m].memory.status != "forgotten")
            counts["sources_removed"] += await storage.drop_sources(self.user, stay, messages)
        back = [
            m
            for m, each in histories.items()
            if each.held.memory.status == "forgotten" != rebuilt[m].memory.status
        ]
        if back:
            counts["sources_removed"] += await storage.drop_taken_back(self.user, back)

    async def _read_all(self, touched: Collection[UUID]) -> dict[UUID, MemoryHistory]:
        """The histories of memories, and of those that were closed or held back by what is gone.

        What was joined to a memory before somebody asked to forget that one stays joined to it,
        whatever is taken back: they asked for both.
        """
        histories: dict[UUID, MemoryHistory] = {}
        unread = set(touched)
        while unread:
            found = await self._read(unread)
            histories |= found
            depending = await storage.depending_on(self.user, sorted(self.gone.find(found)))
            unread = set(depending) - histories.keys()
        await self.gone.find_earlier(self.user, histories)
        heads = await superseded.successors(self.user, histories)
        above = await superseded.above(self.user, histories)
        known = histories | await read_histories(self.user, above - histories.keys())
        for memory_id, by in heads.items():
            each = histories[memory_id]
            if not self.gone.keeps_hidden(by, known[by].held, histories):
                continue
            if (
                each.joined is not None
                and each.joined.version in each.taken
                and not self.gone.is_asked_since(memory_id, known)
            ):
                # What is taken back joined it after the request.
                continue
            if memory_id in self.gone.every:
                self.gone.hidden.add(memory_id)
                self.gone.joined.add(memory_id)
            joins = {v.version for v in each.versions if v.fields["status"] == "superseded"}
            histories[memory_id] = replace(each, taken=each.taken - joins)
        return histories

    async def _read(self, memory_ids: Collection[UUID]) -> dict[UUID, MemoryHistory]:
        found = {}
        for memory_id, each in (await read_histories(self.user, memory_ids)).items():
            said = [
                replace(s, taken=s.taken or (memory_id in self.named and s.job_id is None))
                for s in each.statements
            ]
            taken = self._also_taken(memory_id, each.versions, said)
            found[memory_id] = replace(each, statements=said, taken=frozenset(taken))
        return found

    async def _record_taken(self, histories: Mapping[UUID, MemoryHistory]) -> None:
        """Record what is rolled back besides the statements of the source."""
        lost = [
            s.statement_id
            for memory_id in self.named
            for s in histories[memory_id].statements
            if s.job_id is None
        ]
        unstated = [
            _taken(memory_id, version)
            for memory_id, each in histories.items()
            for version in each.versions
            if version.version in each.taken
        ]
        await statements.take_back(self.user, lost)
        await statements.record(self.user, unstated)

    def _also_taken(
        self, memory_id: UUID, versions: Sequence[StoredVersion], said: Sequence[StoredStatement]
    ) -> set[int]:
        """Versions without a statement that are rolled back with the source."""
        explained = {each.version for each in said if each.made_version}
        unexplained = [each for each in versions if each.version not in explained]
        skipped = {each.version for each in unexplained if each.job_id in self.job_ids}
        first = next((each for each in unexplained if each.version == 1), None)
        if first is not None and memory_id in self.named:
            skipped.add(1)
        elif first is not None and first.job_id is not None and memory_id in self.stated:
            # Learnt before statements were recorded: it stands while one of its sources does.
            skipped -= {1}
            if self.stated[memory_id]:
                skipped.add(1)
        return skipped

    async def _write(
        self, history: MemoryHistory, after: EditableMemory, at: datetime
    ) -> ChangeEvent | None:
        """Write the rebuilt memory, if it differs from the present one; its event, to be recorded.

        None if it has no new version.
        """
        held = history.held
        if after == held:
            return None
        if held.memory == after.memory:
            await storage.keep(
                self.user,
                held.memory.memory_id,
                said_at=after.said_at,
                challenges=after.challenges,
            )
            return None
        return await write_next(self.user, held, after, "rolled_back", self.reason, at=at)

    async def _link(self, memory_id: UUID, before: EditableMemory, after: EditableMemory) -> None:
        """Let the successors of a memory name it, or no longer."""
        old, new = before.memory.superseded_by, after.memory.superseded_by
        if old == new:
            return
        if old is not None:
            await memories.remove_superseded(self.user, memory_id, by=old)
        if new is not None:
            await memories.add_superseded(self.user, memory_id, by=new)

    async def _part(
        self, histories: Mapping[UUID, MemoryHistory], rebuilt: Mapping[UUID, EditableMemory]
    ) -> None:
        """Take back what others took over from memories that stand for themselves again."""
        before = {memory_id: each.held.memory.status for memory_id, each in histories.items()}
        after = {memory_id: each.memory.status for memory_id, each in rebuilt.items()}
        parted = [m for m, was in before.items() if was == "superseded" != after[m]]
        if parted:
            await reconciliation.part_sources(self.user, parted)
        await memories.confirm_anew(self.user, confirmed_otherwise(histories, rebuilt))
        self.changed = {m for m, each in histories.items() if rebuilt[m] != each.held}
        self.back = {
            m
            for m, status in after.items()
            if status in CURRENT_STATUSES and before[m] not in ("active", status)
        }
        # What stood for a memory had its doubt, also one that was cast by what is taken back.
        kept = {each.held.memory.superseded_by for each in histories.values()}
        followed = self.gone.every | self.changed | {each for each in kept if each is not None}
        await doubts.follow(self.user, followed, actor=self.actor)
        await clear_doubts(self.user, histories, rebuilt, actor=self.actor)

    async def _unmention(self, history: MemoryHistory) -> list[UUID]:
        """Remove mentions that come only from statements that no longer count.

        What nothing states any more keeps them: it is told to nobody, unless somebody restores it
        as it was. Returns the entities concerned.
        """
        memory_id, lost = history.held.memory.memory_id, history.lost_names
        if memory_id in self.gone.every or not lost:
            return []
        return await storage.unmention(self.user, memory_id, sorted(lost))


def without_what_is_gone(history: MemoryHistory, gone: Gone) -> EditableMemory:
    """A memory as what is left of its history makes it."""
    fields = gone.rebuilt(history)
    if fields is None:
        joined = history.held.memory.memory_id in gone.joined
        return history.held if joined else _forgotten(history.held)
    waits = fields["status"] == "quarantined"
    challenged = _challenged(history, gone) if waits else ()
    lost = gone.every | _unlinked(history)
    return _as_rebuilt(history.held, fields, challenged, lost)


def _challenged(history: MemoryHistory, gone: Gone) -> list[UUID]:
    """What a memory in quarantine still challenges."""
    named = [
        UUID(each)
        for statement in history.statements
        if not statement.taken
        for each in statement.said.get("challenges", ())
    ]
    every = dict.fromkeys([*named, *history.held.challenges])
    return [each for each in every if each not in gone.every]


def _unlinked(history: MemoryHistory) -> set[UUID]:
    """What a memory may replace only by words that no longer count."""
    return _linked(history.statements) - _linked(history.standing)


def _linked(said: Iterable[StoredStatement]) -> set[UUID]:
    return {UUID(named) for each in said for named in each.said.get("may_replace", ())}


def _taken(memory_id: UUID, version: StoredVersion) -> NewStatement:
    """What stands for a version without a statement that is rolled back."""
    return NewStatement(
        "taken",
        version.version,
        True,
        version.fields["origin"],
        version.at,
        memory_id=memory_id,
        job_id=version.job_id,
        taken=True,
    )


def _moved(histories: Iterable[MemoryHistory]) -> dict[UUID, str | None]:
    """The memories whose conversation states them no longer, and the first that does."""
    moved = {}
    for each in histories:
        left = [s.conversation_id for s in each.standing if s.action == "said"]
        memory = each.held.memory
        if left and memory.conversation_id is not None and memory.conversation_id not in left:
            moved[memory.memory_id] = left[0]
    return moved


def _forgotten(held: EditableMemory) -> EditableMemory:
    if held.memory.status == "forgotten":
        return held
    return replace(held, challenges=()).changed(
        status="forgotten", superseded_by=None, expires_at=None
    )


def _as_rebuilt(
    held: EditableMemory,
    fields: Mapping[str, Any],
    challenges: Sequence[UUID],
    unlinked: Collection[UUID],
) -> EditableMemory:
    said_at = fields["said_at"]
    memory = replace(held.memory, **{name: fields[name] for name in FIELDS if name != "said_at"})
    # A pair may have been named without a version of its own.
    pairs = dict.fromkeys([*held.memory.may_replace, *fields["may_replace"]])
    memory = replace(memory, may_replace=[each for each in pairs if each not in unlinked])
    # A memory that was sensitive at any time is not restored in clear.
    memory = replace(
        memory,
        sensitive=memory.sensitive or held.memory.sensitive,
        valid_to=max(memory.valid_to, memory.valid_from) if memory.valid_to else None,
    )
    same = memory.content == held.memory.content
    return replace(
        held,
        memory=memory,
        said_at=said_at,
        challenges=list(challenges) if memory.status == "quarantined" else (),
        embedding_state=held.embedding_state if same else "pending",
        questions=() if held.sealed else list(fields["questions"]),
    )
