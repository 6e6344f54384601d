"""Agents of frameworks that need an environment of their own, with our memory.

The programs in tests/frameworks/ and those of docs/integrations.md run in that environment; the
services, and the model's server, in ours.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from hitherto_client import AsyncHitherto
from tests.e2e.assistants import kept
from tests.e2e.client_packages import unavailable
from tests.e2e.conftest import Services
from tests.e2e.test_docs_site import make
from tests.e2e.test_integrations_docs import PAGE
from tests.e2e.test_integrations_docs import answer as answer_of_docs
from tests.scripted_model.assistant import Answer, AssistantRequest, ScriptedAssistant
from tests.tenants import Tenant

ROOT = Path(__file__).parents[2]
INSTALL_SECONDS, RUN_SECONDS = 540, 480

pytestmark = [pytest.mark.faults, pytest.mark.timeout(INSTALL_SECONDS + 2 * RUN_SECONDS)]


def python_of(framework: str) -> Path:
    """The interpreter with a framework; only CI installs one for a test."""
    ready = ROOT / f".venv-{framework}" / "installed"
    if not ready.exists() and os.environ.get("CI", "").lower() not in {"1", "true"}:
        unavailable(f"{framework} is not installed: run make {ready.relative_to(ROOT)} once")
    with (ROOT / "frameworks.mk").open() as lock:
        # A second worker waits for the first one's environment.
        fcntl.flock(lock, fcntl.LOCK_EX)
        made = make(ROOT, str(ready.relative_to(ROOT)), seconds=INSTALL_SECONDS)
    assert made.returncode == 0, made.stdout
    return ready.parent / "bin/python"


BOTH = """
import json, os, runpy, sys
program, page, environment = sys.argv[1:]
runpy.run_path(program, run_name="__main__")
print("=== the page ===", flush=True)
os.environ.update(json.loads(environment))
exec(compile(page, "docs/integrations.md", "exec"), {"__name__": "__main__"})
"""
"""Importing a framework takes longer than all that either does: both in one process."""


def found_at(services: Services, token: str, model: ScriptedAssistant) -> dict[str, str]:
    return {
        "HITHERTO_RETRIEVAL_ADDRESS": services.retrieval_address,
        "HITHERTO_EXTRACTION_ADDRESS": services.extraction_address,
        "HITHERTO_TOKEN": token,
        "OPENAI_BASE_URL": model.base_url,
        "OPENAI_API_KEY": "test",
        "GOOGLE_GEMINI_BASE_URL": model.base_url.removesuffix("/v1"),
        "GOOGLE_API_KEY": "test",
    }


Script = Callable[[AssistantRequest], Answer]


async def run(
    framework: str,
    services: Services,
    program: str,
    answer: Script,
    page: str,
    answer_to_page: Script = answer_of_docs,
) -> tuple[str, list[AssistantRequest]]:
    """What a program prints, on standard output and standard error, and asks its model.

    Then the program of the page runs, for another tenant; it knows where the user lives.
    """
    python = python_of(framework)
    async with ScriptedAssistant(answer) as model, ScriptedAssistant(answer_to_page) as of_page:
        process = await asyncio.create_subprocess_exec(
            *(python, "-c", BOTH, ROOT / "tests/frameworks" / program, page),
            json.dumps(found_at(services, Tenant().token, of_page)),
            env={
                **os.environ,
                **found_at(services, services.token, model),
                "LITELLM_LOCAL_MODEL_COST_MAP": "True",
                "CREWAI_DISABLE_TELEMETRY": "true",
                "CREWAI_TRACING_ENABLED": "false",
                "CREWAI_DISABLE_VERSION_CHECK": "true",
                # CrewAI makes folders there.
                "XDG_DATA_HOME": str(python.parents[1] / "share"),
            },
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            printed, _ = await asyncio.wait_for(process.communicate(), RUN_SECONDS)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    assert process.returncode == 0, printed.decode()
    told, _, of_the_page = printed.decode().partition("=== the page ===")
    assert "You live in Porto." in of_the_page
    return told, model.requests


def answering(asked: str, *, after_a_tool: bool) -> Answer:
    """Calls a tool if the user asks for it, and otherwise repeats the user's words."""
    if after_a_tool:
        return Answer("Done.")
    if asked == "Log me in.":
        return Answer(calls=(("call_1", "log_in", '{"account": "hunter2"}'),))
    return Answer(f"You said: {asked}")


def of_a_tool(request: AssistantRequest) -> bool:
    return bool(request.body["messages"][-1]["role"] == "tool")


# --- Strands Agents ------------------------------------------------------------------------------


def asked_and_told(request: AssistantRequest) -> tuple[str, str]:
    """What the user says last, and the memory that the framework adds to that message."""
    asked, *told = request.body["messages"][-1]["content"]
    return asked["text"], "".join(part["text"] for part in told)


def answer_of_strands(request: AssistantRequest) -> Answer:
    asked = "" if of_a_tool(request) else asked_and_told(request)[0]
    if asked == "I am allergic to peanuts.":
        entries = '{"entries": ["Bea is allergic to peanuts."]}'
        return Answer(calls=(("call_1", "add_memory", entries),))
    return answering(asked, after_a_tool=of_a_tool(request))


def answer_to_page_of_strands(request: AssistantRequest) -> Answer:
    _, told = asked_and_told(request)
    return Answer("You live in Porto." if "Porto" in told else "I do not know.")


PATIENT = """
from hitherto_client.integrations.strands import HithertoMemoryStore
HithertoMemoryStore.__init__.__kwdefaults__["timeout"] = 60.0
"""
"""On a busy machine two seconds are not what is tested."""
PATIENT_CALLS = """
from hitherto_client.integrations import remembrance
remembrance.remembrance_of.__kwdefaults__["timeout"] = 60.0
"""


async def test_strands(services: Services, memory: AsyncHitherto) -> None:
    """Twice the same words are said twice; calls of tools are kept only where it is asked for."""
    page = PATIENT + PAGE["Strands Agents"]
    printed, requests = await run(
        *("strands", services, "strands_agents.py", answer_of_strands, page),
        answer_to_page_of_strands,
    )
    told = dict(
        asked_and_told(request)
        for request in requests
        if request.body["messages"][-1]["role"] == "user"
    )
    assert "Tôi sống ở Đà Nẵng 🏖️ (20" in told["Tôi sống ở đâu?"]
    assert told["Log me in."] == ""
    yes = [("user", "Yes."), ("assistant", "You said: Yes.")]
    assert await kept(memory, "ana", "monday") == [
        ("user", "Tôi sống ở Đà Nẵng 🏖️"),
        ("assistant", "You said: Tôi sống ở Đà Nẵng 🏖️"),
        *yes,
        *yes,
    ]
    assert await kept(memory, "ana", "tuesday") == [
        ("user", "Tôi sống ở đâu?"),
        ("assistant", "You said: Tôi sống ở đâu?"),
    ]
    assert await kept(memory, "dan", "requests") == [*yes, *yes]
    [saved] = [one async for one in memory.memories("bea")]
    assert (saved.content, saved.origin) == ("Bea is allergic to peanuts.", "assistant")
    assert saved.conversation_id == "tools"
    assert await kept(memory, "bea", "tools") == [
        ("user", "I am allergic to peanuts."),
        ("assistant", "Done."),
    ]
    assert await kept(memory, "cem", "c1") == [
        ("user", "Log me in."),
        ("tool", 'log_in({"account": "hunter2"})'),
        ("tool", "token 4711 of hunter2"),
        ("assistant", "Done."),
    ]
    assert "store search failed" in printed
    assert "messages are added with the next call" in printed


# --- LiteLLM -------------------------------------------------------------------------------------


def answer_of_litellm(request: AssistantRequest) -> Answer:
    return answering(request.history[-1][1], after_a_tool=of_a_tool(request))


async def test_litellm(services: Services, memory: AsyncHitherto) -> None:
    """Its functions and a Router are told what is known; of cut streams the beginning is kept."""
    page = PATIENT_CALLS + PAGE["LiteLLM"]
    printed, requests = await run("litellm", services, "litellm_calls.py", answer_of_litellm, page)
    told = {request.history[-1][1]: request.instructions for request in requests}
    assert told["Tôi sống ở đâu?"].startswith("Be brief.\n\n<<<hitherto:memory ")
    assert "Đà Nẵng 🏖️" in told["Tôi sống ở đâu?"]
    assert "I live in Porto." in told["Where do I live?"]
    assert await kept(memory, "ana", "monday") == [
        ("user", "Tôi sống ở Đà Nẵng 🏖️"),
        ("assistant", "You said: Tôi sống ở Đà Nẵng 🏖️"),
        ("user", "Log me in."),
        ("tool", 'log_in({"account": "hunter2"})'),
        ("tool", "token 4711"),
        ("assistant", "Done."),
    ]
    for user, asked in (("ana", "Tôi sống ở đâu?"), ("bea", "Where do I live?")):
        assert await kept(memory, user, "tuesday") == [
            ("user", asked),
            ("assistant", f"You said: {asked}"),
        ]
        for conversation in ("closed", "dropped"):
            found = [one async for one in memory.messages(user, conversation)][::-1]
            assert [(one.role, bool(one.metadata)) for one in found] == [
                ("user", False),
                ("assistant", True),
            ]
    assert "the model answers without memory" in printed


# --- CrewAI --------------------------------------------------------------------------------------

PORTO = "The user lives in Porto."
IN_BONFIM = "The user lives in Porto, in Bonfim."


def answer_of_crewai(request: AssistantRequest) -> Answer:
    """What CrewAI asks for, as JSON, or as an answer to the user from what is told."""
    asked = request.history[-1][1]
    form = request.body.get("response_format", {}).get("json_schema", {}).get("name")
    if form == "ExtractedMemories":
        return Answer(json.dumps({"memories": [PORTO] if "I live in Porto." in asked else []}))
    if form == "MemoryAnalysis":
        analysis = {
            "suggested_scope": "/user/home",
            "categories": ["places"],
            "importance": 0.8,
            "extracted_metadata": {"entities": ["Porto"], "dates": [], "topics": []},
        }
        return Answer(json.dumps(analysis))
    if form == "ConsolidationPlan":
        [known] = re.findall(r"id=(\S+)", asked)
        update = {"action": "update", "record_id": known, "new_content": IN_BONFIM, "reason": ""}
        return Answer(json.dumps({"actions": [update], "insert_new": False, "insert_reason": ""}))
    told = f"{request.instructions} {request.history}"
    return Answer("You live in Porto." if "Porto" in told else "I do not know.")


async def test_crewai(services: Services, memory: AsyncHitherto) -> None:
    """Records come back as CrewAI gave them, and are found by the words of its questions."""
    crewai, page = answer_of_crewai, PAGE["CrewAI"]
    printed, _ = await run("crewai", services, "crewai_memory.py", crewai, page, crewai)
    # Panels of other threads may stand beside it.
    assert "ana: You live in Porto." in printed
    assert "bob: I do not know." in printed
    [saved] = [one async for one in memory.memories("ana")]
    assert (saved.content, saved.origin, saved.tags) == (IN_BONFIM, "assistant", ("places",))
    versions = [event.version async for event in memory.memory_history("ana", saved.id)]
    assert versions == [2, 1]


# --- Google ADK ----------------------------------------------------------------------------------


def answer_of_gemini(request: AssistantRequest) -> Answer:
    done = "functionResponse" in request.body["contents"][-1]["parts"][0]
    return answering(request.history[-1][1], after_a_tool=done)


async def test_google_adk(services: Services, memory: AsyncHitherto) -> None:
    """A session that is added after each run is kept once; the users of two apps are apart."""
    _, requests = await run(
        "google-adk", services, "google_adk.py", answer_of_gemini, PAGE["Google ADK"]
    )
    asked = [request for request in requests if request.history[-1][1] == "Tôi sống ở đâu?"]
    told, alone = ("".join(text for _, text in request.history[:-1]) for request in asked)
    assert "user: Tôi sống ở Đà Nẵng 🏖️" in told
    assert "Time: 20" in told
    assert alone == ""
    yes = [("user", "Yes."), ("assistant", "You said: Yes.")]
    assert await kept(memory, "one/ana", "monday") == [
        ("user", "Tôi sống ở Đà Nẵng 🏖️"),
        ("assistant", "You said: Tôi sống ở Đà Nẵng 🏖️"),
        *yes,
        *yes,
        ("user", "Log me in."),
        ("assistant", "Done."),
    ]
    assert await kept(memory, "one/bea", "s1") == [("user", "Bea works in Faro.")]
    spoken = [("user", "Who am I?"), ("assistant", "You are Bea.")]
    assert await kept(memory, "one/bea", "s2") == spoken
    [forgotten] = [one async for one in memory.memories("one/bea", statuses=["forgotten"])]
    assert (forgotten.origin, forgotten.metadata) == ("user", {"from": "form"})
