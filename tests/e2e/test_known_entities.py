"""The entities of a context are those that something which holds mentions (D1)."""

from __future__ import annotations

from hitherto.v1 import retrieval_service_pb2 as pb
from tests.e2e.conftest import Services
from tests.e2e.shelf import ago, fill
from tests.integration.retrieval.seed import Fact
from tests.integration.retrieval.seed_passages import Paper


async def test_what_only_ended_memories_mention_is_not_named(
    services: Services, tenant_conninfo: str
) -> None:
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
        ],
        documents=[Paper("gmail", ["From Dee"], mentions=["Dee"], made_at=ago(1))],
    )
    # The second one is answered from what the process holds of the user.
    for _ in range(3):
        told = await services.retrieval.GetContext(pb.GetContextRequest(user_id="ana"))
        assert {entity.name for entity in told.entities} == {"Porto", "Tech", "Bo", "Dee"}
    found = await services.retrieval.FindEntities(
        pb.FindEntitiesRequest(user_id="ana", name="Lisbon")
    )
    assert [entity.name for entity in found.entities] == ["Lisbon"]
