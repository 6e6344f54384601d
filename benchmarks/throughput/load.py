"""The transcripts that are sent: the same ones in every run."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

from benchmarks.words import sentence
from hitherto.v1 import conversation_pb2, extraction_service_pb2

MESSAGES = 20
_WORDS = (10, 40)
_FIRST = datetime(2026, 1, 5, 9, tzinfo=UTC)


def request(phase: str, number: int, users: int) -> extraction_service_pb2.SubmitTranscriptsRequest:
    """Transcript `number` of a phase: a new conversation of one of `users` users.

    Args:
        phase: Begins the conversation's id, so that jobs can be told apart by phase.
        number: Which one. Neighbouring numbers belong to different users.
        users: Over how many users the transcripts are spread.
    """
    rng = random.Random(f"{phase} {number}")
    began = _FIRST + timedelta(hours=number)
    transcript = conversation_pb2.Transcript(
        user_id=f"user-{number % users}", conversation_id=f"{phase}-{number}"
    )
    for i in range(MESSAGES):
        message = transcript.messages.add(
            id=f"m{i}",
            role=conversation_pb2.ROLE_ASSISTANT if i % 2 else conversation_pb2.ROLE_USER,
            content=sentence(rng, rng.randint(*_WORDS)),
        )
        message.created_at.FromDatetime(began + timedelta(minutes=i))
    return extraction_service_pb2.SubmitTranscriptsRequest(transcripts=[transcript])
