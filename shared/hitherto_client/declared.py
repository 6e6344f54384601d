"""Methods of the client as declarations of RPCs: what they take is sent, what they return is read.

A parameter is the field of the request that has its name; `user`, `conversation` and `job` are
those with the ids. Of the fields of a choice, exactly one is given. The annotation of what a method
returns says how the reply is read.
"""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from google.protobuf import message_factory
from google.protobuf.message import Message

from hitherto.v1 import (
    extraction_service_pb2,
    maintenance_service_pb2,
    memory_service_pb2,
    privacy_service_pb2,
    retrieval_service_pb2,
    session_service_pb2,
)
from hitherto_client.calls import changes_nothing
from hitherto_client.wire import build, dataclass_in, listed, paths_in, read, read_beside, reader

_SERVICES = {
    "retrieval": retrieval_service_pb2,
    "extraction": extraction_service_pb2,
    "memories": memory_service_pb2,
    "sessions": session_service_pb2,
    "maintenance": maintenance_service_pb2,
    "privacy": privacy_service_pb2,
}
"""By the name of its stub in a connection."""
RPCS: Mapping[str, tuple[str, Any]] = {
    method.name: (stub, method)
    for stub, module in _SERVICES.items()
    for service in module.DESCRIPTOR.services_by_name.values()
    for method in service.methods
}
"""The stub and the descriptor of every RPC."""
_FIELDS = {"user": "user_id", "conversation": "conversation_id", "job": "job_id"}


def rows_of(reply: Any) -> str:
    """The field of a reply whose rows come page by page; empty if it is no list."""
    lists = [field.name for field in reply.fields if field.is_repeated]
    return lists[0] if "next_page_token" in reply.fields_by_name else ""


class DeclaredMethod:
    """An RPC as a method declares it."""

    def __init__(
        self,
        declaration: Callable[..., Any],
        rpc: str,
        answer: str = "",
        changed: str = "",
        *,
        by_key: bool = False,
        fixed: Mapping[str, Any] | None = None,
    ) -> None:
        """Read the declaration, a method without a body; see `rpc` of `_async.calling`."""
        self._stub, descriptor = RPCS[rpc]
        self._rpc = rpc
        self._declaration = declaration
        self._answer = answer
        self._changed = changed
        self._by_key = by_key
        self._fixed = fixed or {}
        self._request: type[Message] = message_factory.GetMessageClass(descriptor.input_type)
        self._choices = [
            [field.name for field in choice.fields]
            for choice in descriptor.input_type.oneofs
            if len(choice.fields) > 1
        ]
        self._reply = descriptor.output_type
        self._signature = inspect.signature(declaration)
        parameters = self._signature.parameters.values()
        # Others are what the service takes an unset field for.
        self._defaults = {
            each.name: each.default
            for each in parameters
            if each.default and each.default is not each.empty
        }
        self.rows = rows_of(self._reply)
        self.reads = changes_nothing(f"{descriptor.containing_service.full_name}/{rpc}")

    def call(self, connection: Any) -> Any:
        """The stub's method."""
        return getattr(getattr(connection, self._stub), self._rpc)

    def asked(
        self, client: Any, args: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[Any, str, float | None]:
        """The request, the user whom it is about, and the seconds that it may take.

        Raises:
            TypeError: These are not the arguments of the method, or one has a wrong type.
            ValueError: An argument cannot be sent, or not exactly one of several is given.
        """
        given = self._defaults | self._signature.bind(client, *args, **named).arguments
        del given["self"]
        timeout = given.pop("timeout", None)
        fields = {_FIELDS.get(name, name): value for name, value in given.items()}
        if "job" in given:
            fields["job_id"] = getattr(given["job"], "id", given["job"])
        if self._changed:
            cleared = listed(fields.pop("clear", ()), "clear")
            known = self._request.DESCRIPTOR.fields_by_name
            changes = {name: fields.pop(name) for name in [*fields] if name not in known}
            changes = {name: value for name, value in changes.items() if value is not None}
            paths = [path for name in changes for path in self._paths(name, changes[name])]
            fields |= {self._changed: changes, "update_mask": [*paths, *cleared]}
        for choice in self._choices:
            _choose(choice, fields)
        request: Any = build(self._request, **fields, **self._fixed)
        # A preview is about the user of its transcript.
        about = getattr(request, "transcript", request)
        return request, getattr(about, "user_id", ""), timeout

    def _paths(self, name: str, value: Any) -> list[str]:
        return paths_in(name, value) if self._by_key and isinstance(value, Mapping) else [name]

    @cached_property
    def _returned(self) -> Any:
        return typing.get_type_hints(self._declaration)["return"]

    @cached_property
    def may_be_none(self) -> bool:
        """Whether there may be nothing to return."""
        return type(None) in typing.get_args(self._returned)

    @cached_property
    def kind(self) -> Any:
        """The dataclass of the reply, or of its rows."""
        return dataclass_in(self._returned)

    @cached_property
    def answered(self) -> Callable[[Any], Any]:
        """Makes what the method returns of a reply."""
        if self._returned is type(None):
            return lambda reply: None
        if not self._answer:
            return lambda reply: read(self.kind, reply)
        field = self._reply.fields_by_name[self._answer]
        inner = field.message_type
        kind = None if inner is None or field.is_repeated else dataclass_in(self._returned)
        names = set() if kind is None else {each.name for each in dataclasses.fields(kind)}
        if kind is not None and inner is not None and names - set(inner.fields_by_name):
            return lambda reply: read_beside(kind, reply, self._answer)
        return reader(field, self._returned)


def _choose(choice: list[str], fields: dict[str, Any]) -> None:
    """Leave the one of these fields that is given; none if a time stands in its place."""
    given = [name for name in choice if fields.get(name) not in (None, "")]
    timed = fields.get("since") is not None or fields.get("until") is not None
    if len(given) != 1 and (given or not timed):
        parameters = {field: name for name, field in _FIELDS.items()}
        *others, last = [parameters.get(name, name) for name in choice]
        raise ValueError(f"give exactly one of {', '.join(others)} and {last}")
    for name in choice:
        if name not in given:
            fields.pop(name, None)
