"""The one list of calls that stand in the contract and are not offered yet, each with its reason.

They answer UNIMPLEMENTED with the reason `CAPABILITY_NOT_AVAILABLE`; none pretends. A test holds
this list against the handlers: a call is either here or written, never both, never neither.
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
