"""Commands by table: an RPC of the contract, the options that fill its request, how it is shown.

An option says only which field of the request it sets; its type, its choices and whether it may be
given several times follow from the field.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property
from typing import Any

from google.protobuf import message_factory
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from hitherto_client import Hitherto
from hitherto_client.command.options import (
    JSON,
    OF_SERVICES,
    PAGING,
    YES,
    Argument,
    OneOf,
    confirmed,
    connect,
    json_object,
    moment,
    natural,
    number,
    whole,
)
from hitherto_client.command.output import FAILED, OK, Output, UsageError
from hitherto_client.command.show import words
from hitherto_client.days import (
    first_moment,
    last_moment,
    needs_zone,
    use_zone,
    zone_named,
    zone_of,
    zone_or_utc,
)
from hitherto_client.declared import RPCS, rows_of
from hitherto_client.wire import build

_MAX_PAGE = 200
"""The largest page that every list gives."""
_INTEGERS = (FieldDescriptor.TYPE_INT32, FieldDescriptor.TYPE_INT64)
_AT = ("as_of", "known_at")
"""Of a day, these mean its end: what was true or known on that day."""
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
    kind: type[Message] | None = None
    """The message whose field it is. Unset: the request."""

    def add(self, parser: Any, request: type[Message] | None) -> None:
        """Let a parser take it."""
        message: Any = self.kind or request
        of: Any = message.DESCRIPTOR.fields_by_name[self.field]
        more = dict(_of_type(of), help=self.help)
        if of.is_repeated:
            more["action"] = "append"
            more["help"] = f"{self.help}; may be repeated"
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


USER = Option("user", "user_id", "the id of the user")
EVERYBODY = Option("--user", "user_id", "only this user (default: all)", "ID")
CONSISTENCY = Option(
    "--consistency-token",
    "consistency_token",
    "from the reply to a write: show at least that write",
    "TOKEN",
)
SINCE = "only at this time or later"
UNTIL = "only before this time; a day itself is not included"
DRY_RUN = Option("--dry-run", "dry_run", "only count; change nothing")

Run = Callable[[argparse.Namespace, Output], int]
Show = Callable[[Output, argparse.Namespace, Any], None]
Ask = Callable[[Hitherto, argparse.Namespace, Output], str]
"""What to ask after a look at what is there; empty: nothing."""


@dataclass(frozen=True)
class Rpc:
    """A call of the contract as a command."""

    name: str
    """That of the RPC."""
    options: tuple[Option, ...]
    show: Show
    """Writes a reply for people."""
    confirm: str | Ask = ""
    """What to ask before the call; names in braces are fields of the request."""
    fixed: Mapping[str, Any] = field(default_factory=dict)
    """Fields that no option sets."""
    days: bool = False
    """Whether `show` names days of the person whom the call is about."""

    @cached_property
    def request(self) -> type[Message]:
        """The kind of its request."""
        return message_factory.GetMessageClass(RPCS[self.name][1].input_type)

    @cached_property
    def rows(self) -> str:
        """Of a list, the field of the reply that pages are joined in; empty for others."""
        return rows_of(RPCS[self.name][1].output_type)

    @property
    def taken(self) -> tuple[Option | Argument, ...]:
        """What fills its request, chooses its pages and answers its question."""
        paging = PAGING if self.rows else ()
        return (*self.options, *paging, *((YES,) if self.confirm else ()))

    def make(self, options: argparse.Namespace, **more: Any) -> Any:
        """The request that the options describe; `more` are fields beside them."""
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
        call = getattr(getattr(client.connection, RPCS[self.name][0]), self.name)
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

    def run(
        self,
        options: argparse.Namespace,
        output: Output,
        *,
        timeout: float | None = None,
        **more: Any,
    ) -> int:
        """The whole command: ask, call, write. `more` as for `make`."""
        with connect(options) as client:
            if not self.agreed(client, options, output):
                return FAILED
            reply = self.call(client, options, timeout=timeout, **more)
            if self.days and not output.as_json:
                use_zone(zone_or_utc(client.connection, options.user_id))
        self.write(output, options, reply)
        return OK

    def agreed(self, client: Hitherto, options: argparse.Namespace, output: Output) -> bool:
        """Whether the person agrees, where there is a question."""
        if not self.confirm or options.yes:
            return True
        question = (
            self.confirm.format(**vars(options))
            if isinstance(self.confirm, str)
            else self.confirm(client, options, output)
        )
        return not question or confirmed(options, output, question)

    def write(self, output: Output, options: argparse.Namespace, reply: Any) -> None:
        """Write the reply: as it is for machines, or for people."""
        output.result(reply, lambda: self.show(output, options, reply))


def given(kind: type[Message], options: argparse.Namespace, name: str) -> Any:
    """What was typed for a field of a message; None if nothing was."""
    value = getattr(options, name, None)
    if value is None or kind.DESCRIPTOR.fields_by_name[name].enum_type is None:
        return value
    # People type dashes.
    if isinstance(value, str):
        return value.replace("-", "_")
    return [word.replace("-", "_") for word in value]


class Command:
    """A sub-command: one record is all that it takes."""

    def __init__(
        self,
        name: str,
        summary: str,
        *taken: Rpc | Option | Argument | OneOf,
        run: Run | None = None,
        local: bool = False,
    ) -> None:
        """Describe it.

        An RPC among `taken` stands for its options. `run` does more than to call it and to write
        its reply, or everything if there is none. A `local` command calls no service.
        """
        self.name, self.summary = name, summary
        rpc = next((each for each in taken if isinstance(each, Rpc)), None)
        self._run = run or (rpc.run if rpc else None)
        self._local = local
        self._request = rpc.request if rpc else None
        own = [each for each in taken if not isinstance(each, Rpc)]
        self._taken = (JSON, *(() if local else OF_SERVICES), *(rpc.taken if rpc else ()), *own)

    def register(self, commands: Any) -> None:
        """Add it to the parser."""
        parser = commands.add_parser(self.name, help=self.summary, description=self.summary)
        parser.set_defaults(run=self._begin)
        for each in self._taken:
            each.add(parser, self._request)

    def _begin(self, options: argparse.Namespace, output: Output) -> int:
        """Run it, with the days that were typed as moments of the person whose days they are."""
        assert self._run is not None, f"{self.name} does nothing"
        typed = {name: each for name, each in vars(options).items() if isinstance(each, date)}
        person = getattr(options, "user_id", "") or getattr(options, "user", "")
        # A command that is no RPC of its own calls nothing in a dry run.
        silent = self._request is None and getattr(options, "dry_run", False)
        if zone := getattr(options, "time_zone", ""):
            use_zone(zone_named(zone))
        elif (
            person
            and not (self._local or silent)
            and any(needs_zone(each) for each in typed.values())
        ):
            with connect(options) as client:
                use_zone(zone_of(client.connection, person))
        for name, each in typed.items():
            setattr(options, name, last_moment(each) if name in _AT else first_moment(each))
        return self._run(options, output)


class CommandGroup:
    """A sub-command that has actions of its own."""

    def __init__(self, name: str, summary: str, *actions: Command) -> None:
        self.name, self.summary, self._actions = name, summary, actions

    def register(self, commands: Any) -> None:
        """Add it to the parser, with its actions."""
        parser = commands.add_parser(self.name, help=self.summary, description=self.summary)
        actions = parser.add_subparsers(title="actions", required=True, metavar="ACTION")
        for action in self._actions:
            action.register(actions)


def of(kind: type[Message], *options: Option) -> tuple[Option, ...]:
    """Options that set fields of a message within the request."""
    return tuple(replace(option, kind=kind) for option in options)
