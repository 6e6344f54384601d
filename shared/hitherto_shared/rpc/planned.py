"""The only list of RPCs in the contract that are not offered yet, each with its reason.

They answer UNIMPLEMENTED with the reason `CAPABILITY_NOT_AVAILABLE`. A test compares this list with
the handlers: an RPC is either listed here or implemented, never both, never neither.
"""

from __future__ import annotations

PLANNED: dict[str, str] = {}
"""By service and method, such as `MemoryService/SaveMemory`."""
