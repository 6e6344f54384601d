"""Saying things under a tag and having them merged, for the tests of consolidation."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from hitherto.v1 import job_pb2, memory_pb2
from tests.e2e.conftest import Services
from tests.e2e.learning import ended, learn, memories, talk
from tests.e2e.methods import ask
from tests.scripted_model import ChatAnswer, ChatRequest
from tests.scripted_model.answers import memory, merged

STYLE = "writing_style"
STYLES = [
    "The user prefers a casual tone in emails",
    "The user does not like formal language",
    "The user wants texts to sound casual and conversational",
    "The user found the last draft too stiff for a casual mail",
    "The user writes the way they talk, in a casual tone",
]
"""Document 002: five memories about how somebody likes texts to be written."""
ONE_STYLE = "The user prefers a casual, conversational tone and does not like formal language"

CASUAL = [
    "The user prefers a casual tone in mails",
    "The user wants a casual tone when a blog is written for friends",
    "The user liked the casual tone of that funny draft",
    "The user keeps a casual tone with clients and partners",
    "The user asks for a casual tone whenever texts are shortened",
]
ONE_CASUAL = "The user prefers a casual tone"
"""Stands for all of these and for any of them."""

Merging = Callable[[ChatRequest], Sequence[dict[str, Any]]]

ACTIVE = [memory_pb2.MEMORY_STATUS_ACTIVE]
SUPERSEDED = [memory_pb2.MEMORY_STATUS_SUPERSEDED]
ARCHIVED = [memory_pb2.MEMORY_STATUS_ARCHIVED]

_TAGS = re.compile(r"\s*#(\w+)")


def all_into(content: str, **more: Any) -> Merging:
    """Merge everything that is shown into one statement."""
    return lambda request: [merged(content, [m.local_id for m in request.memories], **more)]


def nothing(_: ChatRequest) -> list[dict[str, Any]]:
    return []


def script(merging: Merging, *, type_: str = "preference") -> Callable[[ChatRequest], ChatAnswer]:
    """Learn every message of user and assistant word for word, with its #tags; merge as told."""

    def answer(request: ChatRequest) -> ChatAnswer:
        if request.consolidation:
            return ChatAnswer.of(memories=list(merging(request)))
        return ChatAnswer.of(
            new_memories=[
                memory(
                    _TAGS.sub("", said.content),
                    [said.local_id],
                    type=type_,
                    tags=_TAGS.findall(said.content),
                    confidence="medium",
                    origin=said.role,
                )
                for said in request.messages
            ]
        )

    return answer


def consolidations(requests: Sequence[ChatRequest]) -> list[ChatRequest]:
    """The calls that asked for a merge."""
    return [request for request in requests if request.consolidation]


async def say(
    services: Services,
    *statements: str | tuple[str, str],
    tag: str = STYLE,
    user: str = "ana",
    conversation: str = "c1",
    at: datetime | None = None,
) -> None:
    """Let the user (or somebody else) make statements that are remembered under a tag."""
    lines = [
        f"{each} #{tag}" if isinstance(each, str) else (each[0], f"{each[1]} #{tag}")
        for each in statements
    ]
    await learn(services, talk(*lines, user=user, conversation=conversation, at=at))


async def consolidate(
    services: Services, *, user: str = "ana", tag: str = "", dry_run: bool = False
) -> job_pb2.Job:
    """Ask for a consolidation and wait until it is over."""
    begun = await ask(services, "Consolidate", user_id=user, tag=tag, dry_run=dry_run)
    job = await ended(services, begun.job.id)
    assert job.state == job_pb2.JOB_STATE_SUCCEEDED, job.error
    return job


async def merged_memory(services: Services, *, user: str = "ana") -> memory_pb2.Memory:
    """The one active memory that consolidation made."""
    (found,) = [
        each
        for each in await memories(services, user=user, statuses=ACTIVE)
        if each.source == memory_pb2.MEMORY_SOURCE_CONSOLIDATION
    ]
    return found


async def contents(
    services: Services, statuses: Sequence[Any] = ACTIVE, *, user: str = "ana"
) -> list[str]:
    """What the user's memories of some statuses say, in alphabetical order."""
    return sorted(each.content for each in await memories(services, user=user, statuses=statuses))
