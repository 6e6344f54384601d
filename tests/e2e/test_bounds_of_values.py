"""Bounds that hold: the end of a statement, the least score, what may be merged."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from hitherto.v1 import memory_pb2
from hitherto.v1 import retrieval_service_pb2 as retrieval
from tests.e2e.conftest import Services
from tests.e2e.curating import save, update
from tests.e2e.learning import memories
from tests.e2e.merging import (
    ONE_STYLE,
    STYLE,
    STYLES,
    all_into,
    consolidate,
    contents,
    say,
    script,
)
from tests.e2e.sessions import refusal_of


async def test_e3_a_statement_does_not_end_before_it_began(services: Services) -> None:
    began = datetime(2024, 3, 1, tzinfo=UTC)
    saved = (await save(services, "Ana works at Acme", valid_from=began)).memory
    early = began - timedelta(microseconds=1)
    refusal = await refusal_of(update(services, saved.id, valid_to=early))
    assert set(refusal.fields) == {"memory.valid_to"}
    assert [found.version for found in await memories(services)] == [1]
    ended = await update(services, saved.id, valid_to=began + timedelta(days=1))
    assert ended.valid_to.ToDatetime(UTC) == began + timedelta(days=1)


async def test_d1_without_a_query_nothing_reaches_a_least_score(services: Services) -> None:
    """Nothing has a score then: a bound above 0 leaves all out, 0 and none leave all in."""
    await save(services, "Ana likes tea")
    for bound, expected in ((None, 1), (0.0, 1), (-1.0, 1), (0.001, 0), (1.0, 0)):
        asked = retrieval.SearchMemoriesRequest(user_id="ana", min_score=bound)
        found = await services.retrieval.SearchMemories(asked)
        assert len(found.results) == expected, bound


@pytest.mark.parametrize("kept", ["expiring", "sensitive"])
async def test_c4_what_expires_or_is_sensitive_is_not_merged(modelled: Services, kept: str) -> None:
    """A merge would outlive what was to end, and show what was to be sealed."""
    modelled.model.script = script(all_into(ONE_STYLE))
    await say(modelled, *STYLES)
    reply = await save(
        modelled,
        "The user writes casual texts at the moment",
        type=memory_pb2.MEMORY_TYPE_PREFERENCE,
        tags=[STYLE],
        sensitive=kept == "sensitive",
        expires_at=datetime.now(UTC) + timedelta(days=3) if kept == "expiring" else None,
    )
    apart = reply.memory
    await consolidate(modelled, tag=STYLE)
    assert ONE_STYLE in await contents(modelled)
    assert apart.content in await contents(modelled)
    for asked in modelled.model.chat_requests:
        if asked.consolidation:
            assert apart.content not in [shown.content for shown in asked.memories]
