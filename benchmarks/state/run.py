"""Lets the people talk, and looks at what is known and told afterwards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, time
from typing import Any, cast
from zoneinfo import ZoneInfo

from benchmarks import serving
from benchmarks.state.people import AskedQuestion, DatedTalk, Persona
from hitherto_client import AsyncHitherto
from hitherto_client.inputs import TranscriptInput
from hitherto_client.results import Job, Memory, Profile
from hitherto_client.words import JobState

AT_ONCE = 8
_PAGE = 1_000
_WAITING: Sequence[JobState] = ("queued", "running", "failed")


@dataclass(frozen=True, slots=True)
class Told:
    """What was told for a question: the block, its lines in order, and whether nothing was near."""

    question: AskedQuestion
    block: str
    tokens: int
    nothing: bool


@dataclass(frozen=True, slots=True)
class Seen:
    """What is known of a person after the last session, and what was told."""

    person: Persona
    jobs: Sequence[Job]
    memories: Sequence[Memory]
    profile: Mapping[str, Any]
    told: Sequence[Told] = field(default_factory=list)


async def observe(client: AsyncHitherto, person: Persona) -> Seen:
    """Submit the sessions of a person one after another, and ask the questions."""
    jobs = [await talk(client, person, session) for session in person.sessions]
    memories = [
        each
        async for each in client.memories(person.id, statuses=serving.EVERY_STATUS, page_size=_PAGE)
    ]
    profile = await client.get_profile(person.id)
    told = [await _ask(client, person, question) for question in person.questions]
    return Seen(person, jobs, memories, _values(profile), told)


async def talk(client: AsyncHitherto, person: Persona, session: DatedTalk) -> Job:
    """Submit one session and wait until it was read, and what it changed was reconciled."""
    [job_id] = await serving.submit(client, [_transcript(person, session)])
    job = await serving.ended(client, job_id)
    # One reconciliation may leave something to the next.
    while waiting := [each.id async for each in client.jobs(person.id, states=_WAITING)]:
        for other in waiting:
            await serving.ended(client, other)
    return job


def _transcript(person: Persona, session: DatedTalk) -> TranscriptInput:
    return {
        "user_id": person.id,
        "conversation_id": f"{person.id}-{session.id}",
        "time_zone": person.time_zone,
        "messages": [
            {
                "id": f"{session.id}-{number}",
                "role": cast(Any, each.role),
                "name": each.name,
                "content": each.content,
                "created_at": each.at,
            }
            for number, each in enumerate(session.messages, 1)
        ],
        "ended": True,
    }


async def _ask(client: AsyncHitherto, person: Persona, question: AskedQuestion) -> Told:
    last = person.sessions[-1].messages[-1].at
    as_of = None
    if question.as_of:
        day = datetime.fromisoformat(question.as_of).date()
        as_of = datetime.combine(day, time(12), ZoneInfo(person.time_zone)).astimezone(UTC)
    found = await client.get_context(
        person.id, question.ask, reference_time=last, as_of=as_of, count_access=False
    )
    nothing = bool(getattr(found, "nothing_relevant", False))
    return Told(question, found.prompt_block, found.prompt_tokens, nothing)


def _values(profile: Profile | None) -> dict[str, Any]:
    if profile is None:
        return {}
    return {
        "summary": profile.summary,
        "current_projects": list(profile.current_projects),
        "preferences": dict(profile.preferences),
        "frequent_intents": list(profile.frequent_intents),
        "facts": dict(profile.facts),
        "metadata": dict(profile.metadata),
    }
