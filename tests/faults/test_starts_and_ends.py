"""One service first, alone, or both together; killed in turn; the last one stops Postgres (A3)."""

from __future__ import annotations

from collections.abc import Callable

from hitherto_shared.database.migration_files import BASELINE
from tests.faults.ledger import Ledger
from tests.faults.processes import Name, Processes, Service
from tests.faults.submitting import Batch, Caller

MakeCaller = Callable[[Callable[[], str]], Caller]


async def works(service: Service, caller: MakeCaller) -> None:
    """One call that needs the database and its schema."""
    if service.name == "extraction":
        await caller(lambda: service.address).submit(Batch.new("ana"))
        return
    await service.ask("RetrievalService/GetContext", user_id="ana")


async def test_both_at_once_on_an_empty_folder_then_one_killed_and_the_other_ended(
    private: Processes, caller: MakeCaller
) -> None:
    services: dict[Name, Service] = {
        "extraction": private.launch("extraction"),
        "retrieval": private.launch("retrieval"),
    }
    for service in services.values():
        await service.ready()
        await works(service, caller)
    # Whichever of them migrates tells it once.
    told = [line for each in services.values() for line in each.said.splitlines()]
    assert sum(BASELINE in line for line in told) == 1
    postmaster = private.postmaster()
    services.pop("extraction").kill()
    (other,) = services.values()
    await works(other, caller)
    assert private.postmaster() == postmaster
    assert await other.end() == 0
    assert not private.postgres_runs()


async def test_one_alone_on_an_empty_folder_all_killed_and_a_newcomer_adopts(
    private: Processes, caller: MakeCaller, ledger: Ledger
) -> None:
    """The retrieval service comes first; others begin with the extraction service."""
    one = await private.start("retrieval")
    await works(one, caller)
    postmaster = private.postmaster()
    two = await private.start("extraction")
    await works(two, caller)
    one.kill()
    two.kill()
    assert private.postgres_runs()
    newcomer = await private.start("extraction")
    await works(newcomer, caller)
    assert private.postmaster() == postmaster
    conninfo = private.administrator()
    await ledger.settled(conninfo)
    assert set(ledger.check(conninfo, chat_calls=0)) == {"succeeded"}
    assert await newcomer.end() == 0
    assert not private.postgres_runs()
