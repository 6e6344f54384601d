"""Leaves a model alone that has been out of reach again and again, and finds out when it is back.

Closed: every call goes through. After `OUTAGES` outages in a row it opens: calls fail at once,
without asking, for a time that doubles with every further outage and is never shorter than what
the server asked for. When the time is over, one call goes through as a probe while the others
still fail; its outcome closes the breaker, or opens it for longer.

An answer of any kind closes it, a refusal as well: the server is there.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from hitherto_shared.model_api import ModelError, ModelUnavailable

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
            if probe or not self._open:
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

    @property
    def _open(self) -> bool:
        return self._outages >= OUTAGES

    def _enter(self) -> bool:
        """Let a call through, or raise; True if it is the probe."""
        if not self._open:
            return False
        left = self._open_until - self._clock()
        if left <= 0 and not self._probing:
            self._probing = True
            return True
        raise ModelUnavailable(
            f"{self._what} was not asked: it was out of reach {self._outages} times in a row",
            retry_after=max(left, _PROBE_SECONDS),
            asked=False,
        )

    def _note_outage(self, error: ModelUnavailable) -> None:
        self._outages += 1
        if not self._open:
            return
        doubled = self._first_seconds * 2.0 ** min(self._outages - OUTAGES, 20)
        alone = min(doubled, LONGEST_SECONDS) * random.uniform(0.75, 1.25)
        alone = max(alone, error.retry_after or 0.0)
        self._open_until = self._clock() + alone
        logger.warning(
            "%s was out of reach %d times in a row; it is left alone for %.1f s",
            self._what,
            self._outages,
            alone,
        )

    def _close(self) -> None:
        if self._open:
            logger.info("%s is back", self._what)
        self._outages = 0
