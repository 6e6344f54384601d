"""Every section of docs/integrations.md runs as a program of its own, as it stands."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import pytest

from hitherto_client.integrations.openai import remembering
from tests.e2e.conftest import Services
from tests.scripted_model.assistant import Answer, AssistantRequest, ScriptedAssistant

PAGE = (Path(__file__).parents[2] / "docs" / "integrations.md").read_text("utf-8")
SECTIONS = {
    title: program
    for title, text in re.findall(r"(?ms)^## (.+?)\n(.*?)(?=^## |\Z)", PAGE)
    if (program := "\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL)))
}


def answer(request: AssistantRequest) -> Answer:
    """Knows what the request tells, and nothing else."""
    told = f"{request.instructions} {request.history[:-1]}"
    return Answer("You live in Porto." if "Porto" in told else "I do not know.")


@pytest.fixture
async def model() -> AsyncIterator[ScriptedAssistant]:
    async with ScriptedAssistant(answer) as server:
        yield server


@pytest.mark.parametrize("title", SECTIONS)
async def test_a_section_runs(
    title: str,
    services: Services,
    model: ScriptedAssistant,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("HITHERTO_RETRIEVAL_ADDRESS", services.retrieval_address)
    monkeypatch.setenv("HITHERTO_EXTRACTION_ADDRESS", services.extraction_address)
    monkeypatch.setenv("HITHERTO_TOKEN", services.token)
    monkeypatch.setenv("OPENAI_BASE_URL", model.base_url)
    monkeypatch.setenv("OPENAI_API_KEY", "test")
    # On a busy machine two seconds are not what is tested here.
    monkeypatch.setitem(cast(dict[str, float], remembering.__kwdefaults__), "timeout", 60.0)
    program = compile(SECTIONS[title], f"docs/integrations.md, {title}", "exec")
    await asyncio.to_thread(exec, program, {"__name__": "__main__"})
    assert "Porto" in capsys.readouterr().out
