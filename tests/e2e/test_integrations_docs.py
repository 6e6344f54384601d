"""The programs of docs/integrations.md and docs/langgraph-agent.md run as they stand."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from hitherto_client.integrations import remembrance
from tests.e2e.conftest import Services
from tests.lazily import Lazily
from tests.scripted_model.assistant import Answer, AssistantRequest, ScriptedAssistant

if TYPE_CHECKING:
    from hitherto_client.integrations import agent_framework as our_agent_framework
    from hitherto_client.integrations import llama_index as our_llama_index
    from hitherto_client.integrations import pydantic_ai as our_pydantic_ai
else:
    our_agent_framework = Lazily("hitherto_client.integrations.agent_framework")
    our_pydantic_ai = Lazily("hitherto_client.integrations.pydantic_ai")
    our_llama_index = Lazily("hitherto_client.integrations.llama_index")

DOCS = Path(__file__).parents[2] / "docs"
PAGE = {
    title: program
    for title, text in re.findall(
        r"(?ms)^## (.+?)\n(.*?)(?=^## |\Z)", (DOCS / "integrations.md").read_text("utf-8")
    )
    if (program := "\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL)))
}
ELSEWHERE = ("CrewAI", "LiteLLM", "Strands Agents", "Google ADK")
"""The sections that tests/e2e/test_frameworks.py runs."""
SECTIONS = {title: program for title, program in PAGE.items() if title not in ELSEWHERE}
BEFORE, AFTER = (
    program
    for program in re.findall(
        r"```python\n(.*?)```", (DOCS / "langgraph-agent.md").read_text("utf-8"), re.DOTALL
    )
    if "__main__" in program
)


def answer(request: AssistantRequest) -> Answer:
    """Knows what the request tells, and nothing else."""
    told = f"{request.instructions} {request.history[:-1]}"
    return Answer("You live in Porto." if "Porto" in told else "I do not know.")


@pytest.fixture
async def model() -> AsyncIterator[ScriptedAssistant]:
    async with ScriptedAssistant(answer) as server:
        yield server


@pytest.fixture
def environment(
    services: Services,
    model: ScriptedAssistant,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    monkeypatch.setenv("HITHERTO_RETRIEVAL_ADDRESS", services.retrieval_address)
    monkeypatch.setenv("HITHERTO_EXTRACTION_ADDRESS", services.extraction_address)
    monkeypatch.setenv("HITHERTO_TOKEN", services.token)
    monkeypatch.setenv("OPENAI_BASE_URL", model.base_url)
    monkeypatch.setenv("OPENAI_API_KEY", "test")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", model.base_url.removesuffix("/v1"))
    monkeypatch.setenv("ANTHROPIC_API_KEY", "test")
    # On a busy machine two seconds are not what is tested here.
    bounds: list[Any] = [
        remembrance.remembrance_of,
        our_pydantic_ai.HithertoMemory.__init__,
        our_agent_framework.HithertoContextProvider.__init__,
    ]
    if "LlamaIndex" in request.node.name:
        bounds.append(our_llama_index.HithertoMemoryBlock.__init__)
    for bounded in bounds:
        monkeypatch.setitem(cast(dict[str, float], bounded.__kwdefaults__), "timeout", 60.0)


async def run(program: str, name: str) -> None:
    await asyncio.to_thread(exec, compile(program, name, "exec"), {"__name__": "__main__"})


@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize("title", SECTIONS)
async def test_a_section_runs(title: str, capsys: pytest.CaptureFixture[str]) -> None:
    await run(SECTIONS[title], f"docs/integrations.md, {title}")
    assert "Porto" in capsys.readouterr().out


@pytest.mark.usefixtures("environment")
async def test_an_agent_gets_a_memory(capsys: pytest.CaptureFixture[str]) -> None:
    await run(BEFORE, "docs/langgraph-agent.md, before")
    assert capsys.readouterr().out.splitlines() == ["I do not know."] * 2
    await run(AFTER, "docs/langgraph-agent.md, after")
    first, second, *noted = capsys.readouterr().out.splitlines()
    assert (first, second) == ("I do not know.", "You live in Porto.")
    assert sorted(noted) == ["We talked on monday.", "We talked on tuesday."]
