"""The example assistant (G2): the use cases of document 001, Sarah and Jira of document 003.

Both services and the client are real. The assistant's chat model is a server that answers by a
script, which sees what a model would see.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from examples.assistant.actions import RecordedExecutor
from hitherto_client import Hitherto
from tests.e2e.conftest import Services
from tests.lazily import Lazily
from tests.scripted_model import ChatAnswer, ScriptedModel
from tests.scripted_model.answers import memory
from tests.tenants import ISSUED, Tenant

if TYPE_CHECKING:
    import openai

    from examples.assistant import chat as assistant_chat
    from examples.assistant import model as assistant_model
else:
    openai = Lazily("openai")
    assistant_chat = Lazily("examples.assistant.chat")
    assistant_model = Lazily("examples.assistant.model")


Script = Callable[["Asked"], "str | dict[str, Any] | None"]


class Asked:
    """One request to the chat model."""

    def __init__(self, body: Mapping[str, Any]) -> None:
        self.body = body
        self.messages: list[dict[str, Any]] = body["messages"]
        self.system: str = self.messages[0]["content"]
        self.said: str = [one for one in self.messages if one["role"] == "user"][-1]["content"]
        self.tools = [tool["function"]["name"] for tool in body.get("tools", ())]

    @property
    def specialist(self) -> str:
        """Which specialist asks; empty if the orchestrator does."""
        found = (n for n in ("email", "document", "task") if f"specialist for {n}" in self.system)
        return next(found, "")

    def result(self, tool: str) -> dict[str, Any] | None:
        """What the last call of this tool returned in this answer."""
        names = {
            call["id"]: call["function"]["name"]
            for one in self.messages
            for call in one.get("tool_calls") or ()
        }
        for one in reversed(self.messages):
            if one["role"] == "tool" and names.get(one["tool_call_id"]) == tool:
                found: dict[str, Any] = json.loads(one["content"])
                return found
        return None


def calls(tool: str, /, **arguments: Any) -> dict[str, Any]:
    """A model's reply that calls a tool."""
    function = {"name": tool, "arguments": json.dumps(arguments, ensure_ascii=False)}
    return {"tool_calls": [{"id": f"call-{tool}", "type": "function", "function": function}]}


def email(params: dict[str, str], description: str = "Send") -> dict[str, Any]:
    """A model's reply that prepares an email."""
    return calls("prepare_action", action_type="send_email", params=params, description=description)


class ChatModel:
    """An OpenAI-compatible server whose answers are a script's; keeps what it was asked."""

    def __init__(self) -> None:
        self.script: Script = lambda asked: "Hello."
        self.asked: list[Asked] = []

    async def reply(self, request: web.Request) -> web.Response:
        asked = Asked(await request.json())
        self.asked.append(asked)
        # A script may ask the services, which run on this loop.
        answer = await asyncio.to_thread(self.script, asked)
        if answer is None:
            return web.json_response({"error": {"message": "down"}}, status=503)
        if isinstance(answer, str):
            answer = {"content": answer}
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant"} | answer}
        body = {"id": "1", "object": "chat.completion", "created": 1, "model": "m"}
        return web.json_response(body | {"choices": [choice]})


@pytest.fixture(scope="module")
async def chat_server() -> AsyncIterator[tuple[ChatModel, str]]:
    chat = ChatModel()
    application = web.Application()
    application.router.add_post("/v1/chat/completions", chat.reply)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield chat, f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    finally:
        await runner.cleanup()


class Stage:
    """The assistant and the client behind it, for one user."""

    def __init__(
        self, assistant: assistant_chat.Assistant, client: Hitherto, chat: ChatModel, record: Path
    ) -> None:
        self.assistant = assistant
        self.client = client
        self.chat = chat
        self.record = record

    async def say(self, message: str = "", **more: Any) -> assistant_chat.AssistantReply:
        """One message of Ana."""
        request = assistant_chat.AssistantRequest("ana", message, **more)
        return await asyncio.to_thread(self.assistant.answer, request)

    async def over(self, session: str) -> None:
        """The end of a chat, and the learning from it."""
        job = await asyncio.to_thread(self.client.end_conversation, "ana", session)
        await asyncio.to_thread(self.client.wait_for_job, job, timeout=120)

    async def knows(self, *documents: Any) -> None:
        """Documents that were read before."""
        ingested = await asyncio.to_thread(self.client.ingest_documents, "ana", documents)
        await asyncio.to_thread(self.client.wait_for_job, ingested.job, timeout=120)

    def executed(self) -> list[dict[str, Any]]:
        """What was carried out."""
        if not self.record.exists():
            return []
        return [json.loads(line) for line in self.record.read_text("utf-8").splitlines()]


@pytest.fixture
def stage(
    modelled: Services, tenant: Tenant, chat_server: tuple[ChatModel, str], tmp_path: Path
) -> Iterator[Stage]:
    chat, address = chat_server
    chat.script, chat.asked = lambda asked: "Hello.", []
    with (
        Hitherto(
            modelled.retrieval_address,
            modelled.extraction_address,
            token=ISSUED.token(sub="ana", tenant=tenant.tenant_id, scope="read write"),
        ) as client,
        openai.OpenAI(api_key="none", base_url=address, max_retries=0) as api,
    ):
        record = tmp_path / "actions.jsonl"
        model = assistant_model.Model(api)
        assistant = assistant_chat.Assistant(client, model, RecordedExecutor(record))
        yield Stage(assistant, client, chat, record)


NOW = datetime.now(UTC)
BUDGET = {
    "source_type": "gmail",
    "source_id": "e1",
    "content_type": "email",
    "title": "Q4 Budget Discussion",
    "content": "We need to increase marketing spend by 15% to support the launch.",
    "author": "Sarah Johnson",
    "created_at": NOW - timedelta(days=5),
    "metadata": {"from": "Sarah Johnson <sarah@company.com>"},
}
SHEET = {
    "source_type": "gdrive",
    "source_id": "d1",
    "content_type": "document",
    "title": "Budget Spreadsheet Q4",
    "content": "Marketing: $50,000, Engineering: $120,000.",
    "created_at": NOW - timedelta(days=9),
}


# --- document 001 --------------------------------------------------------------------------------


async def test_use_case_1_personal_facts_are_known_the_next_day(
    stage: Stage, model: ScriptedModel
) -> None:
    """Said in one chat, asked for in another: "Tôi đang ở đâu nhỉ?"."""
    facts = ("Người dùng tên là Thanh.", "Thanh làm developer tại Hà Nội.")
    learnt = [memory(fact, type="personal") for fact in facts]
    model.script = lambda _: ChatAnswer.of(new_memories=learnt)
    stage.chat.script = lambda asked: "Rất vui được gặp bạn Thanh!"
    first = await stage.say("Tôi tên là Thanh, đang làm developer tại Hà Nội")
    assert first.response == "Rất vui được gặp bạn Thanh!"
    await stage.over(first.session_id)

    def from_the_prompt(asked: Asked) -> str:
        known = [word for word in ("Thanh", "developer", "Hà Nội") if word in asked.system]
        return "Theo thông tin bạn đã chia sẻ: " + ", ".join(known)

    stage.chat.script = from_the_prompt
    second = await stage.say("Tôi đang ở đâu nhỉ?")
    assert second.session_id != first.session_id
    assert second.response.endswith("Thanh, developer, Hà Nội")


async def test_use_case_2_a_follow_up_in_another_chat_has_its_subject(stage: Stage) -> None:
    """ "Còn trong Node.js thì sao?", after a chat about sorting in Python."""
    stage.chat.script = lambda asked: "Dùng sorted() hoặc list.sort() trong Python."
    first = await stage.say("Làm sao để sort array trong Python?")
    await stage.over(first.session_id)
    await stage.say("Còn trong Node.js thì sao?")
    told = stage.chat.asked[-1].system
    assert "sort array" in told
    assert "Python" in told


async def test_use_case_3_a_new_chat_begins_with_suggestions(
    stage: Stage, model: ScriptedModel
) -> None:
    wanted = ["Tiếp tục tìm hiểu Docker deployment?", "Debug Redis connection issue?"]
    summary: dict[str, Any] = {
        "title": "Docker và Redis",
        "outcome": "needs_followup",
        "key_topics": ["docker"],
    }
    summary |= {"followup_suggestions": wanted}
    model.script = lambda _: ChatAnswer.of(new_memories=[], conversation_summary=summary)
    assert await asyncio.to_thread(stage.assistant.greet, "ana") == []
    first = await stage.say("Docker deployment và Redis connection lỗi")
    await stage.over(first.session_id)
    assert await asyncio.to_thread(stage.assistant.greet, "ana") == wanted


async def test_i7_document_001_memory_context_is_loaded_before_the_message_is_sent(
    stage: Stage,
) -> None:
    """Memory Integration: "should load memory context before sending message"."""
    await asyncio.to_thread(stage.client.save_memory, "ana", "Ana is allergic to peanuts.")
    await stage.say("What may I eat?")
    (asked,) = stage.chat.asked
    assert "Ana is allergic to peanuts." in asked.system
    assert asked.said == "What may I eat?"


async def test_i7_document_001_memory_is_updated_after_the_message_is_answered(
    stage: Stage, model: ScriptedModel
) -> None:
    """Memory Integration: "should update memory after message completion"."""

    def answered() -> list[str]:
        return [one.content for one in stage.client.memories("ana")]

    learnt = [memory("Ana plays the cello.")]
    model.script = lambda _: ChatAnswer.of(new_memories=learnt)
    known_at_the_answer: list[str] = []

    def answer(asked: Asked) -> str:
        known_at_the_answer.extend(answered())
        return "Nice!"

    stage.chat.script = answer
    reply = await stage.say("I play the cello.")
    assert reply.response == "Nice!"
    await stage.over(reply.session_id)
    assert known_at_the_answer == []
    assert await asyncio.to_thread(answered) == ["Ana plays the cello."]


# --- document 003: Sarah -------------------------------------------------------------------------


async def test_sarah_and_the_budget_then_a_follow_up_to_her(stage: Stage) -> None:
    await stage.knows(BUDGET, SHEET)

    def about_the_budget(asked: Asked) -> Any:
        found = asked.result("retrieve_context")
        if found is None:
            return calls("retrieve_context", query="Sarah budget", sources=["documents"])
        email = next(item for item in found["items"] if item["title"] == "Q4 Budget Discussion")
        return f"Sarah wrote: {email['content']}"

    stage.chat.script = about_the_budget
    reply = await stage.say("What did Sarah say about the budget?")
    assert "increase marketing spend by 15%" in reply.response
    assert {used.title for used in reply.context_used} >= {"Q4 Budget Discussion"}
    assert stage.chat.asked[0].tools == [
        *("retrieve_context", "find_entity", "get_recent_conversations", "prepare_action"),
        *("delegate_to_specialist", "ask_user"),
    ]

    def follow_up(asked: Asked) -> Any:
        if asked.specialist == "email":
            if asked.result("prepare_action") is None:
                person = asked.result("find_entity")
                if person is None:
                    return calls("find_entity", name="Sarah")
                subject = "Re: Q4 Budget Discussion - Follow Up"
                letter = {"to": "sarah@company.com", "subject": subject, "body": "Hi Sarah"}
                return email(letter, f"Send email to {person['entities'][0]['name']}")
            return "I have drafted it."
        # What the last answer was based on is known without a search.
        assert "Q4 Budget Discussion" in asked.system
        if asked.result("delegate_to_specialist") is None:
            return calls("delegate_to_specialist", specialist="email", task="Follow up with Sarah")
        return "I'll send this to Sarah once you confirm."

    stage.chat.script = follow_up
    drafted = await stage.say("Send a follow-up to Sarah", session_id=reply.session_id)
    (action,) = drafted.pending_actions
    assert action["description"] == "Send email to Sarah Johnson"
    assert action["status"] == "pending_confirmation"
    # The specialist received the email itself.
    (handed,) = [asked for asked in stage.chat.asked if asked.specialist][:1]
    assert "increase marketing spend by 15%" in handed.said
    assert stage.executed() == []

    confirmed = await stage.say(session_id=reply.session_id, confirm_actions=(action["id"],))
    assert [done.result for done in confirmed.completed_actions] == ["sent to sarah@company.com"]
    (sent,) = stage.executed()
    assert sent["params"]["subject"] == "Re: Q4 Budget Discussion - Follow Up"


# --- document 003: "Create Jira tasks based on my last email", in eleven steps -----------------


def jira(asked: Asked) -> Any:
    """The model of the example."""
    project = "PROJECT-A" if "PROJECT-A" in json.dumps(asked.messages) else ""
    if asked.specialist == "task":
        if asked.result("prepare_action") or asked.result("ask_user"):
            return "Which Jira project should I use?" if not project else "One task prepared."
        if not project:
            # Step 5: the project is not known.
            return calls(
                "ask_user",
                question="Which Jira project should I use?",
                options=["PROJECT-A", "PROJECT-B"],
                required_for="create_task",
            )
        assert "Review the Q4 budget proposal" in asked.said
        return calls(
            "prepare_action",
            action_type="create_task",
            params={"project": project, "summary": "Review Q4 budget proposal"},
            description="Create: Review Q4 budget proposal",
        )
    if asked.result("delegate_to_specialist"):
        # Step 6, and step 10.
        return "I'll create this in PROJECT-A:" if project else "I found your last emails."
    if asked.result("retrieve_context") or project:
        # Step 4, and step 9.
        return calls(
            "delegate_to_specialist",
            specialist="task",
            task=f"Create tasks from email content. Project: {project or 'unknown'}",
        )
    return calls("retrieve_context", query="last email", limit=5)


async def test_jira_tasks_from_the_last_email_in_eleven_steps(stage: Stage) -> None:
    emails = [
        {
            "source_type": "gmail",
            "source_id": f"e{n}",
            "content_type": "email",
            "title": f"Email {n}" if n else "Q4 Planning",
            "content": f"Note {n}." if n else "Review the Q4 budget proposal by Friday.",
            "created_at": NOW - timedelta(days=n + 1),
        }
        for n in range(6)
    ]
    await stage.knows(*emails)
    stage.chat.script = jira

    # Steps 1 to 8: the question comes back with a question.
    asked = await stage.say("Create Jira tasks based on my last email")
    assert asked.needs_clarification
    assert asked.clarification is not None
    assert asked.clarification.question == "Which Jira project should I use?"
    assert asked.clarification.options == ("PROJECT-A", "PROJECT-B")
    assert asked.pending_actions == ()
    # Step 3: "last email" finds the newest emails, the newest first.
    retrieved = next(one for one in stage.chat.asked if one.result("retrieve_context"))
    found = (retrieved.result("retrieve_context") or {})["items"]
    assert [item["title"] for item in found] == [
        "Q4 Planning",
        *(f"Email {n}" for n in range(1, 5)),
    ]
    assert {item["source"] for item in found} == {"gmail"}
    assert asked.context_used[0].source == "gmail"
    assert asked.context_used[0].title == "Q4 Planning"
    # Step 7: both messages and the state of the session are kept.
    kept = await asyncio.to_thread(stage.client.get_conversation, "ana", asked.session_id)
    assert kept is not None
    assert [message.role for message in kept.messages] == ["user", "assistant"]
    assert {item.id for item in kept.messages[1].context_items} >= {found[0]["id"]}
    session = await asyncio.to_thread(stage.client.get_session, "ana", asked.session_id)
    assert session.context["last_message"] == "Create Jira tasks based on my last email"

    # Steps 9 and 10: with the answer, the actions are prepared; the emails are still there.
    before = len(stage.chat.asked)
    prepared = await stage.say(session_id=asked.session_id, clarification_response="Use PROJECT-A")
    assert not prepared.needs_clarification
    assert all(one.result("retrieve_context") is None for one in stage.chat.asked[before:])
    (action,) = prepared.pending_actions
    assert action["type"] == "create_task"
    assert action["description"] == "Create: Review Q4 budget proposal"
    assert action["params"] == {"project": "PROJECT-A", "summary": "Review Q4 budget proposal"}
    assert stage.executed() == []

    # Step 11.
    confirmed = await stage.say(session_id=asked.session_id, confirm_actions=(action["id"],))
    (done,) = confirmed.completed_actions
    assert done.result == "PROJECT-A-101 created"
    assert confirmed.to_dict()["completed_actions"][0]["id"] == action["id"]
    assert [entry["params"]["summary"] for entry in stage.executed()] == [
        "Review Q4 budget proposal"
    ]
    session = await asyncio.to_thread(stage.client.get_session, "ana", asked.session_id)
    assert [one.status for one in session.pending_actions if one.id == action["id"]] in (
        [],
        ["completed"],
    )


# --- what a model cannot do --------------------------------------------------------------------


async def test_a_model_that_calls_tools_for_ever_is_asked_ten_times(stage: Stage) -> None:
    stage.chat.script = lambda asked: (
        calls("find_entity", name="Sarah") | {"content": "Still looking."}
    )
    reply = await stage.say("Who is Sarah?")
    assert len(stage.chat.asked) == assistant_model.MAX_ROUNDS == 10
    assert stage.chat.asked[-1].tools == []
    assert reply.response == "Still looking."


async def test_nothing_is_done_without_the_users_confirmation(stage: Stage) -> None:
    def eager(asked: Asked) -> Any:
        if asked.result("prepare_action") is None:
            return email({"to": "x@y.z"})
        if asked.result("resolve_pending_action") is None:
            return calls("resolve_pending_action", id="all", status="completed")
        return "Sent!"

    stage.chat.script = eager
    reply = await stage.say("Prepare an email to x@y.z")
    (action,) = reply.pending_actions
    assert stage.executed() == []
    assert "no tool" in (stage.chat.asked[-1].result("resolve_pending_action") or {})["error"]

    for _ in range(2):
        again = await stage.say(session_id=reply.session_id, confirm_actions=(action["id"],))
    assert [done.error for done in again.completed_actions] == ["PENDING_ACTION_CONFLICT"]
    made_up = await stage.say(session_id=reply.session_id, confirm_actions=("act_12345678",))
    assert [done.error for done in made_up.completed_actions] == ["PENDING_ACTION_NOT_FOUND"]
    assert len(stage.executed()) == 1


async def test_an_action_that_fails_says_why_and_is_rejected(stage: Stage) -> None:
    stage.chat.script = lambda asked: (
        "Confirm, please." if asked.result("prepare_action") else email({})
    )
    reply = await stage.say("Send it")
    done = await stage.say(
        session_id=reply.session_id, confirm_actions=(reply.pending_actions[0]["id"],)
    )
    assert done.completed_actions[0].error == "the email has no recipient"
    assert done.response == "not done: the email has no recipient"


GARBAGE = ["", "[]", "{", '{"specialist": "lawyer", "task": "x"}', '{"question": 7}']


@pytest.mark.parametrize("tool", ["delegate_to_specialist", "ask_user", "find_entity"])
async def test_garbage_of_a_model_is_answered_and_harms_nothing(stage: Stage, tool: str) -> None:
    for arguments in (*GARBAGE, '{"name": ["x"]}'):

        def script(asked: Asked, arguments: str = arguments) -> Any:
            told = asked.result(tool)
            if told is None:
                function = {"name": tool, "arguments": arguments}
                return {"tool_calls": [{"id": "1", "type": "function", "function": function}]}
            return f"told: {told['error']}"

        stage.chat.script = script
        reply = await stage.say("Hello")
        assert reply.response.startswith("told: "), arguments
        assert not reply.needs_clarification, arguments


async def test_the_last_ten_messages_go_along(stage: Stage) -> None:
    stage.chat.script = lambda asked: f"Answer to {asked.said}"
    session = ""
    for number in range(7):
        reply = await stage.say(f"Message {number}", session_id=session)
        session = reply.session_id
    told = [one["content"] for one in stage.chat.asked[-1].messages[1:]]
    assert told == [
        text
        for number in range(1, 6)
        for text in (f"Message {number}", f"Answer to Message {number}")
    ] + ["Message 6"]


WORDLESS: dict[str, Any] = {
    "away": None,
    "nothing": {"content": ""},
    "a blank": {"content": " \n"},
    "no content": {"content": None},
    "an unknown tool, for ever": calls("no_such_tool"),
    "a tool, for ever": calls("retrieve_context", query="x"),
    "a specialist, for ever": calls("delegate_to_specialist", specialist="task", task="x"),
}


async def test_what_the_user_says_is_kept_whatever_the_model_does(stage: Stage) -> None:
    """G2: an answer without words, and tools in the last round, in which there are none."""
    for kind, answer in WORDLESS.items():
        stage.chat.script = lambda asked, answer=answer: answer  # type: ignore[misc]
        reply = await stage.say("Remember that I am allergic to peanuts.")
        assert reply.response.strip(), kind
        if answer is None:
            assert reply.response == "I cannot answer at the moment. Please try again."
        kept = await asyncio.to_thread(stage.client.get_conversation, "ana", reply.session_id)
        assert kept is not None
        said = [("user", "Remember that I am allergic to peanuts."), ("assistant", reply.response)]
        told = [(message.role, message.content) for message in kept.messages]
        assert told == said, kind


async def test_a_question_or_an_action_stands_for_words(stage: Stage) -> None:
    def asks(asked: Asked) -> Any:
        return {"content": ""} if asked.result("ask_user") else calls("ask_user", question="Which?")

    def prepares(asked: Asked) -> Any:
        if asked.result("prepare_action"):
            return {"content": ""}
        return email({"to": "sarah@company.com"}, "Write to Sarah")

    stage.chat.script = asks
    assert (await stage.say("Do it.")).response == "Which?"
    stage.chat.script = prepares
    reply = await stage.say("Do it.")
    assert reply.response == "Please confirm: Write to Sarah"
    (action,) = reply.pending_actions
    assert action["params"] == {"to": "sarah@company.com"}


@pytest.mark.faults
async def test_the_chat_in_a_terminal(
    modelled: Services, tenant: Tenant, chat_server: tuple[ChatModel, str], tmp_path: Path
) -> None:
    chat, address = chat_server
    chat.script, chat.asked = jira, []
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "examples.assistant", "--user", "ana"),
        *("--actions", str(tmp_path / "actions.jsonl")),
        cwd=Path(__file__).parents[2],
        env={
            **os.environ,
            "HITHERTO_RETRIEVAL_ADDRESS": modelled.retrieval_address,
            "HITHERTO_EXTRACTION_ADDRESS": modelled.extraction_address,
            "HITHERTO_TOKEN": ISSUED.token(sub="ana", tenant=tenant.tenant_id, scope="read write"),
            "OPENAI_BASE_URL": address,
        },
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    said = "Create Jira tasks based on my last email\n"
    printed, complaints = await process.communicate(said.encode())
    assert process.returncode == 0, complaints.decode()
    assert "PROJECT-A | PROJECT-B" in printed.decode()
