"""Memory as tools of a language model, against running services (G1)."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hitherto_client import Hitherto
from hitherto_client.tools import Toolbox, ToolResult, UnboundCredentialError
from hitherto_client.tools.arguments import ToolArgumentError
from tests.e2e import learning
from tests.e2e.conftest import Services, StartServices
from tests.e2e.curating import save, update
from tests.e2e.handing_over import document, taken_in
from tests.e2e.learning import talk
from tests.e2e.methods import ask
from tests.e2e.sealing import change_profile
from tests.scripted_model.assistant import Answer, AssistantRequest, ScriptedAssistant
from tests.tenants import Tenant, credential


class Calling:
    """A model that calls tools."""

    def __init__(self, toolbox: Toolbox) -> None:
        self.toolbox = toolbox

    async def result(self, tool: str, /, **arguments: Any) -> ToolResult:
        return await asyncio.to_thread(self.toolbox.call, tool, json.dumps(arguments))

    async def __call__(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        result = await self.result(tool, **arguments)
        assert not result.is_error, result.text
        value: dict[str, Any] = json.loads(result.text)
        return value


@pytest.fixture
def client(services: Services, tenant: Tenant) -> Iterator[Hitherto]:
    with Hitherto(
        services.retrieval_address,
        services.extraction_address,
        token=credential(tenant, "ana"),
    ) as connected:
        yield connected


@pytest.fixture
def ana(client: Hitherto) -> Calling:
    return Calling(Toolbox(client, "ana"))


async def learn(services: Services) -> None:
    """A conversation of Ana, a document and a profile."""
    said = ("My name is Ana. Sarah Johnson leads Project Atlas.", "I live in Porto.")
    await learning.learn(services, talk(*said))
    budget = "The Q4 budget of Atlas is 40,000 euros."
    await taken_in(services, document("d1", budget, source_type="gmail", title="Q4 budget"))
    await change_profile(services, summary="An architect.")


async def test_what_is_saved_is_found_by_the_next_call(ana: Calling) -> None:
    saved = await ana("save_memory", content="Ana is allergic to peanuts.", tags=["Health"])
    assert not saved["already_known"]
    assert saved["saved"]["said_by"] == "user"
    assert saved["saved"]["type"] == "fact"
    for name in ("search_memory", "search_user_memories"):
        found = await ana(name, query="peanuts", limit=1)
        assert found["found"] == 1
        assert found["items"][0]["content"] == "Ana is allergic to peanuts."
    again = await ana("save_memory", content="Ana is allergic to peanuts.")
    assert again["already_known"]


async def test_a_model_reads_what_people_see_in_any_language(ana: Calling) -> None:
    """H5: letters that nobody sees could be orders to the model."""
    for hidden, shown in (
        ("tea\U000e0069\U000e0067", "tea"),
        ("mate\U000e0101\U000e0102", "mate"),
        ("co\ufe00f\ufe01f\ufe02ee", "coffee"),
        ("\u202emilk\u2066\u200b", "milk"),
        ("gia đình 👩\u200d👩\u200d👧 ❤\ufe0f", "gia đình 👩\u200d👩\u200d👧 ❤\ufe0f"),
        ("می\u200cخواهم", "می\u200cخواهم"),
        ("アナは東京に住んでいます", "アナは東京に住んでいます"),
    ):
        saved = await ana("save_memory", content=f"Ana: {hidden}.", stated_by_user=False)
        assert saved["saved"]["content"] == f"Ana: {shown}.", shown
        # What a model concluded is not the user's word.
        assert saved["saved"]["said_by"] == "assistant"
        found = await ana("search_memory", query=f"Ana: {shown}")
        assert found["items"][0]["content"] == f"Ana: {shown}."


async def test_reads(services: Services, ana: Calling) -> None:
    assert (await ana("get_profile"))["profile"] == {}
    assert await ana("get_recent_conversations") == {"conversations": []}
    assert (await ana("retrieve_context", query="anything"))["found"] == 0
    await learn(services)
    assert (await ana("get_profile"))["profile"]["summary"] == "An architect."
    everything = await ana("retrieve_context", query="Atlas budget")
    assert {"document", "message"} <= {item["kind"] for item in everything["items"]}
    documents = await ana("retrieve_context", query="Atlas budget", sources=["documents"])
    assert [item["title"] for item in documents["items"]] == ["Q4 budget"]
    assert documents["items"][0]["said_by"] == "document"
    none = await ana("retrieve_context", query="Porto", time_filter={"before": "2001-01-01"})
    assert none["items"] == []
    own = await ana("query_user_knowledge", query="Where does Ana live? Porto")
    assert "I live in Porto." in [item["content"] for item in own["items"]]
    assert {item["kind"] for item in own["items"]} <= {"message", "document"}
    (recent,) = (await ana("get_recent_conversations", include_context=True))["conversations"]
    assert recent["conversation_id"] == "c1"
    assert [said["content"] for said in recent["messages"]][1] == "I live in Porto."


async def test_entities_are_found_by_part_of_their_name(services: Services, ana: Calling) -> None:
    saved = (await save(services, "Sarah Johnson leads the team.")).memory
    await update(services, saved.id, entities=["Sarah Johnson"])
    found = await ana("find_entity", name="Sarah")
    assert [entity["name"] for entity in found["entities"]] == ["Sarah Johnson"]


async def test_actions_wait_for_the_user(services: Services, ana: Calling) -> None:
    action = {"action_type": "send_email", "description": "Email Sarah the agenda."}
    first = await ana("prepare_action", params={"to": "sarah@example.org"}, **action)
    await ana("prepare_action", params={"to": "bo@example.org"}, **action)
    assert "not executed" in first["next"]
    state = await ask(services, "GetSession", session_id=ana.toolbox.session_id)
    pending = state.pending_actions
    assert [one.params["to"] for one in pending] == ["sarah@example.org", "bo@example.org"]
    assert first["pending_action"]["id"] == pending[0].id


async def test_mistakes_of_the_model_are_results(client: Hitherto, ana: Calling) -> None:
    unknown = await ana.result("drop_tables")
    assert unknown.is_error
    assert "save_memory" in unknown.value["error"]
    wrong = await ana.result("search_memory", query="x", user_id="bo")
    assert wrong.is_error
    assert wrong.value["error"].startswith("user_id is unknown")
    refused = await ana.result("save_memory", content="x" * 300, type="question")
    assert refused.is_error
    assert refused.value["reason"] == "INVALID_FIELD"
    action = {"action_type": "x", "description": "y"}
    unsendable = await ana.result("prepare_action", params={"a": "\ud800"}, **action)
    assert unsendable.value["error"] == "params must be a JSON object"
    # That the client is closed is not one of them.
    client.close()
    with pytest.raises(ValueError, match="closed") as raised:
        await ana.result("prepare_action", params={}, **action)
    assert not isinstance(raised.value, ToolArgumentError)


async def test_a_credential_for_every_user_is_refused(services: Services, tenant: Tenant) -> None:
    with Hitherto(
        services.retrieval_address, services.extraction_address, token=tenant.token
    ) as client:
        with pytest.raises(UnboundCredentialError, match="hitherto keys create --user"):
            await asyncio.to_thread(Toolbox(client, "ana").call, "get_profile")
        allowed = Toolbox(client, "ana", allow_unbound=True)
        assert not (await asyncio.to_thread(allowed.call, "get_profile")).is_error


async def test_services_without_authentication_need_no_key(start_services: StartServices) -> None:
    """As docs/tools.md shows it: there is no credential that could be bound to anybody."""
    async with start_services(auth="off") as services:
        with Hitherto(services.retrieval_address, services.extraction_address) as client:
            toolbox = Toolbox(client, "ana")
            assert not (await asyncio.to_thread(toolbox.call, "get_profile")).is_error


async def test_tools_reach_what_the_credential_reaches(
    client: Hitherto, services: Services, tenant: Tenant
) -> None:
    nobody_else = await Calling(Toolbox(client, "bo")).result("get_profile")
    assert (nobody_else.is_error, nobody_else.value["reason"]) == (True, "USER_NOT_ALLOWED")
    with Hitherto(
        services.retrieval_address,
        services.extraction_address,
        token=credential(tenant, "ana", scope="write"),
    ) as writing:
        result = await Calling(Toolbox(writing, "ana")).result("get_profile")
        assert result.value["reason"] == "SCOPE_MISSING"
        # Nor is anything written with what nobody can find out to be one user's.
        result = await Calling(Toolbox(writing, "ana")).result("save_memory", content="Ana rows.")
    assert result.value["reason"] == "SCOPE_MISSING"


async def test_what_a_tool_has_written_the_next_one_reads(
    client: Hitherto, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also from a replica: it names the write."""
    ana = Calling(Toolbox(client, "ana"))
    asked: list[Any] = []
    search = client.connection.retrieval.SearchMemories

    def noting(request: Any) -> Any:
        asked.append(request)
        return search(request)

    monkeypatch.setattr(client.connection.retrieval, "SearchMemories", noting)
    await ana("save_memory", content="Ana rows.")
    await ana("search_memory", query="Ana rows.")
    assert asked[0].consistency_token


def searching(request: AssistantRequest) -> Answer:
    """A model that searches once and then answers with what it found."""
    last = request.body["messages"][-1]
    if last["role"] == "tool":
        return Answer(json.loads(last["content"])["items"][0]["content"])
    return Answer(calls=(("1", "search_memory", '{"query": "peanuts"}'),))


@pytest.mark.faults
async def test_the_example_of_the_docs_runs(services: Services, tenant: Tenant) -> None:
    """docs/tools.md, as it stands, with a model that calls a tool."""
    text = (Path(__file__).parents[2] / "docs" / "tools.md").read_text("utf-8")
    (program,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    await ask(services, "SaveMemory", content="Ana is allergic to peanuts.")
    async with ScriptedAssistant(searching) as model:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", program),
            env={
                **os.environ,
                "HITHERTO_RETRIEVAL_ADDRESS": services.retrieval_address,
                "HITHERTO_EXTRACTION_ADDRESS": services.extraction_address,
                "HITHERTO_TOKEN": credential(tenant, "ana"),
                "OPENAI_API_KEY": "none",
                "OPENAI_BASE_URL": model.base_url,
            },
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        printed, complaints = await process.communicate()
    assert process.returncode == 0, complaints.decode()
    assert printed.decode().strip() == "Ana is allergic to peanuts."
    offered = [tool["function"]["name"] for tool in model.requests[0].body["tools"]]
    assert "prepare_action" in offered
