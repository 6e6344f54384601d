"""Corrects a memory by hand: any field, as a new version under the same id.

A correction is the newest statement about the memory: earlier evidence never overwrites it. The
origin stays, because a caller speaks only for itself: a correction cannot turn a tool's statement
into the user's. New words that read as an instruction to the assistant wait for review.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from hitherto_extraction.pipeline import trust
from hitherto_extraction.pipeline.answer import EVENT_TYPES, MAX_EVENT_CHARACTERS
from hitherto_extraction.pipeline.draft import whole_words
from hitherto_extraction.pipeline.free_json import (
    ABSENT,
    MAX_STRUCT_BYTES,
    Path,
    fits_struct,
    new_value_at,
    put_at,
)
from hitherto_extraction.pipeline.message_removal import reindex
from hitherto_extraction.pipeline.named_days import put_off
from hitherto_extraction.pipeline.questions import kept
from hitherto_extraction.pipeline.resting_values import drop_resting_on
from hitherto_extraction.pipeline.selection import names_in
from hitherto_extraction.pipeline.versions import check_version, is_sealed_next, write_next
from hitherto_extraction.reconciliation.trigger import Reconciling
from hitherto_extraction.storage import (
    editing,
    ledger,
    memories,
    mentions,
    sealed_memories,
    users,
)
from hitherto_extraction.storage.editing import EditableMemory
from hitherto_extraction.storage.ledger import ChangeEvent
from hitherto_extraction.storage.sealed_rows import SENSITIVE_TYPES
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.dates import DISTANT_PAST, find_window
from hitherto_shared.embeddings.active_embedder import active_model
from hitherto_shared.embeddings.protocol import Vector
from hitherto_shared.errors import invalid
from hitherto_shared.models import CURRENT_STATUSES, Memory
from hitherto_shared.offloading import in_thread
from hitherto_shared.text.normalise import fold

STRUCTS = ("context", "metadata")
_YEAR = re.compile(r"(?<!\d)(?:19|20|21)\d\d(?!\d)")
_CORRECTABLE = (*CURRENT_STATUSES, "archived", "quarantined")
_CLEARED: Mapping[str, Any] = {
    "content": ABSENT,
    "detail": "",
    "type": "fact",
    "importance": 0.5,
    "confidence": "medium",
    "tags": (),
    "keywords": (),
    "entities": (),
    "context": {},
    "metadata": {},
    "valid_from": ABSENT,
    "valid_to": None,
    "expires_at": None,
    "sensitive": False,
}
"""The value that a path without a value sets; `ABSENT` for what cannot be cleared."""
FIELDS = tuple(_CLEARED)


@dataclass(frozen=True, slots=True)
class Correction:
    """What to change.

    Attributes:
        paths: Fields, or keys within context and metadata; those without a value are cleared.
        version: The version it was based on; 0 for any.
    """

    values: Mapping[str, Any]
    paths: Sequence[Path]
    version: int = 0


NewVector = tuple[str, Vector]
"""The vector of new content, after the name of its model."""


def new_content(correction: Correction) -> str | None:
    """The content to embed before the transaction; None if it stays unchanged."""
    if ("content",) not in correction.paths or "content" not in correction.values:
        return None
    return str(correction.values["content"])


async def correct(
    user: UserRows,
    memory_id: UUID,
    correction: Correction,
    vector: NewVector | None,
    *,
    actor: str,
    reconciling: Reconciling,
) -> Memory:
    """Correct a memory in the caller's transaction.

    For a user with encryption on, a memory that becomes sensitive is sealed, and one that no longer
    is sensitive is opened. `vector` is None if the content stays, or its vector could not be
    computed. What new words leave open, `reconciling` settles.

    Raises:
        NotFound: The user has no such memory.
        Conflict: It has another version by now.
        WrongState: The user was erased, or the memory was replaced or forgotten.
        InvalidRequest: The values do not fit together.
    """
    await users.enter_alone(user)
    held = await editing.read_one(user, memory_id)
    before = held.memory
    check_version("memory", before.version, correction.version)
    if before.status not in _CORRECTABLE:
        raise editing.status_conflict(
            before,
            f"the memory is {before.status.upper()}: correct the one that replaced it, or "
            "restore it first",
        )
    # Parses the new words: in a thread, so that the event loop is not blocked.
    at = await users.database_now(user.connection)
    after = await in_thread(corrected, before, correction, at)
    if after.content != before.content and ("entities",) not in correction.paths:
        after = replace(after, entities=await _entities(user, held, after))
    # Whoever corrects a memory has looked at it.
    after = replace(after, doubt=None)
    if after == before:
        return before
    questions = kept(held.questions, after.content, after.detail)
    edited = replace(held, memory=after, said_at=at, questions=questions)
    if await is_sealed_next(user, held, edited):
        if after.entities and tuple(after.entities) != tuple(before.entities):
            raise invalid("memory.entities", "must be empty: an encrypted memory names no entities")
        event = await write_next(user, held, edited, *_change(before, after), at=at, vector=vector)
    else:
        event = await _write_clear(user, held, edited, vector, at=at)
    stored = await editing.read_one(user, memory_id)
    if before.entities != after.entities:
        event = replace(event, entities=(before.entities, after.entities))
    await ledger.record(user, None, [event], actor=actor)
    if after.content != before.content or after.status != before.status:
        await drop_resting_on(user, [memory_id], actor=actor, corrected=True)
    if after.content != before.content and after.status == "active" and after.valid_from <= at:
        await reconciling.look(user, [memory_id])
    return stored.memory


async def _entities(user: UserRows, held: EditableMemory, after: Memory) -> Sequence[str]:
    """The entities that a memory mentions after rewording: the known names in its words."""
    if held.sealed or await is_sealed_next(user, held, replace(held, memory=after)):
        return after.entities
    before = {fold(each.name) for each in await names_in(user, held.memory.content)}
    named = [each.name for each in await names_in(user, after.content)]
    now = {fold(name) for name in named}
    # A name that never occurred in the words was added explicitly, and stays.
    kept = [name for name in after.entities if fold(name) in now or fold(name) not in before]
    found = _named_once([*kept, *named])
    same = {fold(name) for name in found} == {fold(name) for name in after.entities}
    return after.entities if same else found


async def _write_clear(
    user: UserRows,
    held: EditableMemory,
    edited: EditableMemory,
    vector: NewVector | None,
    *,
    at: datetime,
) -> ChangeEvent:
    """Store the next version in clear; a memory that was sealed is indexed like a new one."""
    before, after = held.memory, edited.memory
    memory_id = after.memory_id
    active = await active_model(user.connection)
    reworded = after.content != before.content
    vectors: list[tuple[str, Vector]] = []
    if reworded and vector is not None:
        vectors = [vector]
    elif held.sealed and not reworded:
        vectors = await sealed_memories.sealed_vectors(user, memory_id)
    stored = active is not None and active[0] in {model for model, _ in vectors}
    if reworded or held.sealed:
        edited = replace(edited, embedding_state="stored" if stored else "pending")
    event = await write_next(user, held, edited, *_change(before, after), at=at)
    if held.sealed or edited.indexed_text != held.indexed_text:
        await reindex(user, [memory_id], sweep=False, new=True)
    for model, each in vectors if stored else ():
        await memories.write_vectors(user, [(memory_id, after.status, each)], model=model)
    if tuple(after.entities) != tuple(before.entities):
        await mentions.replace(user, memory_id, list(after.entities))
    return event


def corrected(before: Memory, correction: Correction, at: datetime) -> Memory:
    """The memory after a correction at a moment, whose values must fit together."""
    held = _changed(before, correction)
    named = {path[0] for path in correction.paths}
    if held["type"] in SENSITIVE_TYPES and named & {"type", "sensitive"}:
        held["sensitive"] = True
    for name in STRUCTS:
        if held[name] != getattr(before, name) and not fits_struct(held[name]):
            raise invalid(
                f"memory.{name}", f"would have more than {MAX_STRUCT_BYTES} bytes with this change"
            )
    if held["type"] in EVENT_TYPES and len(held["content"]) > MAX_EVENT_CHARACTERS:
        raise invalid(
            "memory.content",
            f"must have at most {MAX_EVENT_CHARACTERS} characters for "
            f"{held['type'].upper()}; put the rest into detail",
        )
    if held["valid_to"] is not None and held["valid_to"] < held["valid_from"]:
        raise invalid("memory.valid_to", "must not be before valid_from")
    if _is_new_order(before, held):
        held["status"] = "quarantined"
    if "expires_at" not in named:
        held["expires_at"] = _expiry(before, held, at)
    return replace(before, **held)


def _expiry(before: Memory, held: Mapping[str, Any], at: datetime) -> datetime | None:
    """When a memory in new words expires, as if a conversation had brought these.

    A person, unlike a model, may write the day in words: then it expires as before. What had
    expired stays so, unless they put that off: whoever mends a word revives nothing.
    """
    old = whole_words(before.content, before.detail)
    new = whole_words(held["content"], held["detail"])
    if before.expires_at is None or old == new:
        return before.expires_at
    try:
        moved = put_off(before.expires_at, old, new)
    except OverflowError:
        return None
    if moved is None:
        return None if before.expires_at > at and not _names_an_end(new, at) else before.expires_at
    return moved if moved > at else before.expires_at


def _names_an_end(words: str, at: datetime) -> bool:
    """Whether words name a time that is not over, or until when something holds."""
    if any(int(year) >= at.year for year in _YEAR.findall(words)):
        return True
    window = find_window(words, at)
    return window is not None and (window.end > at or window.start == DISTANT_PAST)


def _changed(before: Memory, correction: Correction) -> dict[str, Any]:
    """The fields with the new values."""
    held: dict[str, Any] = {name: copy.deepcopy(getattr(before, name)) for name in FIELDS}
    for path in correction.paths:
        value = new_value_at(correction.values, path)
        if len(path) > 1:
            put_at(held, path, value)
        elif value is not ABSENT:
            held[path[0]] = value
        elif (empty := _CLEARED[path[0]]) is not ABSENT:
            held[path[0]] = copy.deepcopy(empty)
        else:
            raise invalid(f"memory.{path[0]}", "cannot be cleared: give it a value")
    for name in ("tags", "keywords", "entities"):
        held[name] = list(held[name])
    held["entities"] = _named_once(held["entities"])
    if {fold(name) for name in held["entities"]} == {fold(name) for name in before.entities}:
        held["entities"] = before.entities
    return held


def _is_new_order(before: Memory, held: Mapping[str, Any]) -> bool:
    """Whether new words instruct the assistant; unchanged text was checked before."""
    new = [held[name] for name in ("content", "detail") if held[name] != getattr(before, name)]
    return trust.is_suspect(new, trusted=trust.is_higher(before.origin))


def _named_once(names: Sequence[str]) -> list[str]:
    return list({fold(name): name for name in reversed(names)}.values())[::-1]


def _change(before: Memory, after: Memory) -> tuple[str, str]:
    """What the history says was done, and why."""
    if after.status != before.status:
        return "quarantined", "corrected into an instruction to the assistant"
    return "updated", "corrected by hand"
