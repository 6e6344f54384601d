"""The update mask of a request that means every field to which it gives a value."""

from __future__ import annotations

from typing import TypeVar

from hitherto.v1 import memory_service_pb2 as pb

Request = TypeVar("Request", pb.UpdateMemoryRequest, pb.UpdateProfileRequest)


def masked(request: Request) -> Request:
    """The request, with a mask of the fields that have a value in it; a mask it has stays."""
    if not request.HasField("update_mask"):
        given = request.memory if isinstance(request, pb.UpdateMemoryRequest) else request.profile
        request.update_mask.paths.extend(field.name for field, _ in given.ListFields())
    return request
