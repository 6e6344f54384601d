"""What each RPC needs, read from the option `(recollect.v1.access)` in the protos.

An RPC without a rule is denied to everybody.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message import Message

from recollect.v1 import access_pb2
from recollect_shared.auth.principal import Principal
from recollect_shared.errors import NotPermitted
from recollect_shared.text.normalise import nfc

_SCOPE_NAMES = {
    access_pb2.ACCESS_SCOPE_READ: "read",
    access_pb2.ACCESS_SCOPE_WRITE: "write",
    access_pb2.ACCESS_SCOPE_MAINTENANCE: "maintenance",
    access_pb2.ACCESS_SCOPE_ADMIN: "admin",
}


@dataclass(frozen=True, slots=True)
class Rule:
    """The need of one RPC.

    Attributes:
        scope: read, write, maintenance or admin.
        user_path: Field names leading to the user the request is about; empty if it names none.
        user_optional: The user may be left out, meaning everybody the caller may act for.
    """

    scope: str
    user_path: tuple[str, ...]
    user_optional: bool = False

    def check(self, principal: Principal, method: str) -> None:
        """Refuse a caller whose credential lacks the scope.

        Raises:
            NotPermitted: It does.
        """
        if self.scope not in principal.scopes:
            raise NotPermitted(
                f"this call needs a credential with scope `{self.scope}`",
                reason="SCOPE_MISSING",
                metadata={"scope": self.scope.upper(), "method": method},
            )

    def check_request(self, principal: Principal, request: Message) -> None:
        """Refuse a caller bound to one user who names another.

        Where the user may be left out, the caller's own is filled in, so that no handler can
        forget to.

        Raises:
            NotPermitted: The request is about somebody else.
        """
        if principal.user_id is None or not self.user_path:
            return
        if self.user_optional and not getattr(request, self.user_path[0]):
            setattr(request, self.user_path[0], principal.user_id)
            return
        for user_id in _values(request, self.user_path):
            # Handlers compare in normal form too.
            principal.scope(nfc(user_id))


def rules_of(services: Iterable[ServiceDescriptor]) -> dict[str, Rule]:
    """The rule of every declared method, by its full name `/package.Service/Method`."""
    found: dict[str, Rule] = {}
    for service in services:
        for method in service.methods:
            declared = method.GetOptions().Extensions[access_pb2.access]
            if declared.scope in _SCOPE_NAMES:
                path = tuple(declared.user_field.split(".")) if declared.user_field else ()
                found[f"/{service.full_name}/{method.name}"] = Rule(
                    _SCOPE_NAMES[declared.scope], path, declared.user_optional
                )
    return found


def _values(message: Any, path: tuple[str, ...]) -> Iterator[str]:
    value = getattr(message, path[0])
    if len(path) == 1:
        yield value
    elif isinstance(value, Message):
        yield from _values(value, path[1:])
    else:
        for item in value:
            yield from _values(item, path[1:])
