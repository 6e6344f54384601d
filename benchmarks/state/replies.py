"""Recorded replies of a language model: what they hold, and how they are played back.

A reply names the memories of its prompt by ids that differ from run to run. A record therefore
keeps the words behind every id that the reply names, and playing it back finds these words in the
prompt.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.state.people import folding

FOLDER = Path(__file__).parent / "replies"
_LOCAL_ID = re.compile(r"\[?(e\d+)\]?")
_ALIKE = 0.6
_UNKNOWN = "e0"


@dataclass(frozen=True, slots=True)
class RecordedReply:
    """One reply; `known` holds the words behind the ids of memories that it names.

    Attributes:
        key: What it answers: the session, or `reconciliation-N`.
        reply: The JSON object of the reply.
        known: The words of memories by their local ids.
        shown: For a reconciliation, the words of every memory in its prompt.
    """

    key: str
    reply: Mapping[str, Any]
    known: Mapping[str, str]
    shown: tuple[str, ...] = ()

    def replayed(self, memories: Mapping[str, str]) -> dict[str, Any]:
        """The reply for a prompt that shows `memories`, by their local ids."""
        ids = {name: _find(words, memories) for name, words in self.known.items()}
        found: dict[str, Any] = _with_ids(self.reply, ids)
        return found


def recorded(key: str, reply: Mapping[str, Any], memories: Mapping[str, str]) -> RecordedReply:
    """The record of a reply to a prompt with these memories."""
    named = {name for name in _ids(reply) if name in memories}
    return RecordedReply(key, reply, {name: memories[name] for name in sorted(named)})


def load(version: str, person: str, folder: Path = FOLDER) -> dict[str, RecordedReply]:
    """The records of a person for a version of the prompt, by key; none if there is no file."""
    path = folder / version / f"{person}.json"
    if not path.exists():
        return {}
    rows = json.loads(path.read_text("utf-8"))
    found = [RecordedReply(**{**row, "shown": tuple(row.get("shown", ()))}) for row in rows]
    return {each.key: each for each in found}


def save(
    version: str, person: str, records: Mapping[str, RecordedReply], folder: Path = FOLDER
) -> None:
    """Write the records of a person."""
    path = folder / version / f"{person}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [asdict(records[key]) for key in records]
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    path.write_text(f"[\n{lines}\n]\n", "utf-8")


def _find(words: str, memories: Mapping[str, str]) -> str:
    """The id of the memory with these words, or with the words most like them."""
    wanted = folding(words)
    texts = {name: folding(text) for name, text in memories.items()}
    for name, text in texts.items():
        if text == wanted:
            return name
    scored = [
        (difflib.SequenceMatcher(None, wanted, text, autojunk=False).ratio(), name)
        for name, text in texts.items()
    ]
    best, name = max(scored, default=(0.0, _UNKNOWN))
    return name if best >= _ALIKE else _UNKNOWN


def _ids(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for inner in value.values():
            yield from _ids(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _ids(inner)
    elif isinstance(value, str) and (match := _LOCAL_ID.fullmatch(value.strip())):
        yield match[1]


def _with_ids(value: Any, ids: Mapping[str, str]) -> Any:
    if isinstance(value, Mapping):
        return {key: _with_ids(inner, ids) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_with_ids(inner, ids) for inner in value]
    if isinstance(value, str) and (match := _LOCAL_ID.fullmatch(value.strip())):
        return ids.get(match[1], _UNKNOWN)
    return value
