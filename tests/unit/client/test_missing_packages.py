"""An integration without its package says which extra brings it."""

from __future__ import annotations

import importlib
import sys

import pytest

PACKAGES = {
    "openai": "openai",
    "anthropic": "anthropic",
    "agents": "agents",
    "langchain": "langchain_core",
    "langgraph": "langgraph",
    "pydantic-ai": "pydantic_ai",
    "agent-framework": "agent_framework",
    "llama-index": "llama_index",
    "strands": "strands",
    "google-adk": "google.adk",
    "litellm": "litellm",
    "crewai": "crewai",
}


@pytest.mark.parametrize("extra", PACKAGES)
def test_the_error_names_the_extra(extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    package, module = PACKAGES[extra], f"hitherto_client.integrations.{extra.replace('-', '_')}"
    for name in list(sys.modules):
        if name.startswith("hitherto_client.integrations.") or name.split(".")[0] == package:
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=rf"pip install 'hitherto\[{extra}\]'"):
        importlib.import_module(module)
    assert module not in sys.modules
