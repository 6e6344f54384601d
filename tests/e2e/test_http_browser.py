"""The HTTP door as a process, its page in a real browser, and the examples that use it (G6)."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.client_packages import unavailable
from tests.e2e.conftest import Services
from tests.e2e.methods import ask
from tests.e2e.webdriver import Browser, missing_tools, open_browser
from tests.listening import free_port

pytestmark = [pytest.mark.faults, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]
HITHERTO = "from hitherto_client.command import main; raise SystemExit(main())"


@contextmanager
def running(*command: str, until: str, **environment: str) -> Iterator[str]:
    """A Python process; what it printed on the line that matches."""
    process = subprocess.Popen(
        [sys.executable, *command],
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if found := re.search(until, line):
                yield found[0]
                break
        else:
            pytest.fail(f"{command} ended with {process.wait()}")
    finally:
        process.terminate()
        process.stdout.close()
        process.wait(60)


@pytest.fixture
async def address(services: Services) -> Any:
    """A door as people start it, which the page of the example may call."""
    pages = free_port()
    with ExitStack() as stack:
        stack.enter_context(
            running(
                *("-u", "-m", "http.server", str(pages), "--bind", "localhost"),
                *("--directory", "examples/http"),
                until="Serving HTTP",
            )
        )
        url = stack.enter_context(
            running(
                *("-c", HITHERTO, "http"),
                until=r"http://127\.0\.0\.1:\d+",
                HITHERTO_HTTP_LISTEN=f"127.0.0.1:{free_port()}",
                HITHERTO_HTTP_ORIGINS=f"https://other.example.org, http://localhost:{pages}",
                HITHERTO_RETRIEVAL_ADDRESS=services.retrieval_address,
                HITHERTO_EXTRACTION_ADDRESS=services.extraction_address,
            )
        )
        yield url, f"http://localhost:{pages}/page.html"


async def test_the_page_of_the_door_and_a_page_of_elsewhere(
    address: tuple[str, str], services: Services
) -> None:
    if missing := missing_tools():
        unavailable(f"no {' and no '.join(missing)}: apt-get install chromium chromium-driver")
    # In a thread: the services run in the loop of this test.
    await asyncio.to_thread(_visit, *address, services.token)


def _visit(door: str, page: str, token: str) -> None:
    with open_browser() as browser:
        browser.open(f"{door}/docs")
        save = "#MemoryService_SaveMemory"
        browser.one(save)
        browser.type("#credential", token)
        browser.type(f"{save} textarea", '{"userId": "ana", "content": "<b>Likes</b> tea."}')
        browser.click(f"{save} button")
        browser.until(lambda: "HTTP 200" in browser.text_of(f"{save} pre"), "no answer")
        assert "<b>Likes</b> tea." in browser.text_of(f"{save} pre")
        export = "#PrivacyService_ExportUser"
        browser.click(f"{export} button")
        browser.until(lambda: '"manifest"' in browser.text_of(f"{export} pre"), "no stream")
        browser.type("#find", "ResolvePendingAction")
        assert not browser.script("return document.querySelector(arguments[0]).offsetParent", save)
        for width in (1280, 390):
            browser.resize(width, 800)
            assert browser.script("return document.documentElement.scrollWidth") <= width
        if folder := os.environ.get("PICTURES"):
            browser.screenshot(Path(folder) / "http-docs.png")
        assert browser.errors() == []
        _remember(browser, page, door, token)


def _remember(browser: Browser, page: str, door: str, token: str) -> None:
    browser.open(page)
    browser.type("#door", door)
    browser.type("#token", token)
    browser.type("#text", "Tôi sống ở Đà Nẵng.")
    browser.click("#save")
    browser.until(lambda: "Remembered" in browser.text_of("#answer"), "not remembered")
    browser.type("#question", "Đà Nẵng")
    browser.click("#ask")
    browser.until(lambda: "Đà Nẵng" in browser.text_of("#answer"), "not found")


async def test_a_webhook_is_remembered_once(address: tuple[str, str], services: Services) -> None:
    def post(event: dict[str, str]) -> Any:
        body = json.dumps(event).encode()
        with urllib.request.urlopen(f"http://{receiver}", body, timeout=120) as reply:
            return json.load(reply)

    with running(
        *("-m", "examples.http.webhook", "--door", address[0], "--listen", "127.0.0.1:0"),
        until=r"127\.0\.0\.1:\d+",
        HITHERTO_API_KEY=services.token,
    ) as receiver:
        text = "Ich wohne in Köln."
        event = {"id": "evt-1", "user": "ana", "conversation": "ticket-7", "text": text}
        for _ in range(2):
            await asyncio.to_thread(post, event)
        second = {**event, "id": "evt-2", "text": "Und ich trinke gern Tee.", "conversation": "8"}
        known = await asyncio.to_thread(post, second)
    assert "Köln" in known["known"]
    kept = await ask(services, "GetConversation", conversation_id="ticket-7")
    assert [message.content for message in kept.messages] == [event["text"]]
