"""The forms in which a message is sent over HTTP; over gRPC it is always binary."""

from __future__ import annotations

import asyncio
import json

from google.protobuf import json_format

from hitherto_client.http_door.methods import DoorMethod
from hitherto_client.http_door.request_json import LARGE_BYTES, read_request


class Codec:
    """One form; this one is the binary form itself, which the services check."""

    name = "proto"
    """As in `application/NAME`."""

    async def request(self, method: DoorMethod, data: bytes) -> bytes:
        """A request in its binary form.

        Raises:
            ConnectError: It is no such request.
        """
        return data

    async def reply(self, method: DoorMethod, data: bytes) -> bytes:
        """A reply in this form."""
        return data


class JsonCodec(Codec):
    """proto3 JSON."""

    name = "json"

    def __init__(self) -> None:
        # What 4 MiB of JSON become takes a hundred megabytes; never several times at once.
        self._large = asyncio.Semaphore(1)

    async def request(self, method: DoorMethod, data: bytes) -> bytes:
        """A request in its binary form; a large one is read in a thread, one after another."""
        if len(data) <= LARGE_BYTES:
            return _binary(method, data)
        async with self._large:
            return await asyncio.to_thread(_binary, method, data)

    async def reply(self, method: DoorMethod, data: bytes) -> bytes:
        """A reply as JSON; a large one is written in a thread."""
        if len(data) <= LARGE_BYTES:
            return _json(method, data)
        return await asyncio.to_thread(_json, method, data)


def _binary(method: DoorMethod, data: bytes) -> bytes:
    found: bytes = read_request(method.request, data).SerializeToString()
    return found


def _json(method: DoorMethod, data: bytes) -> bytes:
    told = json_format.MessageToDict(method.response.FromString(data))
    return json.dumps(told, ensure_ascii=False, separators=(",", ":")).encode()
