"""A model that is out of reach is left alone, and found again: faults.md row 25, L7."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from hitherto_shared.circuit_breaker import LONGEST_SECONDS, OUTAGES, CircuitBreaker
from hitherto_shared.model_api import ModelMisbehaved, ModelRefused, ModelUnavailable


class Model:
    """Answers or fails on order, and counts."""

    def __init__(self) -> None:
        self.asked = 0
        self.failing: Exception | None = ModelUnavailable("503")
        self.now = 1000.0
        self.breaker = CircuitBreaker("the model", first_seconds=4.0, clock=lambda: self.now)

    async def ask(self) -> str:
        self.asked += 1
        if self.failing is not None:
            raise self.failing
        return "yes"

    async def call(self, ask: Callable[[], Awaitable[str]] | None = None) -> str | Exception:
        try:
            return await self.breaker.call(ask or self.ask)
        except Exception as error:
            return error

    async def refused(self) -> ModelUnavailable:
        """What a call is told that does not reach the model."""
        before = self.asked
        error = await self.call()
        assert self.asked == before
        assert isinstance(error, ModelUnavailable)
        assert not error.asked
        assert "was not called" in str(error)
        return error

    async def opened(self) -> Model:
        for _ in range(OUTAGES):
            await self.call()
        return self


async def test_row_25_after_some_outages_in_a_row_nothing_is_asked() -> None:
    model = Model()
    for n in range(OUTAGES):
        error = await model.call()
        assert isinstance(error, ModelUnavailable)
        assert error.asked
        assert model.asked == n + 1
    error = await model.refused()
    assert error.retry_after is not None
    assert 3.0 <= error.retry_after <= 5.0


async def test_row_25_an_answer_of_any_kind_in_between_starts_the_count_anew() -> None:
    for other in [None, ModelRefused("400"), ModelMisbehaved("no JSON")]:
        model = Model()
        for _ in range(3):
            for _ in range(OUTAGES - 1):
                await model.call()
            outage, model.failing = model.failing, other
            await model.call()
            model.failing = outage
        assert model.asked == 3 * OUTAGES, other


async def test_row_25_one_probe_at_a_time_closes_it() -> None:
    model = await Model().opened()
    model.now += 5.1
    model.failing = None
    answering = asyncio.Event()

    async def slowly() -> str:
        await answering.wait()
        return await model.ask()

    probe = asyncio.create_task(model.call(slowly))
    await asyncio.sleep(0)
    await model.refused()
    answering.set()
    assert await probe == "yes"
    assert [await model.call() for _ in range(3)] == ["yes"] * 3


async def test_row_25_a_probe_that_fails_opens_it_for_longer_and_within_bounds() -> None:
    model = await Model().opened()
    waits = []
    for _ in range(8):
        waits.append((await model.refused()).retry_after or 0.0)
        model.now += waits[-1]
        await model.call()
    assert model.asked == OUTAGES + 8
    assert 6.0 <= waits[1] <= 10.0
    assert max(waits) <= LONGEST_SECONDS * 1.25
    assert waits[-1] >= LONGEST_SECONDS * 0.75


async def test_row_25_a_probe_that_is_given_up_lets_another_one_through() -> None:
    model = await Model().opened()
    model.now += 10
    probe = asyncio.create_task(model.breaker.call(lambda: asyncio.Event().wait()))
    await asyncio.sleep(0)
    await model.refused()
    probe.cancel()
    with pytest.raises(asyncio.CancelledError):
        await probe
    model.failing = None
    assert await model.call() == "yes"


async def test_row_25_retry_after_is_a_lower_bound() -> None:
    model = Model()
    model.failing = ModelUnavailable("429", retry_after=900.0)
    await model.opened()
    error = await model.refused()
    assert error.retry_after is not None
    assert error.retry_after >= 900.0
