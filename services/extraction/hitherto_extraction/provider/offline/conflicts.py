"""Weighs new statements against each other and against what is already known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hitherto_extraction.provider.offline.engine import read
from hitherto_extraction.provider.offline.language import Language
from hitherto_extraction.provider.offline.measures import quantities
from hitherto_extraction.provider.offline.statement import Denial, Reading, Speaker, Statement
from hitherto_extraction.provider.offline.text import detect, fold, fold_all
from hitherto_extraction.provider.protocol import PromptMemory

_MOVED = {
    "en": "{s} moved from {origin} to {place} and lives in {place}.",
    "vi": "{s} đã chuyển từ {origin} đến {place} và sống ở {place}.",
}
# Two attributes of one thing may be worded with more or fewer words; these may not.
_EXACT = frozenset({"age", "birthday", "answer_length", "answer_language"})


@dataclass(frozen=True, slots=True)
class Known:
    """An existing memory and what the same rules read in it."""

    memory: PromptMemory
    attributes: dict[str, str]
    words: frozenset[str]
    folded: str


@dataclass(slots=True)
class Outcome:
    """What is left to write down.

    Attributes:
        statements: New memories, in order.
        contradicted: Memory id, statement that shows it (or None), reason, message ids.
        achieved: Goal id, and the statement that shows it.
        confirmed: Preferences that were stated again: memory and message ids.
    """

    statements: list[Statement] = field(default_factory=list)
    contradicted: list[tuple[str, Statement | None, str, list[str]]] = field(default_factory=list)
    achieved: list[tuple[str, Statement]] = field(default_factory=list)
    confirmed: list[tuple[PromptMemory, list[str]]] = field(default_factory=list)


def recognise(memory: PromptMemory, languages: Sequence[Language], names: Sequence[str]) -> Known:
    """Read an existing memory, whoever wrote it, as if the user had said it."""
    attributes: dict[str, str] = {}
    words: frozenset[str] = frozenset()
    language = detect(memory.content, languages) or languages[0]
    subjects = [item.subject for item in languages] + list(names)
    said = language.about_user(memory.content, names)
    if said:
        speaker = Speaker(language.subject, memory.local_id, memory.date)
        for statement in read(said, language, speaker).statements:
            attributes |= statement.attributes
    folded_subjects = {word for subject in subjects for word in fold(subject).split()}
    words = (
        frozenset(fold(memory.content).split()) - fold_all(language.stop_words) - folded_subjects
    )
    return Known(memory, attributes, words, fold(memory.content))


def settle(readings: Sequence[Reading], known: Sequence[Known]) -> Outcome:
    """Decide which statements are new, and what they end.

    Args:
        readings: In the order of the messages; a later statement outdoes an earlier one.
        known: The memories of the batch, recognised.
    """
    statements = _latest(
        [statement for reading in readings for statement in reading.statements],
        [denial for reading in readings for denial in reading.denials],
    )
    outcome = Outcome()
    gone: set[str] = set()
    for statement in statements:
        achieves = statement.rule.achieves or statement.announced
        reached = _reached(statement, known, gone) if achieves else []
        if statement.rule.needs_goal and not reached:
            continue
        same = [item for item in known if _says_the_same(item, statement)]
        if statement.rule.repeats and not same:
            continue
        other = [item for item in known if item not in same and _differs(item, statement)]
        new = bool(reached) or not same
        if new:
            outcome.statements.append(statement)
        elif statement.type == "preference":
            outcome.confirmed.append((same[0].memory, statement.message_ids))
        for item in reached:
            gone.add(item.memory.local_id)
            outcome.achieved.append((item.memory.local_id, statement))
        for item in other:
            if item.memory.local_id not in gone:
                gone.add(item.memory.local_id)
                reason = _reason(item.attributes, statement.attributes)
                outcome.contradicted.append(
                    (
                        item.memory.local_id,
                        statement if new else None,
                        reason,
                        statement.message_ids,
                    )
                )
    for reading in readings:
        for denial in reading.denials:
            _deny(denial, known, gone, outcome)
    return outcome


def _latest(statements: list[Statement], denials: list[Denial]) -> list[Statement]:
    """Keep the last value of each single-valued attribute, and each sentence once."""
    kept: list[Statement] = []
    for statement in statements:
        if statement.rule.repeats and any(
            earlier.attributes == statement.attributes
            or _conflict(earlier.attributes, statement.attributes)
            for earlier in kept
        ):
            # A wish about one answer takes nothing back.
            continue
        for earlier in list(kept):
            if earlier.content == statement.content:
                statement.message_ids = earlier.message_ids + [
                    item for item in statement.message_ids if item not in earlier.message_ids
                ]
                kept.remove(earlier)
            elif _conflict(earlier.attributes, statement.attributes):
                _tell_the_move(earlier, statement)
                kept.remove(earlier)
            elif statement.attributes and statement.attributes == earlier.attributes:
                # The same again in other words: the fuller sentence stands for both.
                united = earlier.message_ids + [
                    item for item in statement.message_ids if item not in earlier.message_ids
                ]
                if len(earlier.content) > len(statement.content):
                    statement.content = earlier.content
                statement.message_ids = united
                kept.remove(earlier)
        kept.append(statement)
    return kept


def _tell_the_move(earlier: Statement, later: Statement) -> None:
    """Let "lives in A … moved to B" read as one sentence that keeps both places."""
    origin, place = earlier.places.get("place"), later.places.get("place")
    if "residence" not in later.attributes or not origin or not place or later.places.get("origin"):
        return
    head, bracket, dates = later.content.rstrip(".").partition(" (")
    subject = head.split(f" {_first_verb(later)}")[0] if _first_verb(later) in head else ""
    if subject:
        text = _MOVED[later.language.code].format(s=subject, origin=origin, place=place)
        later.content = text[:-1] + (f"{bracket}{dates}" if bracket else "") + "."
        later.entities.append((origin, "place"))
        later.message_ids = earlier.message_ids + [
            item for item in later.message_ids if item not in earlier.message_ids
        ]


def _first_verb(statement: Statement) -> str:
    template = statement.rule.write
    return template.removeprefix("{s} ").split("[")[0].split("{")[0].strip()


def _equal(attribute: str, one: str, other: str) -> bool:
    if one == other or one.replace(" ", "") == other.replace(" ", ""):
        return True
    if attribute.partition(":")[0] in _EXACT:
        return False
    shorter, longer = sorted((one.split(), other.split()), key=len)
    # "Berlin" and "Berlin Mitte" are one place, told with more or less detail.
    return bool(shorter) and (
        longer[: len(shorter)] == shorter or longer[-len(shorter) :] == shorter
    )


def _conflict(one: dict[str, str], other: dict[str, str]) -> bool:
    return any(key in other and not _equal(key, value, other[key]) for key, value in one.items())


def _differs(item: Known, statement: Statement) -> bool:
    return _conflict(item.attributes, statement.attributes)


def _says_the_same(item: Known, statement: Statement) -> bool:
    if item.folded == fold(statement.content):
        return True
    return bool(statement.attributes) and all(
        key in item.attributes and _equal(key, item.attributes[key], value)
        for key, value in statement.attributes.items()
    )


def _reason(old: dict[str, str], new: dict[str, str]) -> str:
    keys = [key for key in old if key in new and not _equal(key, old[key], new[key])]
    label = keys[0].replace("_", " ").replace(":", " ")
    return f"The user gave another {label}: {new[keys[0]]} instead of {old[keys[0]]}."


def _reached(statement: Statement, known: Sequence[Known], gone: set[str]) -> list[Known]:
    found = []
    stem = statement.language.stem
    words = {stem(word) for word in statement.words} - _DEED
    done = quantities(statement.content)
    verb = {stem(word) for word in fold(statement.topic).split()[:1]}
    for item in known:
        if item.memory.type != "goal" or item.memory.local_id in gone:
            continue
        wanted = quantities(item.memory.content)
        if any(done[unit] < amount for unit, amount in wanted.items() if unit in done):
            # Part of the way.
            continue
        goal = {stem(word) for word in item.words} - _DEED
        shared = {word for word in words & goal if not word.isdecimal()}
        if shared <= verb < goal:
            # Baking bricks is not baking bread.
            continue
        enough = len(shared) * 2 >= min(len(words), len(goal))
        measured = any(unit in done for unit in wanted)
        if len(shared) >= statement.language.shared_words and (enough or measured):
            found.append(item)
    return found


# Words about reaching a goal rather than about the goal.
_DEED = frozenset(
    "goal pass finish complet reach achiev manag success run ran get got plan try hop year month "
    "muc tieu da dat hoan thanh cuoi cung moi vua duoc xong nam nay".split()
)


def _deny(denial: Denial, known: Sequence[Known], gone: set[str], outcome: Outcome) -> None:
    for item in known:
        shared = [
            key
            for key, value in denial.attributes.items()
            if key in item.attributes and _equal(key, item.attributes[key], value)
        ]
        if shared and item.memory.local_id not in gone:
            gone.add(item.memory.local_id)
            label = shared[0].partition(":")[0].replace("_", " ")
            reason = f"The user says that this {label} is not so or no longer so."
            outcome.contradicted.append(
                (item.memory.local_id, denial.by, reason, [denial.message_id])
            )
