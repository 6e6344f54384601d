"""H7: no text of a request that writes escapes the search for secrets by being forgotten."""

from __future__ import annotations

from typing import Any

from hitherto.v1 import extraction_service_pb2, memory_service_pb2, session_service_pb2
from hitherto_extraction.handlers.screening import WORDS

_NO_WORDS = {
    "id", "user_id", "conversation_id", "message_id", "memory_id", "session_id", "document_id",
    "pending_action_id", "pending_action_ids", "context_item_ids", "source_id", "replaces",
    "idempotency_key", "consistency_token", "time_zone", "source_type", "content_type", "type",
    "department", "access_level",
}  # fmt: skip
"""Fields that identify or choose something."""
_READ_ONLY = {
    "Memory": {"source_message_ids", "superseded_by", "supersedes", "job_id", "may_replace"},
    "MemorySourceRef": set(),
    "Doubt": {"because_memory_id", "reason"},
    "Evidence": {"quote"},
    "ProfileSource": {"memory_ids", "quote"},
    "SourcesEntry": {"key"},
}
"""Fields of replies, which no request sets."""
_OTHER_CALLS = {
    "GetJob", "ListJobs", "WatchJob", "RetryJob", "CancelJob", "EndConversation", "DeleteDocument",
}  # fmt: skip
"""RPCs that take no words; PrivacyService is not looked at: an import stores what was exported."""


def _texts(message: Any, seen: set[str]) -> set[tuple[str, str]]:
    if message.full_name in seen or not message.full_name.startswith("hitherto"):
        return set()
    seen.add(message.full_name)
    found = set()
    for field in message.fields:
        if field.message_type is not None:
            found |= _texts(field.message_type, seen)
        elif field.type == field.TYPE_STRING:
            found.add((message.name, field.name))
    return found


def test_h7_every_text_is_searched_or_is_known_to_hold_no_words() -> None:
    found: set[tuple[str, str]] = set()
    for module in (extraction_service_pb2, memory_service_pb2, session_service_pb2):
        for service in module.DESCRIPTOR.services_by_name.values():
            for method in service.methods:
                if method.name not in _OTHER_CALLS:
                    found |= _texts(method.input_type, set())
    searched = {(message, field) for message, fields in WORDS.items() for field in fields}
    assert searched <= found
    left = {
        (message, field)
        for message, field in found - searched
        if field not in _NO_WORDS | _READ_ONLY.get(message, set())
    }
    assert left == set()
