"""Example requests of every RPC over HTTP, from what the comments in protos/ call required."""

from __future__ import annotations

import json
import re
import struct
from typing import Any

from tools.api_docs import (
    FILE_MESSAGE,
    MESSAGE_FIELD,
    PACKAGE,
    Contract,
    Field,
    Method,
    last_part,
)

ADDRESS = "http://127.0.0.1:8090"
ID = "0198c0de-7a11-7000-8000-000000000001"
REQUIRED = re.compile(r"\bRequired\b(?! (?:unless|with|for)\b)")
ALSO: dict[str, dict[str, Any]] = {
    "AppendMessagesRequest": {
        "messages": [{"role": "ROLE_USER", "content": "I live in Porto."}],
    },
    "CreateWebhookRequest": {"url": "https://hooks.example.com/hitherto"},
    "GetContextRequest": {"query": "Where do I live?"},
    "IngestDocumentsRequest": {
        "documents": [
            {"sourceType": "gmail", "sourceId": "1", "content": "The team meets on Monday."}
        ]
    },
    "ReembedRequest": {"phase": "REEMBED_PHASE_STATUS"},
    "ResolvePendingActionRequest": {
        "pendingActionId": "act_0a1b2c3d",
        "status": "PENDING_ACTION_STATE_CONFIRMED",
    },
    "RecordFeedbackRequest": {"rating": 5},
    "RetryJobRequest": {"jobId": ID},
    "RetryWebhookDeliveryRequest": {"deliveryId": ID},
    "RollbackSourceRequest": {"conversationId": "monday"},
    "SearchMemoriesRequest": {"query": "Where do I live?"},
    "SubmitTranscriptsRequest": {
        "transcripts": [
            {
                "userId": "ana",
                "conversationId": "monday",
                "messages": [{"role": "ROLE_USER", "content": "I live in Porto."}],
                "ended": True,
            }
        ]
    },
    "Transcript": {"messages": [{"role": "ROLE_USER", "content": "I live in Porto."}]},
    "UpdateMemoryRequest": {"memory": {"importance": 0.9}, "updateMask": "importance"},
    "UpdateProfileRequest": {"profile": {"summary": "Lives in Porto."}, "updateMask": "summary"},
    "UpdateSessionRequest": {"context": {"page": "settings"}},
    "UpdateUserSettingsRequest": {
        "userSettings": {"timeZone": "Europe/Lisbon"},
        "updateMask": "timeZone",
    },
}
"""What an example says besides the required fields, or in their place."""
WORDS = {
    "user_id": "ana",
    "content": "I live in Porto.",
    "conversation_id": "monday",
    "session_id": "monday",
    "message_id": "1",
    "type": "send_email",
}
"""What an example says in a required field of this name."""
REAL = (Field.TYPE_DOUBLE, Field.TYPE_FLOAT)
TEXT = (Field.TYPE_STRING, Field.TYPE_BYTES)


class ExampleRequests:
    """Makes the smallest sensible request of an RPC."""

    def __init__(self, contract: Contract) -> None:
        self._messages, self._enums = contract.messages, contract.enums

    def of(self, method: Method) -> dict[str, Any]:
        """The request as JSON."""
        return self._message(last_part(method.input_type))

    def curl(self, service: str, method: Method) -> str:
        """A command line that calls the RPC."""
        body = json.dumps(self.of(method), ensure_ascii=False)
        url = f"{ADDRESS}/{PACKAGE}.{service}/{method.name}"
        if not (method.client_streaming or method.server_streaming):
            return f"curl -H 'content-type: application/json' -d '{body}' {url}"
        size = "".join(f"\\{byte:03o}" for byte in struct.pack(">I", len(body.encode())))
        send = "curl -H 'content-type: application/connect+json' --data-binary @-"
        return f"printf '\\000{size}%s' '{body}' | {send} {url}"

    def _message(self, name: str) -> dict[str, Any]:
        source, index, message = self._messages[name]
        required = {
            field.json_name: self._field(field)
            for number, field in enumerate(message.field)
            if REQUIRED.search(source.comment(FILE_MESSAGE, index, MESSAGE_FIELD, number))
        }
        return required | ALSO.get(name, {})

    def _field(self, field: Field) -> Any:
        one = self._one(field)
        return [one] if field.label == Field.LABEL_REPEATED else one

    def _one(self, field: Field) -> Any:
        name = last_part(field.type_name)
        if field.name in WORDS:
            return WORDS[field.name]
        if field.type == Field.TYPE_MESSAGE:
            return self._message(name) if name in self._messages else {}
        if field.type == Field.TYPE_ENUM:
            return self._enums[name][2].value[1].name
        if field.type in TEXT:
            return ID if field.name.endswith("_id") else "example"
        return 0.5 if field.type in REAL else True if field.type == Field.TYPE_BOOL else 1
