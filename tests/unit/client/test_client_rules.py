"""The clients in every language obey clients/rules.json, and the page about them tells the same."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path
from typing import Any

import grpc
import pytest

from hitherto_client import Hitherto, HithertoCallError, RetryPolicy
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
        grpc.StatusCode[given["code"]], "", reason=given["reason"], retry_after=given["retry_after"]
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


def test_every_package_has_the_methods_of_the_python_client_that_the_page_names() -> None:
    named = re.search(r"All packages have the methods (.*?), and\s+follow", PAGE, re.DOTALL)
    assert named is not None
    methods = re.findall(r"`(\w+)`", named[1])
    assert len(methods) > 20
    sources = {
        folder: "".join(
            file.read_text("utf-8")
            for file in sorted((ROOT / folder).glob(kind))
            if not file.name.endswith("_test.go")
        )
        for folder, kind in (
            ("clients/typescript/src", "client.ts"),
            ("clients/go", "*.go"),
            ("clients/java/src/main/java/com/hitherto/client", "Hitherto.java"),
        )
    }
    for method in methods:
        python = getattr(Hitherto, re.sub(r"[A-Z]", lambda c: f"_{c[0].lower()}", method))
        # The arguments that need no name: their order is the same everywhere. The word `export` is
        # taken in TypeScript.
        order = [
            name
            for name, given in inspect.signature(python).parameters.items()
            if given.kind is given.POSITIONAL_OR_KEYWORD and name not in {"self", "export"}
        ]
        for folder, source in sources.items():
            spelt = method[0].upper() + method[1:] if folder == "clients/go" else method
            found = re.search(rf"(?m)^(?:func|  (?! )).*\b{spelt}\(([^{{]*)", source)
            assert found is not None, (folder, spelt)
            words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", found[1]).lower()
            places = [re.search(rf"\b{name}\b", words) for name in order]
            assert all(places), (folder, spelt, order, found[1])
            starts = [place.start() for place in places if place]
            assert starts == sorted(starts), (folder, spelt, order)
