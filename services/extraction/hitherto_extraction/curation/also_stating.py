"""Finds what else states the words of a memory that was forgotten or corrected.

What decides is structure: a memory learnt from the same message that shares most of its words, or
one with a near vector; a value of the profile that no other current memory holds; and conversations
of which no message is withheld yet.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from hitherto_extraction.pipeline.free_json import Path, leaves
from hitherto_extraction.pipeline.profile import FIELDS, said_path
from hitherto_extraction.pipeline.profile_changes import item_path
from hitherto_extraction.pipeline.quotes import contains
from hitherto_extraction.storage import (
    also_stated,
    conversations,
    editing,
    profiles,
    reconciliation,
)
from hitherto_extraction.storage.editing import EditableMemory
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.embeddings.active_embedder import active_model
from hitherto_shared.models import CURRENT_STATUSES, Memory, Profile
from hitherto_shared.offloading import in_thread
from hitherto_shared.text.terms import content_terms

MOST = 50
"""Maximum number of places to report."""
_MOST_NEAR = 10
_EXCERPT = 500
_SUMMARY: Path = ("summary",)


@dataclass(frozen=True, slots=True)
class Words:
    """The words of a memory that no longer hold, and those that hold instead, if any."""

    old: str
    new: str = ""

    @property
    def gone(self) -> set[str]:
        """The terms of the old words that the new ones lack."""
        return _terms(self.old) - _terms(self.new)

    def are_in(self, text: str) -> bool:
        """Whether a text shares most of its words with the old ones, and none with the new only."""
        terms, old, new = _terms(text), _terms(self.old), _terms(self.new)
        most = 2 * len(terms & old) >= len(terms)
        return most and bool(terms & (old - new)) and not terms & (new - old)

    def say_all_of(self, text: str) -> bool:
        """Whether a text says nothing beyond the old words."""
        return bool(text) and not _terms(text) - _terms(self.old)

    def hold(self, value: str) -> bool:
        """Whether the old words hold a value, and the new ones do not."""
        return contains(self.old, value) and not (self.new and contains(self.new, value))


def _terms(text: str) -> set[str]:
    return set(content_terms(text))


@dataclass(frozen=True, slots=True)
class ProfileValue:
    """A text in a profile: its path, and the item if it stands in a list."""

    path: Path
    text: str
    is_item: bool = False

    @property
    def name(self) -> str:
        """Its path, as `Profile.sources` names it."""
        return item_path(self.path, self.text) if self.is_item else said_path(*self.path)


@dataclass(frozen=True, slots=True)
class AlsoStating:
    """What else states the words of a memory.

    `same` are memories that say nothing more than it, and `near` others that are near it;
    `conversations` holds a message of each by the conversation's id.
    """

    same: Sequence[EditableMemory] = ()
    near: Sequence[Memory] = ()
    values: Sequence[ProfileValue] = ()
    conversations: Mapping[str, str] = field(default_factory=dict)


async def near_by_vector(user: UserRows, memory_id: UUID, threshold: float) -> list[UUID]:
    """The current memories whose vectors are near the one that a memory has now."""
    active = await active_model(user.connection)
    if active is None:
        return []
    found = await reconciliation.nearest(user, [memory_id], model=active[0], limit=_MOST_NEAR)
    return [other for _, other, cosine in found if cosine >= threshold]


async def also_stating(
    user: UserRows, memory: Memory, words: Words, near: Collection[UUID]
) -> AlsoStating:
    """What else states the words that a memory had; `near` are the memories near it by vector.

    If something to be read is sealed, the user's key must be at hand.
    """
    sharing = await also_stated.of_same_messages(user, memory.memory_id)
    named = [each for each in dict.fromkeys([*sharing, *near]) if each != memory.memory_id]
    held = await editing.read(user, named)
    standing = [held[each] for each in named if each in held]
    standing = [each for each in standing if each.memory.status in CURRENT_STATUSES]
    same, others = await in_thread(_sorted_out, standing, words, frozenset(near))
    profile, _ = await profiles.read_profile(user)
    values = await in_thread(_stated_values, profile, words)
    taken = [memory.memory_id, *(each.memory.memory_id for each in same)]
    elsewhere = await also_stated.held_by_others(user, [value.text for value in values], taken)
    values = [value for value in values if value.text not in elsewhere]
    said: dict[str, str] = {}
    if memory.status in CURRENT_STATUSES:
        said = await _said_in(user, memory, words)
    return AlsoStating(same, others, values, said)


def _sorted_out(
    standing: Sequence[EditableMemory], words: Words, near: frozenset[UUID]
) -> tuple[list[EditableMemory], list[Memory]]:
    same = [each for each in standing if words.are_in(each.memory.content)]
    same = [each for each in same if words.say_all_of(each.memory.content)]
    rest = [each.memory for each in standing if each not in same]
    # Near the new words, and not about the old ones: that is what the correction says.
    return same, [
        each
        for each in rest
        if words.are_in(each.content) or (each.memory_id in near and not words.new)
    ]


def _stated_values(profile: Profile, words: Words) -> list[ProfileValue]:
    found = [value for value in _values(profile) if words.hold(value.text)]
    # A summary states them if it holds all that is no longer true.
    if profile.summary and words.gone and words.gone <= _terms(profile.summary):
        found.append(ProfileValue(_SUMMARY, profile.summary))
    return found


def _values(profile: Profile) -> Iterator[ProfileValue]:
    """The texts of a profile, without its summary."""
    for name in FIELDS:
        if name == _SUMMARY[0]:
            continue
        for path, value in leaves(getattr(profile, name), (name,)):
            is_list = isinstance(value, list | tuple)
            for each in value if is_list else (value,):
                if isinstance(each, str) and each:
                    yield ProfileValue(path, each, is_list)


async def _said_in(user: UserRows, memory: Memory, words: Words) -> dict[str, str]:
    """A message with the old words of each conversation whose messages are still told."""
    withheld = await also_stated.withheld_messages(user, memory.memory_id)
    found: dict[str, str] = {}
    for source in memory.sources:
        if source.conversation_id in found or source in withheld:
            continue
        known = await conversations.find_known(user, source.conversation_id, [source.message_id])
        for message in known.values():
            if _terms(message.content) & words.gone:
                found[source.conversation_id] = message.content[:_EXCERPT]
    return found
