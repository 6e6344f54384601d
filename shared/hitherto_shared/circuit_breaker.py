"""A circuit breaker: stops calling a model that keeps failing, and detects when it is back.

Closed: every call goes through. After `OUTAGES` outages in a row it opens: calls fail at once,
without asking, for a time that doubles with every further outage and is never shorter than what
the server asked for. When the time is over, one call goes through as a probe while the others
still fail; its outcome closes the breaker, or opens it for longer.

With settings that no request passes (`ModelMisconfigured`) it opens at once: whoever asks next
would meet the same. One warning says so, and which settings to check, however many calls wait.

An answer of any kind closes it, a refusal of one request as well: the server is there.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from hitherto_shared.model_api import ModelError, ModelMisconfigured, ModelUnavailable

logger = logging.getLogger("hitherto.models")

OUTAGES = 5
"""Outages in a row, of whatever calls of this process, after which a model is left alone."""
LONGEST_SECONDS = 60.0
"""The time left alone grows up to this, so that its return is soon noticed."""
_PROBE_SECONDS = 1.0
"""Whoever comes while a probe is under way may come again so soon."""

Answer = TypeVar("Answer")


class CircuitBreaker:
    """Stands between this process and one model.

    Args:
        what: How the model is called in messages, such as `the language model`.
        first_seconds: How long it is left alone the first time.
        clock: Seconds that only grow.
    """

    def __init__(
        self,
        what: str,
        *,
        first_seconds: float = 2.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._what = what
        self._first_seconds = first_seconds
        self._clock = clock
        self._outages = 0
        self._open_until = 0.0
        self._probing = False
        self._misconfigured: ModelMisconfigured | None = None
        self._changed = asyncio.Event()

    def is_open(self) -> bool:
        """Whether the model is left alone, or asked by a probe only."""
        return self._outages >= OUTAGES

    @property
    def seconds_left(self) -> float:
        """Until a probe may ask; 0 if one may now."""
        return max(self._open_until - self._clock(), 0.0) if self.is_open() else 0.0

    async def changed(self) -> None:
        """Return once it has opened or closed since the last time this was awaited."""
        await self._changed.wait()
        self._changed.clear()

    async def call(self, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        """The answer of `ask`, if it is asked.

        Raises:
            ModelUnavailable: Without asking, `asked` being False; or as `ask` raises it.
            ModelError: As `ask` raises it.
        """
        probe = self._enter()
        try:
            answer = await ask()
        except ModelUnavailable as error:
            # A call that began before the breaker opened says nothing new.
            if probe or not self.is_open():
                self._note_outage(error)
            raise
        except ModelError:
            self._close()
            raise
        else:
            self._close()
            return answer
        finally:
            if probe:
                self._probing = False

    def _enter(self) -> bool:
        """Let a call through, or raise; True if it is the probe."""
        if not self.is_open():
            return False
        left = self._open_until - self._clock()
        if left <= 0 and not self._probing:
            self._probing = True
            return True
        again = max(left, _PROBE_SECONDS)
        if self._misconfigured is not None:
            raise ModelMisconfigured(
                f"{self._what} was not asked: {self._misconfigured}",
                status=self._misconfigured.status,
                retry_after=again,
                asked=False,
            )
        raise ModelUnavailable(
            f"{self._what} was not asked: it was out of reach {self._outages} times in a row",
            retry_after=again,
            asked=False,
        )

    def _note_outage(self, error: ModelUnavailable) -> None:
        before, was_open = self._misconfigured, self.is_open()
        self._misconfigured = error if isinstance(error, ModelMisconfigured) else None
        self._outages += 1
        if self._misconfigured is not None:
            self._outages = max(self._outages, OUTAGES)
        if not self.is_open():
            return
        doubled = self._first_seconds * 2.0 ** min(self._outages - OUTAGES, 20)
        alone = min(doubled, LONGEST_SECONDS) * random.uniform(0.75, 1.25)
        alone = max(alone, error.retry_after or 0.0)
        self._open_until = self._clock() + alone
        if self._misconfigured is None:
            logger.warning(
                "%s was out of reach %d times in a row; it is left alone for %.1f s",
                self._what,
                self._outages,
                alone,
            )
        elif before is None:
            logger.warning(
                "%s refuses every request, and what needs it waits: %s", self._what, error
            )
        if not was_open:
            self._changed.set()

    def _close(self) -> None:
        was_open = self.is_open()
        self._outages = 0
        self._misconfigured = None
        if was_open:
            logger.info("%s is back", self._what)
            self._changed.set()
