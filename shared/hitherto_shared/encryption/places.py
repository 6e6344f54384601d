"""The places to which sealed values are bound: the row for which a value is sealed opens it.

Each version of a profile has a place of its own. All versions of a memory share the memory's, so
that a row copied to `memory_versions` stays readable: many versions change only the status, and are
written by upkeep, which has no key. The value itself names the version under which it was sealed
(see `sealed`); so do those of vectors and summaries.
"""

from __future__ import annotations

from uuid import UUID

Place = tuple[str, ...]


def memory_place(memory_id: UUID | str) -> Place:
    """The place of a memory and of its versions."""
    return ("memory", str(memory_id))


def vector_place(memory_id: UUID | str, model: str) -> Place:
    """The place of a memory's vector by `model`."""
    return ("vector", str(memory_id), model)


def message_place(conversation_id: str, message_id: str) -> Place:
    """The place of a message."""
    return ("message", conversation_id, message_id)


def summary_place(conversation_id: str) -> Place:
    """The place of a conversation's summary."""
    return ("summary", conversation_id)


def profile_place(version: int) -> Place:
    """The place of a version of the user's profile, present or earlier."""
    return ("profile", str(version))


def reply_place(job_id: UUID | str, claim_no: int) -> Place:
    """The place of an unusable model reply in one attempt of a job."""
    return ("reply", str(job_id), str(claim_no))


def statement_place(statement_id: UUID | str) -> Place:
    """The place of a source's statement about a memory, the profile or in a summary."""
    return ("statement", str(statement_id))
