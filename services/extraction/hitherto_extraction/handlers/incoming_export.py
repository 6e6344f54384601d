"""The pieces of an export that a caller sends back, as long as they come fast enough."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator

from hitherto.v1 import privacy_service_pb2 as pb
from hitherto_shared.errors import TooLate
from hitherto_shared.validation import Checks

PATIENCE_SECONDS = 30.0
"""How long an import waits for its caller: only a few run at once."""
SLOWEST = 4 * 1024
"""Bytes a second that restore this patience. Fewer use it up, in however many pieces they come."""


async def pieces_of_export(
    first: pb.ImportUserRequest, requests: AsyncIterator[pb.ImportUserRequest], user_id: str
) -> AsyncGenerator[bytes]:
    """The data of the stream of an import.

    Raises:
        InvalidRequest: A message names another user than the first one.
        TooLate: The caller sent nothing, or almost nothing, for too long.
    """
    patience = _Patience()
    yield first.data
    while (request := await patience.next(requests)) is not None:
        checks = Checks()
        if checks.identifier("user_id", request.user_id) != user_id:
            checks.add("user_id", "must be that of the first message of the stream")
        checks.done()
        yield request.data


class _Patience:
    """What is left of the seconds for which an import waits for its caller."""

    def __init__(self) -> None:
        self._left = PATIENCE_SECONDS

    async def next(
        self, requests: AsyncIterator[pb.ImportUserRequest]
    ) -> pb.ImportUserRequest | None:
        """The next piece; None after the last."""
        now = asyncio.get_running_loop().time
        began = now()
        try:
            async with asyncio.timeout(self._left):
                request = await anext(requests, None)
        except TimeoutError:
            raise TooLate(
                f"nothing of the export came for {PATIENCE_SECONDS:g} seconds, or almost nothing "
                "for longer; what was stored stays, call ImportUser again from the start of the "
                "file",
                reason="DEADLINE_EXCEEDED",
            ) from None
        restored = len(request.data) / SLOWEST if request is not None else 0.0
        self._left = min(PATIENCE_SECONDS, self._left - (now() - began) + restored)
        return request
