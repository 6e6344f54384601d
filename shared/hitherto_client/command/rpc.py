"""Commands by table: an RPC of the contract, the options that fill its request, how it is shown.

An option says only which field of the request it sets; its type, its choices and whether it may be
given several times follow from the field.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from google.protobuf import message_factory
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from hitherto.v1 import (
    extraction_service_pb2,
    maintenance_service_pb2,
    memory_service_pb2,
    privacy_service_pb2,
    retrieval_service_pb2,
    session_service_pb2,
)
from hitherto_client import Hitherto
from hitherto_client.command.exits import FAILED, OK, UsageError
from hitherto_client.command.options import (
    add_command,
    add_paging,
    add_yes,
    confirmed,
    connect,
    json_object,
    moment,
    natural,
    number,
    whole,
)
from hitherto_client.command.output import Output
from hitherto_client.command.values import words
from hitherto_client.wire import build

_MAX_PAGE = 200
"""The largest page that every list gives."""
_INTEGERS = (FieldDescriptor.TYPE_INT32, FieldDescriptor.TYPE_INT64)
_FLOATS = (FieldDescriptor.TYPE_FLOAT, FieldDescriptor.TYPE_DOUBLE)


@dataclass(frozen=True, slots=True)
class Option:
    """An option, or without dashes an argument, that sets a field of the request."""

    flag: str
    field: str
    help: str = ""
    metavar: str | None = None
    needed: bool = True
    """Of an argument: False if it may be left out."""

    def add(self, parser: Any, request: type[Message]) -> None:
        """Let a parser take it."""
        of: Any = request.DESCRIPTOR.fields_by_name[self.field]
        more = dict(_of_type(of), help=self.help)
        if of.is_repeated:
            more["action"] = "append"
            more["help"] = f"{self.help}; may be given several times".removeprefix("; ")
        if self.metavar:
            more["metavar"] = self.metavar
        if self.flag.startswith("--"):
            parser.add_argument(self.flag, dest=self.field, **more)
        else:
            if not self.needed:
                more.update(nargs="?", default="")
            more["metavar"] = self.metavar or self.flag.upper()
            parser.add_argument(self.field, **more)


def _of_type(of: FieldDescriptor) -> dict[str, Any]:
    """How argparse reads a value of a field."""
    if of.enum_type is not None:
        known = words(of.enum_type)
        return {"type": str.lower, "choices": known, "metavar": "|".join(known)}
    if of.message_type is not None:
        if of.message_type.name == "Timestamp":
            return {"type": moment, "metavar": "TIME"}
        return {"type": json_object, "metavar": "JSON"}
    if of.type == FieldDescriptor.TYPE_BOOL:
        if of.has_presence:
            return {"action": argparse.BooleanOptionalAction, "default": None}
        return {"action": "store_true"}
    if of.type in _INTEGERS:
        return {"type": whole if of.has_presence else natural, "metavar": "N"}
    if of.type in _FLOATS:
        return {"type": number, "metavar": "NUMBER"}
    return {"metavar": of.name.removesuffix("_id").upper().rpartition("_")[2]}


USER = Option("user", "user_id")
EVERYBODY = Option("--user", "user_id", "only this user (default: all)", "ID")
CONSISTENCY = Option(
    "--consistency-token",
    "consistency_token",
    "from the reply to a write: show at least that write",
    "TOKEN",
)
SINCE = "only at this time or later"
UNTIL = "only before this time"
DRY_RUN = Option("--dry-run", "dry_run", "only count; change nothing")

Show = Callable[[Output, argparse.Namespace, Any], None]


_SERVICES = {
    "retrieval": retrieval_service_pb2,
    "extraction": extraction_service_pb2,
    "memories": memory_service_pb2,
    "sessions": session_service_pb2,
    "maintenance": maintenance_service_pb2,
    "privacy": privacy_service_pb2,
}
"""By the name of its stub in a connection."""
_METHODS: dict[str, tuple[str, Any]] = {
    method.name: (stub, method)
    for stub, module in _SERVICES.items()
    for service in module.DESCRIPTOR.services_by_name.values()
    for method in service.methods
}


@dataclass(frozen=True)
class Rpc:
    """A call of the contract as a command."""

    name: str
    """That of the RPC."""
    options: tuple[Option, ...]
    show: Show
    """Writes a reply for people."""
    confirm: str = ""
    """What to ask before the call; names in braces are fields of the request."""
    fixed: Mapping[str, Any] = field(default_factory=dict)
    """Fields that no option sets."""

    @cached_property
    def request(self) -> type[Message]:
        """The kind of its request."""
        return message_factory.GetMessageClass(_METHODS[self.name][1].input_type)

    @cached_property
    def rows(self) -> str:
        """Of a list, the field of the reply that pages are joined in; empty for others."""
        fields = _METHODS[self.name][1].output_type.fields
        lists = [of.name for of in fields if of.is_repeated]
        return lists[0] if any(of.name == "next_page_token" for of in fields) else ""

    def make(self, options: argparse.Namespace, **more: Any) -> Any:
        """The request that the options describe; `more` are fields beside them.

        Raises:
            UsageError: A value cannot be sent.
        """
        names = [of.name for of in self.request.DESCRIPTOR.fields]
        typed = {name: given(self.request, options, name) for name in names}
        try:
            return build(self.request, **{**typed, **self.fixed, **more})
        except (TypeError, ValueError) as error:
            raise UsageError(str(error)) from None

    def call(
        self,
        client: Hitherto,
        options: argparse.Namespace,
        *,
        timeout: float | None = None,
        **more: Any,
    ) -> Any:
        """The reply; with `--all`, every page of a list in one. `more` as for `make`."""
        request = self.make(options, **more)
        call = getattr(getattr(client.connection, _METHODS[self.name][0]), self.name)
        every = bool(self.rows) and options.all
        if every:
            request.page_size = _MAX_PAGE
        reply = page = call(request, timeout=timeout)
        while every and page.next_page_token:
            request.page_token = page.next_page_token
            page = call(request, timeout=timeout)
            getattr(reply, self.rows).extend(getattr(page, self.rows))
        if every:
            reply.next_page_token = ""
        return reply

    def run(self, options: argparse.Namespace, output: Output) -> int:
        """The whole command: ask, call, write."""
        if self.confirm and not confirmed(options, output, self.confirm.format(**vars(options))):
            return FAILED
        with connect(options) as client:
            reply = self.call(client, options)
        self.write(output, options, reply)
        return OK

    def write(self, output: Output, options: argparse.Namespace, reply: Any) -> None:
        """Write the reply: as it is for machines, or for people."""
        if output.as_json:
            output.document(reply)
        else:
            self.show(output, options, reply)


def given(kind: type[Message], options: argparse.Namespace, name: str) -> Any:
    """What was typed for a field of a message; None if nothing was."""
    value = getattr(options, name, None)
    if value is None or kind.DESCRIPTOR.fields_by_name[name].enum_type is None:
        return value
    # People type dashes.
    if isinstance(value, str):
        return value.replace("-", "_")
    return [word.replace("-", "_") for word in value]


def declare(
    commands: Any,
    name: str,
    summary: str,
    rpc: Rpc,
    run: Callable[[argparse.Namespace, Output], int] | None = None,
) -> argparse.ArgumentParser:
    """Add the sub-command of an RPC; `run` does more than to call it."""
    parser = add_command(commands, name, summary, run or rpc.run)
    add_options(parser, rpc.request, *rpc.options)
    if rpc.rows:
        add_paging(parser)
    if rpc.confirm:
        add_yes(parser)
    return parser


def add_options(parser: Any, request: type[Message], *options: Option) -> None:
    """Let a parser take options of a request."""
    for option in options:
        option.add(parser, request)
