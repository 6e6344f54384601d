"""Who is signed in. Sessions are kept in memory; the browser holds a random id and nothing else."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from hitherto_client._async.client import AsyncHitherto
from hitherto_client.console.rights import Rights

IDLE_SECONDS = 30 * 60.0
LONGEST_SECONDS = 12 * 3600.0
MOST_SESSIONS = 1_000


@dataclass(eq=False, slots=True)
class ConsoleSession:
    """One browser that has signed in."""

    id: str
    client: AsyncHitherto
    """Holds the credential; the session itself does not."""
    rights: Rights
    began: float
    used: float
    form_token: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    """Every form of the session repeats it, so that no other site can send one."""
    notices: list[str] = field(default_factory=list)
    """What the next page should say."""
    receipts: dict[str, str] = field(default_factory=dict)
    """Proofs of erasures, as JSON by id, until they are downloaded or the session ends."""


class ConsoleSessions:
    """The sessions of this process."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._sessions: dict[bytes, ConsoleSession] = {}

    async def begin(self, client: AsyncHitherto, rights: Rights) -> ConsoleSession:
        """A new session, with a new id."""
        await self._end_old()
        now = self._clock()
        session = ConsoleSession(secrets.token_urlsafe(32), client, rights, now, now)
        self._sessions[_key(session.id)] = session
        return session

    async def find(self, session_id: str) -> ConsoleSession | None:
        """The session with this id, if it is in force."""
        session = self._sessions.get(_key(session_id)) if session_id else None
        if session is None:
            return None
        if self._is_over(session):
            await self.end(session)
            return None
        session.used = self._clock()
        return session

    async def end(self, session: ConsoleSession) -> None:
        """Sign out; the credential is dropped."""
        self._sessions.pop(_key(session.id), None)
        await session.client.close()

    async def close(self) -> None:
        """End all sessions."""
        for session in list(self._sessions.values()):
            await self.end(session)

    def _is_over(self, session: ConsoleSession) -> bool:
        now = self._clock()
        return now - session.used > IDLE_SECONDS or now - session.began > LONGEST_SECONDS

    async def _end_old(self) -> None:
        """End sessions that are over and, above the limit, those that were used longest ago."""
        sessions = sorted(self._sessions.values(), key=lambda session: session.used)
        surplus = len(sessions) - MOST_SESSIONS + 1
        for index, session in enumerate(sessions):
            if index < surplus or self._is_over(session):
                await self.end(session)


def _key(session_id: str) -> bytes:
    """What a session is found by; comparing it tells nothing about the id."""
    return hashlib.sha256(session_id.encode("utf-8", "surrogatepass")).digest()


class SignInForms:
    """Ties the sign-in form to the browser that asked for it, which has no session yet."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)

    def token(self, browser: str) -> str:
        """What the form repeats for the browser with this cookie."""
        return hmac.new(self._key, browser.encode(), hashlib.sha256).hexdigest()
