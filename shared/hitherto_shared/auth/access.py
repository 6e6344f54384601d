"""The access rule of each RPC, read from the option `(hitherto.v1.access)` in the protos.

An RPC without a rule is denied to everybody.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message import Message

from hitherto.v1 import access_pb2
from hitherto_shared.auth.principal import (
    ANOTHER_USER,
    DEFAULT_TENANT,
    NOT_LISTED,
    Principal,
    user_not_allowed,
)
from hitherto_shared.validation import normal_identifier

_SCOPE_NAMES = {
    access_pb2.ACCESS_SCOPE_READ: "read",
    access_pb2.ACCESS_SCOPE_WRITE: "write",
    access_pb2.ACCESS_SCOPE_MAINTENANCE: "maintenance",
    access_pb2.ACCESS_SCOPE_ADMIN: "admin",
}


@dataclass(frozen=True, slots=True)
class AccessRule:
    """The requirements of one RPC.

    Attributes:
        scope: read, write, maintenance or admin.
        user_path: Field names leading to the user in the request; empty if it names none.
        user_optional: Whether the user may be left out, meaning everybody the caller may act for.
        department_path: Field names leading to the department in the request.
        capability: A named right that calls about another user require; empty if none.
        own_scope: The scope that is enough for a user's own data, or None.
        department_members: Whether a user may also name members of the credential's departments.
        installation: Whether the call concerns all tenants and is reserved for the operator.
    """

    scope: str
    user_path: tuple[str, ...]
    user_optional: bool = False
    department_path: tuple[str, ...] = ()
    capability: str = ""
    own_scope: str | None = None
    department_members: bool = False
    installation: bool = False

    def check(
        self, principal: Principal, method: str, *, operator_tenant: str = DEFAULT_TENANT
    ) -> None:
        """Refuse a caller whose credential permits no request of this method.

        Credentials of `operator_tenant` may change the whole installation.

        Raises:
            NotPermitted: The scope is missing; or the call concerns the whole tenant and the caller
                is restricted to a part of it; or it concerns all tenants and the caller is not the
                operator's.
        """
        own = self.own_scope in principal.scopes and principal.user_id is not None
        if not own:
            principal.check_scope(self.scope, method)
        if self._about_the_tenant and not principal.unbound:
            raise user_not_allowed(
                "this call is about the whole tenant and the credential is bound to users or to "
                "departments"
            )
        if self.installation and principal.tenant_id != operator_tenant:
            raise user_not_allowed(
                "this call is about all tenants of the installation: it needs a credential of "
                "the operator's tenant, which HITHERTO_OPERATOR_TENANT names"
            )

    def check_request(self, principal: Principal, request: Message, method: str) -> frozenset[str]:
        """Refuse a request that names a user or a department that the caller may not name.

        If the user may be left out, the caller's own is filled in, so that no handler can forget
        to.

        Returns:
            The users in the request other than the caller and those on its list, in normal form:
                they must be in one of the caller's departments. Empty if nothing is left to look
                up.

        Raises:
            NotPermitted: The request names a user or department that is not the caller's, or
                requires a further right.
        """
        for department in _values(request, self.department_path) if self.department_path else ():
            if department:
                principal.check_department(
                    ".".join(self.department_path), normal_identifier(department)
                )
        if not self.user_path:
            return frozenset()
        if self.user_optional and not getattr(request, self.user_path[0]):
            self._fill_in(principal, request)
            return frozenset()
        others = self.named_users(request)
        if principal.user_id is not None:
            others.discard(principal.user_id)
        if not others:
            return frozenset()
        if self.capability:
            principal.check_capability(self.capability)
        if principal.user_id is not None and not self.department_members:
            raise user_not_allowed(ANOTHER_USER)
        principal.check_scope(self.scope, method)
        return _to_look_up(principal, others)

    def named_users(self, request: Message) -> set[str]:
        """The users in a request, in normal form, which handlers compare too."""
        if not self.user_path:
            return set()
        return {normal_identifier(user_id) for user_id in _values(request, self.user_path)}

    def _fill_in(self, principal: Principal, request: Message) -> None:
        """Let a request that names no user be about the caller, or about everybody."""
        if principal.user_id is not None:
            setattr(request, self.user_path[0], principal.user_id)
        elif principal.users is not None:
            raise user_not_allowed("this credential is bound to a list of users: name one of them")
        elif not principal.unbound:
            raise user_not_allowed(
                "this credential is bound to departments: name one of their users"
            )

    @property
    def _about_the_tenant(self) -> bool:
        """Whether a request is about everybody.

        A job, which has a user, is checked when it is found.
        """
        return self.installation or (not self.user_path and self.scope in ("maintenance", "admin"))


def _to_look_up(principal: Principal, others: set[str]) -> frozenset[str]:
    """Those of `others` to whom the caller has access only by their department."""
    if principal.unbound:
        return frozenset()
    unlisted = frozenset(user_id for user_id in others if not principal.lists(user_id))
    if unlisted and principal.users is not None and not principal.departments:
        raise user_not_allowed(NOT_LISTED)
    return unlisted


def rules_of(services: Iterable[ServiceDescriptor]) -> dict[str, AccessRule]:
    """The rule of every declared method, by its full name `/package.Service/Method`."""
    found: dict[str, AccessRule] = {}
    for service in services:
        for method in service.methods:
            declared = method.GetOptions().Extensions[access_pb2.access]
            if declared.scope in _SCOPE_NAMES:
                found[f"/{service.full_name}/{method.name}"] = AccessRule(
                    _SCOPE_NAMES[declared.scope],
                    _path(declared.user_field),
                    declared.user_optional,
                    _path(declared.department_field),
                    declared.capability,
                    _SCOPE_NAMES.get(declared.own_scope),
                    declared.department_members,
                    declared.installation,
                )
    return found


def _path(field: str) -> tuple[str, ...]:
    return tuple(field.split(".")) if field else ()


def _values(message: Any, path: tuple[str, ...]) -> Iterator[str]:
    value = getattr(message, path[0])
    if len(path) == 1:
        yield value
    elif isinstance(value, Message):
        yield from _values(value, path[1:])
    else:
        for item in value:
            yield from _values(item, path[1:])
