"""How memories came to be, and which of them nothing states any more."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from hitherto_extraction.rollback.rebuilt import replacements
from hitherto_extraction.rollback.replay import replay, stating
from hitherto_extraction.storage import editing, statements
from hitherto_extraction.storage import rollback as storage
from hitherto_extraction.storage.editing import EditableMemory
from hitherto_extraction.storage.rollback import StoredVersion
from hitherto_extraction.storage.statements import StoredStatement
from hitherto_shared.database.user_rows import UserRows


@dataclass(frozen=True, slots=True)
class MemoryHistory:
    """Everything known about how a memory, as it is `held` now, came to be.

    Attributes:
        versions: Every version, the first one first, the present one last.
        statements: Everything said about it, in order, also what is rolled back.
        rolled_back: Versions that earlier roll-backs made.
        restored: Versions by which somebody restored it.
        asked: Versions by which somebody forgot it, also if it was forgotten.
        taken: Versions without a statement that are rolled back now.
    """

    held: EditableMemory
    versions: Sequence[StoredVersion]
    statements: Sequence[StoredStatement]
    rolled_back: frozenset[int]
    restored: frozenset[int]
    asked: frozenset[int]
    taken: frozenset[int] = frozenset()

    @property
    def skipped(self) -> frozenset[int]:
        """Versions that do not count although no statement explains them."""
        return self.rolled_back | self.taken

    @property
    def stating(self) -> frozenset[int]:
        """Versions by which somebody restored it when nothing stated it: they state it."""
        return stating(self.versions, self.statements, self.rolled_back, self.restored)

    @property
    def vouched_since(self) -> datetime | None:
        """When somebody last restored it when nothing stated it, if ever."""
        stating = self.stating
        return max((v.at for v in self.versions if v.version in stating), default=None)

    @property
    def standing(self) -> list[StoredStatement]:
        """What of all that was said counts, by itself or since somebody vouched for it."""
        since = self.vouched_since
        return [
            each
            for each in self.statements
            if not each.taken or (since and each.taken_at and each.taken_at <= since)
        ]

    @property
    def joined(self) -> StoredVersion | None:
        """The version since which what stands for it now does so, if anything does."""
        found, by = None, self.held.memory.superseded_by
        for each in reversed(self.versions):
            if by is None or each.fields["superseded_by"] != by:
                break
            if each.fields["status"] != "superseded":
                break
            found = each
        return found

    @property
    def lost_names(self) -> set[tuple[str, str]]:
        """The entities that only statements mention which no longer count, by name and type."""
        return _names(self.statements) - _names(self.standing)


@dataclass(slots=True)
class Gone:
    """Memories that nothing states any more.

    Attributes:
        every: All of them, as far as they matter,
        hidden: those that somebody asked to forget, and
        joined: of these, those that were joined to something that somebody asked to forget.
    """

    every: set[UUID] = field(default_factory=set)
    hidden: set[UUID] = field(default_factory=set)
    joined: set[UUID] = field(default_factory=set)

    def rebuilt(self, history: MemoryHistory) -> dict[str, Any] | None:
        """The fields of a memory; None if nothing states it any more."""
        fields = self._replayed(history)
        return fields if fields["content"] else None

    def find(self, histories: Mapping[UUID, MemoryHistory]) -> set[UUID]:
        """Find those among these memories that nothing states; returns them."""
        fields = {m: self._replayed(each) for m, each in histories.items()}
        found = {m for m, each in fields.items() if not each["content"]}
        self.every |= found
        self.hidden |= {m for m in found if fields[m]["status"] == "forgotten"}
        return found

    def _replayed(self, history: MemoryHistory) -> dict[str, Any]:
        return replay(
            history.versions,
            history.statements,
            skipped=history.skipped,
            restored=history.restored,
            stating=history.stating,
            asked=history.asked,
            gone=self.every,
            hidden=self.hidden,
        )

    async def find_earlier(self, user: UserRows, histories: Mapping[UUID, MemoryHistory]) -> None:
        """Find what closes or holds back these memories and was removed by earlier roll-backs."""
        named = await read_histories(user, _named_by(histories.values()) - histories.keys())
        self.find({m: each for m, each in named.items() if _is_forgotten(each.held)})

    def keeps_hidden(
        self, by: UUID, held: EditableMemory, histories: Mapping[UUID, MemoryHistory]
    ) -> bool:
        """Whether a memory that others were joined to stays forgotten, as somebody asked for."""
        if by in self.every:
            return by in self.hidden
        if by not in histories:
            return _is_forgotten(held)
        fields = self.rebuilt(histories[by])
        return fields is not None and fields["status"] == "forgotten"

    def is_asked_since(self, memory_id: UUID, known: Mapping[UUID, MemoryHistory]) -> bool:
        """Whether somebody asked to forget what stands for a memory after it was joined to that."""
        each, joined = known[memory_id], list[datetime]()
        for _ in known:
            version, by = each.joined, each.held.memory.superseded_by
            if version is None or by is None or by not in known:
                break
            joined.append(version.at)
            each = known[by]
            fields = self._replayed(each)
            at = fields["forgotten_at"]
            if fields["status"] == "forgotten" and (at is None or at >= max(joined)):
                return True
        return False


async def vouched_for(user: UserRows, memory_ids: Collection[UUID]) -> dict[UUID, datetime]:
    """Those of these memories that somebody restored when nothing stated them, and since when."""
    made = await storage.made_by(user, sorted(memory_ids))
    restored = [memory_id for memory_id, versions in made["restored"].items() if versions]
    return {
        memory_id: since
        for memory_id, each in (await read_histories(user, restored)).items()
        if (since := each.vouched_since) is not None
    }


async def read_histories(user: UserRows, memory_ids: Collection[UUID]) -> dict[UUID, MemoryHistory]:
    """The histories of memories."""
    wanted = sorted(memory_ids)
    if not wanted:
        return {}
    held = await editing.read(user, wanted)
    versions = await storage.read_versions(user, wanted)
    said = await statements.of_memories(user, wanted)
    made = await storage.made_by(user, wanted)
    return {
        m: MemoryHistory(
            each,
            versions[m],
            said[m],
            rolled_back=frozenset(made["rolled_back"][m]),
            restored=frozenset(made["restored"][m]),
            asked=frozenset(made["forgotten"][m]),
        )
        for m, each in held.items()
    }


def _named_by(histories: Iterable[MemoryHistory]) -> set[UUID]:
    """The memories that close or hold back these, or did before something was rolled back."""
    named = set[UUID]()
    for each in histories:
        for statement in each.statements:
            named.update(by for by, _ in replacements(statement.said))
            named.update(map(UUID, statement.said.get("challenges", ())))
        # No statement tells of a join.
        ends = (version.fields["superseded_by"] for version in each.versions)
        named.update(by for by in ends if by is not None)
    return named


def _names(said: Iterable[StoredStatement]) -> set[tuple[str, str]]:
    return {(name, kind) for each in said for name, kind in each.said.get("entities", ())}


def _is_forgotten(held: EditableMemory) -> bool:
    return held.memory.status == "forgotten"
