"""A circuit breaker: stops calling a model that keeps failing, and detects when it is back.

Closed, it lets every call through. After `OUTAGES` consecutive outages, or at once if no request
can succeed with the present settings (`ModelMisconfigured`), it opens: calls fail without a request
for a time that doubles with every further outage, and is at least what the server asked for. Then
one call goes through as a probe. Any answer closes it, also a refusal: the server is up.
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
"""Number of consecutive outages, over all calls of this process, that open the breaker."""
LONGEST_SECONDS = 60.0
"""Maximum time for which it stays open, so that the model's return is noticed soon."""
_PROBE_SECONDS = 1.0
"""Retry delay for calls that arrive during a probe."""

Answer = TypeVar("Answer")


class CircuitBreaker:
    """The circuit breaker of one model in this process.

    `what` names the model in messages, such as `the language model`. It opens for `first_seconds`
    the first time.
    """

    def __init__(
        self, what: str, *, first_seconds: float = 2.0, clock: Callable[[], float] = time.monotonic
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
        """Whether the model is not called, or only by a probe."""
        return self._outages >= OUTAGES

    @property
    def seconds_left(self) -> float:
        """Seconds until the next probe; 0 if one may run now."""
        return max(self._open_until - self._clock(), 0.0) if self.is_open() else 0.0

    async def changed(self) -> None:
        """Return once it has opened or closed since the last time this was awaited."""
        await self._changed.wait()
        self._changed.clear()

    async def call(self, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        """The answer of `ask`, if it is called.

        Raises:
            ModelUnavailable: Without a call, `asked` being False; or as raised by `ask`.
            ModelError: As raised by `ask`.
        """
        probe = self._enter()
        try:
            answer = await ask()
        except ModelUnavailable as error:
            # A call that began before the breaker opened adds no information.
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
                f"{self._what} was not called: {self._misconfigured}",
                status=self._misconfigured.status,
                retry_after=again,
                asked=False,
            )
        raise ModelUnavailable(
            f"{self._what} was not called: it was unreachable {self._outages} times in a row",
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
                "%s was unreachable %d times in a row; no calls for %.1f s",
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
            logger.info("%s is reachable again", self._what)
            self._changed.set()
