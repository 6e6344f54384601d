"""Compares new statements with each other and with known memories."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from hitherto_extraction.provider.offline.language import LANGUAGES, LanguageTable
from hitherto_extraction.provider.offline.reading import (
    MessageReading,
    Speaker,
    UserStatement,
    read,
)
from hitherto_extraction.provider.offline.text import detect, fold
from hitherto_extraction.provider.protocol import PromptMemory
from hitherto_shared.text.terms import content_terms

# Values of one slot may be worded with more or fewer words ("Berlin", "Berlin Mitte"), not these.
_EXACT = frozenset({"age", "birthday", "answer_length", "answer_language"})
_NUMBER = re.compile(r"(?<![\d-])\d+(?![\d-])")


@dataclass(frozen=True, slots=True)
class RecognisedMemory:
    """An existing memory, the slots that the same rules read in it, and its content words."""

    memory: PromptMemory
    slots: dict[str, str]
    folded: str
    words: set[str]


@dataclass(slots=True)
class Weighing:
    """The remaining statements and changes.

    Attributes:
        statements: New memories, in order.
        contradicted: Memory id, statement that shows it (or None), reason, message ids.
        achieved: Goal id, and the statement that shows it.
        confirmed: Preferences that were restated, and the messages that did so.
    """

    statements: list[UserStatement] = field(default_factory=list)
    contradicted: list[tuple[str, UserStatement | None, str, list[str]]] = field(
        default_factory=list
    )
    achieved: list[tuple[str, UserStatement]] = field(default_factory=list)
    confirmed: list[tuple[PromptMemory, list[str]]] = field(default_factory=list)


def recognise(memory: PromptMemory, names: Sequence[str]) -> RecognisedMemory:
    """Read an existing memory, whoever wrote it, as if the user had said it.

    Args:
        memory: The memory.
        names: The user's possible names in it.
    """
    language = detect(memory.content, LANGUAGES) or LANGUAGES[0]
    slots: dict[str, str] = {}
    if said := language.about_user(memory.content, names):
        speaker = Speaker(language.subject, memory.local_id, memory.date)
        for statement in read(said, language, speaker).statements:
            slots |= statement.slots
    words = _words(memory.content, language)
    return RecognisedMemory(memory, slots, fold(memory.content), words)


def settle(readings: Sequence[MessageReading], known: Sequence[RecognisedMemory]) -> Weighing:
    """Decide which statements are new, and what they end.

    Args:
        readings: In the order of the messages; a later statement overrides an earlier one.
        known: The memories of the batch, recognised.
    """
    outcome = Weighing()
    gone: set[str] = set()

    def contradict(
        item: RecognisedMemory, by: UserStatement | None, reason: str, messages: list[str]
    ) -> None:
        if item.memory.local_id not in gone:
            gone.add(item.memory.local_id)
            outcome.contradicted.append((item.memory.local_id, by, reason, messages))

    for statement in _latest([each for reading in readings for each in reading.statements]):
        content = fold(statement.content)
        same = [item for item in known if item.folded == content or _repeats(statement, item)]
        reached = _reached(statement, known)
        if statement.meaning.only and not (same if statement.meaning.only == "known" else reached):
            continue
        new = bool(reached) or not same
        if new:
            outcome.statements.append(statement)
        elif statement.meaning.type == "preference":
            outcome.confirmed.append((same[0].memory, statement.message_ids))
        for item in reached:
            gone.add(item.memory.local_id)
            outcome.achieved.append((item.memory.local_id, statement))
        for item in known:
            if item not in same and (key := _conflict(item.slots, statement.slots)):
                label = key.replace("_", " ").replace(":", " ")
                value = f"{statement.slots[key]} instead of {item.slots[key]}"
                reason = f"The user gave another {label}: {value}."
                contradict(item, statement if new else None, reason, statement.message_ids)
    for slots, message in (denial for reading in readings for denial in reading.denials):
        for item in known:
            for key in slots.keys() & item.slots.keys():
                if _equal(key, slots[key], item.slots[key]):
                    label = key.partition(":")[0].replace("_", " ")
                    reason = f"The user says that this {label} is not so or no longer so."
                    contradict(item, None, reason, [message])
    return outcome


def _latest(statements: Sequence[UserStatement]) -> list[UserStatement]:
    """Keep the last value of each slot, and each statement once, with all its sources."""
    kept: list[UserStatement] = []
    for statement in statements:
        for earlier in list(kept):
            same = statement.slots and statement.slots == earlier.slots
            same = same or earlier.content == statement.content
            if not same and not _conflict(earlier.slots, statement.slots):
                continue
            if statement.meaning.only == "known":
                # A wish about one answer adds nothing and takes nothing back.
                break
            if same:
                ids = [*earlier.message_ids, *statement.message_ids]
                statement.message_ids = list(dict.fromkeys(ids))
                # The fuller sentence represents both.
                statement.content = max(statement.content, earlier.content, key=len)
            kept.remove(earlier)
        else:
            kept.append(statement)
    return kept


def _equal(slot: str, one: str, other: str) -> bool:
    if one.replace(" ", "") == other.replace(" ", ""):
        return True
    shorter, longer = sorted((one.split(), other.split()), key=len)
    ends = shorter in (longer[: len(shorter)], longer[-len(shorter) :])
    return bool(shorter) and ends and slot.partition(":")[0] not in _EXACT


def _conflict(one: dict[str, str], other: dict[str, str]) -> str | None:
    """A slot that both have with different values."""
    both = (key for key in one if key in other)
    return next((key for key in both if not _equal(key, one[key], other[key])), None)


def _repeats(statement: UserStatement, item: RecognisedMemory) -> bool:
    return bool(statement.slots) and all(
        key in item.slots and _equal(key, item.slots[key], value)
        for key, value in statement.slots.items()
    )


def _reached(statement: UserStatement, known: Sequence[RecognisedMemory]) -> list[RecognisedMemory]:
    """Goals that share enough content words with a deed, and the number if both have one."""
    if not statement.meaning.achieves:
        return []
    language = detect(statement.content, LANGUAGES) or LANGUAGES[0]
    done, numbers = _words(statement.topic, language), set(_NUMBER.findall(statement.topic))
    verb = set(content_terms(fold(statement.topic))[:1])
    found = []
    for goal in known:
        if goal.memory.type != "goal":
            continue
        asked = set(_NUMBER.findall(goal.memory.content))
        shared = {word for word in done & goal.words if not word.isdecimal()}
        enough = len(shared) * 2 >= min(len(done), len(goal.words)) or bool(numbers & asked)
        another = bool(numbers and asked) and not numbers & asked
        # Baking bricks is not baking bread.
        only_the_verb = shared <= verb < goal.words
        if len(shared) >= language.shared_words and enough and not (another or only_the_verb):
            found.append(goal)
    return found


def _words(text: str, language: LanguageTable) -> set[str]:
    return set(content_terms(fold(text))) - language.stop_terms
