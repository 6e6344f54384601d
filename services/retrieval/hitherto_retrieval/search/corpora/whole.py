"""Reads found items whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast
from uuid import UUID

from hitherto_retrieval.search.corpora.corpus import Item
from hitherto_retrieval.storage import chunks, conversations, memories, messages, past
from hitherto_retrieval.storage.candidate import Key, Kind
from hitherto_retrieval.storage.moment import Moment
from hitherto_retrieval.storage.statement import Statement
from hitherto_shared.models import Scope


def whole(
    scope: Scope,
    kind: Kind,
    keys: Sequence[Key],
    moment: Moment | None = None,
) -> Statement[Mapping[Key, Item]]:
    """The items of one kind by key, without items deleted in the meantime.

    With `moment` memories are as they stood then.
    """
    if kind == "memory":
        ids = cast(Sequence[UUID], keys)
        read = past.whole(scope, moment, ids) if moment else memories.by_ids(scope, ids)
        return read.meaning(lambda found: {memory.memory_id: memory for memory in found})
    if kind == "message":
        return messages.by_keys(scope, cast(Sequence[tuple[str, int]], keys)).meaning(
            lambda found: {excerpt.key: excerpt.message for excerpt in found}
        )
    if kind == "summary":
        return conversations.by_conversations(scope, cast(Sequence[str], keys)).meaning(
            lambda found: {summary.conversation_id: summary for summary in found}
        )
    return chunks.by_ids(scope, cast(Sequence[UUID], keys)).meaning(
        lambda found: {chunk.chunk_id: chunk for chunk in found}
    )
