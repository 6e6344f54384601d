"""The six commands, with the arguments and the replies that Anthropic documents for its tool.

https://platform.claude.com/docs/en/agents-and-tools/tool-use/memory-tool
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import grpc

from hitherto_client._sync.client import Hitherto
from hitherto_client.errors import HithertoCallError
from hitherto_client.memory_files.tree import (
    ROOT,
    FilesOwner,
    FreeFile,
    MemoryFile,
    MemoryFileError,
    Tree,
    checked_path,
)
from hitherto_client.words import Origin

_LEVELS = 2
_NUMBER_WIDTH = 6
_AROUND = 4
"""Lines shown before and after an edit."""


class MemoryFiles:
    """A person's memory as the folder `/memories`.

    `profile.md` is the profile, `preferences.md`, `goals.md`, `facts.md` and so on are the active
    memories of each type, and every other file is the agent's own. Each command reads the present
    state, so that several agents and people can work on one memory; an edit of memories or of the
    profile that another one overtook is refused. Of files of its own, the last one written counts.

    Example:
        files = MemoryFiles(Hitherto(), user="ana")
        files.run({"command": "view", "path": "/memories"})
    """

    def __init__(self, client: Hitherto, *, user: str, origin: Origin = "assistant") -> None:
        """Open a person's files.

        Args:
            client: The client; its credential decides what may be read and changed.
            user: Whose memory.
            origin: On whose word new lines stand. What an assistant wrote never displaces what the
                user said; `user` is right where the user edits the files.
        """
        self._owner = FilesOwner(client, user, origin)
        self._commands: Mapping[str, Callable[..., str]] = {
            "view": self.view,
            "create": self.create,
            "str_replace": self.str_replace,
            "insert": self.insert,
            "delete": self.delete,
            "rename": self.rename,
        }

    def run(self, command: Mapping[str, Any]) -> str:
        """Run a command as the model sent it: `command` and its arguments. Returns the reply.

        Raises:
            MemoryFileError: The command is unknown or cannot be carried out, and nothing or only a
                part of it was changed; the text tells the model why.
        """
        arguments = dict(command)
        name = arguments.pop("command", None)
        if not isinstance(name, str) or name not in self._commands:
            raise MemoryFileError(
                f"Unknown command: {name}. There are {', '.join(self._commands)}."
            )
        _check(name, self._commands[name], arguments)
        try:
            return self._commands[name](**arguments)
        except HithertoCallError as error:
            raise MemoryFileError(_told(error)) from error

    def view(self, path: str, view_range: Sequence[int] | None = None) -> str:
        """List a folder two levels deep, or show a file with its line numbers.

        Args:
            path: The folder or file.
            view_range: First and last line, from 1; -1 is the last line of the file.
        """
        path = checked_path(path)
        file = None if path == ROOT else self._tree.find(path)
        if file is not None:
            lines = file.text.removesuffix("\n").split("\n")
            first, last = (*view_range, -1)[:2] if view_range else (1, -1)
            first = max(first, 1)
            shown = lines[first - 1 : len(lines) if last == -1 else last]
            return f"Here's the content of {path} with line numbers:\n{_numbered(shown, first)}"
        files = self._tree.below(path)
        if not files and path != ROOT:
            raise MemoryFileError(f"The path {path} does not exist. Please provide a valid path.")
        return (
            f"Here're the files and directories up to {_LEVELS} levels deep in {path}, "
            f"excluding hidden items and node_modules:\n{_listed(path, files)}"
        )

    def create(self, path: str, file_text: str) -> str:
        """Make a file; each line of a list of memories becomes a memory."""
        path = checked_path(path)
        if path == ROOT or self._tree.find(path) is not None or self._tree.below(path):
            raise MemoryFileError(f"Error: File {path} already exists")
        self._tree.new(path).rewrite(file_text)
        return f"File created successfully at: {path}"

    def str_replace(self, path: str, old_str: str, new_str: str = "") -> str:
        """Replace a text that stands in the file exactly once."""
        path, file = self._file(path)
        text = file.text
        found = text.count(old_str) if old_str else 0
        if not found:
            raise MemoryFileError(
                f"No replacement was performed, old_str `{old_str}` did not appear verbatim in "
                f"{path}."
            )
        if found > 1:
            lines = [
                str(number)
                for number, line in enumerate(text.split("\n"), 1)
                if old_str.split("\n", 1)[0] in line
            ]
            raise MemoryFileError(
                f"No replacement was performed. Multiple occurrences of old_str `{old_str}` in "
                f"lines: {', '.join(lines)}. Please ensure it is unique"
            )
        edited = text.replace(old_str, new_str)
        file.rewrite(edited)
        at = text[: text.index(old_str)].count("\n")
        first = max(at - _AROUND, 0)
        around = edited.split("\n")[first : at + new_str.count("\n") + 1 + _AROUND]
        return f"The memory file has been edited.\n{_numbered(around, first + 1)}"

    def insert(self, path: str, insert_line: int, insert_text: str) -> str:
        """Insert a text after a line; 0 is the beginning."""
        path, file = self._file(path)
        lines = file.text.removesuffix("\n").split("\n")
        if not 0 <= insert_line <= len(lines):
            raise MemoryFileError(
                f"Error: Invalid `insert_line` parameter: {insert_line}. It should be within the "
                f"range of lines of the file: [0, {len(lines)}]"
            )
        lines[insert_line:insert_line] = insert_text.removesuffix("\n").split("\n")
        file.rewrite("\n".join(lines) + "\n")
        return f"The file {path} has been edited."

    def delete(self, path: str) -> str:
        """Delete a file or folder: memories are forgotten, values of the profile cleared."""
        path = checked_path(path)
        if path == ROOT:
            raise MemoryFileError(f"Error: The {ROOT} directory itself cannot be deleted")
        file = self._tree.find(path)
        files = [file] if file else list(self._tree.below(path).values())
        if not files:
            raise MemoryFileError(f"Error: The path {path} does not exist")
        for found in files:
            found.delete()
        return f"Successfully deleted {path}"

    def rename(self, old_path: str, new_path: str) -> str:
        """Rename a free file, or a folder of them."""
        old_path, new_path = checked_path(old_path), checked_path(new_path)
        file = self._tree.find(old_path)
        moved = {old_path: file} if file else dict(self._tree.below(old_path))
        if not moved or old_path == ROOT:
            raise MemoryFileError(f"Error: The path {old_path} does not exist")
        targets = {path: new_path + path.removeprefix(old_path) for path in moved}
        if new_path in self._tree.files() or self._tree.below(new_path):
            raise MemoryFileError(f"Error: The destination {new_path} already exists")
        if not all(
            isinstance(one, FreeFile)
            for path, target in targets.items()
            for one in (moved[path], self._tree.new(target))
        ):
            raise MemoryFileError(
                "Error: The profile and the lists of memories have fixed names; only files of your "
                "own can be renamed"
            )
        for path, target in targets.items():
            whole = self._tree.find(path)
            if whole is not None:
                self._tree.new(target).rewrite(whole.text)
                whole.delete()
        return f"Successfully renamed {old_path} to {new_path}"

    @property
    def _tree(self) -> Tree:
        return Tree(self._owner)

    def _file(self, path: str) -> tuple[str, MemoryFile]:
        path = checked_path(path)
        file = None if path == ROOT else self._tree.find(path)
        if file is None:
            raise MemoryFileError(
                f"Error: The path {path} does not exist. Please provide a valid path."
            )
        return path, file


def _check(name: str, command: Callable[..., str], arguments: Mapping[str, Any]) -> None:
    """Refuse arguments that a command does not take; the model sees why, and tries again."""
    try:
        inspect.signature(command).bind(**arguments)
    except TypeError as error:
        raise MemoryFileError(f"{name}: {error}") from None
    for argument, value in arguments.items():
        if argument == "insert_line":
            fits, wanted = _is_number(value), "a whole number"
        elif argument == "view_range":
            fits = value is None or (
                isinstance(value, list | tuple) and len(value) <= 2 and all(map(_is_number, value))
            )
            wanted = "two whole numbers"
        else:
            fits, wanted = isinstance(value, str), "a text"
        if not fits:
            raise MemoryFileError(f"{name}: {argument} must be {wanted}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _numbered(lines: Sequence[str], first: int) -> str:
    return "\n".join(
        f"{number:>{_NUMBER_WIDTH}}\t{line}" for number, line in enumerate(lines, first)
    )


def _listed(path: str, files: Mapping[str, MemoryFile]) -> str:
    """The folder, its files and its folders, each with its size."""
    sizes: dict[str, int] = {path: 0}
    for at, file in files.items():
        size = file.size
        parts = at.removeprefix(f"{path}/").split("/")
        sizes[path] += size
        for level in range(1, min(len(parts), _LEVELS) + 1):
            ending = "" if level == len(parts) else "/"
            entry = f"{path}/{'/'.join(parts[:level])}{ending}"
            sizes[entry] = sizes.get(entry, 0) + size
    return "\n".join(f"{_size(size)}\t{entry}" for entry, size in sizes.items())


def _size(size: int) -> str:
    for unit in ("B", "K", "M"):
        if size < 1024:
            return f"{size:.1f}{unit}".replace(".0", "")
        size //= 1024
    return f"{size}G"


def _told(error: HithertoCallError) -> str:
    if error.code is grpc.StatusCode.ABORTED:
        return "Error: It was changed meanwhile. View the file again, then repeat the edit."
    return f"Error: {error}"
