"""Sessions of the console that several processes share, and that outlive each of them (G5, H4)."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hitherto_client.console.target import ConsoleTarget
from tests.e2e.conftest import Services
from tests.e2e.consoles import Visitor, served, visitor
from tests.tenants import Tenant, credential

COOKIE = "hitherto_console"


@pytest.fixture
def target(services: Services) -> ConsoleTarget:
    return ConsoleTarget(services.retrieval_address, services.extraction_address)


def moved(somebody: Visitor, url: str) -> None:
    """The same browser, at another process; cookies belong to a host, not to a port."""
    somebody.http.base_url = url


def contents(directory: Path) -> Iterator[bytes]:
    for path in directory.rglob("*"):
        yield str(path).encode()
        if path.is_file():
            yield path.read_bytes()


def change(directory: Path) -> None:
    """Change one character of what is stored of the only session."""
    [state] = directory.rglob("state")
    kept = state.read_text()
    state.write_text(kept[:40] + ("A" if kept[40] != "A" else "B") + kept[41:])


async def test_a_restart_and_a_second_process_change_nothing(
    target: ConsoleTarget, tenant: Tenant, tmp_path: Path
) -> None:
    """Pages, forms and what is promised to the next page go on where they were."""
    async with served(target, sessions=tmp_path) as first, visitor(first) as ana:
        await ana.open("/sign-in")
        async with served(target, sessions=tmp_path) as second:
            moved(ana, second)
            await ana.send("/sign-in", credential=credential(tenant, "ana"))
            assert ana.status == 200
            await ana.open("/memories/new")
            moved(ana, first)
            reply = await ana.http.post(
                "/memories/new",
                data={**ana.hidden("/memories/new"), "content": "Ana likes tea."},
                follow_redirects=False,
            )
            assert reply.status_code == 303
            moved(ana, second)
            await ana.open(reply.headers["location"])
            assert "Saved." in ana.text
            await ana.open("/data")
            await ana.send("/data/erase", confirm="ana")
            receipt = re.sub(r"^https?://[^/]*", "", ana.url)
            assert "/data/receipts/" in receipt
        moved(ana, first)
        await ana.open(receipt)
        assert ana.status == 200
    async with served(target, sessions=tmp_path) as third:
        moved(ana, third)
        async with visitor(third) as again:
            again.http.cookies = ana.http.cookies
            await again.open(receipt)
            assert again.status == 200


async def test_signing_out_ends_a_session_in_every_process(
    target: ConsoleTarget, tenant: Tenant, tmp_path: Path
) -> None:
    async with (
        served(target, sessions=tmp_path) as first,
        served(target, sessions=tmp_path) as two,
        visitor(first) as ana,
    ):
        await ana.sign_in(credential(tenant, "ana"))
        cookie = ana.http.cookies[COOKIE]
        moved(ana, two)
        await ana.open("/memories")
        assert ana.status == 200
        await ana.send("/sign-out")
        for url in (first, two):
            moved(ana, url)
            ana.http.cookies.set(COOKIE, cookie)
            await ana.open("/memories")
            assert "/sign-in" in ana.url
            # A part of a page is not filled with the form.
            part = await ana.http.get("/memories", headers={"hx-request": "true"})
            assert (part.status_code, part.headers["hx-redirect"]) == (401, "/sign-in")
    async with served(target, sessions=tmp_path) as third, visitor(third) as ana:
        ana.http.cookies.set(COOKIE, cookie)
        await ana.open("/memories")
        assert "/sign-in" in ana.url


async def test_neither_the_cookie_nor_the_directory_holds_the_credential(
    target: ConsoleTarget, tenant: Tenant, tmp_path: Path
) -> None:
    token = credential(tenant, "ana")
    async with served(target, sessions=tmp_path) as url, visitor(url) as ana:
        await ana.sign_in(token)
        await ana.open("/memories")
        cookie = ana.http.cookies[COOKIE]
        assert len(cookie) < 64
        stored = list(contents(tmp_path))
        assert len(stored) > 2
        for piece in stored:
            for secret in (token, token.split(".")[2], cookie):
                assert secret.encode() not in piece
        # What was changed in the directory is worth nothing.
        change(tmp_path)
        await ana.open("/memories")
        assert "/sign-in" in ana.url


async def test_a_credential_goes_only_to_the_services_that_it_was_given_for(
    target: ConsoleTarget, tenant: Tenant, tmp_path: Path
) -> None:
    """Browsers send cookies to every port of a host: the next console may be for other services."""
    other = ConsoleTarget(target.extraction, target.retrieval)
    async with (
        served(target, sessions=tmp_path) as ours,
        served(other, sessions=tmp_path) as url,
        visitor(ours) as ana,
    ):
        await ana.sign_in(credential(tenant, "ana"))
        moved(ana, url)
        await ana.open("/memories")
        assert "/sign-in" in ana.url
        moved(ana, ours)
        await ana.open("/memories")
        assert ana.url.startswith(f"{ours}/memories")


def only_session(directory: Path) -> Path:
    [state] = directory.rglob("state")
    return state.parent


def _no_folder(session: Path) -> None:
    shutil.rmtree(session)
    session.write_text("")


def _no_file(session: Path) -> None:
    (session / "state").unlink()
    (session / "state").mkdir()


def _loop(session: Path) -> None:
    (session / "state").unlink()
    (session / "state").symlink_to("state")


def _cut_short(session: Path) -> None:
    (session / "state").write_text((session / "state").read_text()[:20])


@pytest.mark.parametrize("damage", [_no_folder, _no_file, _loop, _cut_short])
async def test_a_damaged_session_ends_and_keeps_nobody_from_a_new_one(
    target: ConsoleTarget, tenant: Tenant, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    """What else lies in its folder is not read."""
    async with served(target, sessions=tmp_path) as url, visitor(url) as ana:
        await ana.sign_in(credential(tenant, "ana"))
        session = only_session(tmp_path)
        (session / "lost+found").mkdir()
        os.mkfifo(session / "pipe")
        await ana.open("/memories")
        assert (ana.status, "/sign-in" in ana.url) == (200, False)
        damage(session)
        await ana.open("/memories")
        assert (ana.status, "/sign-in" in ana.url) == (200, True)
        await ana.send("/sign-in", credential=credential(tenant, "ana"))
        await ana.open("/memories")
        assert (ana.status, "/sign-in" in ana.url) == (200, False)
