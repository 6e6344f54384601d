"""`hitherto console`: what it refuses to do, and a run from its start to its end."""

from __future__ import annotations

import importlib
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

import hitherto_client
from hitherto_client.command import main

CONSOLE = "hitherto_client.console"


def test_what_it_refuses(capsys: pytest.CaptureFixture[str]) -> None:
    for options, told in [
        ("--listen nowhere", "--listen should be HOST:PORT"),
        ("--listen 0.0.0.0:80", "--tls-certificate"),
        ("--listen 0.0.0.0:80 --allow-http", "--public-host"),
        ("--listen 10.0.0.1:80 --allow-http --local", "loopback only"),
        ("--tls-key key.pem", "belong together"),
        ("--proxy everybody", "--proxy should be an IP address or a network"),
        ("--proxy *", "--proxy should be an IP address or a network"),
        ("--user ana", "--user needs --local"),
        ("--api-key secret", "leave out --api-key"),
    ]:
        assert main(["console", *options.split()]) == 2
        err = capsys.readouterr().err
        assert told in err
        assert "secret" not in err, options


@pytest.mark.parametrize("door", ["console", "http", "mcp"])
def test_no_door_serves_a_network_in_clear_or_with_files_that_are_no_certificate(
    door: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
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
        assert main([door, *options.split()]) == 2, options
        assert told in capsys.readouterr().err


def test_without_its_packages_it_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # The import below would also replace the module in the package that holds it, for good.
    monkeypatch.setattr(hitherto_client, "console", importlib.import_module(CONSOLE))
    for name in list(sys.modules):
        if name.startswith(CONSOLE):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "jinja2", None)
    assert main(["console"]) == 2
    assert "pip install 'hitherto[console]'" in capsys.readouterr().err


def test_a_proxy_is_an_address_or_a_network_and_not_everybody(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for refused in ["proxy.example", "0.0.0.0/0", "::/0"]:
        assert main(["console", "--proxy", refused]) == 2, refused
        assert "--proxy" in capsys.readouterr().err


@pytest.mark.faults
@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_it_serves_until_it_is_interrupted() -> None:
    command = [
        sys.executable,
        "-c",
        "from hitherto_client.command import main; raise SystemExit(main())",
        "console",
        "--listen",
        "127.0.0.1:0",
        "--proxy",
        "127.0.0.64/26",
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        url = ""
        for line in process.stderr:
            found = re.search(r"http://127\.0\.0\.1:\d+", line)
            if found:
                url = found[0]
                break
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


def test_a_taken_address_is_not_said_to_be_served(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ["console", "http", "mcp"]:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            assert main([command, "--listen", address]) == 1
        out, err = capsys.readouterr()
        assert out == "", command
        (line,) = err.splitlines()
        assert line.startswith(f"hitherto: {address} is taken"), command
        assert "--listen" in line, command


def test_what_up_serves_names_no_options_that_up_lacks() -> None:
    for listen in ["0.0.0.0:8091", "127.0.0.1:99999"]:
        ended = subprocess.run(
            [sys.executable, "-m", "hitherto_local.web"],
            env={**os.environ, "HITHERTO_HTTP_LISTEN": listen},
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        assert ended.returncode == 1, listen
        assert ended.stderr.startswith(f"HITHERTO_HTTP_LISTEN: {listen} is no address")
        assert "--allow-http" not in ended.stderr, listen
