"""The only list of RPCs in the contract that are not offered yet, each with its reason.

They answer UNIMPLEMENTED with the reason `CAPABILITY_NOT_AVAILABLE`. A test compares this list with
the handlers: an RPC is either listed here or implemented, never both, never neither.
"""

from __future__ import annotations

from collections.abc import Iterable

from google.protobuf.descriptor import ServiceDescriptor

PLANNED: dict[str, str] = {}


def planned_of(services: Iterable[ServiceDescriptor]) -> dict[str, str]:
    """The planned methods of `services` by full name `/package.Service/Method`."""
    return {
        f"/{service.full_name}/{method.name}": PLANNED[f"{service.name}/{method.name}"]
        for service in services
        for method in service.methods
        if f"{service.name}/{method.name}" in PLANNED
    }
