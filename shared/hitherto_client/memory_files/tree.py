"""Which files there are, and what each of them holds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import get_args

from hitherto_client.memory_files.kinds import (
    SOURCE_TYPE,
    FilesOwner,
    FreeFile,
    MemoryFile,
    MemoryFileError,
    MemoryList,
    ProfileFile,
)
from hitherto_client.results.memories import Memory
from hitherto_client.words import MemoryType

ROOT = "/memories"
PROFILE = f"{ROOT}/profile.md"
_NAMES: dict[MemoryType, str] = {
    "preference": "preferences",
    "goal": "goals",
    "fact": "facts",
    "decision": "decisions",
    "context": "context",
    "feedback": "feedback",
    "personal": "personal",
    "question": "questions",
    "problem": "problems",
    "learning": "learnings",
}
LISTS: dict[str, MemoryType] = {
    f"{ROOT}/{_NAMES[type_]}.md": type_ for type_ in get_args(MemoryType)
}
"""The files that list memories, and the type of each."""
_MOST_MEMORIES = 2_000
"""Memories in the lists; the most important ones are taken."""


def checked_path(path: str) -> str:
    """A path in the form in which files are found.

    Raises:
        MemoryFileError: It does not lie within the folder.
    """
    parts = path.rstrip("/").split("/")
    if f"/{'/'.join(parts[1:2])}" != ROOT or parts[0] or not all(parts[1:]):
        raise MemoryFileError(f"Path must start with {ROOT}, got: {path}")
    if {".", ".."} & set(parts):
        raise MemoryFileError(f"Path {path} would escape {ROOT} directory")
    return "/".join(parts)


@dataclass(frozen=True, slots=True)
class Tree:
    """The files of a person, read anew for each command."""

    owner: FilesOwner

    def files(self) -> dict[str, MemoryFile]:
        """Every file that holds something, by path. Free files come without their text."""
        return dict(sorted([*self._own(), *self._free()]))

    def find(self, path: str) -> MemoryFile | None:
        """The file at a path, with its text; None if there is none."""
        if path == PROFILE or path in LISTS:
            return dict(self._own()).get(path)
        for document in self.owner.client.documents(self.owner.user, source_types=[SOURCE_TYPE]):
            if document.source_id == path:
                whole = self.owner.client.get_document(self.owner.user, document.id)
                return FreeFile(self.owner, path, whole) if whole else None
        return None

    def new(self, path: str) -> MemoryFile:
        """The file that a path would be, if it held anything."""
        if path == PROFILE:
            return ProfileFile(self.owner, self.owner.client.get_profile(self.owner.user))
        if path in LISTS:
            return MemoryList(self.owner, LISTS[path], ())
        return FreeFile(self.owner, path, None)

    def below(self, path: str) -> dict[str, MemoryFile]:
        """The files of a folder, with those of its folders; none if there is no such folder."""
        return {at: file for at, file in self.files().items() if at.startswith(f"{path}/")}

    def _own(self) -> Iterator[tuple[str, MemoryFile]]:
        profile = ProfileFile(self.owner, self.owner.client.get_profile(self.owner.user))
        if profile.text:
            yield PROFILE, profile
        by_type = defaultdict[str, list[Memory]](list)
        listed = self.owner.client.memories(
            self.owner.user, statuses=["active"], order_by="importance"
        )
        for number, memory in enumerate(listed):
            if number == _MOST_MEMORIES:
                break
            by_type[memory.type].append(memory)
        for path, type_ in LISTS.items():
            # UUIDs of version 7 are ordered by the time when they were made.
            memories = sorted(by_type[type_], key=lambda memory: memory.id)
            if memories:
                yield path, MemoryList(self.owner, type_, memories)

    def _free(self) -> Iterator[tuple[str, MemoryFile]]:
        for document in self.owner.client.documents(self.owner.user, source_types=[SOURCE_TYPE]):
            yield document.source_id, FreeFile(self.owner, document.source_id, document)
