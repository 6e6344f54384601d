"""Where a sealed value belongs: the row it was sealed for, and the only one in which it opens.

Each version of a profile has a place of its own. All versions of a memory share the memory's, so
that a row which is copied to `memory_versions` stays readable: many a version changes the status
alone, and is written by upkeep, which has no key. The value itself says under which version it was
sealed (see `sealed`); so do those of vectors and summaries.
"""

from __future__ import annotations

from uuid import UUID

Place = tuple[str, ...]


def memory_place(memory_id: UUID | str) -> Place:
    """Of a memory and of its versions."""
    return ("memory", str(memory_id))


def vector_place(memory_id: UUID | str, model: str) -> Place:
    """Of the vector that `model` made of a memory."""
    return ("vector", str(memory_id), model)


def message_place(conversation_id: str, message_id: str) -> Place:
    """Of a message."""
    return ("message", conversation_id, message_id)


def summary_place(conversation_id: str) -> Place:
    """Of the summary of a conversation."""
    return ("summary", conversation_id)


def profile_place(version: int) -> Place:
    """Of a version of the user's profile, as the present one and as an earlier one."""
    return ("profile", str(version))


def reply_place(job_id: UUID | str, claim_no: int) -> Place:
    """Of what a model said in one attempt of a job, where nothing could be made of it."""
    return ("reply", str(job_id), str(claim_no))


def statement_place(statement_id: UUID | str) -> Place:
    """Of what a source said of a memory, of the profile or in a summary."""
    return ("statement", str(statement_id))
