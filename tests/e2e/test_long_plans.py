"""A reply that takes too long to plan ends its job after the usual attempts (rows 30 and 69)."""

from __future__ import annotations

from hitherto.v1 import job_pb2
from tests.e2e.conftest import Services
from tests.e2e.learning import ALL_STATUSES, ended, memories, submit, talk
from tests.scripted_model import ChatAnswer, ChatRequest, ScriptedModel
from tests.scripted_model.answers import memory

STATEMENTS = 200
LABELS = {
    "tags": [f"tag{n}" for n in range(100)],
    "entities": [{"name": f"Rose {n}", "type": "other"} for n in range(50)],
}


SERVICE_SETTINGS = {"planning_seconds": 0.01, "job_max_retries": 1}
"""Two attempts, and less time for a plan than the longest replies take on any machine."""


def _long_replies(request: ChatRequest) -> ChatAnswer:
    """To talk about roses: as many and as long statements as one reply may hold."""
    said = request.messages[-1]
    if "roses" not in said.content:
        return ChatAnswer.of(new_memories=[memory(said.content, [said.local_id])])
    text = "The user keeps a garden with {} roses. " + "It is watered in the evening. " * 260
    return ChatAnswer.of(
        new_memories=[memory(text.format(n), [said.local_id], **LABELS) for n in range(STATEMENTS)]
    )


async def test_a_reply_that_takes_too_long_to_plan_costs_attempts_and_ends_dead(
    modelled: Services, model: ScriptedModel
) -> None:
    model.script = _long_replies
    (job_id,) = await submit(modelled, talk("I have many roses."))
    job = await ended(modelled, job_id, within=300)
    assert (job.state, job.attempt) == (job_pb2.JOB_STATE_DEAD, 2), job.error
    assert job.error == (
        "DEADLINE_EXCEEDED: deciding what the model's reply changes took longer than its limit of"
        " 0.01 s, without waiting for the database"
    )
    assert model.calls["chat"] == 2
    assert job.result.usage.input_tokens >= 200, "both calls are charged"
    assert await memories(modelled, statuses=ALL_STATUSES) == []
    (job_id,) = await submit(modelled, talk("I live in Porto.", conversation="c2"))
    job = await ended(modelled, job_id, within=300)
    assert job.state == job_pb2.JOB_STATE_SUCCEEDED, job.error
