"""All data of a user: an export, received and checked against its manifest, and its import."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

import grpc

from hitherto.v1 import privacy_pb2
from hitherto.v1.privacy_service_pb2 import (
    ExportUserRequest,
    ImportUserRequest,
    ImportUserResponse,
)
from hitherto_client.calls import Endpoint, RetryPolicy
from hitherto_client.errors import read_error
from hitherto_client.export import PIECE_BYTES, ExportBroken, Received, Receiver


async def receive_export(
    call: Any,
    endpoint: Endpoint,
    request: ExportUserRequest,
    into: BinaryIO,
    *,
    progress: Callable[[Received], None] | None,
    timeout: float,
) -> privacy_pb2.ExportManifest:
    """Write an export to `into` as it arrives, and return its manifest.

    Args:
        call: The stub's ExportUser.
        endpoint: Where the service is, for errors.
        request: Whose data.
        into: A binary file or stream; a few hundred KiB are in memory at a time.
        progress: Called with the progress after every piece.
        timeout: Seconds for all of it.

    Raises:
        HithertoCallError: The call failed; what was written so far is incomplete.
        ExportBroken: The data do not match the manifest.
    """
    receiver = Receiver()
    stream = call(request, timeout=timeout)
    try:
        async for reply in stream:
            if reply.HasField("manifest"):
                receiver.check(reply.manifest)
                manifest: privacy_pb2.ExportManifest = reply.manifest
                return manifest
            receiver.take(reply.data)
            into.write(reply.data)
            if progress is not None:
                progress(receiver.progress())
    except grpc.RpcError as raised:
        raise read_error(raised, service=endpoint.service, address=endpoint.address) from raised
    finally:
        stream.cancel()
    raise ExportBroken("the export ended without its manifest: ask for it again")


async def send_export(
    call: Any,
    endpoint: Endpoint,
    retry: RetryPolicy,
    user: str,
    export: BinaryIO,
    *,
    idempotency_key: str,
    progress: Callable[[int], None] | None,
    timeout: float,
) -> ImportUserResponse:
    """Send an export, from the start again if the call breaks off and the file can be reread.

    Args:
        call: The stub's ImportUser.
        endpoint: Where the service is, for errors.
        retry: How the call is repeated.
        user: Who receives the records.
        export: The export; a piece of it is in memory at a time.
        idempotency_key: Unset: a new one.
        progress: Called with the bytes sent after every piece.
        timeout: Seconds for all of it.

    Raises:
        HithertoCallError: It was not imported, or only in part, within the time or the attempts.
    """
    deadline = time.monotonic() + timeout
    key = idempotency_key or uuid.uuid4().hex
    start = export.tell() if export.seekable() else None
    failures = 0

    def pieces() -> Iterator[ImportUserRequest]:
        sent = 0
        while (data := export.read(PIECE_BYTES)) or not sent:
            yield ImportUserRequest(user_id=user, data=data, idempotency_key=key)
            sent += len(data)
            if progress is not None:
                progress(sent)
            if not data:
                return

    while True:
        remaining = max(deadline - time.monotonic(), 0.001)
        try:
            reply: ImportUserResponse = await call(pieces(), timeout=remaining)
            return reply
        except grpc.RpcError as raised:
            error = read_error(raised, service=endpoint.service, address=endpoint.address)
            failures += 1
            wait = retry.wait_before_retry(error, failures, repeatable=start is not None)
            if wait is None or start is None or time.monotonic() + wait >= deadline:
                raise error from raised
        await asyncio.sleep(wait)
        export.seek(start)
