"""Signs the days of the audit log, so that a later change can be proved.

The entries of a tenant and a day (UTC), ordered by time and id, are the leaves of a Merkle tree as
in RFC 6962: SHA-256, with a zero byte before a leaf and a one byte before two nodes. A leaf is an
entry as JSON, see `leaf_of`. The signature covers the root with the tenant, the day and the number
of entries.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

from hitherto_shared.database.audit_log import AuditEvent, events_between
from hitherto_shared.database.pool import Connection
from hitherto_shared.signing import Signer, verify

_PURPOSE = "hitherto/audit-digest/1"


@dataclass(frozen=True, slots=True)
class Digest:
    """A signed day."""

    tenant_id: str
    day: date
    count: int
    root: bytes
    signature: bytes
    key_id: str

    @property
    def payload(self) -> bytes:
        """The signed bytes."""
        return payload_of(self.tenant_id, self.day, self.count, self.root)

    def as_json(self) -> dict[str, str | int]:
        """The digest as JSON, for the service's log; `read_digest` parses it."""
        return {
            "tenant_id": self.tenant_id,
            "day": self.day.isoformat(),
            "count": self.count,
            "root": self.root.hex(),
            "signature": self.signature.hex(),
            "key_id": self.key_id,
        }

    def check_signature(self, public_key: bytes) -> None:
        """Raise BrokenSignature unless the key of these 32 bytes has signed this digest."""
        verify(public_key, self.payload, self.signature)


def read_digest(document: Mapping[str, Any]) -> Digest:
    """Parse the output of `Digest.as_json`; anything else is a ValueError."""
    try:
        return Digest(
            str(document["tenant_id"]),
            date.fromisoformat(document["day"]),
            int(document["count"]),
            bytes.fromhex(document["root"]),
            bytes.fromhex(document["signature"]),
            str(document["key_id"]),
        )
    except (KeyError, TypeError, ValueError):
        raise ValueError(
            "no digest: it needs tenant_id, day, count, root, signature and key_id"
        ) from None


class MerkleTree:
    """A tree that grows leaf by leaf and keeps one node for each power of two in their number."""

    def __init__(self) -> None:
        self.count = 0
        self._whole: list[bytes] = []

    def add(self, leaf: bytes) -> None:
        """Add a leaf on the right."""
        node = hashlib.sha256(b"\0" + leaf).digest()
        self.count += 1
        # The number of complete trees to join is the number of trailing zeros of the new count.
        merges = self.count
        while merges % 2 == 0:
            node = _join(self._whole.pop(), node)
            merges //= 2
        self._whole.append(node)

    def root(self) -> bytes:
        """The root over all leaves; without any, the hash of nothing."""
        if not self._whole:
            return hashlib.sha256().digest()
        root = self._whole[-1]
        for left in reversed(self._whole[:-1]):
            root = _join(left, root)
        return root


async def tree_of_day(connection: Connection, tenant_id: str, day: date) -> MerkleTree:
    """The tree over a tenant's entries of a day in their present state in the database."""
    tree = MerkleTree()
    async for event in events_between(connection, tenant_id, *bounds(day)):
        tree.add(leaf_of(event))
    return tree


def sign_day(signer: Signer, tenant_id: str, day: date, tree: MerkleTree) -> Digest:
    """The signed digest of a day."""
    root = tree.root()
    signature = signer.sign(payload_of(tenant_id, day, tree.count, root))
    return Digest(tenant_id, day, tree.count, root, signature, signer.key_id)


def payload_of(tenant_id: str, day: date, count: int, root: bytes) -> bytes:
    """The signed text: a JSON list of purpose, tenant, day, number of entries and root in hex."""
    return _json([_PURPOSE, tenant_id, day.isoformat(), count, root.hex()])


def leaf_of(event: AuditEvent) -> bytes:
    """An entry as JSON: id, time (UTC, microseconds), actor, method, hash, resources, count."""
    return _json(
        [
            str(event.event_id),
            event.created_at.astimezone(UTC).isoformat(timespec="microseconds"),
            event.actor,
            event.method,
            event.user_hash,
            [str(each) for each in event.resource_ids],
            event.count,
        ]
    )


def bounds(day: date) -> tuple[datetime, datetime]:
    """The first moments of a day and of the next one."""
    begin = datetime(day.year, day.month, day.day, tzinfo=UTC)
    return begin, begin + timedelta(days=1)


def _join(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\1" + left + right).digest()


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=True).encode("ascii")
