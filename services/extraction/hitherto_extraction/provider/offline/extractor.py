"""The offline extractor: a `ChatModel` that answers from rules instead of a language model."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from zoneinfo import ZoneInfo

from hitherto_extraction.provider.offline.consolidation import consolidate
from hitherto_extraction.provider.offline.language import LANGUAGES, detect
from hitherto_extraction.provider.offline.reading import Reader, UserStatement, slots_of
from hitherto_extraction.provider.offline.summary import summarise
from hitherto_extraction.provider.protocol import (
    CONSOLIDATION,
    Batch,
    Completion,
    Prompt,
    PromptMemory,
    PromptMessage,
)
from hitherto_shared.offloading import in_thread
from hitherto_shared.text.normalise import fold
from hitherto_shared.text.terms import content_terms

MODEL = "offline-rules-3"
LIMITS = (
    "The offline extractor shows how the loop works: by fixed patterns it reads some first-person "
    "statements in English and in Vietnamese written with its accents, and misses all others. "
    "Set OPENAI_API_KEY or OPENAI_BASE_URL for real use."
)
_LISTS = (
    *("new_memories", "updated_memories", "contradicted_memories", "forgotten_memories"),
    *("achieved_goals", "profile_changes"),
)
_LONGEST_QUOTE = 200


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
    answer = _Answer(batch)
    questions: dict[str, None] = {}
    users = [each for each in batch.messages if each.role == "user"]
    speakers = list(dict.fromkeys(_speaker(each) for each in users))
    for speaker in speakers:
        said = [_read(each, batch) for each in users if _speaker(each) == speaker]
        # Of several people, each speaks for themselves, and the user is the one without a name.
        alone = len(speakers) == 1
        names = _own_names(batch, users) if alone or not speaker else {speaker.casefold()}
        known = [(memory, _slots(memory, names)) for memory in batch.memories]
        for statement in _latest([each for statements, _ in said for each in statements]):
            answer.add(statement, known, of_user=alone or not speaker)
        questions |= dict.fromkeys(question for _, asked in said for question in asked)
    if batch.messages:
        answer.found["conversation_summary"] = summarise(batch, list(questions), answer.new)
    return answer.found


def _speaker(message: PromptMessage) -> str:
    """The name of who speaks; empty without one."""
    name = message.name.strip()
    return "" if name.casefold() in ("user", "người dùng") else name


def _read(message: PromptMessage, batch: Batch) -> tuple[list[UserStatement], list[str]]:
    language = detect(message.content)
    if language is None:
        return [], []
    subject = _speaker(message) or language.subject
    try:
        said_at = message.created_at.astimezone(ZoneInfo(batch.time_zone))
    except (ValueError, OSError, LookupError, OverflowError):
        # The gateway refuses unknown zones; the edges of the calendar have no other day.
        said_at = message.created_at
    return Reader(language, subject, message.local_id, said_at).read(message.content)


def _own_names(batch: Batch, users: Sequence[PromptMessage]) -> set[str]:
    """What memories may call the user: the name of who speaks, that of the profile, and the id."""
    speakers = {_speaker(each) for each in users}
    called = [*speakers] if len(speakers) == 1 else []
    facts = batch.profile.get("facts", {})
    called += [str(facts.get("personal", {}).get("name", "")), batch.user_id]
    called += ["the user", *(language.subject for language in LANGUAGES)]
    return {name.strip().casefold() for name in called} - {""}


def _slots(memory: PromptMemory, names: set[str]) -> dict[str, str]:
    """What a known memory says of who has these names, if it is a sentence that the rules write."""
    for language in LANGUAGES:
        for rule in language.rules:
            match = rule.written and rule.written.match(memory.content)
            if match and match["s"].casefold() in names:
                parts = {key: value or "" for key, value in match.groupdict().items()}
                return slots_of(rule.meaning, parts, language)
    return {}


def _latest(statements: Sequence[UserStatement]) -> Iterable[UserStatement]:
    """Keep the last value of each slot, and each statement once, with all its sources."""
    kept: dict[object, UserStatement] = {}
    for statement in statements:
        content = statement.memory["content"]
        key = content if "only" in statement.meaning else frozenset(statement.slots) or content
        earlier = kept.pop(key, statement)
        if earlier.slots == statement.slots:
            ids = earlier.memory["source_message_ids"] + statement.memory["source_message_ids"]
            statement.memory["source_message_ids"] = list(dict.fromkeys(ids))
        kept[key] = statement
    return kept.values()


class _Answer:
    """The object that a language model would write, as it grows."""

    def __init__(self, batch: Batch) -> None:
        self.new: list[UserStatement] = []
        self.found: dict[str, Any] = {name: [] for name in _LISTS}
        self._batch = batch
        self._ended: set[str] = set()

    def add(
        self,
        statement: UserStatement,
        known: Sequence[tuple[PromptMemory, dict[str, str]]],
        *,
        of_user: bool,
    ) -> None:
        """Add what is new, and what it ends, repeats or achieves."""
        content, slots = fold(statement.memory["content"]), statement.slots
        same = [
            memory
            for memory, has in known
            if fold(memory.content) == content
            or (slots and all(_alike(value, has.get(key)) for key, value in slots.items()))
        ]
        if statement.ends:
            for memory in same:
                self._change(statement.ends, memory, statement)
            return
        reached = [memory for memory, _ in known if _reaches(statement, memory)]
        only = statement.meaning.get("only")
        if (only == "goal" and not reached) or (only == "known" and not same):
            return
        by = None
        if reached or not same:
            by = len(self.new)
            self.new.append(statement)
            self.found["new_memories"].append(statement.memory)
            if of_user:
                self._change_profile(statement)
        else:
            self._change("updated_memories", same[0], statement, content=same[0].content)
        for memory in reached:
            self._change("achieved_goals", memory, statement, by=by)
        for memory, has in known:
            others = (key for key in slots if key in has and not _alike(slots[key], has[key]))
            if memory not in same and any(others):
                self._change("contradicted_memories", memory, statement, by=by)

    def _change(self, how: str, memory: PromptMemory, why: UserStatement, **more: Any) -> None:
        if memory.local_id not in self._ended:
            self._ended.add(memory.local_id)
            change = {"id": memory.local_id, **more, **self._evidence(why)}
            self.found[how].append(change)

    def _evidence(self, statement: UserStatement) -> dict[str, Any]:
        ids = statement.memory["source_message_ids"]
        said = next(each.content for each in self._batch.messages if each.local_id == ids[0])
        return {"source_message_ids": ids, "quote": said[:_LONGEST_QUOTE]}

    def _change_profile(self, statement: UserStatement) -> None:
        for path, value in statement.profile:
            place: Any = self._batch.profile
            for key in path.strip("?[]").split("."):
                place = place.get(key) if isinstance(place, Mapping) else None
            if place is None or not path.endswith("?"):
                given = [value] if path.endswith("[]") else value
                change = {"path": path.strip("?[]"), "value": given, **self._evidence(statement)}
                self.found["profile_changes"].append(change)


def _alike(one: str, other: str | None) -> bool:
    """Whether two values of a slot are equal, or one is the other with more words behind it."""
    return other is not None and (one.startswith(other) or other.startswith(one))


def _reaches(statement: UserStatement, goal: PromptMemory) -> bool:
    """Whether a deed shares enough content words with a goal, and all numbers if both have some."""
    if goal.type != "goal" or not statement.meaning.get("achieves"):
        return False
    language = detect(statement.memory["content"]) or LANGUAGES[0]
    did, aim = (content_terms(fold(text)) for text in (statement.topic, goal.content))
    done, asked = (
        {term for term in terms if not term.isdecimal()} - language.stop_terms
        for terms in (did, aim)
    )
    numbers = {term for term in did if term.isdecimal()}
    other = numbers and any(term.isdecimal() for term in aim) and not numbers & set(aim)
    shared = done & asked
    # Baking bricks is not baking bread.
    only_the_verb = shared <= set(did[:1]) < asked
    enough = numbers & set(aim) or len(shared) * 2 >= min(len(done), len(asked))
    return not (other or only_the_verb or len(shared) < language.shared_words) and bool(enough)
