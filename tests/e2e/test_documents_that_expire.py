"""Documents with an end (B16): left out of every read, postponed, exported, and then deleted."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from hitherto.v1 import document_pb2, search_pb2
from hitherto_extraction.documents.ingest import delete_expired
from hitherto_shared.database.pool import Database
from hitherto_shared.database.tenancy import acting_for
from hitherto_shared.models import Scope
from tests.e2e.conftest import Services
from tests.e2e.handing_over import check_index, document, hand_over, taken_in
from tests.e2e.learning import rows
from tests.e2e.methods import ask
from tests.e2e.sweeping import sweeping
from tests.tenants import tenant_of

TEXT = "The ferry to Tromsø leaves at noon."


def soon(seconds: float) -> datetime:
    return datetime.now(UTC) + timedelta(seconds=seconds)


async def listed(services: Services) -> dict[str, document_pb2.Document]:
    reply = await ask(services, "ListDocuments", page_size=100)
    assert reply.total_size == len(reply.documents)
    return {one.source_id: one for one in reply.documents}


async def found(services: Services, limit: int = 10) -> list[str]:
    reply = await ask(
        services,
        "SearchMemories",
        query="ferry to Tromsø",
        scopes=[search_pb2.SEARCH_SCOPE_DOCUMENTS],
        limit=limit,
    )
    return sorted(result.document_chunk.source_id for result in reply.results)


async def sweep(conninfo: str) -> None:
    async with sweeping(conninfo) as sweeps:
        while await sweeps.drop_documents():
            pass


async def test_an_expired_document_is_in_no_read_and_then_gone(
    services: Services, conninfo: str, superuser_conninfo: str
) -> None:
    """It takes no place of the others in a search, and the sweep leaves no row of it."""
    ids, _ = await taken_in(
        services,
        *(
            document(f"old{n}", TEXT, expires_at=soon(-5), metadata={"from": "bo@company.com"})
            for n in range(30)
        ),
        document("kept", f"{TEXT} Bring a coat."),
        document("later", f"{TEXT} Bring a hat.", expires_at=soon(3_600)),
    )
    assert await found(services, limit=2) == ["kept", "later"]
    assert set(await listed(services)) == {"kept", "later"}
    for wanted, ending in ((ids[-1], True), (ids[-2], False)):
        reply = await ask(services, "GetDocument", document_id=wanted)
        assert reply.document.HasField("expires_at") is ending
    context = await ask(services, "GetContext", query="ferry to Tromsø")
    assert context.prompt_block.count("ferry to Tromsø") == 2
    # Nor is named what only expired ones mention.
    assert not context.entities
    await sweep(conninfo)
    for table in ("documents", "document_chunks"):
        held = "SELECT count(DISTINCT document_id) FROM hitherto." + table
        assert rows(superuser_conninfo, held + " WHERE user_id = 'ana'") == [(2,)]
    check_index(superuser_conninfo)
    assert await found(services) == ["kept", "later"]


async def test_the_end_is_set_anew_and_postponed(services: Services, conninfo: str) -> None:
    """Without another job; what has expired or has no end is not postponed."""
    await taken_in(
        services,
        document("x", TEXT, expires_at=soon(-5)),
        document("y", TEXT),
        document("z", TEXT, expires_at=soon(600)),
    )

    async def refresh(*documents: Any) -> list[str]:
        reply = await ask(services, "IngestDocuments", documents=documents, refresh_only=True)
        assert not reply.HasField("job")
        assert reply.replaced_count == len(reply.document_ids)
        return list(reply.document_ids)

    far = soon(7_200).replace(microsecond=0)
    postponed = await refresh(*(document(name, "", expires_at=far) for name in "xyzq"))
    shown = await listed(services)
    assert [shown["z"].id] == postponed
    assert shown["z"].expires_at.ToDatetime(UTC) == far
    assert await refresh(document("z", "", expires_at=soon(60))) == []
    shown = await listed(services)
    assert set(shown) == {"y", "z"}
    assert shown["z"].expires_at.ToDatetime(UTC) == far
    # Handed over again, an expired one is back as it was, and an end can be taken away.
    again = await hand_over(services, document("x", TEXT, expires_at=far), document("z", TEXT))
    assert (again.unchanged_count, again.replaced_count) == (2, 0)
    assert await found(services) == ["x", "y", "z"]
    shown = await listed(services)
    assert not shown["z"].HasField("expires_at")
    await sweep(conninfo)
    assert await found(services) == ["x", "y", "z"]
    # It may be postponed between the look of a sweep and its turn.
    user, postponed_id = Scope(tenant_of(conninfo), "ana"), UUID(shown["x"].id)
    removal = Database(conninfo, "hitherto_removal", application="test", max_size=1)
    await removal.open()
    try:
        with acting_for(user.tenant_id):
            assert not await removal.transact(
                lambda connection: delete_expired(connection.of(user), postponed_id), timeout=60
            )
    finally:
        await removal.close()
    assert await found(services) == ["x", "y", "z"]
