"""The entities of a context are those that something which holds mentions (D1)."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from hitherto.v1 import retrieval_service_pb2 as pb
from tests.e2e.conftest import Services
from tests.e2e.methods import ask
from tests.e2e.shelf import ago, fill
from tests.integration.retrieval.seed import Fact
from tests.integration.retrieval.seed_passages import Paper


async def test_what_only_ended_memories_mention_is_not_named(
    services: Services, tenant_conninfo: str
) -> None:
    soon = datetime.now(UTC) + timedelta(seconds=4)
    await fill(
        tenant_conninfo,
        "ana",
        memories=[
            Fact("Ana lives in Porto", entities=["Porto"]),
            Fact("Ana finished the course at Lisbon Tech", status="achieved", entities=["Tech"]),
            Fact("Ana lives in Lisbon", status="contradicted", entities=["Lisbon"]),
            Fact("Ana lived with Bo", status="contradicted", entities=["Bo"]),
            Fact("Ana met Bo", entities=["Bo"]),
            Fact("Ana likes Cy", status="superseded", entities=["Cy"]),
            Fact("Ana visits Eve", entities=["Eve"], expires_at=ago(1)),
            Fact("Ana waits for Flo", entities=["Flo"], expires_at=soon),
        ],
        documents=[Paper("gmail", ["From Dee"], mentions=["Dee"], made_at=ago(1))],
    )
    known = {"Porto", "Tech", "Bo", "Dee"}

    async def named() -> set[str]:
        # From the third one on, it is answered from what the process holds of the user.
        told = await services.retrieval.GetContext(pb.GetContextRequest(user_id="ana"))
        return {entity.name for entity in told.entities}

    for _ in range(3):
        assert await named() - {"Flo"} == known
    while datetime.now(UTC) < soon:
        assert await named() >= known
        await asyncio.sleep(0.2)
    for _ in range(3):
        assert await named() == known
    found = await ask(services, "FindEntities", name="Lisbon")
    assert [entity.name for entity in found.entities] == ["Lisbon"]
