"""Export, erasure and reinstatement of a user."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import BinaryIO

import grpc

from hitherto.v1 import privacy_pb2
from hitherto.v1 import privacy_service_pb2 as pb
from hitherto_client.errors import read_error
from hitherto_client.methods.stubs import Stubs

ERASE_SECONDS = 300.0
"""Erasing takes as long as there is to erase."""
EXPORT_SECONDS = 3_600.0
"""An export takes as long as there is to send."""

_TABLE = b'{"table":"'


class ExportBroken(Exception):
    """The received export does not match its manifest: discard it and request it again."""


@dataclass(frozen=True, slots=True)
class Received:
    """The progress of an export."""

    lines: int
    total_bytes: int


class Leaving(Stubs):
    """Calls of PrivacyService about all data of a user."""

    def export_user(
        self,
        user_id: str,
        into: BinaryIO,
        *,
        progress: Callable[[Received], None] | None = None,
        consistency_token: str = "",
        timeout: float = EXPORT_SECONDS,
    ) -> privacy_pb2.ExportManifest:
        """Write all data of a user to `into`, as JSON lines, and return the manifest.

        The data are checked against the manifest: size, digest and the lines of each table.

        Args:
            user_id: Whose data.
            into: A binary file or stream; a few hundred KiB are in memory at a time.
            progress: Called with the progress after every piece.
            consistency_token: From an earlier write, which the export then includes.
            timeout: Seconds for all of it.

        Raises:
            HithertoCallError: The call failed; what was written so far is incomplete.
            ExportBroken: The data do not match the manifest.
        """
        request = pb.ExportUserRequest(user_id=user_id, consistency_token=consistency_token)
        received = _Received()
        stream = self.privacy.ExportUser(request, timeout=timeout)
        try:
            for reply in stream:
                if reply.HasField("manifest"):
                    received.check(reply.manifest)
                    return reply.manifest
                received.take(reply.data)
                into.write(reply.data)
                if progress is not None:
                    progress(Received(received.counts.total(), received.size))
        except grpc.RpcError as raised:
            endpoint = self._writes_at()
            raise read_error(raised, service=endpoint.service, address=endpoint.address) from raised
        finally:
            stream.cancel()
        raise ExportBroken("the export ended without its manifest: ask for it again")

    def erase_user(
        self, user_id: str, *, idempotency_key: str = "", timeout: float | None = ERASE_SECONDS
    ) -> pb.EraseUserResponse:
        """Remove everything that is stored about a user, for good.

        An interrupted call keeps what it has done; the next call does the rest, and its
        receipt covers all of it.
        """
        request = pb.EraseUserRequest(user_id=user_id, idempotency_key=idempotency_key)
        return self.privacy.EraseUser(request, timeout=timeout)

    def reinstate_user(
        self, user_id: str, *, idempotency_key: str = "", timeout: float | None = None
    ) -> pb.ReinstateUserResponse:
        """Allow writes for an erased user again; nothing that was erased comes back."""
        request = pb.ReinstateUserRequest(user_id=user_id, idempotency_key=idempotency_key)
        return self.privacy.ReinstateUser(request, timeout=timeout)


class _Received:
    """What has come so far, by size, digest and the table that each line names."""

    def __init__(self) -> None:
        self.size = 0
        self.counts = Counter[str]()
        self._digest = hashlib.sha256()
        self._head = b""
        """The beginning of the line that has not ended, as much of it as names the table."""

    def take(self, data: bytes) -> None:
        self.size += len(data)
        self._digest.update(data)
        *ended, rest = data.split(b"\n")
        for line in ended:
            self.counts[_table_of(self._head + line[:_HEAD_BYTES])] += 1
            self._head = b""
        self._head = (self._head + rest[:_HEAD_BYTES])[:_HEAD_BYTES]

    def check(self, manifest: privacy_pb2.ExportManifest) -> None:
        told = {table: count for table, count in manifest.counts.items() if count}
        if (self.size, self._digest.hexdigest()) != (manifest.total_bytes, manifest.sha256):
            raise ExportBroken(
                f"{self.size} bytes came and {manifest.total_bytes} were sent, or they were "
                "changed on the way: ask for the export again"
            )
        if self._head or dict(self.counts) != told:
            raise ExportBroken("the lines that came are not those that were sent: ask again")


_HEAD_BYTES = 128
"""Of a line, as much as holds the name of its table."""


def _table_of(head: bytes) -> str:
    if not head.startswith(_TABLE):
        raise ExportBroken("a line names no table: ask for the export again")
    return head[len(_TABLE) :].partition(b'"')[0].decode("utf-8", "replace")
