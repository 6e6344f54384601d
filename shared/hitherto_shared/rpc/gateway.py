"""The checks of every call, as one interceptor; handlers behind it just return or raise.

In order: a request id; the credential; the access rule of the RPC (no rule: denied); RPCs that this
version does not offer; the rates; a slot among the concurrent calls. So far nothing of the body is
read. Then the body, once there is room for it and within its time; decoding (undecodable bytes are
the caller's fault, although gRPC itself would answer INTERNAL); the rates of the users it names;
the users and departments that a restricted credential may name.

To gRPC every handler takes a stream of bytes, even those that take one message, because only then
does it call them before the body has arrived. Health checks need no credential and have slots of
their own.
"""

from __future__ import annotations

import asyncio
import logging
import math
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractContextManager, aclosing, suppress
from dataclasses import dataclass
from typing import Any

import grpc

from hitherto_shared.errors import (
    Exhausted,
    FieldViolation,
    HithertoError,
    InvalidRequest,
    NotAuthenticated,
    TooLate,
    invalid,
)
from hitherto_shared.offloading import in_thread, in_thread_if_long
from hitherto_shared.rpc.admission import (
    Admission,
    CredentialInUse,
    Requirements,
    named,
    request_id,
)
from hitherto_shared.rpc.bodies import (
    MAX_BODY_BYTES,
    MAX_REPLY_BYTES,
    MAX_REQUEST_BYTES,
    WAIT_SECONDS,
    Body,
)
from hitherto_shared.rpc.call import Context, maybe_current_call
from hitherto_shared.rpc.decoding import COUNTED_BYTES, Decoder
from hitherto_shared.rpc.edge_settings import EdgeSettings
from hitherto_shared.rpc.observed_call import ObservedCall
from hitherto_shared.rpc.rates import Meter
from hitherto_shared.rpc.repeated_lines import call_lines
from hitherto_shared.rpc.slots import CallSlots, HealthSlots
from hitherto_shared.rpc.status import abort, as_hitherto_error
from hitherto_shared.shares import Owner, Shares, Turns, owner_at_work

HEALTH = "/grpc.health.v1.Health/"
REFLECTION = "/grpc.reflection."
_MAX_FOREIGN_BYTES = 4 * 1024
"""Requests of health and reflection contain a name and no more."""
_DROP_SECONDS = 10.0
"""Longest time that the rest of a refused stream is read and dropped."""
_DROP_IDLE_SECONDS = 1.0
"""The same while nothing arrives."""
_STAYS = "; what was stored stays, and starting again from the beginning does no harm"
"""Added to what this module refuses after the first item of a stream. It is true of every stream:
the contract says so at each."""


@dataclass(frozen=True, slots=True)
class _Method:
    """One method as the gateway runs it.

    Attributes:
        needs: The requirements on its callers; None for health, which has none.
        max_bytes: Of one request; None if gRPC's own limit is enough.
        behaviour: The handler; it may return a response that it has serialized itself.
        serialize: Of its other responses.
        streams_requests: Whether it takes a stream of requests.
    """

    name: str
    needs: Requirements | None
    decoder: Decoder
    max_bytes: int | None
    behaviour: Callable[..., Any]
    serialize: Callable[[Any], bytes]
    streams_requests: bool


class Gateway(grpc.aio.ServerInterceptor):  # type: ignore[misc,type-arg,unused-ignore]
    """Wraps every handler of a server; see the module's docstring."""

    def __init__(
        self,
        settings: EdgeSettings,
        admission: Admission,
        needs: Mapping[str, Requirements],
    ) -> None:
        """A gateway.

        A method that `needs` does not name cannot be called.
        """
        self._settings = settings
        self._admission = admission
        self._needs = needs
        shares = (settings.tenant_share, settings.user_share)
        self._places = CallSlots(Shares(settings.max_concurrent_rpcs, *shares))
        self._bodies = Turns(
            Shares(settings.max_body_bytes, *shares, least=MAX_BODY_BYTES), MAX_BODY_BYTES
        )
        self._health = HealthSlots()
        # A health check never waits for room; the slots of a connection limit what it can send.
        self._health_bodies = Turns(Shares(sys.maxsize, 1.0, 1.0), MAX_BODY_BYTES)
        # Only one large body at a time: counting the elements of 4 MiB may take 50 MB.
        self._large = Turns(Shares(1, 1.0, 1.0))
        self._handlers: dict[str, Any] = {}

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        """Called by gRPC for every call, before its bytes are read."""
        name = str(handler_call_details.method)
        handler = self._handlers.get(name)
        if handler is None and (found := await continuation(handler_call_details)) is not None:
            handler = self._handlers[name] = self._wrap(found, name)
        return handler

    def _wrap(self, handler: Any, name: str) -> Any:
        streams_requests, streams_responses = handler.request_streaming, handler.response_streaming
        behaviour = {
            (False, False): handler.unary_unary,
            (False, True): handler.unary_stream,
            (True, False): handler.stream_unary,
            (True, True): handler.stream_stream,
        }[streams_requests, streams_responses]
        needs = self._requirements(name)
        request = needs.request if needs is not None else None
        method = _Method(
            name,
            needs,
            Decoder(name, handler.request_deserializer, request),
            None if request is not None else _MAX_FOREIGN_BYTES,
            behaviour,
            handler.response_serializer,
            streams_requests,
        )
        if streams_responses:
            return grpc.stream_stream_rpc_method_handler(self._stream(method))
        return grpc.stream_unary_rpc_method_handler(self._unary(method))

    def _requirements(self, name: str) -> Requirements | None:
        if name.startswith(HEALTH):
            return None
        if name.startswith(REFLECTION):
            return Requirements(name, None, reflection=True)
        return self._needs.get(name) or Requirements(name, None)

    def _unary(self, method: _Method) -> Callable[[Any, Context], Awaitable[bytes]]:
        # A slow stream of requests may have waited for its caller.
        logged = self._settings.slow_call_ms and not method.streams_requests
        slow_seconds = self._settings.slow_call_ms / 1000 if logged else math.inf

        async def answer(_: Any, context: Context) -> bytes:
            with _observed(method, context, slow_seconds) as call:
                try:
                    place, body, meter = await self._enter(method, call, context)
                    with place, body:
                        request = await self._request(method, call, body, meter, context)
                        try:
                            reply = await method.behaviour(request, context)
                        except Exception:
                            if method.streams_requests:
                                await _drop_the_rest(body, context)
                            raise
                        response = reply if isinstance(reply, bytes) else method.serialize(reply)
                        _check_size(response)
                        if meter is not None:
                            meter.count(len(response))
                except Exception as error:
                    await self._refuse(context, call, error)
            return response

        return answer

    def _stream(self, method: _Method) -> Callable[[Any, Context], Awaitable[None]]:
        async def answer(_: Any, context: Context) -> None:
            with _observed(method, context, math.inf) as call:
                try:
                    place, body, meter = await self._enter(method, call, context)
                    credential = self._credential(method, call)
                    with place, body:
                        request = await self._request(method, call, body, meter, context)
                        # If the caller leaves between two replies, the handler's generator must end
                        # too.
                        async with aclosing(method.behaviour(request, context)) as responses:
                            async for response in responses:
                                data = method.serialize(response)
                                _check_size(data)
                                if meter is not None:
                                    meter.count(len(data))
                                if credential is not None and await credential.changed():
                                    await self._checked(method, request, context)
                                await self._send(context, data)
                except Exception as error:
                    await self._refuse(context, call, error)

        return answer

    async def _enter(
        self, method: _Method, call: ObservedCall, context: Context
    ) -> tuple[AbstractContextManager[Any], Body, Meter | None]:
        """The slot of an admitted call, its body, and its meter, if any."""
        if method.needs is None:
            place = self._health.place(context.peer(), watch=method.name.endswith("/Watch"))
            return place, Body(self._health_bodies, Owner("")), None
        meter = await self._admission.admit(method.needs, call.metadata, call.request_id)
        owner = owner_at_work()
        return self._places.place(owner), Body(self._bodies, owner), meter

    def _credential(self, method: _Method, call: ObservedCall) -> CredentialInUse | None:
        if method.needs is None:
            return None
        return self._admission.credential_in_use(method.needs, call.metadata)

    async def _request(
        self,
        method: _Method,
        call: ObservedCall,
        body: Body,
        meter: Meter | None,
        context: Context,
    ) -> Any:
        """The handler's input: the request, or the stream of requests."""
        if method.streams_requests:
            credential = self._credential(method, call)
            return self._stream_of_requests(method, credential, body, meter, context)
        seconds = self._settings.body_seconds
        await body.room()
        try:
            async with asyncio.timeout(seconds):
                data = await context.read()
        except TimeoutError:
            raise TooLate(
                f"the body of the request did not arrive within {seconds:g} seconds",
                reason="DEADLINE_EXCEEDED",
            ) from None
        if data is grpc.aio.EOF:
            raise InvalidRequest([FieldViolation("request", "is missing")])
        body.holds(len(data))
        request = await self._decoded(method, data)
        if meter is not None:
            meter.request(await in_thread_if_long(len(data), _users, method, request), len(data))
        return await self._checked(method, request, context)

    async def _stream_of_requests(
        self,
        method: _Method,
        credential: CredentialInUse | None,
        body: Body,
        meter: Meter | None,
        context: Context,
    ) -> AsyncIterator[Any]:
        seconds = self._settings.stream_idle_seconds
        begun = False
        while True:
            # The previous item is done. A stream that has begun is delayed, not ended.
            body.holds(0)
            try:
                await body.room(seconds if begun else WAIT_SECONDS)
                try:
                    async with asyncio.timeout(seconds):
                        data = await context.read()
                except TimeoutError:
                    raise TooLate(
                        f"the stream received nothing for {seconds:g} seconds",
                        reason="DEADLINE_EXCEEDED",
                    ) from None
                if data is grpc.aio.EOF:
                    return
                if credential is not None:
                    await credential.changed()
                body.holds(len(data))
                request = await self._decoded(method, data)
                if meter is not None:
                    users = await in_thread_if_long(len(data), _users, method, request)
                    await meter.item(users, len(data))
                request = await self._checked(method, request, context)
            except HithertoError as error:
                if begun:
                    error.message += _STAYS
                raise
            begun = True
            yield request

    async def _decoded(self, method: _Method, data: Any) -> Any:
        if method.max_bytes is not None and len(data) > method.max_bytes:
            raise invalid("request", f"must be at most {method.max_bytes} bytes")
        if len(data) > MAX_REQUEST_BYTES:
            raise Exhausted(
                f"a request may have at most {MAX_REQUEST_BYTES:,} bytes, and this one has "
                f"{len(data):,}: send less at once",
                reason="REQUEST_TOO_LARGE",
                metadata={"max_bytes": str(MAX_REQUEST_BYTES)},
            )
        if len(data) <= COUNTED_BYTES:
            return await in_thread_if_long(len(data), method.decoder.decode, data)
        async with self._large.turn(owner_at_work()):
            return await in_thread(method.decoder.decode, data)

    async def _checked(self, method: _Method, request: Any, context: Context) -> Any:
        """The request, checked against the rule."""
        if method.needs is not None:
            await self._admission.check_people(method.needs, request, context)
        return request

    async def _send(self, context: Context, response: bytes) -> None:
        seconds = self._settings.stream_unread_seconds
        try:
            async with asyncio.timeout(seconds):
                await context.write(response)
        except TimeoutError:
            raise TooLate(
                f"this stream was ended because the client read nothing for {seconds:g} seconds",
                reason="DEADLINE_EXCEEDED",
            ) from None

    async def _refuse(self, context: Context, observed: ObservedCall, error: Exception) -> None:
        if isinstance(error, grpc.aio.AbortError):
            observed.code = getattr(context.code(), "name", "UNKNOWN")
            raise error  # of the health service, which has given the reason
        refusal: HithertoError = as_hitherto_error(error, observed.request_id)
        observed.code, observed.reason = refusal.code.name, refusal.reason
        kind = {"code": refusal.code.name, "reason": refusal.reason}
        if (call := maybe_current_call()) is not None:
            kind["tenant_id"] = call.principal.tenant_id
        if isinstance(refusal, NotAuthenticated) and refusal.why:
            kind["why"] = refusal.why
        facts = {"request_id": observed.request_id}
        call_lines.say(logging.INFO, f"{observed.method} refused", kind, facts)
        await abort(context, refusal)


async def _drop_the_rest(body: Body, context: Context) -> None:
    """Read what a caller is still sending, one message at a time, before the stream is refused.

    If the call ends while a message is on its way, gRPC's asyncio client reports INTERNAL in place
    of the reason.
    """
    with suppress(TimeoutError, HithertoError, grpc.aio.BaseError, asyncio.InvalidStateError):
        async with asyncio.timeout(_DROP_SECONDS):
            data: Any = None
            while data is not grpc.aio.EOF:
                body.holds(0)
                await body.room()
                async with asyncio.timeout(_DROP_IDLE_SECONDS):
                    data = await context.read()


def _check_size(reply: bytes) -> None:
    """Raise Exhausted for a reply that is too large: gRPC would not send it, nor say why."""
    if len(reply) > MAX_REPLY_BYTES:
        raise Exhausted(
            f"a reply may have at most {MAX_REPLY_BYTES:,} bytes, and this one would have "
            f"{len(reply):,}: ask for less at once",
            reason="REQUEST_TOO_LARGE",
            metadata={"max_bytes": str(MAX_REPLY_BYTES)},
        )


def _observed(method: _Method, context: Context, slow_seconds: float) -> ObservedCall:
    metadata = named(context.invocation_metadata() or ())
    traced = method.needs is not None
    return ObservedCall(method.name, request_id(metadata), slow_seconds, metadata, traced=traced)


def _users(method: _Method, request: Any) -> Iterable[str]:
    """The users that a request names."""
    rule = method.needs.rule if method.needs is not None else None
    return rule.named_users(request) if rule is not None else ()
