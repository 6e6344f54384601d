"""One trace from an application through both services to their SQL and models, over OTLP."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator

import pytest
from opentelemetry.proto.trace.v1 import trace_pb2

from tests.faults.otlp import Collector, ReceivedSpan, collecting
from tests.faults.processes import ROOT, Processes
from tests.waiting import eventually

WORD = "zqcanary"
SUBMIT = "hitherto.v1.ExtractionService/SubmitTranscripts"
SEARCH = "hitherto.v1.RetrievalService/SearchMemories"
Kind = trace_pb2.Span.SpanKind

APPLICATION = f"""
import sys
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from hitherto_client import Hitherto

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
trace.set_tracer_provider(provider)
with Hitherto(retrieval=sys.argv[1], extraction=sys.argv[2]) as memory:
    memory.save_memory("{WORD}-user", "A {WORD} that can be found.")
    with trace.get_tracer("test").start_as_current_span("application"):
        memory.submit_transcripts(
            [{{"user_id": "{WORD}-user", "conversation_id": "{WORD}-talk",
               "messages": [{{"role": "user", "content": "Please remember canary:{WORD}."}}]}}]
        )
        memory.search("{WORD}-user", "canary {WORD}")
provider.shutdown()
"""


@pytest.fixture
async def collector() -> AsyncIterator[Collector]:
    async with collecting() as running:
        yield running


def only(spans: list[ReceivedSpan]) -> ReceivedSpan:
    assert len(spans) == 1, [each.name for each in spans]
    return spans[0]


def attempts(collector: Collector) -> list[ReceivedSpan]:
    """The successful attempts at the job of the submission; other jobs have other traces."""
    # A set, because the client may have repeated the call.
    traces = {each.span.trace_id for each in collector.named(SUBMIT, "hitherto-extraction")}
    return [
        each
        for each in collector.named("job memory-extraction")
        if {link.trace_id for link in each.span.links} == traces
        and each.attributes["hitherto.job.outcome"] == "succeeded"
    ]


async def run(code: str, *arguments: str, **settings: str) -> None:
    """Run an application in a process of its own."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, *arguments, cwd=ROOT, env=settings
    )
    assert await process.wait() == 0


async def test_one_trace_from_the_application_to_sql_and_from_a_job_to_its_submission(
    shared: Processes, collector: Collector
) -> None:
    """The extraction service and the application send by gRPC, the retrieval service by HTTP."""
    extraction = await shared.start("extraction", **collector.grpc_settings)
    retrieval = await shared.start(
        "retrieval", HITHERTO_EMBEDDING_DEADLINE_MS="60000", **collector.http_settings
    )
    await run(
        APPLICATION,
        retrieval.address,
        extraction.address,
        OTEL_SERVICE_NAME="an-application",
        **collector.grpc_settings,
    )
    await eventually(lambda: bool(attempts(collector)), "the span of the job")
    assert [await each.end() for each in (retrieval, extraction)] == [0, 0]

    application = only(collector.named("application"))
    callers = collector.below(application)
    assert [each.name for each in callers] == [SUBMIT, SEARCH]
    assert {each.span.kind for each in callers} == {Kind.SPAN_KIND_CLIENT}
    # An attempt that the client repeated on a busy machine is a span too.
    submit, search = (
        only([s for s in collector.below(each) if s.attributes["rpc.grpc.status_code"] == 0])
        for each in callers
    )
    assert (submit.name, submit.service) == (SUBMIT, "hitherto-extraction")
    assert (search.name, search.service) == (SEARCH, "hitherto-retrieval")
    for served in (submit, search):
        assert served.span.kind == Kind.SPAN_KIND_SERVER
        assert served.attributes["rpc.grpc.status_code"] == 0
        assert served.attributes["hitherto.request_id"]

    def below(parent: ReceivedSpan) -> set[str]:
        return {each.name for each in collector.below(parent)}

    assert any("enqueueing.enqueue" in name for name in below(submit)), below(submit)
    assert any("people." in name for name in below(search)), below(search)
    assert "model embedding" in below(search)
    legs = {event.name for event in search.span.events}
    assert {"leg keyword", "leg semantic"} <= legs

    # The attempt is a trace of its own, linked to the submission.
    job = only(attempts(collector))
    assert job.span.kind == Kind.SPAN_KIND_CONSUMER
    assert job.span.trace_id != submit.span.trace_id
    (link,) = job.span.links
    assert (link.trace_id, link.span_id) == (submit.span.trace_id, submit.span.span_id)
    assert job.attributes["hitherto.job.outcome"] == "succeeded"
    queued = [event for event in submit.span.events if event.name == "job queued"]
    (job_id,) = [
        each.value.string_value
        for event in queued
        for each in event.attributes
        if each.key == "hitherto.job.id"
    ]
    assert job.attributes["hitherto.job.id"] == job_id
    chat = only([each for each in collector.below(job) if each.name == "model chat"])
    assert chat.attributes["gen_ai.usage.input_tokens"] == 100
    assert any("memories.insert" in name for name in below(job)), below(job)
    # Logs lead to the trace.
    assert job.span.trace_id.hex() in extraction.said
    assert all(WORD.encode() not in data for data in collector.raw)


async def test_a_caller_may_leave_the_trace_out_and_a_collector_may_be_away(
    shared: Processes, collector: Collector
) -> None:
    """Calls are answered and the process ends in time; an unsampled call has no span."""
    extraction = await shared.start(
        "extraction",
        OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9",
        OTEL_BSP_SCHEDULE_DELAY="100",
    )
    retrieval = await shared.start("retrieval", **collector.grpc_settings)
    unsampled = """
import sys
from hitherto_client import Hitherto
with Hitherto(retrieval=sys.argv[1], extraction=sys.argv[2]) as memory:
    memory.save_memory("ana", "Ana drinks tea.")
    from hitherto.v1 import retrieval_service_pb2 as pb
    parent = "00-" + 32 * "a" + "-" + 16 * "b"
    for given in (parent + "-00", "nonsense", parent + "-01"):
        request = pb.ListMemoriesRequest(user_id="ana")
        memory.connection.retrieval.ListMemories(request, metadata=[("traceparent", given)])
assert not [name for name in sys.modules if name.startswith("opentelemetry")]
"""
    await run(unsampled, retrieval.address, extraction.address)
    assert [await each.end() for each in (retrieval, extraction)] == [0, 0]
    parents = [
        each.span.parent_span_id.hex()
        for each in collector.spans
        if each.name.endswith("ListMemories")
    ]
    assert list(dict.fromkeys(parents)) == ["", 16 * "b"]
