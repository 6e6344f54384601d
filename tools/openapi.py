"""Writes the OpenAPI document of the HTTP door from the comments in protos/.

Input is protoc's descriptor set with source info, as for docs/api.md. A message becomes a schema
of its proto3 JSON: lowerCamelCase names, enums by name, 64-bit integers as text, and the JSON forms
of the well-known types.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tools.api_docs import (
    FILE_ENUM,
    FILE_MESSAGE,
    FILE_SERVICE,
    MESSAGE_FIELD,
    PACKAGE,
    SERVICE_METHOD,
    Contract,
    Enum,
    Field,
    Message,
    Method,
    ProtoSource,
    Service,
    last_part,
    without_name,
)
from tools.http_examples import ExampleRequests

JSON, STREAM = "application/json", "application/connect+json"

CODES = """
canceled unknown invalid_argument deadline_exceeded not_found already_exists permission_denied
resource_exhausted failed_precondition aborted out_of_range unimplemented internal unavailable
data_loss unauthenticated
""".split()

INTRODUCTION = """\
Every RPC of `hitherto.v1` over HTTP with JSON, by the Connect protocol (connectrpc.com).

Send the request as a JSON object with POST. Field names are lowerCamelCase in replies; requests \
may also have them as in the protos. Reads that need only the scope READ also answer GET, with the \
request in the query. Streams are sent as `application/connect+json`: each message in an envelope \
of a byte of flags and a length of four bytes; the last envelope, with the flag 2, says how the \
call ended.
"""

WELL_KNOWN: dict[str, dict[str, Any]] = {
    "google.protobuf.Timestamp": {"type": "string", "format": "date-time"},
    "google.protobuf.Duration": {"type": "string", "pattern": r"^-?[0-9]+(\.[0-9]{1,9})?s$"},
    # Keys of free JSON may be any text.
    "google.protobuf.FieldMask": {"type": "string"},
    "google.protobuf.Struct": {"type": "object", "additionalProperties": True},
    "google.protobuf.Value": {},
    "google.protobuf.ListValue": {"type": "array", "items": {}},
}

INT32 = {"type": "integer", "format": "int32"}
INT64 = {"type": ["string", "integer"], "format": "int64"}
UINT32 = {"type": "integer", "minimum": 0}
UINT64 = {"type": ["string", "integer"], "format": "uint64"}
REAL = {"anyOf": [{"type": "number"}, {"enum": ["NaN", "Infinity", "-Infinity"]}]}
SCALARS: dict[int, dict[str, Any]] = {
    Field.TYPE_STRING: {"type": "string"},
    Field.TYPE_BOOL: {"type": "boolean"},
    Field.TYPE_BYTES: {"type": "string", "contentEncoding": "base64"},
    Field.TYPE_DOUBLE: {**REAL, "format": "double"},
    Field.TYPE_FLOAT: {**REAL, "format": "float"},
    **dict.fromkeys((Field.TYPE_INT32, Field.TYPE_SINT32, Field.TYPE_SFIXED32), INT32),
    **dict.fromkeys((Field.TYPE_UINT32, Field.TYPE_FIXED32), UINT32),
    **dict.fromkeys((Field.TYPE_INT64, Field.TYPE_SINT64, Field.TYPE_SFIXED64), INT64),
    **dict.fromkeys((Field.TYPE_UINT64, Field.TYPE_FIXED64), UINT64),
}


class OpenApi:
    """The document under construction."""

    def __init__(self, contract: Contract) -> None:
        self._contract = contract
        self._examples = ExampleRequests(contract)
        self._asked = {last_part(method.input_type) for method in contract.methods}

    def document(self, version: str) -> dict[str, Any]:
        """The whole document."""
        return {
            "openapi": "3.1.0",
            "info": {
                "title": "Hitherto",
                "version": version,
                "description": INTRODUCTION,
                "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            },
            "servers": [{"url": "/"}],
            "security": [{"bearer": []}, {}],
            "tags": [
                {"name": service.name, "description": source.comment(FILE_SERVICE, index)}
                for source, index, service in self._contract.services
            ],
            "paths": {
                f"/{PACKAGE}.{service.name}/{method.name}": self._path(
                    source, index, service, number, method
                )
                for source, index, service in self._contract.services
                for number, method in enumerate(service.method)
            },
            "components": {
                "securitySchemes": {
                    "bearer": {
                        "type": "http",
                        "scheme": "bearer",
                        "description": "An API key or a token. Not needed where the services run"
                        " without authentication, on loopback.",
                    }
                },
                "parameters": PARAMETERS,
                "responses": {"error": ERROR_RESPONSE},
                "schemas": {
                    **dict(self._enums()),
                    **dict(self._messages()),
                    "connect.error": ERROR,
                },
            },
        }

    def _path(
        self, source: ProtoSource, index: int, service: Service, number: int, method: Method
    ) -> dict[str, Any]:
        text = source.comment(FILE_SERVICE, index, SERVICE_METHOD, number)
        streams = method.client_streaming or method.server_streaming
        kind = STREAM if streams else JSON
        about: dict[str, Any] = {
            "tags": [service.name],
            "summary": text.partition(". ")[0].replace("\n", " ").rstrip(".") + ".",
            "description": f"{text}\n\nNeeds: {self._contract.access.sentence(method)}",
        }
        replies = {
            "200": {
                "description": "A stream of replies." if method.server_streaming else "The reply.",
                "content": {kind: {"schema": reference(method.output_type)}},
            },
            "default": {"$ref": "#/components/responses/error"},
        }
        post = {
            **about,
            "operationId": f"{service.name}_{method.name}",
            "parameters": parameters("version", "timeout", "requestId"),
            "requestBody": {
                "required": True,
                "content": {
                    kind: {
                        "schema": reference(method.input_type),
                        "example": self._examples.of(method),
                    }
                },
            },
            "responses": replies,
        }
        path = {"post": post}
        access = self._contract.access
        # Pages of other sites can make others' browsers send a GET.
        if access.reads_only(method) and access.scope(method) == "READ" and not streams:
            names = ("message", "encoding", "base64", "compression", "connect", "timeout")
            path["get"] = {
                "tags": [service.name],
                "summary": about["summary"],
                "operationId": f"{service.name}_{method.name}_get",
                "parameters": parameters(*names, "requestId"),
                "responses": replies,
            }
        return path

    def _messages(self) -> Iterator[tuple[str, dict[str, Any]]]:
        for name, (source, index, message) in self._contract.messages.items():
            yield f"{PACKAGE}.{name}", self._message(source, index, message)

    def _message(self, source: ProtoSource, index: int, message: Message) -> dict[str, Any]:
        schema: dict[str, Any] = {
            "type": "object",
            "description": source.comment(FILE_MESSAGE, index),
            "properties": {
                field.json_name: self._property(source, index, message, number, field)
                for number, field in enumerate(message.field)
            },
        }
        # Replies get further fields in later versions; a request with an unknown one is refused.
        if message.name in self._asked:
            schema["additionalProperties"] = False
        if choices := list(exclusive(message)):
            schema["allOf"] = choices
        return schema

    def _property(
        self, source: ProtoSource, index: int, message: Message, number: int, field: Field
    ) -> dict[str, Any]:
        text = source.comment(FILE_MESSAGE, index, MESSAGE_FIELD, number)
        return {**schema_of(message, field), "description": without_name(field.name, text)}

    def _enums(self) -> Iterator[tuple[str, dict[str, Any]]]:
        for name, (source, index, enum) in self._contract.enums.items():
            yield (
                f"{PACKAGE}.{name}",
                {
                    "type": "string",
                    "description": enum_text(source, index, enum),
                    "enum": [value.name for value in enum.value],
                },
            )


def enum_text(source: ProtoSource, index: int, enum: Enum) -> str:
    """The comment of an enum, with those of its values as a list."""
    values = (
        f"- `{value.name}`: {' '.join(source.comment(FILE_ENUM, index, 2, place).split())}"
        for place, value in enumerate(enum.value)
    )
    return "\n".join([source.comment(FILE_ENUM, index), "", *values])


def exclusive(message: Message) -> Iterator[dict[str, Any]]:
    """For each oneof: at most one of its fields."""
    for number, _ in enumerate(message.oneof_decl):
        fields = [
            field.json_name
            for field in message.field
            if field.HasField("oneof_index")
            and field.oneof_index == number
            and not field.proto3_optional
        ]
        if len(fields) > 1:
            chosen = [{"required": [name]} for name in fields]
            yield {"oneOf": [*chosen, {"not": {"anyOf": chosen}}]}


def schema_of(message: Message, field: Field) -> dict[str, Any]:
    """The schema of a field's JSON."""
    for entry in message.nested_type:
        named = field.type_name.endswith(f".{message.name}.{entry.name}")
        if named and entry.options.map_entry:
            _, value = entry.field
            return {"type": "object", "additionalProperties": schema_of(entry, value)}
    one = SCALARS[field.type] if field.type in SCALARS else reference(field.type_name)
    if field.label == Field.LABEL_REPEATED:
        return {"type": "array", "items": one}
    return dict(one)


def reference(type_name: str) -> dict[str, Any]:
    """The schema of a message or enum: of its own, or the JSON form of a well-known type."""
    name = type_name.lstrip(".")
    return WELL_KNOWN.get(name, {"$ref": f"#/components/schemas/{name}"})


def parameters(*names: str) -> list[dict[str, Any]]:
    """References to parameters that several calls share."""
    return [{"$ref": f"#/components/parameters/{name}"} for name in names]


def parameter(name: str, place: str, schema: dict[str, Any], text: str, **more: Any) -> Any:
    """A parameter."""
    return {"name": name, "in": place, "schema": schema, "description": text, **more}


PARAMETERS = {
    "message": parameter(
        "message", "query", {"type": "string"}, "The request.", required=True, example="{}"
    ),
    "encoding": parameter(
        "encoding", "query", {"enum": ["json", "proto"]}, "Its form. Unset: json."
    ),
    "base64": parameter("base64", "query", {"enum": ["1"]}, "1 if the message is base64 for URLs."),
    "compression": parameter(
        "compression", "query", {"enum": ["gzip", "identity"]}, "How the message is packed."
    ),
    "connect": parameter("connect", "query", {"enum": ["v1"]}, "The version of the protocol."),
    "version": parameter(
        "Connect-Protocol-Version", "header", {"enum": ["1"]}, "The version of the protocol."
    ),
    "timeout": parameter(
        "Connect-Timeout-Ms",
        "header",
        {"type": "integer", "minimum": 0},
        "Milliseconds that the call may take. Unset: 10 s for reads, 30 s for writes, 75 s for"
        " PreviewExtraction; streams have no limit.",
    ),
    "requestId": parameter(
        "X-Request-Id",
        "header",
        {"type": "string", "maxLength": 128},
        "The id under which the services log the call. Unset: a new one. The reply has it too.",
    ),
}

ERROR: dict[str, Any] = {
    "type": "object",
    "description": "An error, as the Connect protocol sends it.",
    "properties": {
        "code": {"type": "string", "enum": CODES, "description": "What kind of error it is."},
        "message": {"type": "string", "description": "What went wrong, and what to do."},
        "details": {
            "type": "array",
            "description": "`google.rpc.ErrorInfo` with an ErrorReason; `google.rpc.BadRequest`"
            " with every invalid field; `google.rpc.RetryInfo` if a retry may succeed.",
            "items": {
                "type": "object",
                "properties": {
                    "type": {"type": "string", "description": "The full name of the message."},
                    "value": {
                        "type": "string",
                        "description": "The message in its binary form, as base64 without padding.",
                    },
                    "debug": {"description": "The message as JSON."},
                },
                "required": ["type", "value"],
            },
        },
    },
    "required": ["code"],
}

ERROR_RESPONSE = {
    "description": "The call failed.",
    "content": {JSON: {"schema": {"$ref": "#/components/schemas/connect.error"}}},
}


def render(contract: Contract, version: str) -> str:
    """The document as JSON text."""
    document = OpenApi(contract).document(version)
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"
