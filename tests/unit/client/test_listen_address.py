"""Where the console may listen, and how long its sessions last."""

from __future__ import annotations

import base64
import json
import stat
from pathlib import Path

import pytest

from hitherto_client import AsyncHitherto
from hitherto_client.console import sessions as limits
from hitherto_client.console.rights import Rights
from hitherto_client.console.sessions import ConsoleSessions
from hitherto_client.console.target import ConsoleTarget
from hitherto_client.listen_address import ListenRefused, check_openness, listen_address
from tests.clock import Clock
from tests.refusing import refusing

RIGHTS = Rights("ana", False, True, False, False, False, True, True)


def test_loopback_needs_nothing() -> None:
    for text in ["127.0.0.1:8090", "localhost:1", "[::1]:0", "127.8.8.8:80"]:
        address = listen_address(text)
        assert address.is_loopback, text
        check_openness(address, tls=False, allow_http=False, local=True, public=())


def test_what_is_no_address() -> None:
    for text in ["", "8090", ":8090", "a:b", "a:-1", "a:70000", "a:٣"]:
        with pytest.raises(ListenRefused, match="HOST:PORT"), refusing(text):
            listen_address(text)


def test_beyond_loopback_somebody_must_say_so() -> None:
    for text in ["0.0.0.0:80", "[::]:80", "10.0.0.1:80", "memory.example:80"]:
        address = listen_address(text)
        public = ("memory.example",)
        with pytest.raises(ListenRefused, match="--tls-certificate"), refusing(text):
            check_openness(address, tls=False, allow_http=False, local=False, public=public)
        with pytest.raises(ListenRefused, match="--local"), refusing(text):
            check_openness(address, tls=True, allow_http=False, local=True, public=public)
        check_openness(address, tls=True, allow_http=False, local=False, public=public)
        check_openness(address, tls=False, allow_http=True, local=False, public=public)


def test_all_addresses_need_a_name() -> None:
    address = listen_address("0.0.0.0:443")
    with pytest.raises(ListenRefused, match="--public-host"):
        check_openness(address, tls=True, allow_http=False, local=False, public=())
    assert address.hosts(("memory.example",)) == ("memory.example",)


async def test_sessions_end_when_nobody_uses_them(tmp_path: Path) -> None:
    clock = Clock()
    sessions = ConsoleSessions(ConsoleTarget(), tmp_path, clock)
    session = await sessions.begin("", AsyncHitherto(), RIGHTS)
    clock.now += limits.IDLE_SECONDS - 1
    assert await sessions.find(session.id)
    clock.now += limits.IDLE_SECONDS - 1
    assert await sessions.find(session.id)
    clock.now += limits.IDLE_SECONDS + 1
    assert await sessions.find(session.id) is None
    clock.now -= limits.IDLE_SECONDS
    assert await sessions.find(session.id) is None


async def test_sessions_end_after_half_a_day_in_any_case(tmp_path: Path) -> None:
    clock = Clock()
    sessions = ConsoleSessions(ConsoleTarget(), tmp_path, clock)
    session = await sessions.begin("", AsyncHitherto(), RIGHTS)
    for _ in range(int(limits.LONGEST_SECONDS // 1_000)):
        assert await sessions.find(session.id)
        clock.now += 1_000
    # Not by idleness: it was used a moment ago.
    assert await sessions.find(session.id)
    clock.now += limits.LONGEST_SECONDS % 1_000 + 1
    assert await sessions.find(session.id) is None


async def test_sessions_of_one_process_end_with_it_and_unknown_ids_find_nothing() -> None:
    sessions = ConsoleSessions(ConsoleTarget())
    session = await sessions.begin("", AsyncHitherto(), RIGHTS)
    for unknown in ("", "unknown", "\ud800"):
        assert await sessions.find(unknown) is None
    assert await sessions.find(session.id)
    await sessions.close()
    assert await sessions.find(session.id) is None
    assert not sessions.directory.exists()


async def test_sessions_are_bounded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(limits, "MOST_SESSIONS", 2)
    clock = Clock()
    sessions = ConsoleSessions(ConsoleTarget(), tmp_path, clock)
    begun = []
    for _ in range(3):
        clock.now += 1
        begun.append(await sessions.begin("", AsyncHitherto(), RIGHTS))
    found = [await sessions.find(session.id) for session in begun]
    assert [one and one.id for one in found] == [None, *(one.id for one in begun[1:])]
    await sessions.close()


async def test_many_sessions_of_one_credential_end_nobody_else_s(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(limits, "MOST_SESSIONS", 5)
    clock = Clock()
    sessions = ConsoleSessions(ConsoleTarget(), tmp_path, clock)

    async def begin(credential: str) -> str:
        clock.now += 1
        return (await sessions.begin(credential, AsyncHitherto(), RIGHTS)).id

    async def in_force(session_id: str) -> bool:
        # One after another: the session that ends is the one that was used the longest ago.
        clock.now += 1
        return await sessions.find(session_id) is not None

    bob, cleo = await begin("mk_bob"), await begin("mk_cleo")
    # A token is another one every hour, and its owner is the same.
    many = [await begin(token({"sub": "ana", "iss": "i", "exp": number})) for number in range(20)]
    assert await sessions.find(bob)
    assert await sessions.find(cleo)
    assert [await in_force(each) for each in many] == [False] * 17 + [True] * 3
    # Of another issuer it is somebody else.
    assert await sessions.find(await begin(token({"sub": "ana", "iss": "j"})))
    assert [await in_force(each) for each in many[-3:]] == [False, True, True]
    assert not any(word in written_in(tmp_path) for word in (b"ana", b"mk_bob"))
    await sessions.close()


def written_in(directory: Path) -> bytes:
    return b"".join(path.read_bytes() for path in directory.rglob("*") if path.is_file())


def token(claims: dict[str, object]) -> str:
    payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"head.{payload}.signature"


@pytest.mark.parametrize("mode", [0o777, 0o755, 0o770, 0o701, 0o1777])
def test_a_directory_open_to_others_is_refused(tmp_path: Path, mode: int) -> None:
    directory = tmp_path / "sessions"
    directory.mkdir()
    directory.chmod(mode)
    with pytest.raises(ValueError, match=f"chmod 700 {directory}"):
        ConsoleSessions(ConsoleTarget(), directory)
    directory.chmod(0o700)
    ConsoleSessions(ConsoleTarget(), directory)
    # A new one is its owner's alone.
    ConsoleSessions(ConsoleTarget(), tmp_path / "deep" / "sessions")
    assert stat.S_IMODE((tmp_path / "deep" / "sessions").stat().st_mode) == 0o700
