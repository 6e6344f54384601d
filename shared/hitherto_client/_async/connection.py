"""A connection to both services: their generated stubs over channels that make calls safe."""

from __future__ import annotations

from typing import cast

import grpc

from hitherto.v1.extraction_service_pb2_grpc import ExtractionServiceStub
from hitherto.v1.maintenance_service_pb2_grpc import MaintenanceServiceStub
from hitherto.v1.memory_service_pb2_grpc import MemoryServiceStub
from hitherto.v1.privacy_service_pb2_grpc import PrivacyServiceStub
from hitherto.v1.retrieval_service_pb2_grpc import RetrievalServiceStub
from hitherto.v1.session_service_pb2_grpc import SessionServiceStub
from hitherto_client._async.channel import AsyncCallingChannel, open_channel
from hitherto_client.calls import Endpoint
from hitherto_client.target import Target


class AsyncConnection:
    """The stubs of every RPC of the contract.

    Each call carries a deadline, the credential, a request id and, if it changes something, an
    idempotency key, is repeated where that is safe, and ends with HithertoCallError.
    """

    def __init__(self, target: Target) -> None:
        """Prepare the channels; they connect with the first call."""
        self.target = target
        self.channels: dict[str, grpc.aio.Channel] = {}
        """The bare channel to each service, by its name."""
        reads = self._connect(target.retrieval)
        writes = self._connect(target.extraction)
        self.retrieval = RetrievalServiceStub(reads)
        self.extraction = ExtractionServiceStub(writes)
        self.memories = MemoryServiceStub(writes)
        self.sessions = SessionServiceStub(writes)
        self.maintenance = MaintenanceServiceStub(writes)
        self.privacy = PrivacyServiceStub(writes)

    def _connect(self, endpoint: Endpoint) -> grpc.aio.Channel:
        channel = open_channel(endpoint.address, self.target.tls)
        self.channels[endpoint.service] = channel
        return cast(grpc.aio.Channel, AsyncCallingChannel(channel, endpoint, self.target))

    async def close(self) -> None:
        """Close the channels; calls in flight are cancelled."""
        for channel in self.channels.values():
            await channel.close()
