"""ImportUser of PrivacyService."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

from hitherto.v1 import privacy_service_pb2 as pb
from hitherto_extraction.handlers.answering import Answering
from hitherto_extraction.handlers.erasure import EXPORT_SECONDS
from hitherto_extraction.restoring.call import ImportCall
from hitherto_extraction.restoring.importing import Importing
from hitherto_extraction.storage.idempotency import Identity
from hitherto_shared.errors import TooLate, invalid
from hitherto_shared.rpc.call import Context, current_call, seconds_left
from hitherto_shared.validation import Checks

PATIENCE_SECONDS = 30.0
"""How long an import waits for the next piece: only a few run at once."""


class RestoringCalls:
    """Implements it."""

    _answering: Answering
    _importing: Importing

    async def ImportUser(
        self, request_iterator: AsyncIterator[pb.ImportUserRequest], context: Context
    ) -> pb.ImportUserResponse:
        """Store the records of an export again."""
        requests = aiter(request_iterator)
        first = await anext(requests, None)
        if first is None:
            raise invalid("user_id", "is required")
        checks = Checks()
        user_id = checks.identifier("user_id", first.user_id)
        key = checks.idempotency_key(first.idempotency_key)
        checks.done()
        principal = current_call().principal
        identity = None
        if key is not None:
            caller = self._answering.trail.caller(principal)
            identity = Identity(principal.tenant_id, caller, "ImportUser", key, b"")
        now = asyncio.get_running_loop().time()
        ends = now + seconds_left(context, EXPORT_SECONDS)
        call = ImportCall(principal, principal.scope(user_id), identity, ends)
        async with aclosing(_pieces(first, requests, user_id)) as pieces:
            made = await self._importing.run(call, pieces)
        assert made.position is not None
        return pb.ImportUserResponse(
            imported_counts=+made.stored,
            skipped_counts=+made.skipped,
            left_out_counts=+made.left_out,
            consistency_token=self._answering.token(made.position),
        )


async def _pieces(
    first: pb.ImportUserRequest, requests: AsyncIterator[pb.ImportUserRequest], user_id: str
) -> AsyncGenerator[bytes]:
    yield first.data
    while (request := await _next(requests)) is not None:
        checks = Checks()
        if checks.identifier("user_id", request.user_id) != user_id:
            checks.add("user_id", "must be that of the first message of the stream")
        checks.done()
        yield request.data


async def _next(requests: AsyncIterator[pb.ImportUserRequest]) -> pb.ImportUserRequest | None:
    """The next piece; None after the last.

    Raises:
        TooLate: The caller sent nothing for too long.
    """
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await anext(requests, None)
    except TimeoutError:
        raise TooLate(
            f"nothing of the export came for {PATIENCE_SECONDS:g} seconds; what was stored stays, "
            "call ImportUser again from the start of the file",
            reason="DEADLINE_EXCEEDED",
        ) from None
