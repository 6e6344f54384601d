"""Export, erasure and reinstatement of a user."""

from __future__ import annotations

from collections.abc import Callable
from typing import BinaryIO

from hitherto.v1 import privacy_pb2
from hitherto.v1 import privacy_service_pb2 as pb
from hitherto_client._sync.exports import receive_export
from hitherto_client.export import EXPORT_SECONDS, Received
from hitherto_client.methods.stubs import Stubs

ERASE_SECONDS = 300.0
"""Erasing takes as long as there is to erase."""


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
        return receive_export(
            self.privacy.ExportUser,
            self.target.extraction,
            request,
            into,
            progress=progress,
            timeout=timeout,
        )

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
