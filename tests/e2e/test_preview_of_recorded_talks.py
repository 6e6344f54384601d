"""B15: a preview shows what the job then does, for people who talk in several languages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from google.protobuf import json_format
from google.protobuf.message import Message

from benchmarks.state import people, replies
from benchmarks.state.model import Playback, TalkIndex
from benchmarks.state.people import DatedTalk, Persona
from hitherto.v1 import conversation_pb2, memory_pb2
from tests.e2e.conftest import Services
from tests.e2e.learning import ALL_STATUSES, ended, memories, submit
from tests.e2e.methods import ask
from tests.e2e.test_preview import preview

VERSION = "extraction_4"
STATUS = memory_pb2.MemoryStatus
ENDED = (STATUS.MEMORY_STATUS_CONTRADICTED, STATUS.MEMORY_STATUS_ACHIEVED)
OF_THE_JOB = frozenset(
    "id jobId createdAt updatedAt lastConfirmedAt version lastExtractedAt supersedes supersededBy"
    " usage consistencyToken memoryId memoryIds".split()
)
"""What only a job has: its ids, times and cost."""
OF_THE_COUNTS = frozenset(
    "messages_read messages_total quality_checked quality_ungrounded quality_duplicate".split()
)


def told(value: Any) -> Any:
    """A message without what only a job has."""
    if isinstance(value, Message):
        return told(json_format.MessageToDict(value))
    if isinstance(value, dict):
        left = value.keys() - OF_THE_JOB - OF_THE_COUNTS
        return {key: told(value[key]) for key in sorted(left)}
    return [told(each) for each in value] if isinstance(value, list) else value


def all_told(found: Iterable[memory_pb2.Memory], names: dict[str, str]) -> list[str]:
    return sorted(
        str({**told(each), "mayReplace": [names.get(i, i) for i in each.may_replace]})
        for each in found
    )


def transcript(person: Persona, session: DatedTalk) -> conversation_pb2.Transcript:
    conversation = f"{person.id}-{session.id}"
    made = conversation_pb2.Transcript(
        user_id=person.id, conversation_id=conversation, time_zone=person.time_zone, ended=True
    )
    for number, each in enumerate(session.messages, 1):
        said = made.messages.add(
            id=f"{session.id}-{number}",
            role=conversation_pb2.Role.Value(f"ROLE_{each.role.upper()}"),
            name=each.name,
            content=each.content,
        )
        said.created_at.FromDatetime(each.at)
    return made


@pytest.mark.parametrize("who", ["de_jonas", "ja_haruka"])
async def test_b15_every_session_of_a_person(who: str, modelled: Services) -> None:
    (person,) = [each for each in people.load() if each.id == who]
    modelled.model.script = Playback(
        TalkIndex([person]), {person.id: replies.load(VERSION, person.id)}
    ).answer
    before: dict[str, memory_pb2.Memory] = {}
    for session in person.sessions:
        said = transcript(person, session)
        seen = await preview(modelled, said)
        job = await ended(modelled, (await submit(modelled, said))[0])
        assert told(seen.result) == told(job.result)

        now = {
            each.id: each
            for each in await memories(modelled, user=person.id, statuses=ALL_STATUSES)
        }
        names = {each.id: each.content for each in now.values()}
        changed = [
            each for i, each in now.items() if i in before and each.version != before[i].version
        ]
        became = {
            status: [e for e in changed if status == e.status != before[e.id].status]
            for status in ENDED
        }
        updated = [e for e in changed if e.status not in ENDED or e.status == before[e.id].status]
        for shown, done in (
            (seen.memories_created, [each for i, each in now.items() if i not in before]),
            (seen.memories_contradicted, became[STATUS.MEMORY_STATUS_CONTRADICTED]),
            (seen.goals_achieved, became[STATUS.MEMORY_STATUS_ACHIEVED]),
            (seen.memories_updated, updated),
        ):
            assert all_told(shown, names) == all_told(done, names), session.id
        if seen.HasField("profile"):
            profile = await ask(modelled, "GetProfile", user_id=person.id)
            assert told(seen.profile) == told(profile.profile)
        before = now
