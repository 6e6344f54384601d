"""The clients in every language obey clients/rules.json, and the page about them tells the same."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import grpc
import pytest

from hitherto_client import HithertoCallError, RetryPolicy
from hitherto_client.calls import changes_nothing, default_seconds
from hitherto_client.errors import read_error
from hitherto_client.tokens import OwnWrites

ROOT = Path(__file__).resolve().parents[3]
RULES: dict[str, Any] = json.loads((ROOT / "clients/rules.json").read_text("utf-8"))
PAGE = (ROOT / "docs/other-languages.md").read_text("utf-8")


def named(rules: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("given", RULES[rules], ids=lambda given: given["name"])


@named("waits")
def test_waits(given: dict[str, Any]) -> None:
    error = HithertoCallError(
        grpc.StatusCode[given["code"]],
        "",
        reason=given["reason"],
        retry_after=given["retry_after"],
    )
    wait = RetryPolicy(attempts=given["attempts"]).wait_before_retry(
        error, given["failures"], repeatable=given["repeatable"]
    )
    if given["wait"] is None:
        assert wait is None
    else:
        least, most = given["wait"]
        assert wait is not None
        assert least <= wait <= most


@named("refusals")
def test_refusals_of_grpc(given: dict[str, Any]) -> None:
    nothing = grpc.aio.Metadata()
    failed = grpc.aio.AioRpcError(
        grpc.StatusCode[given["code"]], nothing, nothing, details=given["message"]
    )
    assert read_error(failed).reason == given["reason"]


def test_the_default_policy() -> None:
    assert RetryPolicy() == RetryPolicy(**RULES["retry"])


def test_deadlines() -> None:
    for given in RULES["deadlines"]:
        method = given["method"]
        assert default_seconds(method, reads=changes_nothing(method)) == given["seconds"], method


@named("tokens")
def test_tokens(given: dict[str, Any]) -> None:
    kept = OwnWrites()
    begun: dict[str | None, int] = {None: 0}
    for step in given["steps"]:
        match step["do"]:
            case "begin":
                begun[step["as"]] = kept.begin()
            case "note":
                for token in step["tokens"]:
                    kept.note(step["user"], token, begun=begun[step["begun"]])
            case "drop":
                kept.drop(step["user"])
            case "read":
                assert kept.of(step["user"]) == step["sends"]
            case unknown:
                pytest.fail(f"unknown step {unknown}")


def test_the_page_tells_the_same() -> None:
    retry = RULES["retry"]
    seconds = {given["method"].rpartition("/")[2]: given["seconds"] for given in RULES["deadlines"]}
    for told in (
        f"{retry['attempts']} attempts",
        f"{retry['first_wait']} s, doubled each time, up to {retry['longest_wait']:g} s",
        f"{seconds['GetContext']} s for reads, {seconds['SaveMemory']} s for writes, "
        f"{seconds['PreviewExtraction']} s for PreviewExtraction",
    ):
        assert told in PAGE


def test_every_package_has_the_methods_that_the_page_names() -> None:
    named = re.search(r"All packages have the methods (.*?), and follow", PAGE, re.DOTALL)
    assert named is not None
    methods = re.findall(r"`(\w+)`", named[1])
    assert len(methods) == 9
    sources = {
        folder: "".join(file.read_text("utf-8") for file in sorted((ROOT / folder).glob(kind)))
        for folder, kind in (
            ("clients/typescript/src", "client.ts"),
            ("clients/go", "*.go"),
            ("clients/java/src/main/java/com/hitherto/client", "Hitherto.java"),
        )
    }
    for folder, source in sources.items():
        for method in methods:
            spelt = method[0].upper() + method[1:] if folder == "clients/go" else method
            assert re.search(rf"(?m)^(?:func|  ).*\b{spelt}\(", source), (folder, spelt)


def test_one_number_covers_all_packages() -> None:
    number = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    for file in ("typescript/package.json", "typescript/package-lock.json"):
        assert json.loads((ROOT / "clients" / file).read_text("utf-8"))["version"] == number
    for pom in (ROOT / "clients/java").glob("pom.xml"):
        found = re.search(r"<version>(.*?)</version>", pom.read_text("utf-8"))
        assert found is not None
        assert found[1] == number
