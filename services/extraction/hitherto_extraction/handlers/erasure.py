"""ExportUser, EraseUser and ReinstateUser of PrivacyService."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing

from hitherto.v1 import privacy_pb2
from hitherto.v1 import privacy_service_pb2 as pb
from hitherto_extraction.curation.erasing import Erasing
from hitherto_extraction.curation.exporting import Exporting, Manifest
from hitherto_extraction.handlers.answering import CALL_SECONDS, Answering
from hitherto_extraction.storage.erasure import Receipt
from hitherto_shared.convert import timestamp
from hitherto_shared.rpc.call import Context, current_call, seconds_left
from hitherto_shared.validation import Checks

ERASE_SECONDS = 300.0
"""An erasure takes as long as there is data to erase; a caller's deadline may be shorter."""
EXPORT_SECONDS = 3_600.0
"""Time limit for a caller to receive an export."""


class LeavingCalls:
    """Implements them."""

    _answering: Answering
    _erasing: Erasing
    _exporting: Exporting

    async def ExportUser(
        self, request: pb.ExportUserRequest, context: Context
    ) -> AsyncIterator[pb.ExportUserResponse]:
        """All data of a user, then the manifest."""
        checks = Checks()
        user_id = checks.identifier("user_id", request.user_id)
        checks.done()
        self._answering.check_token(request.consistency_token)
        pieces = self._exporting.run(
            current_call().principal.scope(user_id),
            fence=self._answering.database,
            timeout=seconds_left(context, EXPORT_SECONDS),
        )
        async with aclosing(pieces):
            async for piece in pieces:
                if isinstance(piece, Manifest):
                    yield pb.ExportUserResponse(
                        manifest=privacy_pb2.ExportManifest(
                            user_id=user_id,
                            created_at=timestamp(piece.created_at),
                            counts=piece.counts,
                            total_bytes=piece.total_bytes,
                            sha256=piece.sha256,
                        )
                    )
                else:
                    yield pb.ExportUserResponse(data=piece)

    async def EraseUser(
        self, request: pb.EraseUserRequest, context: Context
    ) -> pb.EraseUserResponse:
        """Erase all data; another call continues an interrupted one."""
        checks = Checks()
        user_id = checks.identifier("user_id", request.user_id)
        call = self._answering.admit(checks, user_id, request)
        outcome = await self._erasing.erase(call, timeout=seconds_left(context, ERASE_SECONDS))
        return pb.EraseUserResponse(
            receipt=_receipt(outcome.made),
            consistency_token=self._answering.token(outcome.position),
        )

    async def ReinstateUser(
        self, request: pb.ReinstateUserRequest, context: Context
    ) -> pb.ReinstateUserResponse:
        """Permit writes about an erased user again."""
        checks = Checks()
        user_id = checks.identifier("user_id", request.user_id)
        call = self._answering.admit(checks, user_id, request)
        outcome = await self._erasing.reinstate(call, timeout=seconds_left(context, CALL_SECONDS))
        return pb.ReinstateUserResponse(
            reinstated=outcome.made, consistency_token=self._answering.token(outcome.position)
        )


def _receipt(receipt: Receipt) -> privacy_pb2.EraseReceipt:
    assert receipt.erased_at is not None
    return privacy_pb2.EraseReceipt(
        id=str(receipt.receipt_id),
        user_hash=receipt.user_hash,
        erased_at=timestamp(receipt.erased_at),
        counts=receipt.counts,
        signed_payload=receipt.signed_payload or "",
        signature=receipt.signature or b"",
        key_id=receipt.key_id or "",
    )
