"""Chat models in this process: deterministic, counting, and able to be held up."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter

from hitherto_extraction.provider.protocol import Completion, Prompt

_CANARY = re.compile(r"canary:[\w-]+")


class CanaryChat:
    """Finds one memory per `canary:<word>` the user says, and counts what it is asked about.

    Attributes:
        asked: How often each message's content was part of a question.
        calls: Number of questions.
        failing: Raised instead of every answer while it is set.
    """

    extractor = "openai"
    model = "canary"

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.calls = 0
        self.failing: Exception | None = None

    async def complete(self, prompt: Prompt) -> Completion:
        self.calls += 1
        self.asked.update(message.content for message in prompt.batch.messages)
        if self.failing is not None:
            raise self.failing
        found = [
            {
                "type": "fact",
                "content": f"The user mentioned {canary}.",
                "source_message_ids": [message.local_id],
            }
            for message in prompt.batch.messages
            if message.role == "user"
            for canary in dict.fromkeys(_CANARY.findall(message.content))
        ]
        return Completion(json.dumps({"new_memories": found}), self.model, 1, 100, 20)

    async def close(self) -> None:
        """Nothing is open."""


class HeldChat(CanaryChat):
    """Thinks until `go` is set.

    Attributes:
        thinking: Set once a question has come.
        go: Lets every answer out.
    """

    def __init__(self) -> None:
        super().__init__()
        self.thinking = asyncio.Event()
        self.go = asyncio.Event()

    async def complete(self, prompt: Prompt) -> Completion:
        self.thinking.set()
        await self.go.wait()
        return await super().complete(prompt)
