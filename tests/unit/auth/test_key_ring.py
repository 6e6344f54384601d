"""Where keys come from and how long they are believed: rotation, outages, hostile servers."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web
from yarl import URL

from hitherto_shared.auth.key_address import KeyAddress
from hitherto_shared.auth.key_ring import STALE_SECONDS, KeyRing
from hitherto_shared.auth.key_set import MAX_BYTES, KeysUnreachable, UnusableKeySet, read_key_set
from hitherto_shared.auth.key_source import KeyFile, key_source
from tests.clock import Clock
from tests.refusing import refusing
from tests.token_issuer import KeyPair, key_set
from tests.waiting import eventually

OLD, NEW = KeyPair("old"), KeyPair("new", number=2)


class Shelf:
    """A source whose next answers the test decides; it counts how often it is asked."""

    every = 300.0
    between_surprises = 60.0

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.asked = 0
        self.away = False
        self.held: asyncio.Event | None = None

    async def read(self) -> bytes:
        self.asked += 1
        if self.held is not None:
            await self.held.wait()
        if self.away:
            raise KeysUnreachable("away")
        return self.body


@asynccontextmanager
async def started(shelf: Shelf, clock: Clock) -> AsyncIterator[KeyRing]:
    ring = KeyRing(shelf, monotonic=clock)
    await ring.start()
    try:
        yield ring
    finally:
        await ring.stop()


async def test_a_rotated_key_is_found_when_a_token_names_it() -> None:
    shelf, clock = Shelf(key_set(OLD)), Clock()
    async with started(shelf, clock) as ring:
        shelf.body = key_set(OLD, NEW)
        assert await ring.find("ES256", "new")
        assert await ring.find("ES256", "old")
        shelf.body = key_set(NEW)
        # A key that is known is not asked after.
        assert await ring.find("ES256", "old")
        assert shelf.asked == 2
        await ring._read_within(30.0)
        assert await ring.find("ES256", "old") is None
        # An empty key set withdraws them all.
        shelf.body = key_set()
        assert await ring._read_within(30.0) is None
        assert await ring.find("ES256", "new") is None


async def test_unknown_keys_ask_the_source_once_a_minute() -> None:
    shelf, clock = Shelf(key_set(OLD)), Clock()
    async with started(shelf, clock) as ring:
        for number in range(50):
            assert await ring.find("ES256", f"made up {number}") is None
            assert await ring.find("RS256", "old") is None
        assert shelf.asked == 2
        clock.now += 59.9
        assert await ring.find("ES256", "made up") is None
        assert shelf.asked == 2
        clock.now += 0.2
        assert await ring.find("ES256", "made up") is None
        assert shelf.asked == 3


async def test_old_keys_serve_while_the_source_is_away_and_not_for_ever() -> None:
    shelf, clock = Shelf(key_set(OLD)), Clock()
    async with started(shelf, clock) as ring:
        shelf.away = True
        assert await ring.find("ES256", "new") is None
        clock.now += STALE_SECONDS - 1
        assert await ring.find("ES256", "old")
        clock.now += 2
        assert await ring.find("ES256", "old") is None
        shelf.away = False
        clock.now += 61
        assert await ring.find("ES256", "old")


async def test_a_broken_key_set_changes_nothing() -> None:
    for broken in [b"", b"{", b"<html>", b"[]", b'{"keys": {}}', b"\xff"]:
        shelf, clock = Shelf(key_set(OLD)), Clock()
        async with started(shelf, clock) as ring:
            shelf.body = broken
            assert await ring._read_within(30.0) is not None, broken
            assert await ring.find("ES256", "old"), broken


async def test_a_slow_source_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A known key is found at once; who asks for another waits a bounded time, all for one."""
    monkeypatch.setattr("hitherto_shared.auth.key_ring.WAIT_SECONDS", 0.05)
    shelf, clock = Shelf(key_set(OLD)), Clock()
    async with started(shelf, clock) as ring:
        shelf.held = asyncio.Event()
        shelf.body = key_set(OLD, NEW)
        found = await asyncio.gather(*(ring.find("ES256", "new") for _ in range(20)))
        assert found == [None] * 20
        assert await ring.find("ES256", "old")
        assert shelf.asked == 2
        # The reading went on without those who gave up.
        shelf.held.set()
        assert await ring._read_within(30.0) is None
        assert await ring.find("ES256", "new")
        assert shelf.asked == 2


async def test_a_withdrawn_key_ends_in_the_background(monkeypatch: pytest.MonkeyPatch) -> None:
    shelf, clock = Shelf(key_set(OLD, NEW)), Clock()
    monkeypatch.setattr(shelf, "every", 0.01)
    async with started(shelf, clock) as ring:
        assert ring._find("ES256", "old")
        shelf.body = key_set(NEW)
        await eventually(lambda: ring._find("ES256", "old") is None)
        assert ring._find("ES256", "new")


async def test_a_source_that_is_away_at_the_start_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("hitherto_shared.auth.key_ring._FIRST_PAUSE_SECONDS", 0.01)
    shelf, clock = Shelf(key_set(OLD)), Clock()
    shelf.away = True
    async with started(shelf, clock) as ring:
        assert ring._find("ES256", "old") is None
        shelf.away = False
        await eventually(lambda: ring._find("ES256", "old") is not None)


async def test_an_error_nobody_thought_of_does_not_end_the_readings(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    shelf, clock = Shelf(key_set(OLD)), Clock()
    monkeypatch.setattr(shelf, "every", 0.01)
    async with started(shelf, clock) as ring:

        async def fail() -> bytes:
            shelf.asked += 1
            raise LookupError("".join(["can", "ary"]))  # the line itself stands in the log

        monkeypatch.setattr(shelf, "read", fail)
        await eventually(lambda: shelf.asked > 3)
        assert await ring.find("ES256", "old")
    assert "canary" not in caplog.text


# What a key set may hold.


def test_a_key_set_that_is_too_large_or_too_deep_is_none() -> None:
    for body in (
        b" " * MAX_BYTES + key_set(OLD),
        b'{"keys": [' + b",".join([b"{}"] * 101) + b"]}",
        b"[" * 100_000,
    ):
        with pytest.raises(UnusableKeySet), refusing(body[:20]):
            read_key_set(body)


def test_of_two_keys_of_one_name_the_first_counts() -> None:
    found = read_key_set(key_set(OLD, KeyPair("old", number=2)))
    assert (len(found.keys), found.passed_over) == (1, 1)
    assert found.find("ES256", "old") == OLD.private.public_key()


# Files.


async def test_no_more_of_a_file_is_read_than_a_key_set_may_have(tmp_path: Path) -> None:
    place = tmp_path / "huge"
    place.write_bytes(b" " * (MAX_BYTES * 3))
    assert len(await KeyFile(place).read()) == MAX_BYTES + 1


async def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for place in (tmp_path, tmp_path / "missing", tmp_path / "pipe", tmp_path / "x" / "y"):
        with pytest.raises(KeysUnreachable) as caught, refusing(place):
            await KeyFile(place).read()
        assert str(tmp_path) not in str(caught.value)


# Addresses.


@asynccontextmanager
async def served(answer: Callable[[web.Request], web.StreamResponse]) -> AsyncIterator[KeyAddress]:
    async def handle(request: web.Request) -> web.StreamResponse:
        return answer(request)

    app = web.Application()
    app.router.add_get("/{tail:.*}", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        yield KeyAddress(URL(f"http://hush:hush@127.0.0.1:{port}/keys"))
    finally:
        await runner.cleanup()


async def test_an_answer_is_read_and_no_more_of_it_than_a_key_set_may_have() -> None:
    body = key_set(OLD)
    async with served(lambda request: web.Response(body=body)) as address:
        assert await address.read() == body
        body = b" " * (MAX_BYTES * 8)
        assert MAX_BYTES < len(await address.read()) <= 2 * MAX_BYTES


async def test_answers_that_are_no_key_set() -> None:
    def redirect(request: web.Request) -> web.Response:
        if request.path == "/other":
            return web.Response(body=key_set(NEW))
        return web.Response(status=302, headers={"Location": "/other"})

    def compressed(request: web.Request) -> web.Response:
        return web.Response(body=b"x", headers={"Content-Encoding": "gzip"})

    for answer, told in [
        (lambda request: web.Response(status=404), "404"),
        (lambda request: web.Response(status=500, body=b"hush"), "500"),
        (redirect, "302"),
        (compressed, "compresses"),
    ]:
        async with served(answer) as address:
            with pytest.raises(KeysUnreachable, match=told) as caught:
                await address.read()
            assert "hush" not in str(caught.value)


async def test_a_server_that_is_not_there_or_never_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KeysUnreachable, match="cannot be reached"):
        await KeyAddress(URL("http://127.0.0.1:1/keys")).read()

    monkeypatch.setattr("hitherto_shared.auth.key_address._FETCH_SECONDS", 0.05)
    # It takes connections and nobody ever reads from them.
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(KeysUnreachable, match="took more"):
            await KeyAddress(URL(f"http://127.0.0.1:{port}/keys")).read()


def test_addresses_that_may_be_asked_and_paths() -> None:
    for place, kind in [
        ("https://id.example/.well-known/jwks.json", KeyAddress),
        ("http://127.0.0.1:8080/keys", KeyAddress),
        ("http://localhost/keys", KeyAddress),
        ("http://[::1]:80/keys", KeyAddress),
        ("keys.json", KeyFile),
        (" ./a b/keys ", KeyFile),
    ]:
        assert isinstance(key_source(place), kind), place


def test_addresses_that_are_refused() -> None:
    for place in [
        "http://id.example/keys", "http://127.0.0.1.example/keys",
        "http://localhost@id.example/keys", "http://10.0.0.1/keys", "ftp://127.0.0.1/keys",
        "file:///etc/passwd", "https://", "https:///keys", "http://127.0.0.1:port/keys",
    ]:  # fmt: skip
        with pytest.raises(ValueError, match="HITHERTO_JWT_JWKS"), refusing(place):
            key_source(place)
