"""Saying what changes something, and settling what that means, for the tests of reconciliation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from hitherto.v1 import job_pb2, memory_pb2
from tests.e2e.conftest import Services
from tests.e2e.learning import ALL_STATUSES, ended, learn, memories, talk
from tests.e2e.methods import ask
from tests.scripted_model import ChatAnswer, ChatRequest
from tests.scripted_model.answers import change, memory

KIND = "reconciliation"
NOTHING: Mapping[str, Any] = {"same": [], "replaced": [], "doubtful": [], "certain": []}

MAY = datetime(2026, 5, 4, 9, tzinfo=UTC)
SEPTEMBER = datetime(2026, 9, 3, 9, tzinfo=UTC)
OLD_HOME = "Ana lives in Göttingen"
NEW_HOME = "Ana lives in Kassel"
COMMUTE = "Ana's commute to the university takes 12 minutes by bike"
SISTER = "Ana's sister is called Marta"
TAG = "home"

Settling = Callable[[ChatRequest], Mapping[str, Any]]
Learning = Callable[[ChatRequest], Mapping[str, Any]]


def script(
    settling: Settling, learning: Learning | None = None
) -> Callable[[ChatRequest], ChatAnswer]:
    """Learn every message of the user word for word, unless told otherwise; settle as told."""

    def answer(request: ChatRequest) -> ChatAnswer:
        if request.reconciliation:
            return ChatAnswer.of(**{**NOTHING, **settling(request)})
        if learning is not None:
            return ChatAnswer.of(**learning(request))
        return ChatAnswer.of(
            new_memories=[
                memory(said.content, [said.local_id], origin=said.role) for said in request.messages
            ]
        )

    return answer


def nothing(_: ChatRequest) -> Mapping[str, Any]:
    return {}


def named(request: ChatRequest, words: str) -> str:
    """The local id of the memory that holds these words; of none, an id that was not shown."""
    found = [each.local_id for each in request.memories if words in each.content]
    return found[0] if found else "e99"


def replacing(old: str, new: str) -> Settling:
    """Let what holds some words replace what holds others."""
    return lambda request: {"replaced": [{"old": named(request, old), "new": named(request, new)}]}


def joining(keep: str, *others: str) -> Settling:
    """Let memories say the same."""
    return lambda request: {
        "same": [
            {"keep": named(request, keep), "others": [named(request, each) for each in others]}
        ]
    }


def doubting(words: str, because: str, reason: str = "moved to Kassel") -> Settling:
    """Let a memory be in doubt because of another."""
    return lambda request: {
        "doubtful": [
            {"id": named(request, words), "because": named(request, because), "reason": reason}
        ]
    }


async def jobs(services: Services, user: str = "ana") -> list[job_pb2.Job]:
    """The reconciliations of a user, the newest first."""
    listed = await ask(services, "ListJobs", user_id=user, kinds=[KIND])
    return list(listed.jobs)


async def settled(services: Services, user: str = "ana") -> job_pb2.JobResult:
    """The result of the newest reconciliation, once every one has ended."""
    for each in await jobs(services, user):
        job = await ended(services, each.id)
        assert job.state == job_pb2.JOB_STATE_SUCCEEDED, job.error
    return (await jobs(services, user))[0].result


def reconciliations(requests: Sequence[ChatRequest]) -> list[ChatRequest]:
    """The calls that asked what changes mean."""
    return [request for request in requests if request.reconciliation]


async def with_words(services: Services, words: str, user: str = "ana") -> memory_pb2.Memory:
    """The one memory that holds some words, whatever its status."""
    (found,) = [
        each
        for each in await memories(services, user=user, statuses=ALL_STATUSES)
        if words in each.content
    ]
    return found


def word_for_word(request: ChatRequest) -> dict[str, Any]:
    """Learn each message as it stands, under one tag."""
    return {
        "new_memories": [
            memory(each.content, [each.local_id], tags=[TAG], importance=0.9)
            for each in request.messages
        ]
    }


def moving(request: ChatRequest) -> dict[str, Any]:
    """The new home ends the old one."""
    learnt = word_for_word(request)
    if request.messages[0].content == NEW_HOME:
        ended = change(named(request, OLD_HOME), NEW_HOME, "m1", by=0)
        learnt["contradicted_memories"] = [ended]
    return learnt


async def move(services: Services, learning: Learning = moving) -> memory_pb2.Memory:
    """Somebody moves, which makes the commute uncertain; returns the cause."""
    services.model.script = script(doubting(COMMUTE, NEW_HOME), learning)
    await learn(services, talk(OLD_HOME, COMMUTE, conversation="c1", at=MAY))
    await learn(services, talk(NEW_HOME, conversation="c2", at=SEPTEMBER))
    await settled(services)
    cause = await with_words(services, NEW_HOME)
    assert (await with_words(services, COMMUTE)).doubt.because_memory_id == cause.id
    return cause


async def is_doubtful(services: Services, words: str = COMMUTE) -> bool:
    """Whether a memory is in doubt."""
    return (await with_words(services, words)).HasField("doubt")


async def take_back(services: Services, **source: Any) -> None:
    """Roll a source of Ana's memories back."""
    await ask(services, "RollbackSource", **source)
