"""Agents of Google's ADK with our memory, in an environment with nothing but both packages.

tests/e2e/test_frameworks.py runs it, with a scripted model and real services, and looks at what
the model was told and what is kept.
"""

from __future__ import annotations

import asyncio
from typing import Any

from google.adk.agents import Agent
from google.adk.events import Event
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.tools.preload_memory_tool import preload_memory_tool
from google.genai.types import Content, Part, Transcription

from hitherto_client import Hitherto, HithertoCallError
from hitherto_client.integrations.google_adk import HithertoMemoryService


async def remember(callback_context: Any) -> None:
    """Add the whole session after each run, as ADK's guide has it."""
    await callback_context.add_session_to_memory()


def log_in(account: str) -> str:
    """Log in."""
    return f"token 4711 of {account}"


class Chats:
    """Chats with an agent of an app that has our memory."""

    def __init__(self, app: str, service: HithertoMemoryService) -> None:
        self._sessions = InMemorySessionService()
        self._runner = Runner(
            app_name=app,
            agent=Agent(
                name="assistant",
                model="gemini-scripted",
                instruction="Be brief.",
                tools=[preload_memory_tool, log_in],
                after_agent_callback=remember,
            ),
            session_service=self._sessions,
            memory_service=service,
        )
        self._app = app

    async def say(self, user: str, session: str, *texts: str) -> None:
        """Open a session and say something in it."""
        opened: dict[str, Any] = {"app_name": self._app, "user_id": user, "session_id": session}
        await self._sessions.create_session(**opened)
        for text in texts:
            said = Content(role="user", parts=[Part(text=text)])
            async for _ in self._runner.run_async(
                user_id=user, session_id=session, new_message=said
            ):
                pass


async def the_words_are_kept_and_told(service: HithertoMemoryService) -> None:
    """The session is added after each run; "Yes." twice is said twice; apps are apart."""
    chats = Chats("one", service)
    await chats.say("ana", "monday", "Tôi sống ở Đà Nẵng 🏖️", "Yes.", "Yes.", "Log me in.")
    await chats.say("ana", "tuesday", "Tôi sống ở đâu?")
    await Chats("two", service).say("ana", "monday", "Tôi sống ở đâu?")


async def statements_are_saved_found_and_forgotten(service: HithertoMemoryService) -> None:
    """Without a session; the same event twice is added once."""
    scope: dict[str, Any] = {"app_name": "one", "user_id": "bea"}
    peanuts = Content(role="user", parts=[Part(text="Bea is allergic to peanuts.")])
    entry = MemoryEntry(content=peanuts, author="user", timestamp="2026-03-02T09:00:00+00:00")
    await service.add_memory(**scope, memories=[entry], custom_metadata={"from": "form"})
    parts = [Part(text="Bea works in Faro.")]
    event = Event(author="user", content=Content(role="user", parts=parts))
    for _ in range(2):
        await service.add_events_to_memory(**scope, events=[event], session_id="s1")
    asked = Transcription(text="Who am I?", finished=True)
    told = Transcription(text="You are Bea.", finished=True)
    spoken = [
        Event(author="user", input_transcription=asked),
        Event(author="assistant", output_transcription=told, partial=True),
        Event(author="assistant", output_transcription=told),
    ]
    await service.add_events_to_memory(**scope, events=spoken, session_id="s2")
    found = (await service.search_memory(**scope, query="Any peanuts?")).memories
    [memory] = [one for one in found if one.custom_metadata["kind"] == "memory"]
    assert memory.content == peanuts
    assert (memory.author, memory.timestamp) == ("user", "2026-03-02T09:00:00+00:00")
    for _ in range(2):
        await service.delete_memory(**scope, memory_id=memory.id)
    missing = "0198c0de-7a11-7000-8000-000000000001"
    await service.delete_memory(**scope, memory_id=missing)
    assert (await service.search_memory(**scope, query="Any peanuts?")).memories == []


async def without_memory() -> None:
    """On a port of 127.0.0.1 on which nobody listens."""
    with Hitherto("127.0.0.1:1", "127.0.0.1:1", timeout=1) as nowhere:
        service = HithertoMemoryService(nowhere, timeout=1)
        try:
            await service.search_memory(app_name="one", user_id="ana", query="peanuts")
        except HithertoCallError:
            return
    raise AssertionError("nobody listens there")


async def main() -> None:
    with Hitherto(timeout=120) as memory:
        service = HithertoMemoryService(memory, timeout=60)
        await the_words_are_kept_and_told(service)
        await statements_are_saved_found_and_forgotten(service)
    await without_memory()


asyncio.run(main())
