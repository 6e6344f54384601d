"""Which files there are, and what each holds: a list of memories, the profile, or a free file.

A file is what the services hold, written as lines. Rewriting one compares its lines with the new
ones and makes the difference by the ordinary calls: a changed line corrects its memory, which keeps
its earlier wording; a line that is gone forgets it, and RestoreMemory brings it back.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, get_args

from hitherto_client._sync.client import Hitherto
from hitherto_client.integrations.kept_items import check_kept
from hitherto_client.results.conversations import Document
from hitherto_client.results.memories import Memory, Profile
from hitherto_client.wire import put
from hitherto_client.words import MemoryType, Origin

SOURCE_TYPE = "memory-file"
"""The source type of the documents that hold free files."""
_TITLE = 200
_REASON = "edited in the memory files"


class MemoryFileError(Exception):
    """A command that cannot be carried out; the text is for the model."""


@dataclass(frozen=True, slots=True)
class FilesOwner:
    """Whose files they are, and on whose word new lines stand."""

    client: Hitherto
    user: str
    origin: Origin


class MemoryFile(ABC):
    """A file of the tree."""

    @property
    @abstractmethod
    def text(self) -> str:
        """What stands in it."""

    @abstractmethod
    def rewrite(self, text: str) -> None:
        """Make what stands in it this text."""

    @property
    def size(self) -> int:
        """The size of its text, in bytes of UTF-8."""
        return len(self.text.encode())

    def delete(self) -> None:
        """Remove what stands in it."""
        self.rewrite("")


@dataclass(frozen=True, slots=True)
class MemoryList(MemoryFile):
    """Memories of one type, one a line, the oldest first."""

    owner: FilesOwner
    type: MemoryType
    memories: Sequence[Memory]

    @property
    def text(self) -> str:
        """One line for each memory."""
        return "".join(f"- {_one_line(memory.content)}\n" for memory in self.memories)

    def rewrite(self, text: str) -> None:
        """Correct, forget and save memories so that they say this text.

        Blank lines and headings state nothing, and are not kept.
        """
        old = [_one_line(memory.content) for memory in self.memories]
        new = list(_statements(text))
        corrected: list[tuple[Memory, str]] = []
        forgotten: list[Memory] = []
        saved: list[str] = []
        for tag, i1, i2, j1, j2 in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
            if tag == "equal":
                continue
            # A line that has only moved is neither gone nor new.
            gone = [each for each in self.memories[i1:i2] if _one_line(each.content) not in new]
            come = [line for line in new[j1:j2] if line not in old]
            corrected += zip(gone, come, strict=False)
            forgotten += gone[len(come) :]
            saved += come[len(gone) :]
        # What adds comes first: a call that fails in between has lost nothing.
        client, user = self.owner.client, self.owner.user
        for content in saved:
            self._save(content)
        for memory, content in corrected:
            client.update_memory(user, memory.id, content=content, version=memory.version)
        for memory in forgotten:
            client.forget_memory(user, memory.id, reason=_REASON)

    def _save(self, content: str) -> None:
        """Save a line, or bring back the memory that an earlier edit forgot with it."""
        client, user = self.owner.client, self.owner.user
        memory: Memory = client.save_memory(
            user, content, type=self.type, origin=self.owner.origin
        ).memory
        if memory.status == "forgotten":
            events = client.memory_history(user, memory.id)
            if next((each.reason for each in events if each.kind == "forgotten"), "") != _REASON:
                raise MemoryFileError(
                    f"Error: What the line `{content}` says was forgotten and stays so: leave it "
                    "out."
                )
            memory = client.restore_memory(user, memory.id)
        if memory.type != self.type:
            client.update_memory(user, memory.id, type=self.type, version=memory.version)


@dataclass(frozen=True, slots=True)
class ProfileFile(MemoryFile):
    """The profile: a line `path: value` for each value, and for each item of a list."""

    owner: FilesOwner
    profile: Profile | None

    @property
    def text(self) -> str:
        """The lines, by path."""
        return "".join(f"{path}: {_shown(value)}\n" for path, value in self._lines())

    def rewrite(self, text: str) -> None:
        """Set and clear values so that the profile says this text; its history keeps the others."""
        said = self._read(text)
        known = {path: _values(held) for path, held in self._held().items()}
        changed = {path: values for path, values in said.items() if known.get(path) != values}
        arguments: dict[str, Any] = {}
        for path, values in changed.items():
            listed = len(values) > 1 or isinstance(self._held().get(path), list)
            put(arguments, path.split("."), values if listed else values[0])
        gone = [path for path in known if path not in said]
        if not arguments and not gone:
            return
        self.owner.client.update_profile(
            self.owner.user,
            **arguments,
            clear=gone,
            version=self.profile.version if self.profile else 0,
        )

    def _held(self) -> dict[str, Any]:
        if self.profile is None:
            return {}
        shown = {
            "summary": self.profile.summary,
            "current_projects": list(self.profile.current_projects),
            "frequent_intents": list(self.profile.frequent_intents),
        }
        nested = {"preferences": self.profile.preferences, "facts": self.profile.facts}
        return dict([*_leaves(shown), *sorted(_leaves(nested), key=lambda leaf: leaf[0])])

    def _lines(self) -> Iterator[tuple[str, Any]]:
        for path, held in self._held().items():
            for value in _values(held):
                yield path, value

    def _read(self, text: str) -> dict[str, list[Any]]:
        as_shown = {(path, _shown(value)): value for path, value in self._lines()}
        said: dict[str, list[Any]] = {}
        for line in _statements(text):
            path, colon, words = (part.strip() for part in line.partition(":"))
            if not colon or not words or path.partition(".")[0] not in _FIELDS:
                raise MemoryFileError(
                    f"The line `{line}` is no line of the profile: write `path: value`, where the "
                    f"path begins with one of {', '.join(sorted(_FIELDS))}, such as "
                    "`facts.personal.location: Porto`."
                )
            if ("." in path) != (path.partition(".")[0] in _NESTED):
                raise MemoryFileError(f"`{path}` is no path of a profile.")
            value = as_shown[path, words] if (path, words) in as_shown else self._typed(path, words)
            said.setdefault(path, []).append(value)
        for path in said:
            if any(other.startswith(f"{path}.") for other in said):
                raise MemoryFileError(f"`{path}` is a value, or has values below it, not both.")
        return said

    def _typed(self, path: str, words: str) -> Any:
        """A new value, of JSON where the one that it replaces is no text."""
        if all(isinstance(value, str) for value in _values(self._held().get(path, ""))):
            return words
        try:
            return json.loads(words, parse_constant=str)
        except (ValueError, RecursionError):
            return words


_NESTED = frozenset({"preferences", "facts"})
_FIELDS = _NESTED | {"summary", "current_projects", "frequent_intents"}


@dataclass(frozen=True, slots=True)
class FreeFile(MemoryFile):
    """A file that the agent made: a document, which searches and contexts find."""

    owner: FilesOwner
    path: str
    document: Document | None
    """None: it is about to be made."""

    @property
    def text(self) -> str:
        """Its text; empty if the document came from a list."""
        return self.document.content if self.document else ""

    @property
    def size(self) -> int:
        """The size of the whole text, in bytes, whether it is here or not."""
        return int(self.document.metadata.get("bytes", 0)) if self.document else 0

    def rewrite(self, text: str) -> None:
        """Store the file with this text."""
        stored = self.owner.client.ingest_documents(
            self.owner.user,
            [
                {
                    "source_type": SOURCE_TYPE,
                    "source_id": self.path,
                    "content_type": "document",
                    "title": self.path.rpartition("/")[2][:_TITLE],
                    "content": text,
                    "metadata": {"bytes": len(text.encode())},
                }
            ],
        )
        check_kept(stored.job)

    def delete(self) -> None:
        """Delete the document; what was learnt from it stays."""
        if self.document is not None:
            self.owner.client.delete_document(self.owner.user, self.document.id)


def _statements(text: str) -> Iterator[str]:
    """The lines that state something, without the dash of a list."""
    for line in text.splitlines():
        statement = line.strip()
        if statement.startswith("#"):
            continue
        statement = statement.removeprefix("- ").strip()
        if statement and statement != "-":
            yield statement


def _one_line(content: str) -> str:
    return " ".join(content.split())


def _leaves(held: Mapping[str, Any], at: str = "") -> Iterator[tuple[str, Any]]:
    """Each value by its path; a list is one value, and keys that contain a dot are left out."""
    for key, value in held.items():
        path = f"{at}.{key}" if at else key
        if "." in key or ":" in key:
            continue
        if isinstance(value, Mapping):
            yield from _leaves(value, path)
        elif value not in ("", None, []):
            yield path, value


def _values(held: Any) -> list[Any]:
    return held if isinstance(held, list) else [held]


def _shown(value: Any) -> str:
    """A value as words; numbers, booleans and nested values as JSON."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return _one_line(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


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
    """A path in the form in which files are found."""
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
