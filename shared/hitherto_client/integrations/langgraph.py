"""A store of LangGraph, kept in Hitherto (extra `langgraph`).

Example:
    store = HithertoStore(Hitherto(), user="ana")
    store.put(("preferences",), "food", {"text": "Ana loves grilled fish."})
    store.search(("preferences",), query="What should we cook?")
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from hitherto_client._sync.client import Hitherto
from hitherto_client.batches import groups
from hitherto_client.errors import HithertoCallError
from hitherto_client.integrations import package_of
from hitherto_client.integrations.kept_items import check_kept, if_there
from hitherto_client.integrations.store_items import (
    SOURCE_TYPE,
    Namespace,
    StoredItem,
    item_filter,
    matches,
    prefix_filter,
    readable,
)
from hitherto_client.results.conversations import Document

with package_of("langgraph"):
    from langgraph.store.base import (
        BaseStore,
        GetOp,
        Item,
        ListNamespacesOp,
        MatchCondition,
        Op,
        PutOp,
        Result,
        SearchItem,
        SearchOp,
        TTLConfig,
        get_text_at_path,
        validate_op_namespace,
    )

_MOST_RESULTS = 200
"""What one search returns at most."""
_MOST_DOCUMENTS = 100


class HithertoStore(BaseStore):
    """Keeps the items of a store as documents of users, exactly, for all processes.

    Items are found by meaning and by words, also by GetContext and the searches of Hitherto. Every
    item belongs to one user: all of them to one, or each to the user that its namespace names.
    Reads across users are refused. The asynchronous methods run in threads. In a batch, reads come
    before writes, and the last write of an item counts. Expired items are gone from every read at
    once; the services delete them.
    """

    supports_ttl = True

    def __init__(
        self,
        memory: Hitherto,
        *,
        user: str | int,
        fields: Sequence[str] = ("$",),
        index_seconds: float = 5.0,
        ttl: TTLConfig | None = None,
    ) -> None:
        """Open the store.

        Args:
            memory: The client.
            user: Whose items they are, or the place of the label of a namespace that names the
                user: with 1, `("memories", "ana")` is Ana's.
            fields: Paths of what an item is found by, as in LangGraph's `index`; `$` is everything.
            index_seconds: How long a write waits until searches rank its items. Until then they
                come after the ranked ones.
            ttl: The default time to live in minutes (`default_ttl`), and whether reads restart it
                (`refresh_on_read`), as in LangGraph. The services delete expired items without
                `sweep_interval_minutes`, and `omit_expired` always holds.
        """
        super().__init__()
        self._memory = memory
        self._user = user
        self._fields = list(fields)
        self._index_seconds = index_seconds
        self.ttl_config = ttl

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Run operations: the reads one after another, then the writes together for each user.

        Raises:
            InvalidNamespaceError: A label is empty, holds a period, or is no string.
            TypeError: A value is no JSON.
            ValueError: An operation is not within one user's items, an item has more than 60,000
                characters as JSON, or a filter has an unknown operator.
            HithertoCallError: A call failed, or memory is switched off for the user
                (`MEMORY_DISABLED`).
        """
        results: list[Result] = []
        puts: dict[tuple[Namespace, str], PutOp] = {}
        for op in ops:
            validate_op_namespace(op)
            match op:
                case GetOp():
                    results.append(self._get(op))
                case SearchOp():
                    results.append(self._search(op))
                case ListNamespacesOp():
                    results.append(self._list_namespaces(op))
                case PutOp():
                    puts[op.namespace, op.key] = op
                    results.append(None)
                case _:
                    raise TypeError(f"unknown operation: {type(op).__name__}")
        self._put(list(puts.values()))
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """See `batch`, which this runs in a thread."""
        return await asyncio.to_thread(self.batch, list(ops))

    def _user_of(self, prefix: Namespace) -> str:
        if isinstance(self._user, str):
            return self._user
        if len(prefix) > self._user and prefix[self._user] != "*":
            return prefix[self._user]
        raise ValueError(
            f"{prefix} names no user: in this store the label at place {self._user} of a "
            "namespace does, and operations across users are not possible"
        )

    # --- reads

    def _documents(self, user: str, metadata: dict[str, Any]) -> Iterator[Document]:
        return iter(
            self._memory.documents(user, source_types=[SOURCE_TYPE], metadata_filter=metadata)
        )

    def _find(self, namespace: Namespace, key: str) -> Document | None:
        return next(self._documents(self._user_of(namespace), item_filter(namespace, key)), None)

    def _get(self, op: GetOp) -> Item | None:
        document = self._find(op.namespace, op.key)
        if document is None:
            return None
        item = StoredItem.of(document.metadata)
        if op.refresh_ttl:
            self._refresh(self._user_of(op.namespace), [item])
        return _item(item)

    def _refresh(self, user: str, items: Sequence[StoredItem]) -> None:
        """Restart the time to live of items that have one."""
        now = datetime.now(UTC)
        due = [item.refreshed(now) for item in items if item.ttl is not None]
        for start in range(0, len(due), _MOST_DOCUMENTS):
            self._memory.refresh_documents(user, due[start : start + _MOST_DOCUMENTS])

    def _search(self, op: SearchOp) -> list[SearchItem]:
        prefix = op.namespace_prefix
        user, under = self._user_of(prefix), prefix_filter(prefix)
        end = op.offset + op.limit
        found: dict[tuple[Namespace, str], tuple[StoredItem, float | None]] = {}
        for item, score in self._candidates(user, under, op.query):
            place = (item.namespace, item.key)
            if place not in found and matches(item.value, op.filter or {}):
                found[place] = (item, score)
            if len(found) >= end:
                break
        shown = list(found.values())[op.offset : end]
        if op.refresh_ttl:
            self._refresh(user, [item for item, _ in shown])
        return [_search_item(item, score) for item, score in shown]

    def _candidates(
        self, user: str, under: dict[str, Any], query: str | None
    ) -> Iterator[tuple[StoredItem, float | None]]:
        """The items for a query, the best first, then all items, the newest first."""
        if query:
            ranked = self._memory.search(
                user,
                query,
                scopes=["documents"],
                source_types=[SOURCE_TYPE],
                metadata_filter=under,
                # A store ranks all its items: which of them answer is for its caller to judge.
                min_relevance=0.0,
                limit=_MOST_RESULTS,
            )
            for result in ranked:
                if result.document_chunk is not None:
                    yield StoredItem.of(result.document_chunk.metadata), result.score
        for document in self._documents(user, under):
            yield StoredItem.of(document.metadata), None

    def _list_namespaces(self, op: ListNamespacesOp) -> list[Namespace]:
        conditions = op.match_conditions or ()
        prefix = next((c.path for c in conditions if c.match_type == "prefix"), ())
        known = tuple(prefix[: prefix.index("*")]) if "*" in prefix else tuple(prefix)
        found = {
            StoredItem.of(document.metadata).namespace
            for document in self._documents(self._user_of(tuple(prefix)), prefix_filter(known))
        }
        named = {one for one in found if all(_names(condition, one) for condition in conditions)}
        if op.max_depth is not None:
            named = {one[: op.max_depth] for one in named}
        return sorted(named)[op.offset : op.offset + op.limit]

    # --- writes

    def _put(self, puts: Sequence[PutOp]) -> None:
        users: dict[str, list[PutOp]] = {}
        for op in puts:
            users.setdefault(self._user_of(op.namespace), []).append(op)
        for user, ops in users.items():
            items = []
            for op in ops:
                known = self._find(op.namespace, op.key)
                if op.value is not None:
                    items.append(self._document(op, known))
                elif known is not None:
                    self._delete(user, known.id)
            self._ingest(user, items)

    def _document(self, op: PutOp, known: Document | None) -> Any:
        now = datetime.now(UTC)
        created = StoredItem.of(known.metadata).created_at if known is not None else now
        value = dict(op.value or {})
        paths = self._fields if op.index is None else op.index or []
        texts = [
            text
            for path in paths
            for text in (
                ["\n".join(readable(value))] if path == "$" else get_text_at_path(value, path)
            )
        ]
        return StoredItem(op.namespace, op.key, value, created, now, op.ttl).document(texts)

    def _ingest(self, user: str, documents: list[Any]) -> None:
        jobs = []
        for batch in groups(documents, _size, _MOST_DOCUMENTS):
            job = self._memory.ingest_documents(user, batch).job
            check_kept(job)
            jobs.append(job)
        for job in jobs:
            # What is not indexed in time is stored, and ranked later.
            with contextlib.suppress(HithertoCallError):
                if self._index_seconds > 0:
                    self._memory.wait_for_job(job, timeout=self._index_seconds)

    def _delete(self, user: str, document_id: str) -> None:
        with if_there():
            self._memory.delete_document(user, document_id)


def _size(document: Any) -> int:
    """The most bytes that a document takes in a request: a character may have four."""
    return 4 * (len(document["content"]) + len(str(document["metadata"])))


def _item(item: StoredItem) -> Item:
    return Item(
        namespace=item.namespace,
        key=item.key,
        value=item.value,
        created_at=item.created_at,
        updated_at=item.updated_at,
    )


def _search_item(item: StoredItem, score: float | None) -> SearchItem:
    return SearchItem(item.namespace, item.key, item.value, item.created_at, item.updated_at, score)


def _names(condition: MatchCondition, namespace: Namespace) -> bool:
    """Whether a namespace begins, or ends, with a path; `*` stands for any label."""
    path = condition.path
    if len(namespace) < len(path):
        return False
    part = namespace[: len(path)]
    if condition.match_type == "suffix":
        part = namespace[len(namespace) - len(path) :]
    return all(wanted in ("*", label) for wanted, label in zip(path, part, strict=True))
