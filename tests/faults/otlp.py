"""A collector of traces that speaks OTLP over gRPC and over HTTP, and what it has received."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
from aiohttp import web
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from opentelemetry.proto.trace.v1 import trace_pb2


@dataclass(frozen=True)
class ReceivedSpan:
    """A span, and the name of the service that sent it."""

    service: str
    span: trace_pb2.Span

    @property
    def name(self) -> str:
        return self.span.name

    @property
    def attributes(self) -> dict[str, Any]:
        return {each.key: _value(each.value) for each in self.span.attributes}


@dataclass
class Collector:
    """What has arrived so far.

    Attributes:
        grpc_settings: Variables of a process that shall send by gRPC.
        http_settings: The same for HTTP.
    """

    grpc_settings: dict[str, Any] = field(default_factory=dict)
    http_settings: dict[str, Any] = field(default_factory=dict)
    spans: list[ReceivedSpan] = field(default_factory=list)
    raw: list[bytes] = field(default_factory=list)

    def take(self, request: trace_service_pb2.ExportTraceServiceRequest) -> None:
        self.raw.append(request.SerializeToString())
        for resource in request.resource_spans:
            told = {each.key: _value(each.value) for each in resource.resource.attributes}
            for scope in resource.scope_spans:
                self.spans += [
                    ReceivedSpan(str(told.get("service.name")), span) for span in scope.spans
                ]

    def named(self, name: str, service: str | None = None) -> list[ReceivedSpan]:
        return [
            each for each in self.spans if each.name == name and service in (None, each.service)
        ]

    def below(self, parent: ReceivedSpan) -> list[ReceivedSpan]:
        """The children of a span, in its trace."""
        return [
            each
            for each in self.spans
            if each.span.parent_span_id == parent.span.span_id
            and each.span.trace_id == parent.span.trace_id
        ]


@asynccontextmanager
async def collecting() -> AsyncIterator[Collector]:
    """A collector on two free ports."""
    collector = Collector()

    class Traces(trace_service_pb2_grpc.TraceServiceServicer):
        async def Export(self, request: Any, context: Any) -> Any:
            collector.take(request)
            return trace_service_pb2.ExportTraceServiceResponse()

    async def posted(request: web.Request) -> web.Response:
        found = trace_service_pb2.ExportTraceServiceRequest()
        found.ParseFromString(await request.read())
        collector.take(found)
        return web.Response(
            body=trace_service_pb2.ExportTraceServiceResponse().SerializeToString(),
            content_type="application/x-protobuf",
        )

    server = grpc.aio.server()
    add: Any = trace_service_pb2_grpc.add_TraceServiceServicer_to_server  # it has no types
    add(Traces(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    application = web.Application()
    application.router.add_post("/v1/traces", posted)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    # Spans are sent soon, so that a test needs not wait for them.
    soon = {"OTEL_BSP_SCHEDULE_DELAY": "100"}
    collector.grpc_settings = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}",
        **soon,
    }
    host, http_port = runner.addresses[0][:2]
    collector.http_settings = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{host}:{http_port}",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        **soon,
    }
    try:
        yield collector
    finally:
        await runner.cleanup()
        await server.stop(None)


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    return getattr(value, kind) if kind else None
