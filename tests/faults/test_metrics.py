"""Metrics of real processes, scraped over HTTP; of several processes as one."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import grpc
import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.faults.processes import Processes, Service
from tests.waiting import eventually

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


async def scraped(service: Service) -> tuple[str, Samples]:
    """The page, and its samples by name and labels."""
    found = re.search(r"metrics on port (\d+)", service.said)
    assert found is not None
    async with httpx2.AsyncClient() as http:
        page = (await http.get(f"http://127.0.0.1:{found[1]}/metrics")).text
    return page, {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }


def value(samples: Samples, name: str, **labels: str) -> float:
    return samples.get((name, frozenset(labels.items())), 0.0)


async def test_metrics_show_what_services_do_and_the_sum_of_several_processes(
    shared: Processes,
) -> None:
    extraction = await shared.start(
        "extraction", HITHERTO_METRICS_LISTEN="127.0.0.1:0", HITHERTO_METRICS_TENANTS="true"
    )
    retrieval = await shared.start(
        "retrieval", HITHERTO_METRICS_LISTEN="127.0.0.1:0", HITHERTO_READ_PROCESSES="2"
    )
    user: dict[str, Any] = {"user_id": "zoë-canary"}
    await extraction.ask("MemoryService/SaveMemory", content="Likes tea.", **user)
    with pytest.raises(grpc.aio.AioRpcError):
        await extraction.ask("MemoryService/SaveMemory")
    await eventually(lambda: "2 processes serve" in retrieval.said, "both to serve")

    async def searches() -> None:
        """Each over a connection of its own, so that the kernel may choose another process."""
        for _ in range(5):
            await retrieval.ask("RetrievalService/SearchMemories", query="tea", **user)

    await asyncio.gather(*(searches() for _ in range(4)))

    page, samples = await scraped(extraction)
    assert "canary" not in page
    save = {"method": "MemoryService/SaveMemory"}
    assert value(samples, "hitherto_rpcs_total", code="OK", reason="", **save) == 1
    invalid = {"code": "INVALID_ARGUMENT", "reason": "INVALID_FIELD", **save}
    assert value(samples, "hitherto_rpcs_total", **invalid) == 1
    assert value(samples, "hitherto_rpc_duration_seconds_count", **save) == 2
    embedded = {"stage": "embedding", "direction": "input", "tenant": "default"}
    assert value(samples, "hitherto_charged_tokens_total", **embedded) > 0
    page, samples = await scraped(retrieval)
    assert "canary" not in page
    assert value(samples, "hitherto_search_legs_total", leg="keyword", state="ran") == 20
    answered = {"method": "RetrievalService/SearchMemories", "code": "OK", "reason": ""}
    assert value(samples, "hitherto_rpcs_total", **answered) == 20
    assert [await each.end() for each in (retrieval, extraction)] == [0, 0]
