"""Stores a group of records of one table, sealed if the user has encryption on.

The caller holds the user's row, in a transaction with the role hitherto_write.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any
from uuid import UUID

from hitherto_extraction.pipeline.message_removal import reindex
from hitherto_extraction.storage import imported, keyword_index
from hitherto_extraction.storage.corpora import index
from hitherto_extraction.storage.corpora.documents import DOCUMENTS, indexed_text
from hitherto_extraction.storage.corpora.messages import MESSAGES
from hitherto_extraction.storage.corpora.summaries import SUMMARIES
from hitherto_extraction.storage.sealed_rows import SEALED, is_sensitive, sealing_key
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.encryption.rows import BY_TABLE, MEMORY, STATEMENT, SealedRow
from hitherto_shared.encryption.user_key import UserKey
from hitherto_shared.text.terms import count_terms

_INDEXED_AT_ONCE = 100
_SEALED_WHOLE = frozenset({"conversation_summaries", "messages", "profiles", "profile_versions"})
"""Tables all of whose rows are sealed."""
_SEALED_FIRST = {"sealed_version": 1}
"""The number of the first sealing of a summary."""

_SIDES = ("before", "after")
_NAMELESS = dict.fromkeys(_SIDES)

Rows = Sequence[dict[str, Any]]


async def write(user: UserRows, table: str, rows: Rows, *, message_vectors: bool) -> int:
    """Store those of the checked rows that the user does not hold; returns how many.

    Raises:
        RowRefused: One cannot be stored; nothing was.
        KeyNeeded: The user has encryption on, and the key is not at hand.
    """
    key = await sealing_key(user)
    if table == "memories":
        return await _write_memories(user, rows, key)
    if table == "document_chunks":
        return await _write_chunks(user, rows)
    if table == "history":
        rows = [{**row, **{side: _named(row[side]) for side in _SIDES}} for row in rows]
    if key is not None:
        rows = await _sealed(user, table, rows, key)
    elif table in _SEALED_WHOLE:
        rows = [_without(row, BY_TABLE[table].also) for row in rows]
    stored = await imported.insert(user, table, rows)
    if stored and table == "profiles":
        await imported.tell_of_profile(user)
    if stored and key is None and table == "messages":
        keys = [(row["conversation_id"], row["message_no"]) for row in rows]
        await index.index_unindexed(user, MESSAGES, keys, embedded=message_vectors)
    elif stored and key is None and table == "conversation_summaries":
        keys = [(row["conversation_id"], 1) for row in rows]
        await index.index_unindexed(user, SUMMARIES, keys, embedded=True)
    return stored


async def index_memories(user: UserRows, *, after: UUID) -> UUID | None:
    """Index the next imported memories with the words of their sources; returns the last of them.

    None: there are no more.
    """
    memory_ids = await imported.not_indexed(user, after=after, limit=_INDEXED_AT_ONCE)
    if not memory_ids:
        return None
    await reindex(user, memory_ids, sweep=False, new=True)
    await imported.await_vectors(user, memory_ids)
    return memory_ids[-1]


async def _write_memories(user: UserRows, rows: Rows, key: UserKey | None) -> int:
    held = await imported.held_memories(user, [row["memory_id"] for row in rows])
    new = {row["memory_id"]: row for row in rows if row["memory_id"] not in held}
    if not new:
        return 0
    before = await keyword_index.reserve_numbers(user, texts=len(new), documents=len(new), terms=0)
    numbered = []
    for number, given in enumerate(new.values(), before + 1):
        row = given if key is None else _unquoted("memories", given)
        columns = {**row, "lexical_no": number, "lexical_length": 0, "embedding_state": "refused"}
        if key is not None and is_sensitive(row["type"], row["sensitive"]):
            columns |= _sealed_row(key, MEMORY, row)
            columns |= {"sensitive": True, "questions": [], "embedding_state": SEALED}
        numbered.append(columns)
    stored = await imported.insert(user, "memories", numbered)
    await imported.tell(user, list(new))
    return stored


async def _write_chunks(user: UserRows, rows: Rows) -> int:
    held = await imported.held_chunks(user, rows)
    new = {row["chunk_id"]: row for row in rows if row["chunk_id"] not in held}
    headings = await imported.headings(user, [row["document_id"] for row in new.values()])
    counted = [
        count_terms(indexed_text(headings.get(row["document_id"], ""), row["content"]))
        for row in new.values()
    ]
    numbers = (await index.add(user, {DOCUMENTS: counted}))[DOCUMENTS]
    numbered = [
        {**row, "lexical_no": number, "lexical_length": terms.total()}
        for row, number, terms in zip(new.values(), numbers, counted, strict=True)
    ]
    if not numbered:
        return 0
    return await imported.insert(user, "document_chunks", numbered)


async def _sealed(user: UserRows, table: str, rows: Rows, key: UserKey) -> Rows:
    """The rows as they are stored for a user with encryption on."""
    rows = [_unquoted(table, row) for row in rows]
    if table in _SEALED_WHOLE:
        return [_sealed_row(key, BY_TABLE[table], row) for row in rows]
    # The sweep removes the mentions of sealed memories, with the names that nothing else mentions.
    if table not in {"memory_versions", "statements", "history"}:
        return rows
    ids = [row["memory_id"] for row in rows if row["memory_id"] is not None]
    held = await imported.held_memories(user, ids)
    secret = {memory_id for memory_id, is_sealed in held.items() if is_sealed}
    if table == "history":
        return [row | _NAMELESS if row["memory_id"] in secret else row for row in rows]
    if table == "memory_versions":
        return [
            _sealed_row(key, MEMORY, row) if row["memory_id"] in secret else row for row in rows
        ]
    # Sealed statements mention no entities.
    return [
        _sealed_row(key, STATEMENT, {**row, "said": _without(row["said"], ("entities",))})
        if row["said"] and (row["subject"] != "memory" or row["memory_id"] in secret)
        else row
        for row in rows
    ]


def _unquoted(table: str, row: dict[str, Any]) -> dict[str, Any]:
    """The row without quotes, which have to go with their messages, and reasons of doubts."""
    if table == "memory_sources":
        return {**row, "quote": None}
    if table in ("memories", "memory_versions") and row["doubt"] is not None:
        return {**row, "doubt": {**row["doubt"], "reason": ""}}
    if table == "profiles":
        unquoted = {path: {**source, "quote": ""} for path, source in row["sources"].items()}
        return {**row, "sources": unquoted}
    return row


def _named(fields: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """What the history alone holds, whatever a file repeats of versions."""
    return {name: fields[name] for name in ("entities",) if name in fields} if fields else None


def _sealed_row(key: UserKey, kind: SealedRow, row: dict[str, Any]) -> dict[str, Any]:
    sealed = kind.seal(key, {**row, **_SEALED_FIRST})
    return {**_without(row, kind.also), **kind.columns, "sealed": f"\\x{sealed.hex()}"}


def _without(row: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """The row without these columns."""
    return {name: value for name, value in row.items() if name not in names}
