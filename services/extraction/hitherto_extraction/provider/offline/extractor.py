"""The offline extractor: a `ChatModel` that answers from rules instead of a language model."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from hitherto_extraction.provider.offline.consolidation import consolidate
from hitherto_extraction.provider.offline.language import LANGUAGES
from hitherto_extraction.provider.offline.reading import (
    MessageReading,
    Speaker,
    UserStatement,
    read,
)
from hitherto_extraction.provider.offline.summary import Talk, Turn, summarise
from hitherto_extraction.provider.offline.text import detect
from hitherto_extraction.provider.offline.weighing import Weighing, recognise, settle
from hitherto_extraction.provider.protocol import (
    CONSOLIDATION,
    Batch,
    Completion,
    Prompt,
    PromptMessage,
)
from hitherto_shared.offloading import in_thread

MODEL = "offline-rules-2"
_LONGEST_QUOTE = 200
LIMITS = (
    "The offline extractor reads first-person statements in English and in Vietnamese written with "
    "its accents, by fixed patterns; it understands nothing else, misses whatever is said in "
    "another way, and sees neither unmarked irony nor what a pronoun refers to. Text in other "
    "languages gives a summary but no memories. Set OPENAI_API_KEY or OPENAI_BASE_URL for real use."
)


class OfflineExtractor:
    """Answers every prompt by rules. The same prompt always gets the same answer."""

    extractor = "offline"
    model = MODEL

    async def complete(self, prompt: Prompt) -> Completion:
        """Read `prompt.batch`; the texts of the prompt are ignored."""
        # Rules are pure computation: in a thread, so that the event loop is not blocked.
        if prompt.task == CONSOLIDATION:
            answer = await in_thread(consolidate, prompt.batch.memories)
        else:
            answer = await in_thread(extract, prompt.batch)
        text = json.dumps(answer, ensure_ascii=False)
        return Completion(text=text, model=MODEL, calls=0, input_tokens=0, output_tokens=0)

    async def close(self) -> None:
        """There is nothing to release."""


def extract(batch: Batch) -> dict[str, Any]:
    """Answer one batch with the object that is requested from a language model."""
    zone = _zone(batch.time_zone)
    talk = Talk()
    for message in batch.messages:
        if message.role == "user":
            language = detect(message.content, LANGUAGES)
            reading = MessageReading()
            if language:
                speaker = _speaker(message, language.subject, zone)
                reading = read(message.content, language, speaker)
            talk.turns.append(Turn(message, language, reading))
            talk.answered = False
        elif message.role == "assistant" and message.content:
            talk.answered = True
    names = _names(batch)
    known = [recognise(memory, names) for memory in batch.memories]
    outcome = settle([turn.reading for turn in talk.turns], known)
    cited = _Citing({message.local_id: message.content for message in batch.messages})
    answer = _memories(outcome, cited)
    answer["profile_changes"] = _profile(outcome.statements, batch.profile, cited)
    if batch.messages:
        answer["conversation_summary"] = summarise(talk, outcome.statements, batch.summary)
    return answer


def _zone(name: str) -> tzinfo:
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, LookupError):
        # The gateway refuses unknown time zones; a batch with one still gets an answer.
        return UTC


def _speaker(message: PromptMessage, subject: str, zone: tzinfo) -> Speaker:
    name = message.name.strip()
    if not name or name.casefold() in ("user", "người dùng"):
        name = subject
    return Speaker(name, message.local_id, _local(message.created_at, zone))


def _local(moment: datetime, zone: tzinfo) -> datetime:
    try:
        return moment.astimezone(zone)
    except (OverflowError, ValueError):
        return moment


def _names(batch: Batch) -> list[str]:
    """The user's possible names in existing memories."""
    names = {message.name.strip() for message in batch.messages if message.role == "user"}
    facts = batch.profile.get("facts")
    personal = facts.get("personal") if isinstance(facts, Mapping) else None
    if isinstance(personal, Mapping) and isinstance(personal.get("name"), str):
        names.add(personal["name"].strip())
    return sorted(names - {""})


@dataclass(frozen=True, slots=True)
class _Citing:
    """Cites messages: their ids, and the beginning of the first one."""

    contents: Mapping[str, str]

    def of(self, message_ids: Sequence[str]) -> dict[str, Any]:
        """The evidence of a change."""
        quote = self.contents.get(message_ids[0], "")[:_LONGEST_QUOTE] if message_ids else ""
        return {"source_message_ids": list(message_ids), "quote": quote}


def _memories(outcome: Weighing, cited: _Citing) -> dict[str, Any]:
    index = {id(statement): number for number, statement in enumerate(outcome.statements)}

    def by(statement: UserStatement | None) -> int | None:
        return None if statement is None else index.get(id(statement))

    return {
        "new_memories": [_memory(statement) for statement in outcome.statements],
        "updated_memories": [
            {"id": memory.local_id, "content": memory.content, **cited.of(messages)}
            for memory, messages in outcome.confirmed
        ],
        "contradicted_memories": [
            {"id": name, "by": by(statement), "reason": reason, **cited.of(messages)}
            for name, statement, reason, messages in outcome.contradicted
        ],
        "achieved_goals": [
            {"id": name, "by": by(statement), **cited.of(statement.message_ids)}
            for name, statement in outcome.achieved
        ],
    }


def _memory(statement: UserStatement) -> dict[str, Any]:
    memory: dict[str, Any] = {
        "type": statement.meaning.type,
        "content": statement.content,
        "importance": statement.meaning.importance,
        "confidence": statement.confidence,
        "tags": list(statement.meaning.tags),
        "keywords": statement.keywords,
        "entities": [{"name": name, "type": kind} for name, kind in statement.entities],
        "source_message_ids": statement.message_ids,
        "origin": "user",
    }
    if statement.valid_from:
        memory["valid_from"] = statement.valid_from.isoformat()
    return memory


def _profile(
    statements: Sequence[UserStatement], known: Mapping[str, Any], cited: _Citing
) -> list[dict[str, Any]]:
    """The profile values of all statements; a later value of a field wins."""
    found: dict[tuple[str, Any], dict[str, Any]] = {}
    said = {path for statement in statements for path, _ in statement.profile}
    for statement in statements:
        for path, value in statement.profile:
            if path.endswith("?") and (path[:-1] in said or value_at(known, path[:-1])):
                continue
            is_list = path.endswith("[]")
            name = path.rstrip("[]?")
            given = [value] if is_list else value
            evidence = cited.of(statement.message_ids)
            found[name, value if is_list else None] = {"path": name, "value": given, **evidence}
    return list(found.values())


def value_at(profile: Mapping[str, Any], path: str) -> Any:
    """The value at a dotted path; None if there is none."""
    place: Any = profile
    for key in path.split("."):
        place = place.get(key) if isinstance(place, Mapping) else None
    return place
