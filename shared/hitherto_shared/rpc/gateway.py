"""The gates every call passes, as one interceptor; handlers behind it just return or raise.

In order: a request id; the credential; the access rule of the RPC (no rule, no entry); calls this
version does not offer; the bytes (undecodable ones are the caller's fault, where gRPC itself would
answer INTERNAL); the users and departments a bound credential may name, for which the database is
asked who belongs where. Health and reflection are let through or refused here too, so that there is
one place to look.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import grpc
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message

from hitherto_shared.auth.access import Rule
from hitherto_shared.auth.authenticate import Authenticator
from hitherto_shared.auth.departments import Departments
from hitherto_shared.errors import (
    HithertoError,
    InvalidRequest,
    NotAuthenticated,
    NotPermitted,
    NotYetAvailable,
    Violation,
)
from hitherto_shared.identifiers import uuid7
from hitherto_shared.rpc.call import Call, Context, current_call, enter, seconds_left
from hitherto_shared.rpc.status import abort, as_hitherto_error
from hitherto_shared.rpc.undecodable import undecodable_field

logger = logging.getLogger("hitherto.rpc")

_HEALTH = "/grpc.health.v1.Health/"
_REFLECTION = "/grpc.reflection."
_CREDENTIAL = "authorization"
_MAX_REQUEST_ID = 128
_LOOKUP_SECONDS = 5.0


_HANDLERS: dict[tuple[bool, bool], Callable[..., Any]] = {
    (False, False): grpc.unary_unary_rpc_method_handler,
    (False, True): grpc.unary_stream_rpc_method_handler,
    (True, False): grpc.stream_unary_rpc_method_handler,
    (True, True): grpc.stream_stream_rpc_method_handler,
}
"""How gRPC makes a handler, by (request is a stream, response is a stream)."""


class _Undecodable:
    """Stands for a request whose bytes are not the message they should be."""

    def __init__(self, data: bytes) -> None:
        self.data = data


class Gateway(grpc.aio.ServerInterceptor):  # type: ignore[misc,type-arg,unused-ignore]
    """Wraps every handler of a server; see the module's docstring."""

    def __init__(
        self,
        authenticator: Authenticator,
        departments: Departments,
        rules: Mapping[str, Rule],
        planned: Mapping[str, str],
        requests: Mapping[str, Descriptor],
        *,
        operator_tenant: str,
    ) -> None:
        self._authenticator = authenticator
        self._departments = departments
        self._rules = rules
        self._planned = planned
        self._requests = requests
        self._operator_tenant = operator_tenant

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        """Called by gRPC for every call, before its bytes are read."""
        handler = await continuation(handler_call_details)
        method = str(handler_call_details.method)
        if handler is None or method.startswith(_HEALTH):
            return handler
        return self._wrap(handler, method, _named(handler_call_details.invocation_metadata or ()))

    def _wrap(self, handler: Any, method: str, metadata: Mapping[str, Any]) -> Any:
        deserialize = handler.request_deserializer

        def decode(data: bytes) -> Any:
            try:
                return deserialize(data)
            except Exception:
                return _Undecodable(data)

        answers = self._stream if handler.response_streaming else self._unary
        make = _HANDLERS[handler.request_streaming, handler.response_streaming]
        return make(
            answers(handler, method, metadata),
            request_deserializer=decode,
            response_serializer=handler.response_serializer,
        )

    def _unary(self, handler: Any, method: str, metadata: Mapping[str, Any]) -> Any:
        behaviour = handler.stream_unary if handler.request_streaming else handler.unary_unary

        async def answer(request: Any, context: Context) -> Any:
            started = time.monotonic()
            request_id = _request_id(metadata)
            try:
                rule = await self._admit(method, metadata, request_id)
                checked = await self._checked(request, method, rule, context)
                response = await behaviour(checked, context)
            except Exception as error:
                await self._refuse(context, method, error, request_id)
            _log_answer(method, started)
            return response

        return answer

    def _stream(self, handler: Any, method: str, metadata: Mapping[str, Any]) -> Any:
        behaviour = handler.stream_stream if handler.request_streaming else handler.unary_stream

        async def answer(request: Any, context: Context) -> AsyncIterator[Any]:
            started = time.monotonic()
            request_id = _request_id(metadata)
            try:
                rule = await self._admit(method, metadata, request_id)
                checked = await self._checked(request, method, rule, context)
                responses = behaviour(checked, context)
                # A caller who leaves between two answers must end the handler's generator too.
                async with aclosing(responses):
                    async for response in responses:
                        yield response
            except Exception as error:
                await self._refuse(context, method, error, request_id)
            _log_answer(method, started)

        return answer

    async def _admit(
        self, method: str, metadata: Mapping[str, Any], request_id: str
    ) -> Rule | None:
        """Let the caller in, or raise; the access rule to hold the request against."""
        principal = await self._authenticator.authenticate(metadata.get(_CREDENTIAL))
        enter(Call(method, request_id, principal))
        if method.startswith(_REFLECTION):
            return None
        rule = self._rules.get(method)
        if rule is None:
            raise NotPermitted(
                "this call declares no access rule and is denied to everybody",
                reason="SCOPE_MISSING",
                metadata={"scope": "UNSPECIFIED", "method": method},
            )
        rule.check(principal, method, operator_tenant=self._operator_tenant)
        if (why := self._planned.get(method)) is not None:
            raise NotYetAvailable(
                f"{method.rpartition('/')[2]} is part of the contract and not offered by this "
                f"version: {why}",
                reason="CAPABILITY_NOT_AVAILABLE",
                metadata={"method": method},
            )
        return rule

    async def _checked(self, request: Any, method: str, rule: Rule | None, context: Context) -> Any:
        """The request, or the stream of requests, each held against the rule."""
        if isinstance(request, AsyncIterator) or hasattr(request, "__aiter__"):
            return self._checked_stream(request, method, rule, context)
        if isinstance(request, _Undecodable):
            raise self._undecodable(request.data, method)
        if rule is not None and isinstance(request, Message):
            await self._check_people(request, method, rule, context)
        return request

    async def _check_people(
        self, request: Message, method: str, rule: Rule, context: Context
    ) -> None:
        call = current_call()
        members = rule.check_request(call.principal, request, method)
        if not members:
            return
        await self._departments.check(
            call.principal, members, timeout=seconds_left(context, _LOOKUP_SECONDS)
        )
        if call.principal.user_id is not None:
            enter(replace(call, principal=call.principal.for_members()))

    async def _checked_stream(
        self, requests: Any, method: str, rule: Rule | None, context: Context
    ) -> AsyncIterator[Any]:
        async for request in requests:
            yield await self._checked(request, method, rule, context)

    def _undecodable(self, data: bytes, method: str) -> InvalidRequest:
        declared = self._requests.get(method)
        found = (
            undecodable_field(declared, data)
            if declared is not None
            else Violation("request", "is not the protobuf message this call takes")
        )
        return InvalidRequest(
            [Violation(found.field, found.description, "UNDECODABLE_REQUEST", {"method": method})]
        )

    async def _refuse(
        self, context: Context, method: str, error: Exception, request_id: str
    ) -> None:
        told: HithertoError = as_hitherto_error(error, request_id)
        facts = {"code": told.code.name, "reason": told.reason, "request_id": request_id}
        if isinstance(told, NotAuthenticated) and told.why:
            facts["why"] = told.why
        logger.info("%s refused", method, extra=facts)
        await abort(context, told)


def _named(sent: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """The metadata by name.

    Several credentials are put together and so are none: to pick one of them is to let somebody on
    the way choose who the caller is.
    """
    found: dict[str, Any] = {}
    for key, value in sent:
        several = key == _CREDENTIAL and key in found
        found[str(key)] = f"{found[key]}, {value}" if several else value
    return found


def _request_id(metadata: Mapping[str, Any]) -> str:
    given = metadata.get("x-request-id")
    if isinstance(given, str) and 0 < len(given) <= _MAX_REQUEST_ID and given.isprintable():
        return given
    return str(uuid7())


def _log_answer(method: str, started: float) -> None:
    logger.debug(
        "%s answered", method, extra={"milliseconds": round((time.monotonic() - started) * 1000, 2)}
    )
