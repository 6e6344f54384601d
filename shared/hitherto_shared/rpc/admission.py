"""Admission: decided on the metadata of a call alone, before a byte of its body is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from google.protobuf.descriptor import Descriptor, ServiceDescriptor
from google.protobuf.descriptor_pb2 import MethodOptions
from google.protobuf.message import Message

from hitherto_shared.auth.access import AccessRule, rules_of
from hitherto_shared.auth.authenticate import Authenticator
from hitherto_shared.auth.departments import Departments
from hitherto_shared.auth.principal import Principal
from hitherto_shared.errors import NotPermitted, NotYetAvailable
from hitherto_shared.identifiers import uuid7
from hitherto_shared.offloading import in_thread_if_long
from hitherto_shared.rpc.call import Call, Context, current_call, enter, seconds_left
from hitherto_shared.rpc.edge_settings import EdgeSettings
from hitherto_shared.rpc.planned import PLANNED
from hitherto_shared.rpc.rates import Meter, limits_of

_CREDENTIAL = "authorization"
_MAX_REQUEST_ID = 128
_LOOKUP_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Requirements:
    """The requirements of one method.

    Attributes:
        method: Full name `/package.Service/Method`.
        rule: Its access rule; None if it declares none and is denied to everybody.
        planned: Why this version does not offer it; None if it does.
        reads: Whether it says that it changes nothing.
        request: The type of its requests; None if it is not one of ours.
        reflection: Whether it is part of server reflection, which any credential may use.
    """

    method: str
    rule: AccessRule | None
    planned: str | None = None
    reads: bool = False
    request: Descriptor | None = None
    reflection: bool = False


def requirements_of(services: Iterable[ServiceDescriptor]) -> dict[str, Requirements]:
    """The requirements of every declared method, by its full name."""
    services = list(services)
    rules = rules_of(services)
    found = {}
    for service in services:
        for method in service.methods:
            name = f"/{service.full_name}/{method.name}"
            found[name] = Requirements(
                name,
                rules.get(name),
                PLANNED.get(f"{service.name}/{method.name}"),
                method.GetOptions().idempotency_level == MethodOptions.NO_SIDE_EFFECTS,
                method.input_type,
            )
    return found


class Admission:
    """Checks callers, then their requests."""

    def __init__(
        self,
        authenticator: Authenticator,
        departments: Departments,
        settings: EdgeSettings,
        *,
        operator_tenant: str,
    ) -> None:
        self._authenticator = authenticator
        self._departments = departments
        self._operator_tenant = operator_tenant
        self._reads, self._writes = limits_of(settings)

    async def admit(
        self, needs: Requirements, metadata: Mapping[str, Any], request_id: str
    ) -> Meter:
        """Admit the caller as the current call of this task, and count the call.

        Raises:
            NotAuthenticated: There is no valid credential.
            Exhausted: The tenant or the user exceeds a rate limit.
            NotPermitted: The credential permits no request of this method.
            NotYetAvailable: This version does not offer it.
        """
        principal = await self._authenticator.authenticate(metadata.get(_CREDENTIAL))
        enter(Call(needs.method, request_id, principal))
        limits = self._reads if needs.reads else self._writes
        meter = Meter(limits, principal.tenant_id, principal.user_id)
        meter.begin()
        if needs.reflection:
            return meter
        if needs.rule is None:
            raise NotPermitted(
                "this call declares no access rule, so it is denied to everybody",
                reason="SCOPE_MISSING",
                metadata={"scope": "UNSPECIFIED", "method": needs.method},
            )
        needs.rule.check(principal, needs.method, operator_tenant=self._operator_tenant)
        if needs.planned is not None:
            raise NotYetAvailable(
                f"{needs.method.rpartition('/')[2]} is part of the contract and not offered by "
                f"this version: {needs.planned}",
                reason="CAPABILITY_NOT_AVAILABLE",
                metadata={"method": needs.method},
            )
        return meter

    def credential_in_use(
        self, needs: Requirements, metadata: Mapping[str, Any]
    ) -> CredentialInUse:
        """That of the caller who was just admitted."""
        rule = needs.rule

        def check(principal: Principal) -> None:
            if rule is not None:
                rule.check(principal, needs.method, operator_tenant=self._operator_tenant)

        return CredentialInUse(self._authenticator, metadata.get(_CREDENTIAL), check)

    async def check_people(self, needs: Requirements, request: Any, context: Context) -> None:
        """Raise NotPermitted if the caller may not name a user or department of a request."""
        if needs.rule is None or not isinstance(request, Message):
            return
        call = current_call()
        members = await in_thread_if_long(
            request.ByteSize(), needs.rule.check_request, call.principal, request, needs.method
        )
        if not members:
            return
        await self._departments.check(
            call.principal, members, timeout=seconds_left(context, _LOOKUP_SECONDS)
        )
        if call.principal.user_id is not None:
            enter(replace(call, principal=call.principal.for_members()))


class CredentialInUse:
    """The credential of a stream that goes on: a key does not outlive its revocation in one."""

    def __init__(
        self,
        authenticator: Authenticator,
        credential: str | None,
        check: Callable[[Principal], None],
    ) -> None:
        """That of the current call; `check` raises if a caller may not make it."""
        self._authenticator = authenticator
        self._credential = credential
        self._check = check
        self._principal = current_call().principal

    async def changed(self) -> bool:
        """Whether the credential permits something else than before; the call goes on with that.

        Raises:
            NotAuthenticated: It is no longer valid.
            NotPermitted: It no longer permits this call.
        """
        if not self._authenticator.revocable:
            return False
        found = await self._authenticator.authenticate(self._credential)
        if found == self._principal:
            return False
        self._check(found)
        self._principal = found
        enter(replace(current_call(), principal=found))
        return True


def named(sent: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """The metadata of a call by name.

    Several credentials are joined and so become invalid: picking one of them would let an
    intermediary choose the caller.
    """
    found: dict[str, Any] = {}
    for key, value in sent:
        several = key == _CREDENTIAL and key in found
        found[str(key)] = f"{found[key]}, {value}" if several else value
    return found


def request_id(metadata: Mapping[str, Any]) -> str:
    """The id under which a call is logged: the caller's own if it is suitable."""
    given = metadata.get("x-request-id")
    if isinstance(given, str) and 0 < len(given) <= _MAX_REQUEST_ID and given.isprintable():
        return given
    return str(uuid7())
