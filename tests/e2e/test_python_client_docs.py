"""Every snippet of docs/python-client.md runs, in order, as one program."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from hitherto_client import Hitherto
from tests.e2e.conftest import Services

PAGE = (Path(__file__).parents[2] / "docs" / "python-client.md").read_text("utf-8")


async def test_the_snippets_run(
    services: Services, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HITHERTO_RETRIEVAL_ADDRESS", services.retrieval_address)
    monkeypatch.setenv("HITHERTO_EXTRACTION_ADDRESS", services.extraction_address)
    monkeypatch.setenv("HITHERTO_TOKEN", services.token)
    # On a busy machine the two seconds of `enhance_prompt` are not what is tested here.
    program = "\n".join(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL))
    names: dict[str, Any] = {"__name__": "snippets"}
    try:
        await asyncio.to_thread(exec, compile(program, "docs/python-client.md", "exec"), names)
    finally:
        if "m" in names:
            names["m"].close()
    out = capsys.readouterr().out
    assert "Ana lives in Porto." in out
    assert "succeeded" in out
    assert "short answers" in out
    assert "forgotten" in out
    assert "rows are gone for good" in out
    assert "USER_ERASED None" in out
    assert "Rui plays chess." in out


def test_the_page_names_every_method() -> None:
    table = PAGE.partition("## All methods")[2]
    methods = {name for name in dir(Hitherto) if not name.startswith("_")}
    assert set(re.findall(r"`(\w+)`", table)) >= methods - {"close", "connection", "has_credential"}
