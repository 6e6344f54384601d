"""Items of a LangGraph store as documents: where each is found, and which ones a search means."""

from __future__ import annotations

import hashlib
import json
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from hitherto_client.inputs import DocumentInput
from hitherto_client.integrations.exchange import storable

SOURCE_TYPE = "langgraph"
MOST_JSON = 60_000
"""Characters of an item as JSON; what is not ASCII counts six times."""

_ITEM, _WHOLE, _LABEL = "langgraph_item", "langgraph", "langgraph_label_{}"
"""Keys of the metadata: the item's digest, the whole item, and the digest of each label."""

_LAST = datetime(2199, 12, 31, tzinfo=UTC)

Namespace = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StoredItem:
    """An item with its times."""

    namespace: Namespace
    key: str
    value: dict[str, Any]
    created_at: datetime
    updated_at: datetime
    ttl: float | None = None
    """Minutes until it expires, from the last write or refresh; None: it stays."""

    def document(self, texts: list[str]) -> DocumentInput:
        """The document that keeps the item; `texts` are what it is found by.

        Raises:
            TypeError: The value is no JSON.
            ValueError: It is too large, or a number in it or `ttl` is not finite.
        """
        # ASCII, so that the service stores every character as it is.
        whole = json.dumps(
            {
                "namespace": self.namespace,
                "key": self.key,
                "value": self.value,
                "created_at": self.created_at.isoformat(),
                "updated_at": self.updated_at.isoformat(),
                **({} if self.ttl is None else {"ttl": self.ttl}),
            },
            separators=(",", ":"),
            allow_nan=False,
        )
        if len(whole) > MOST_JSON:
            raise ValueError(
                f"the item {self.key!r} of {self.namespace} has {len(whole)} characters as JSON; "
                f"an item may have {MOST_JSON}: store large texts as documents of Hitherto"
            )
        document: DocumentInput = {
            "source_type": SOURCE_TYPE,
            "source_id": item_digest(self.namespace, self.key),
            "content_type": "item",
            "content": storable("\n\n".join(texts)),
            "created_at": self.created_at,
            "metadata": {
                **prefix_filter(self.namespace),
                **item_filter(self.namespace, self.key),
                _WHOLE: whole,
            },
        }
        if self.ttl is not None:
            document["expires_at"] = _after(self.updated_at, self.ttl)
        return document

    def refreshed(self, now: datetime) -> DocumentInput:
        """The document that postpones the expiry of the item; it must have a `ttl`."""
        assert self.ttl is not None
        return {
            "source_type": SOURCE_TYPE,
            "source_id": item_digest(self.namespace, self.key),
            "expires_at": _after(now, self.ttl),
        }

    @classmethod
    def of(cls, metadata: Mapping[str, Any]) -> StoredItem:
        """The item in a document's metadata."""
        whole = json.loads(metadata[_WHOLE])
        return cls(
            tuple(whole["namespace"]),
            whole["key"],
            whole["value"],
            datetime.fromisoformat(whole["created_at"]),
            datetime.fromisoformat(whole["updated_at"]),
            whole.get("ttl"),
        )


def _after(moment: datetime, minutes: float) -> datetime:
    """The moment so many minutes later, at most the last one that the services store."""
    left = (_LAST - moment).total_seconds() / 60
    return moment + timedelta(minutes=max(0.0, min(minutes, left)))


def item_digest(namespace: Namespace, key: str) -> str:
    """The id of the item's document at its source."""
    return _digest([*namespace, key])


def item_filter(namespace: Namespace, key: str) -> dict[str, str]:
    """The metadata of one item's document alone."""
    return {_ITEM: item_digest(namespace, key)}


def prefix_filter(prefix: Namespace) -> dict[str, str]:
    """The metadata that the documents of all items under a prefix have."""
    return {_LABEL.format(place): _digest([label]) for place, label in enumerate(prefix)}


def _digest(words: list[str]) -> str:
    return hashlib.sha256(json.dumps(words).encode()).hexdigest()


def readable(value: Any, name: str = "") -> Iterator[str]:
    """The fields of a value as lines such as `city: Porto`, which read like text."""
    if isinstance(value, Mapping):
        for key, nested in value.items():
            yield from readable(nested, str(key))
    elif isinstance(value, list | tuple):
        for nested in value:
            yield from readable(nested, name)
    elif value is not None and value != "":
        yield f"{name}: {value}" if name else str(value)


def matches(value: Any, wanted: Any) -> bool:
    """Whether a field meets a filter: a value, a nested filter, or operators such as `$gte`.

    Raises:
        ValueError: An operator is unknown.
    """
    if isinstance(wanted, Mapping):
        if any(str(key).startswith("$") for key in wanted):
            return all(_meets(value, name, limit) for name, limit in wanted.items())
        return isinstance(value, Mapping) and all(
            matches(value.get(key), nested) for key, nested in wanted.items()
        )
    if isinstance(wanted, list | tuple):
        return (
            isinstance(value, list | tuple)
            and len(value) == len(wanted)
            and all(matches(one, other) for one, other in zip(value, wanted, strict=True))
        )
    return bool(value == wanted)


_OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    "$eq": operator.eq,
    "$ne": operator.ne,
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}
_IN_ORDER = ("$gt", "$gte", "$lt", "$lte")


def _meets(value: Any, name: str, limit: Any) -> bool:
    if name not in _OPERATORS:
        raise ValueError(f"unknown operator in a filter: {name}")
    numbers = all(isinstance(one, int | float) for one in (value, limit))
    texts = isinstance(value, str) and isinstance(limit, str)
    if name in _IN_ORDER and not (numbers or texts):
        return False
    return bool(_OPERATORS[name](value, limit))
