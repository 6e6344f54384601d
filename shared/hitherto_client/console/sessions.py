"""Who is signed in. The browser holds a random id and nothing else.

Sessions outlive a process, and several processes share them: each is a folder of sealed files, and
the random id in the browser's cookie is their only key. The directory without the cookie tells
nothing, nor does the cookie without the directory. A folder that is removed ends its session for
every process.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import os
import secrets
import shutil
import stat
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, tzinfo
from pathlib import Path
from typing import Any, cast

from hitherto_client._async.client import AsyncHitherto
from hitherto_client.console.rights import Rights, SignInRefused, claims_of
from hitherto_client.console.target import ConsoleTarget
from hitherto_client.days import SETTINGS_SECONDS, zone_named
from hitherto_client.errors import HithertoCallError
from hitherto_shared.sealing import BrokenToken, Sealer, load_secret

STATE = "state"
"""The file without which a session does not exist."""
_OWNER = ".owner"
"""The file that tells which sessions are of one owner, but not whose they are."""
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class OpenToOthers(ValueError):
    """Other users of the machine can use the directory; the text says what to do about it."""


def make_private(directory: Path) -> None:
    """Make a directory that only its owner can use, or see that it is one.

    A mounted one belongs to root, and our group is how we use it.

    Raises:
        OpenToOthers: Others can read or change what is in it.
        OSError: It cannot be made.
    """
    directory.parent.mkdir(parents=True, exist_ok=True)
    directory.mkdir(mode=0o700, exist_ok=True)
    found = directory.stat()
    ours = not hasattr(os, "geteuid") or found.st_uid == os.geteuid()
    mode = stat.S_IMODE(found.st_mode)
    if hasattr(os, "geteuid") and mode & (_OTHERS if ours else stat.S_IRWXO):
        raise OpenToOthers(
            f"other users can use {directory} (mode {mode:04o}), and could end everybody's "
            f"sessions: run `chmod 700 {directory}`, or name a directory that does not exist yet"
        )


class SessionFiles:
    """The stored sessions of consoles that show the same services in the same way."""

    def __init__(self, directory: Path, bound_to: Sequence[str], key: bytes) -> None:
        self._directory = directory
        self._bound_to = tuple(bound_to)
        self._key = key

    def name(self, session_id: str) -> str:
        """What a session is found by; it tells nothing about the id."""
        return hashlib.sha256(session_id.encode("utf-8", "surrogatepass")).hexdigest()

    def begin(self, session_id: str, owner: str, state: dict[str, Any]) -> None:
        """Store a new session of this owner, whose name the files do not tell."""
        self.write(session_id, STATE, state)
        digest = hmac.new(self._key, owner.encode("utf-8", "surrogatepass"), hashlib.sha256)
        (self._directory / self.name(session_id) / _OWNER).write_text(digest.hexdigest(), "ascii")

    def write(self, session_id: str, file: str, value: dict[str, Any]) -> None:
        """Store one file of a session; nothing if the session has ended meanwhile."""
        folder = self._directory / self.name(session_id)
        if file == STATE:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = folder / f".{secrets.token_hex(8)}"
        try:
            draft.write_text(_sealer(session_id).seal(value, (*self._bound_to, file)), "ascii")
            draft.replace(folder / file)
        except FileNotFoundError:
            return

    def read(self, session_id: str) -> tuple[float, dict[str, dict[str, Any]]] | None:
        """When a session was last used, and its files by name; None if there is none for us."""
        folder = self._directory / self.name(session_id)
        try:
            used = folder.stat().st_mtime
            found = {
                path.name: _sealer(session_id).open(
                    path.read_text("ascii"), (*self._bound_to, path.name)
                )
                for path in folder.iterdir()
                if not path.name.startswith(".") and path.is_file()
            }
        except (OSError, BrokenToken, UnicodeDecodeError):
            # Whoever has the cookie of a session that cannot be read must be able to sign in again.
            return None
        return (used, found) if STATE in found else None

    def touch(self, session_id: str, now: float) -> None:
        """Note that a session is in use, if it exists."""
        try:
            os.utime(self._directory / self.name(session_id), (now, now))
        except FileNotFoundError:
            return

    def remove(self, session_id: str) -> None:
        """Remove a session with all its files."""
        self._remove(self.name(session_id))

    def sweep(self, used_after: float, most: int) -> set[str]:
        """Remove sessions that were used longest ago.

        These are the ones before `used_after`; and if more than `most` are left, those of the
        owners that have the most, so that nobody's many sessions end another one's few.

        Returns:
            The names of those that are left.
        """
        left: dict[str, list[str]] = {}
        for used, name in sorted(self._folders()):
            if used < used_after:
                self._remove(name)
            else:
                left.setdefault(self._owner_of(name), []).append(name)
        counts = Counter({owner: len(names) for owner, names in left.items()})
        while counts.total() > most:
            [(owner, _)] = counts.most_common(1)
            self._remove(left[owner].pop(0))
            counts[owner] -= 1
        return {name for names in left.values() for name in names}

    def _remove(self, name: str) -> None:
        shutil.rmtree(self._directory / name, ignore_errors=True)

    def _owner_of(self, name: str) -> str:
        try:
            return (self._directory / name / _OWNER).read_text("ascii")
        except (OSError, UnicodeDecodeError):
            return ""

    def _folders(self) -> Iterator[tuple[float, str]]:
        if not self._directory.exists():
            return
        for entry in os.scandir(self._directory):
            try:
                if len(entry.name) == hashlib.sha256().digest_size * 2 and entry.is_dir():
                    yield entry.stat().st_mtime, entry.name
            except FileNotFoundError:
                continue


def _sealer(session_id: str) -> Sealer:
    return Sealer(session_id.encode("utf-8", "surrogatepass"), "console session")


IDLE_SECONDS = 30 * 60.0
LONGEST_SECONDS = 12 * 3600.0
MOST_SESSIONS = 1_000
STATE_SECONDS = 60.0
"""After which the state of a person is read again."""
MOST_PEOPLE = 1_000
_NOTICES = "notices"
_KEY = "sign-in-forms"


@dataclass(frozen=True, slots=True)
class Notice:
    """What the next page says about a change."""

    text: str
    undo: str = ""
    """The path of the form that takes the change back; empty if none does."""
    user: str = ""
    """Whose data were changed."""
    back: str = ""
    """The address to go on with after that."""


@dataclass(frozen=True, slots=True)
class PersonState:
    """What pages about a person need besides what they show."""

    read_at: float
    """On the monotonic clock."""
    zone: tzinfo
    erased: bool


@dataclass(eq=False, slots=True)
class ConsoleSession:
    """One browser that has signed in, during one request."""

    id: str
    client: AsyncHitherto
    """Holds the credential; the session itself does not."""
    rights: Rights
    notices: list[Notice] = field(default_factory=list)
    """What the next page should say."""
    receipts: dict[str, str] = field(default_factory=dict)
    """Proofs of erasures, as JSON by id, until the session ends."""
    stored: tuple[Notice | str, ...] = ()
    """The notices and the ids of the receipts that are stored already."""
    people: dict[str, PersonState] = field(default_factory=dict)
    """What was read of people, as long as this process knows the session."""

    async def state_of(self, user: str) -> PersonState:
        """What every page about a person needs, read now and then; in UTC if it cannot be read."""
        known = self.people.get(user)
        if known and time.monotonic() - known.read_at < STATE_SECONDS:
            return known
        zone, erased = cast(tzinfo, UTC), False
        try:
            settings = await self.client.get_user_settings(user, timeout=SETTINGS_SECONDS)
            zone, erased = zone_named(settings.time_zone), settings.erased
        except HithertoCallError:
            pass
        if len(self.people) >= MOST_PEOPLE:
            self.people.clear()
        self.people[user] = PersonState(time.monotonic(), zone, erased)
        return self.people[user]

    @property
    def form_token(self) -> str:
        """Every form of the session repeats it, so that no other site can send one."""
        return hmac.new(self.id.encode(), b"form", hashlib.sha256).hexdigest()


class ConsoleSessions:
    """The sessions in a directory: of all processes that use it, or of this one alone."""

    def __init__(
        self,
        target: ConsoleTarget,
        directory: Path | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Sessions in `directory`; unset: in one that ends with this process.

        Raises:
            OSError: The directory cannot be used.
            ValueError: Other users can use it, or its key.
        """
        self._target = target
        self._clock = clock
        self._own = None if directory else tempfile.TemporaryDirectory(prefix="hitherto-console-")
        self.directory = directory or Path(self._own.name if self._own else "")
        make_private(self.directory)
        self._key = load_secret(self.directory / _KEY)
        self._files = SessionFiles(self.directory, target.identity(), self._key)
        self._clients: dict[str, AsyncHitherto] = {}
        """By the names of their sessions; every process makes its own."""
        self._people: dict[str, dict[str, PersonState]] = {}

    def sign_in_token(self, browser: str) -> str:
        """What the sign-in form repeats for the browser with this cookie, which has no session."""
        return hmac.new(self._key, browser.encode(), hashlib.sha256).hexdigest()

    async def begin(self, credential: str, client: AsyncHitherto, rights: Rights) -> ConsoleSession:
        """A new session, with a new id."""
        now = self._clock()
        left = await asyncio.to_thread(self._files.sweep, now - IDLE_SECONDS, MOST_SESSIONS - 1)
        for name in self._clients.keys() - left:
            self._people.pop(name, None)
            # Another request may have closed it meanwhile.
            if (left_behind := self._clients.pop(name, None)) is not None:
                await left_behind.close()
        session = ConsoleSession(secrets.token_urlsafe(32), client, rights)
        state = {"credential": credential, "rights": asdict(rights), "began": now}
        owner = owner_of(credential)
        await asyncio.to_thread(self._files.begin, session.id, owner, state)
        await asyncio.to_thread(self._files.touch, session.id, now)
        self._clients[self._files.name(session.id)] = client
        return session

    async def find(self, session_id: str) -> ConsoleSession | None:
        """The session with this id, if it is in force."""
        stored = await asyncio.to_thread(self._files.read, session_id) if session_id else None
        if stored is None:
            await self._forget(session_id)
            return None
        used, files = stored
        state, now = files.pop(STATE), self._clock()
        if now - used > IDLE_SECONDS or now - state["began"] > LONGEST_SECONDS:
            await self._remove(session_id)
            return None
        name = self._files.name(session_id)
        try:
            if name not in self._clients:
                self._clients[name] = self._target.client(state["credential"])
            session = ConsoleSession(session_id, self._clients[name], Rights(**state["rights"]))
            session.people = self._people.setdefault(name, {})
        except (SignInRefused, TypeError, ValueError):
            # Stored by another version, or before the console was started in another way.
            await self._remove(session_id)
            return None
        told = files.pop(_NOTICES, {}).get("notices", [])
        session.notices = [Notice(**one) for one in told]
        session.receipts = {one["id"]: one["text"] for one in files.values()}
        session.stored = (*session.notices, *session.receipts)
        await asyncio.to_thread(self._files.touch, session_id, now)
        return session

    async def keep(self, session: ConsoleSession) -> None:
        """Store what a request changed in a session, for the next one."""
        if (*session.notices, *session.receipts) == session.stored:
            return
        files: dict[str, dict[str, Any]] = {
            f"receipt-{hashlib.sha256(one.encode()).hexdigest()}": {"id": one, "text": text}
            for one, text in session.receipts.items()
            if one not in session.stored
        }
        files[_NOTICES] = {"notices": [asdict(one) for one in session.notices]}
        for file, value in files.items():
            await asyncio.to_thread(self._files.write, session.id, file, value)
        await asyncio.to_thread(self._files.touch, session.id, self._clock())

    async def end(self, session: ConsoleSession) -> None:
        """Sign out, in all processes; the credential is dropped."""
        await self._remove(session.id)

    async def close(self) -> None:
        """Stop using the sessions. Those of this process alone end."""
        for name in list(self._clients):
            await self._clients.pop(name).close()
        if self._own:
            await asyncio.to_thread(self._own.cleanup)

    async def _remove(self, session_id: str) -> None:
        await asyncio.to_thread(self._files.remove, session_id)
        await self._forget(session_id)

    async def _forget(self, session_id: str) -> None:
        name = self._files.name(session_id)
        self._people.pop(name, None)
        client = self._clients.pop(name, None)
        if client is not None:
            await client.close()


def owner_of(credential: str) -> str:
    """Whose sessions count together: those of one API key, or of whoever a token was issued to."""
    claims = claims_of(credential)
    if "sub" in claims:
        return json.dumps([claims.get("iss"), claims["sub"]], sort_keys=True)
    return credential
