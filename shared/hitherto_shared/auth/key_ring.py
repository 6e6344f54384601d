"""The current verification keys, refreshed without delaying calls.

They are read again in the background and, at a limited rate, at once if a token names an unknown
key: that is how the next key of a rotation is found. If a refresh fails, the last keys stay valid
for a day.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from hitherto_shared import tasks
from hitherto_shared.auth.key_set import Key, KeySet, KeysUnreachable, UnusableKeySet, read_key_set
from hitherto_shared.auth.key_source import VARIABLE, KeySource
from hitherto_shared.telemetry import without_message

logger = logging.getLogger("hitherto.auth")

WAIT_SECONDS = 1.0
"""Longest wait of a call for a refresh; the refresh itself continues."""
STALE_SECONDS = 24 * 3600.0
"""Time for which keys outlive the last successful refresh. Without a limit, an attacker who
prevents refreshes would keep a withdrawn key valid."""
START_SECONDS = 5.0
"""Longest wait of a start-up for the first refresh."""
_FIRST_PAUSE_SECONDS = 1.0


class KeyRing:
    """Keys from one source; refreshes from `start` to `stop`."""

    def __init__(
        self, source: KeySource, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._source = source
        self._monotonic = monotonic
        self._body: bytes | None = None
        self._keys = KeySet({})
        self._read_at: float | None = None
        self._surprised_at: float | None = None
        self._reading: asyncio.Task[str | None] | None = None
        self._background: asyncio.Task[None] | None = None

    async def start(self) -> str | None:
        """Wait a limited time for the first refresh, and continue in the background.

        Returns:
            Why there are no keys yet, or None.
        """
        why = await self._read_within(START_SECONDS)
        self._background = asyncio.create_task(self._keep_fresh(failed=why is not None))
        if why is None and not self._keys.keys:
            why = "it holds no key for RS256 (RSA of 2048 bits or more), ES256 or EdDSA (Ed25519)"
        return why

    async def stop(self) -> None:
        """Stop refreshing."""
        await tasks.cancel(self._background, self._reading)

    async def find(self, algorithm: str, kid: str | None) -> Key | None:
        """The key for a token, or None.

        An unknown one is looked up at the source, at a limited rate.
        """
        key = self._find(algorithm, kid)
        if key is not None:
            return key
        now = self._monotonic()
        last = self._surprised_at
        if last is None or now - last >= self._source.between_surprises:
            self._surprised_at = now
        elif self._reading is None or self._reading.done():
            return None
        await self._read_within(WAIT_SECONDS)
        return self._find(algorithm, kid)

    def _find(self, algorithm: str, kid: str | None) -> Key | None:
        if self._read_at is None or self._monotonic() - self._read_at > STALE_SECONDS:
            return None
        return self._keys.find(algorithm, kid)

    async def _read_within(self, seconds: float) -> str | None:
        """Join the refresh in progress, or start one; returns the error, or None."""
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._read())
        reading = self._reading
        # Not wait_for: the refresh is shared and outlives the call that started it.
        await asyncio.wait({reading}, timeout=seconds)
        return reading.result() if reading.done() else "it takes long to be read"

    async def _read(self) -> str | None:
        try:
            body = await self._source.read()
            if body != self._body:
                self._keys = read_key_set(body)
                self._body = body
                logger.log(
                    logging.INFO if self._keys.keys else logging.WARNING,
                    "%d keys of %s are active",
                    len(self._keys.keys),
                    VARIABLE,
                    extra={"keys_passed_over": self._keys.passed_over},
                )
        except (KeysUnreachable, UnusableKeySet) as error:
            logger.warning(
                "cannot read the keys of %s: %s",
                VARIABLE,
                error,
                extra={"keys_in_force": len(self._keys.keys)},
            )
            return str(error)
        except Exception as error:
            # Refreshing must continue whatever error an outside server causes in a library.
            logger.error("reading %s failed", VARIABLE, exc_info=without_message(error))
            return "it could not be read; see the log"
        self._read_at = self._monotonic()
        return None

    async def _keep_fresh(self, *, failed: bool) -> None:
        pause = _FIRST_PAUSE_SECONDS
        while True:
            await asyncio.sleep(min(pause, self._source.every) if failed else self._source.every)
            pause = pause * 2 if failed else _FIRST_PAUSE_SECONDS
            failed = await self._read_within(self._source.every) is not None
