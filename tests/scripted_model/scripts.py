"""Scripts: what the model says to a prompt when nothing is queued."""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from tests.scripted_model.answers import ChatAnswer, memory
from tests.scripted_model.faults import Fault
from tests.scripted_model.prompts import ChatRequest

Outcome = ChatAnswer | Fault
Script = Callable[[ChatRequest], Outcome | Awaitable[Outcome]]

_CANARY = re.compile(r"canary:[\w-]+")


def empty_script(request: ChatRequest) -> ChatAnswer:
    """Nothing worth remembering, said properly; memories that it is shown stay as they are."""
    if request.reconciliation:
        return ChatAnswer.of(same=[], replaced=[], doubtful=[], certain=[])
    return ChatAnswer.of(memories=[]) if request.consolidation else ChatAnswer.of(new_memories=[])


def canary_script(request: ChatRequest) -> ChatAnswer:
    """One memory for every different `canary:word` in the user's messages."""
    if request.consolidation or request.reconciliation:
        return empty_script(request)
    sources: dict[str, list[str]] = {}
    for message in request.messages:
        if message.role == "user":
            for canary in dict.fromkeys(_CANARY.findall(message.content)):
                sources.setdefault(canary, []).append(message.local_id)
    return ChatAnswer.of(
        new_memories=[
            memory(f"The user mentioned {canary}.", ids) for canary, ids in sources.items()
        ]
    )


def facts_script(table: str | Path | Iterable[Mapping[str, Any]]) -> Script:
    """Answer with the facts that are known of each conversation.

    The prompt shows local ids only, so a conversation is recognised by what its messages say. A
    fact is told once, when the last message it rests on is in the batch.

    Args:
        table: A file of JSON lines, or rows, of `conversation_id messages[{id content}]
            facts[{content evidence[message ids]}] summary`.
    """
    book = _FactBook(_rows(table) if isinstance(table, str | Path) else table)
    return book.answer


def _rows(path: str | Path) -> Iterable[Mapping[str, Any]]:
    with Path(path).open(encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


class _FactBook:
    """Conversations, found again by the content of their messages."""

    def __init__(self, rows: Iterable[Mapping[str, Any]]) -> None:
        self._rows: list[Mapping[str, Any]] = []
        self._said_in: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for row in rows:
            for position, message in enumerate(row["messages"]):
                place = (len(self._rows), position)
                self._said_in[_key(message["content"])].append(place)
            self._rows.append(row)

    def answer(self, request: ChatRequest) -> ChatAnswer:
        """The facts of the conversation whose messages these are, or nothing if it is unknown."""
        if request.consolidation:
            return empty_script(request)
        votes = Counter(
            row
            for message in request.messages
            for row in {row for row, _ in self._said_in.get(_key(message.content), ())}
        )
        if not votes:
            return empty_script(request)
        row = votes.most_common(1)[0][0]
        local = self._local_ids(row, request)
        told = []
        for fact in self._rows[row]["facts"]:
            evidence = fact["evidence"]
            if evidence and evidence[-1] in local:
                sources = [local[source] for source in evidence if source in local]
                told.append(memory(fact["content"], sources))
        answer: dict[str, Any] = {"new_memories": told}
        if summary := self._rows[row].get("summary"):
            answer["conversation_summary"] = {
                "title": " ".join(summary.split()[:8]),
                "summary": summary,
                "key_topics": [],
                "technical_topics": [],
                "outcome": "resolved",
                "followup_suggestions": [],
            }
        return ChatAnswer.of(**answer)

    def _local_ids(self, row: int, request: ChatRequest) -> dict[str, str]:
        """The prompt's id of each message of the conversation; equal texts map in order."""
        messages = self._rows[row]["messages"]
        local: dict[str, str] = {}
        for line in request.messages:
            for place_row, position in self._said_in.get(_key(line.content), ()):
                message_id = messages[position]["id"] if place_row == row else None
                if message_id is not None and message_id not in local:
                    local[message_id] = line.local_id
                    break
        return local


def _key(content: str) -> str:
    """A message's content without what a prompt may change: form, spaces and line breaks."""
    return " ".join(unicodedata.normalize("NFC", content).split())
