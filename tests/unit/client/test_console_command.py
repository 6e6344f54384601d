"""The console: its command, its pages about failures, what it takes from forms and addresses."""

from __future__ import annotations

import importlib
import re
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from datetime import date
from pathlib import Path

import grpc
import httpx2
import pytest

import hitherto_client
from hitherto_client.console.charts import usage_charts
from hitherto_client.console.fields import FieldRefused, Fields
from hitherto_client.console.second_person import to_second_person
from hitherto_client.console.target import ConsoleTarget
from hitherto_client.console.visits import only_here
from hitherto_client.results import Usage, UsageRow
from hitherto_local import web
from tests.e2e.consoles import Visitor, served, visitor
from tests.refusing import refusing
from tests.unit.client.fake_services import Failure, Fakes, RunCommand

CONSOLE = "hitherto_client.console"


def test_what_it_refuses(run_command: RunCommand) -> None:
    for options, told in [
        ("--listen nowhere", "--listen should be HOST:PORT"),
        ("--listen 10.0.0.1:80 --allow-http --local", "loopback only"),
        ("--tls-key key.pem", "belong together"),
        ("--proxy everybody", "--proxy should be an IP address or a network"),
        ("--proxy *", "--proxy should be an IP address or a network"),
        ("--proxy proxy.example", "--proxy"),
        ("--proxy 0.0.0.0/0", "--proxy"),
        ("--proxy ::/0", "--proxy"),
        ("--user ana", "--user needs --local"),
        ("--api-key secret", "leave out --api-key"),
    ]:
        err = run_command(2, ["console", *options.split()]).err
        assert told in err
        assert "secret" not in err, options


@pytest.mark.parametrize("door", ["console", "http", "mcp"])
def test_no_door_serves_a_network_in_clear_or_with_files_that_are_no_certificate(
    door: str, tmp_path: Path, run_command: RunCommand
) -> None:
    broken, missing = tmp_path / "broken.pem", tmp_path / "missing.pem"
    broken.write_text("no certificate")
    pair = "--listen 127.0.0.1:0 --tls-certificate {} --tls-key {}"
    for options, told in [
        ("--listen 0.0.0.0:0", "--tls-certificate"),
        ("--listen 10.0.0.1:0", "--allow-http behind a proxy"),
        ("--listen 0.0.0.0:0 --allow-http", "--public-host"),
        (pair.format(broken, missing), f"cannot be used: {missing}: No such file"),
        (pair.format(broken, broken), f"{broken} and {broken} hold no certificate"),
    ]:
        assert told in run_command(2, [door, *options.split()]).err


def test_without_its_packages_it_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, run_command: RunCommand
) -> None:
    # The import below would also replace the module in the package that holds it, for good.
    monkeypatch.setattr(hitherto_client, "console", importlib.import_module(CONSOLE))
    for name in list(sys.modules):
        if name.startswith(CONSOLE):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "jinja2", None)
    assert "pip install 'hitherto[console]'" in run_command(2, ["console"]).err


@pytest.mark.faults
@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_it_serves_until_it_is_interrupted() -> None:
    program = "from hitherto_client.command import main; raise SystemExit(main())"
    options = "console --listen 127.0.0.1:0 --proxy 127.0.0.64/26"
    command = [sys.executable, "-c", program, *options.split()]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        lines = (re.search(r"http://127\.0\.0\.1:\d+", line) for line in process.stderr)
        url = next(found[0] for found in lines if found)
        try:
            assert httpx2.get(f"{url}/health", timeout=180, trust_env=False).text == "ok\n"
            page = httpx2.get(f"{url}/memories?user=ana", timeout=180, trust_env=False)
            assert page.status_code == 303
            for proxy, believed in [("127.0.0.70", True), ("127.0.0.2", False)]:
                assert ("Secure" in _cookie_by(proxy, url)) is believed, proxy
        finally:
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=180)
    assert "ana" not in err
    assert "Traceback" not in err


def _cookie_by(proxy: str, url: str) -> str:
    """The cookie of the sign-in form, asked for by a proxy with TLS at this address."""
    way = httpx2.HTTPTransport(local_address=proxy)
    with httpx2.Client(transport=way, timeout=180, trust_env=False) as http:
        asked = http.get(f"{url}/sign-in", headers={"x-forwarded-proto": "https"})
    return asked.headers["set-cookie"]


def test_a_taken_address_is_not_said_to_be_served(run_command: RunCommand) -> None:
    for command in ["console", "http", "mcp"]:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            out, err = run_command(1, [command, "--listen", address])
        assert out == "", command
        (line,) = err.splitlines()
        assert line.startswith(f"hitherto: {address} is taken"), command
        assert "--listen" in line, command


def test_what_up_serves_names_no_options_that_up_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "configure_logging", lambda *_: None)
    for listen in ["0.0.0.0:8091", "127.0.0.1:99999"]:
        monkeypatch.setenv("HITHERTO_HTTP_LISTEN", listen)
        with pytest.raises(SystemExit) as ended:
            web.main()
        told = str(ended.value)
        assert told.startswith(f"HITHERTO_HTTP_LISTEN: {listen} is no address")
        assert "--allow-http" not in told, listen


# What the console's pages say when the services refuse or fail.


Code = grpc.StatusCode


@pytest.fixture
async def person(fakes: Fakes) -> AsyncIterator[Visitor]:
    """Somebody who has signed in."""
    async with served(ConsoleTarget()) as url, visitor(url) as signed_in:
        await signed_in.sign_in("some-key")
        assert signed_in.status == 200, signed_in.text
        yield signed_in


async def test_failures_are_pages(person: Visitor, fakes: Fakes) -> None:
    cases: list[tuple[Failure, int, str]] = [
        (Failure(Code.PERMISSION_DENIED, "SCOPE_MISSING"), 403, "lacks the scope"),
        (Failure(Code.PERMISSION_DENIED, "USER_NOT_ALLOWED"), 403, "does not reach this person"),
        (Failure(Code.FAILED_PRECONDITION, "ENCRYPTION_NOT_CONFIGURED"), 409, "It did not work"),
        (Failure(Code.RESOURCE_EXHAUSTED, "RATE_LIMITED"), 429, "Wait a moment"),
        (Failure(Code.UNAVAILABLE, "DATABASE_UNAVAILABLE"), 503, "cannot be reached"),
        (Failure(Code.DEADLINE_EXCEEDED), 504, "did not answer in time"),
        (Failure(Code.INTERNAL, "INTERNAL"), 502, "The services failed"),
        (Failure(Code.UNKNOWN), 502, "The services failed"),
        (
            Failure(Code.INVALID_ARGUMENT, "INVALID_FIELD", violations=(("tags[0]", "too <b>"),)),
            422,
            "tags[0] : too <b>",
        ),
    ]
    for failure, status, told in cases:
        fakes.recorder.fail("ListMemories", failure)
        await person.open("/memories?user=ana")
        assert person.status == status, failure
        assert told in person.text, failure
        assert "<b>" not in person.page, failure
        assert "ana" in person.text, failure
        assert "Sign out" in person.text, failure


async def test_a_part_of_a_page_is_replaced_by_its_failure(person: Visitor, fakes: Fakes) -> None:
    fakes.recorder.fail("SearchMemories", Failure(Code.UNAVAILABLE, "DATABASE_UNAVAILABLE"))
    headers = {"hx-request": "true", "hx-target": "results"}
    reply = await person.http.get("/memories?user=ana&q=tea", headers=headers)
    assert reply.status_code == 503
    assert '<div id="results"' in reply.text


async def test_a_credential_that_is_over_ends_the_session(person: Visitor, fakes: Fakes) -> None:
    over = Failure(Code.UNAUTHENTICATED, "CREDENTIAL_INVALID")
    fakes.recorder.fail("ListMemories", over)
    await person.open("/memories?user=ana")
    assert "/sign-in?next=%2Fmemories%3Fuser%3Dana" in person.url
    await person.open("/timeline?user=ana")
    assert "/sign-in" in person.url


async def test_scripts_are_sent_to_the_sign_in_as_a_whole(fakes: Fakes) -> None:
    async with served(ConsoleTarget()) as url, visitor(url) as stranger:
        reply = await stranger.http.get("/memories?user=ana", headers={"hx-request": "true"})
    assert (reply.status_code, reply.headers["hx-redirect"]) == (401, "/sign-in")


async def test_a_fault_of_the_console_is_a_page_with_all_protection(
    person: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*given: object, **named: object) -> None:
        raise RuntimeError("a fault with <secrets>")

    monkeypatch.setattr("hitherto_client.console.visits.render", broken)
    reply = await person.http.get("/memories?user=ana")
    assert reply.status_code == 500
    assert "secrets" not in reply.text
    assert "content-security-policy" in reply.headers


# The console: what it takes from forms and addresses, what it refuses, its charts, its wording.


def fields(text: str) -> Fields:
    return Fields({"x": [text]})


FIELDS: dict[str, tuple[Callable[[Fields], object], list[str]]] = {
    "from 0 to 200": (
        lambda read: read.whole("x", least=0, most=200),
        ["-1", "201", "1.5", "²", "٣", "1e3", "9" * 5_000, "one"],
    ),
    "from 0 to 1": (
        lambda read: read.share("x"),
        ["nan", "inf", "-0.1", "1.1", "1e400", "one"],
    ),
    "2026-08-21": (
        lambda read: read.day("x"),
        ["2026-13-45", "yesterday", "9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00"],
    ),
}


@pytest.mark.parametrize("told", FIELDS)
def test_what_is_no_whole_number_no_share_and_no_day(told: str) -> None:
    read, texts = FIELDS[told]
    for text in texts:
        with pytest.raises(FieldRefused, match=told), refusing(text):
            read(fields(text))


def test_words_are_those_that_there_are() -> None:
    assert Fields({"x": ["a", "", "b"]}).words("x", ("a", "b")) == ["a", "b"]
    for read in (fields("c").word, fields("c").words):
        with pytest.raises(FieldRefused, match="unknown: c"):
            read("x", ("a", "b"))


def test_redirects_stay_here() -> None:
    for target, kept in [
        ("/memories?q=tea", "/memories?q=tea"), ("", "/"), ("memories", "/"),
        ("//evil.example", "/"), ("/\\evil.example", "/"), ("/a\r\nset-cookie: x", "/"),
        ("https://evil.example", "/"),
    ]:  # fmt: skip
        assert only_here(target) == kept


# Usage as columns of days.


def used(day: str, kind: str, calls: int) -> UsageRow:
    """A row of a report."""
    others = ("input_tokens", "output_tokens", "embedding_calls", "embedding_tokens")
    return UsageRow("", kind, day, "", Usage(calls, **dict.fromkeys(others, 0), cost_usd=0.0))


def test_a_day_is_one_column_of_all_kinds_drawn_to_the_highest() -> None:
    rows = [
        used("2026-08-22", "preview", 1),
        used("2026-08-22", "memory-extraction", 3),
        used("2026-08-21", "memory-extraction", 2),
        used("2026-01-01", "decay", 9),
    ]
    drawn = usage_charts(rows, date(2026, 8, 20), date(2026, 8, 22))
    assert (drawn.days, drawn.kinds) == (3, ("memory-extraction", "preview"))
    [chart] = drawn.charts
    assert (chart.title, chart.total, chart.most) == ("Calls of the model", "6", "4")
    shown = [(piece.x, piece.y, piece.height, piece.colour) for piece in chart.pieces]
    assert shown == [(1, 30.0, 30.0, 0), (2, 15.0, 45.0, 0), (2, 0.0, 15.0, 1)]
    assert usage_charts([], date(2026, 8, 1), date(2026, 8, 2)).charts == ()


# Statements about a person, as the console says them to that person.


def test_only_what_is_certain_is_turned() -> None:
    for stored, told in [
        ("User lives in Leith.", "You live in Leith."),
        (
            "User moved to Glasgow and lives in Glasgow.",
            "You moved to Glasgow and live in Glasgow.",
        ),
        ("User's sister Ilse lives in Lyon.", "Your sister Ilse lives in Lyon."),
        ("The user bakes their own oat bars.", "You bake your own oat bars."),
        (
            "User has a cat who tries to steal and hides.",
            "You have a cat who tries to steal and hides.",
        ),
        ("User studies law. User doesn't drive.", "You study law. You don't drive."),
        ("User asked: Does User run? He does.", "You asked: Does User run? He does."),
        ("User is tired; wants to rest", "You are tired; want to rest"),
        ("Người dùng sống ở Huế.", "Bạn sống ở Huế."),
        # What is unsure stays as it is.
        ("User interests include cooking.", "User interests include cooking."),
        ("User met Anna and her husband.", "User met Anna and her husband."),
        ("User rows. Maren sings.", "User rows. Maren sings."),
        ("Maren lives in Leith.", "Maren lives in Leith."),
        ("User", "User"),
        ("مريم تحب الشاي", "مريم تحب الشاي"),
    ]:
        assert to_second_person(stored) == told
