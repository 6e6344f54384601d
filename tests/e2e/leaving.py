"""Exporting, erasing and reinstating over the wire, for the end-to-end tests."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from hitherto.v1 import privacy_pb2
from hitherto.v1 import privacy_service_pb2 as pb
from tests.e2e.conftest import Services
from tests.e2e.methods import ask


@dataclass(frozen=True, slots=True)
class Export:
    text: str
    pieces: list[int]
    manifest: privacy_pb2.ExportManifest

    @property
    def rows(self) -> list[tuple[str, dict[str, Any]]]:
        """Each line's table and row."""
        return [(line["table"], line["row"]) for line in map(json.loads, self.text.splitlines())]

    def of(self, table: str) -> list[dict[str, Any]]:
        return [row for name, row in self.rows if name == table]


def unannounced(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The records of an export as an earlier version sent them: without a manifest."""
    return [
        {name: value for name, value in record.items() if name != "manifest"}
        for record in records
        if record["table"] != "manifest"
    ]


async def export(services: Services, user: str = "ana") -> Export:
    """A whole export, held against its manifest."""
    data = b""
    pieces: list[int] = []
    manifests = []
    async for reply in services.privacy.ExportUser(pb.ExportUserRequest(user_id=user)):
        if reply.HasField("manifest"):
            manifests.append(reply.manifest)
        else:
            assert not manifests, "the manifest comes last"
            pieces.append(len(reply.data))
            data += reply.data
    (manifest,) = manifests
    assert manifest.user_id == user
    assert manifest.total_bytes == len(data)
    assert manifest.sha256 == hashlib.sha256(data).hexdigest()
    found = Export(data.decode(), pieces, manifest)
    counts: dict[str, int] = {}
    for table, _ in found.rows:
        counts[table] = counts.get(table, 0) + 1
    assert {table: n for table, n in manifest.counts.items() if n} == counts
    return found


async def erase(
    services: Services, user: str = "ana", *, key: str = ""
) -> privacy_pb2.EraseReceipt:
    """Erase; the receipt."""
    reply = await services.privacy.EraseUser(pb.EraseUserRequest(user_id=user, idempotency_key=key))
    return reply.receipt


async def reinstate(services: Services, user: str = "ana", *, key: str = "") -> bool:
    """Whether the user had been erased."""
    reply = await ask(services, "ReinstateUser", user_id=user, idempotency_key=key)
    return bool(reply.reinstated)
