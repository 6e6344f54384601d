"""An export of all data of a user, received piece by piece and checked against its manifest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, BinaryIO

import grpc

from hitherto.v1 import privacy_pb2
from hitherto.v1.privacy_service_pb2 import ExportUserRequest
from hitherto_client.calls import Endpoint
from hitherto_client.errors import read_error
from hitherto_client.export import ExportBroken, Received, Receiver


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
