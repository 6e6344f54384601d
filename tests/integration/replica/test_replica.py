"""Reads from a real hot standby, and around it (requirement D12; issue 4, item 5)."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path
from typing import Any

import grpc
import psycopg
import pytest

from hitherto.v1 import retrieval_service_pb2 as pb
from hitherto_retrieval.config import RetrievalSettings
from hitherto_retrieval.readers import Readers
from hitherto_retrieval.storage.replica_lag import measure
from hitherto_shared.auth.api_keys import create_key
from hitherto_shared.consistency import ConsistencyTokens, Position, current_position
from hitherto_shared.database.connect import with_role
from hitherto_shared.database.pipeline_connection import PipelineConnection
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.key_files import load_deployment_secret
from hitherto_shared.metrics import REGISTRY
from tests.e2e.conftest import Services, StartServices
from tests.e2e.curating import save, statement
from tests.e2e.test_deadlines import retrieval_alone
from tests.integration.replica.servers import Servers
from tests.integration.retrieval.seed import Fact, remember
from tests.waiting import eventually, wait_until

PATIENCE = 180.0


async def contents(
    services: Services, token: str = "", *, user: str = "ana", **call: Any
) -> list[str]:
    """What is told about the user, sorted."""
    reply = await services.retrieval.ListMemories(
        pb.ListMemoriesRequest(user_id=user, consistency_token=token), **call
    )
    return sorted(memory.content for memory in reply.memories)


async def until(services: Services, expected: list[str], user: str = "ana") -> None:
    """Wait until a read without a token tells `expected`."""

    async def told() -> bool:
        return await contents(services, user=user) == expected

    await eventually(told)


async def counted_at_the_primary(services: Services, servers: Servers) -> None:
    """Requirement D11 with a replica."""
    await services.retrieval.SearchMemories(pb.SearchMemoriesRequest(user_id="ana", query="Porto"))
    with servers.administrator() as primary:

        async def counted() -> bool:
            return primary.execute("SELECT access_count FROM memory_access").fetchone() == (1,)

        await eventually(counted)


async def test_a_standby_is_read_where_it_may_be(
    services: Services, servers: Servers, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One primary, its standby and both services; each story is about a user of its own."""
    await a_write_is_read_though_the_standby_has_not_replayed_it(services, servers, tmp_path)
    await the_standby_stops_and_freezes_and_comes_back(services, servers)
    await a_promoted_standby_is_bypassed_until_it_follows_again(services, servers, caplog)


async def a_write_is_read_though_the_standby_has_not_replayed_it(
    services: Services, servers: Servers, tmp_path: Path
) -> None:
    first = await save(services, "Ana lives in Porto")
    servers.catch_up()
    await counted_at_the_primary(services, servers)
    assert await contents(services) == ["Ana lives in Porto"]
    assert await contents(services, first.consistency_token) == ["Ana lives in Porto"]
    servers.pause_replay()
    both = ["Ana drinks tea", "Ana lives in Porto"]
    second = await save(services, "Ana drinks tea")
    assert await contents(services, second.consistency_token) == both
    # The same by search and in the context.
    found = await services.retrieval.SearchMemories(
        pb.SearchMemoriesRequest(
            user_id="ana", query="tea", consistency_token=second.consistency_token
        )
    )
    assert found.results[0].memory.content == "Ana drinks tea"
    context = await services.retrieval.GetContext(
        pb.GetContextRequest(user_id="ana", consistency_token=second.consistency_token)
    )
    assert "tea" in context.prompt_block
    # Who does not ask for it may be told what was known before, and an older token is enough.
    assert await contents(services) == ["Ana lives in Porto"]
    assert await contents(services, first.consistency_token) == ["Ana lives in Porto"]
    await foreign_tokens_go_to_the_primary(services, servers, tmp_path)
    servers.resume_replay()
    await until(services, both)


async def foreign_tokens_go_to_the_primary(
    services: Services, servers: Servers, tmp_path: Path
) -> None:
    """Those of another database or timeline; the standby does not know of the tea yet."""
    tokens = ConsistencyTokens(load_secret_of(tmp_path))
    with servers.administrator() as connection:
        row = connection.execute("SELECT system_identifier::text FROM pg_control_system()")
        (database,) = row.fetchone() or ("",)
    for position in (
        Position("0/1", "00000001", "1234567890123456789"),
        Position("0/1", "00000002", str(database)),
    ):
        token = tokens.make(position, "default")
        assert await contents(services, token) == ["Ana drinks tea", "Ana lives in Porto"]
    token = tokens.make(Position("0/1", "00000001", str(database)), "default")
    assert await contents(services, token) == ["Ana lives in Porto"]


def load_secret_of(tmp_path: Path) -> bytes:
    """The secret of the services under test."""
    return load_deployment_secret(RetrievalSettings(data_dir=tmp_path / "data"))


async def the_standby_stops_and_freezes_and_comes_back(
    services: Services, servers: Servers
) -> None:
    told = await save(services, "Bo lives in Porto", user="bo")
    servers.catch_up()
    servers.stop_standby()
    for token in ("", told.consistency_token, ""):
        assert await contents(services, token, user="bo") == ["Bo lives in Porto"]
    servers.start_standby()
    servers.pause_replay()
    await save(services, "Bo drinks tea", user="bo")
    # It is used again, as its being behind shows.
    await until(services, ["Bo lives in Porto"], "bo")
    servers.freeze_standby()
    both = ["Bo drinks tea", "Bo lives in Porto"]
    assert await contents(services, user="bo", timeout=15) == both
    assert await contents(services, told.consistency_token, user="bo") == both
    # Once that is known calls go around it, and answer where half of the time would not do.
    assert await asyncio.gather(*(contents(services, user="bo") for _ in range(20))) == [both] * 20
    servers.thaw()
    await until(services, ["Bo lives in Porto"], "bo")


async def a_promoted_standby_is_bypassed_until_it_follows_again(
    services: Services, servers: Servers, caplog: pytest.LogCaptureFixture
) -> None:
    servers.resume_replay()
    await save(services, "Cleo lives in Porto", user="cleo")
    servers.catch_up()
    servers.promote_standby()
    await save(services, "Cleo drinks tea", user="cleo")
    both = ["Cleo drinks tea", "Cleo lives in Porto"]
    await until(services, both, "cleo")
    assert "it was promoted" in caplog.text
    servers.replace_standby()
    servers.pause_replay()
    await save(services, "Cleo sails", user="cleo")
    # It is used again, as its being behind shows.
    await until(services, both, "cleo")


async def test_a_standby_of_the_old_primary_is_bypassed_until_it_follows_the_new_one(
    servers: Servers,
) -> None:
    """A failover that one standby has not heard of: it would show old data for ever."""
    servers.add_second_standby()
    servers.cut_off_second()
    servers.promote_standby()
    new = Database(servers.standby_conninfo, "hitherto_write", application="test", max_size=1)
    replica = Database(servers.second_conninfo, "hitherto_read", application="test", max_size=1)
    readers = Readers(new, replica, ConsistencyTokens(b"s" * 32))

    async def replica_answers() -> bool:
        reads = readers.choose("", "a")
        return await reads.run(in_recovery, timeout=PATIENCE, repeatable=True)

    async def primary_answers() -> bool:
        return not await replica_answers()

    async def follows() -> bool:
        servers.restart_point_of_second()
        return await replica_answers()

    with servers.administrator(standby=True) as connection:
        wait_until(
            lambda: connection.execute("SELECT pg_is_in_recovery()").fetchone() == (False,),
            "the promotion",
        )
    await readers.open()
    try:
        await eventually(primary_answers)
        servers.let_second_follow_standby()
        await eventually(follows)
    finally:
        await readers.close()


async def key(conninfo: str) -> str:
    """A new API key."""
    login = with_role(conninfo, "hitherto_maintenance", application="test")
    async with await PipelineConnection.connect(login, autocommit=True) as connection:
        return await create_key(
            connection, tenant_id="default", name="test", scopes=["read", "write"]
        )


async def test_the_primary_is_down(
    start_services: StartServices, servers: Servers, conninfo: str
) -> None:
    """Reads go on, API keys included; what cannot be shown is refused and not left out."""
    settings = {"auth": "api-key", "read_database_url": servers.standby_conninfo}
    administrator = servers.administrator()
    async with start_services(**settings) as services:
        metadata = (("authorization", f"Bearer {await key(conninfo)}"),)
        request = pb.ListMemoriesRequest(user_id="ana")
        first = await services.memory.SaveMemory(statement("Ana lives in Porto"), metadata=metadata)
        servers.pause_replay()
        second = await services.memory.SaveMemory(statement("Ana drinks tea"), metadata=metadata)
        administrator.close()
        servers.stop_primary()
        for token in ("", first.consistency_token):
            request.consistency_token = token
            reply = await services.retrieval.ListMemories(request, metadata=metadata)
            assert [memory.content for memory in reply.memories] == ["Ana lives in Porto"]
        request.consistency_token = second.consistency_token
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await services.retrieval.ListMemories(request, metadata=metadata)
        assert caught.value.code() == grpc.StatusCode.UNAVAILABLE
        assert "consistency token" in (caught.value.details() or "")
        servers.resume_replay()

        async def both_told() -> bool:
            try:
                reply = await services.retrieval.ListMemories(request, metadata=metadata)
            except grpc.aio.AioRpcError as error:
                if error.code() == grpc.StatusCode.UNAVAILABLE:
                    return False
                raise
            return len(reply.memories) == 2

        await eventually(both_told)


async def test_a_read_that_stands_in_the_way_of_replay_is_repeated(
    servers: Servers, conninfo: str, tmp_path: Path
) -> None:
    """design.md §4: a standby may end a reader on DDL or vacuum."""
    request = pb.ListMemoriesRequest(user_id="ana")
    with (
        servers.administrator() as first,
        servers.administrator() as second,
        servers.administrator() as third,
        servers.administrator(standby=True) as standby,
    ):
        await remember(servers.administrator_conninfo(), "ana", [Fact("Ana lives in Porto")])
        servers.catch_up()
        # Without the other service, whose reads of the primary would stand in the test's own way.
        async with retrieval_alone(
            conninfo, tmp_path, read_database_url=servers.standby_conninfo
        ) as stub:
            assert len((await stub.ListMemories(request)).memories) == 1
            first.execute("BEGIN")
            first.execute("LOCK TABLE embedding_models IN ACCESS EXCLUSIVE MODE")
            servers.catch_up()
            call = asyncio.ensure_future(stub.ListMemories(request))
            held = await asyncio.wait_for(held_by_a_waiting_reader(standby), PATIENCE)
            second.execute("BEGIN")
            second.execute(f"LOCK TABLE {held} IN ACCESS EXCLUSIVE MODE")
            servers.flush(third)

            async def ended() -> bool:
                return "due to conflict with recovery" in servers.standby_said

            await eventually(ended)
            second.execute("ROLLBACK")
            first.execute("ROLLBACK")
            reply = await call
            assert [memory.content for memory in reply.memories] == ["Ana lives in Porto"]


async def held_by_a_waiting_reader(standby: psycopg.Connection[tuple[object, ...]]) -> str:
    """A table that a reader has locked who waits for another one."""
    while True:
        row = standby.execute(
            "SELECT held.relation::regclass::text FROM pg_locks AS wanted"
            " JOIN pg_locks AS held ON held.pid = wanted.pid AND held.granted"
            " JOIN pg_class AS c ON c.oid = held.relation AND c.relkind = 'r'"
            " WHERE NOT wanted.granted AND wanted.relation = 'embedding_models'::regclass"
            "   AND c.relnamespace = 'hitherto'::regnamespace"
        ).fetchone()
        if row is not None:
            return str(row[0])
        await asyncio.sleep(0.02)


async def test_lag_is_measured_and_what_is_about_to_be_replayed_is_waited_for(
    servers: Servers, conninfo: str
) -> None:
    """A token just ahead of the standby: with the primary gone the wait is long enough."""
    await lag_is_measured(servers)
    servers.start_standby()
    primary = Database(conninfo, "hitherto_write", application="test", max_size=1)
    replica = Database(servers.standby_conninfo, "hitherto_read", application="test", max_size=1)
    tokens = ConsistencyTokens(b"s" * 32)
    readers = Readers(primary, replica, tokens)
    await readers.open()
    try:
        servers.pause_replay()
        with servers.administrator() as connection:
            connection.execute("CREATE TABLE public.noise AS SELECT generate_series(1, 1000)")
        position = await primary.run(current_position, timeout=PATIENCE)
        reads = readers.choose(tokens.make(position, "a"), "a")
        assert await reads.run(in_recovery, timeout=PATIENCE, repeatable=True) is False
        servers.stop_primary()
        waiting = asyncio.ensure_future(reads.run(in_recovery, timeout=PATIENCE, repeatable=True))
        # Whatever it does first, it is still waiting for the position.
        done, _ = await asyncio.wait({waiting}, timeout=0.5)
        assert not done
        servers.resume_replay()
        assert await waiting is True
    finally:
        await readers.close()


async def lag_is_measured(servers: Servers) -> None:
    """With a standby that has stopped at the end."""
    replica = Database(servers.standby_conninfo, "hitherto_read", application="test", max_size=1)

    async def lag() -> float | None:
        await measure(replica)
        return REGISTRY.get_sample_value("hitherto_replica_lag_seconds", {"database": "replica"})

    async def current() -> bool:
        return await lag() == 0

    async def behind() -> bool:
        return (await lag() or 0) > 0

    async def unknown() -> bool:
        return math.isnan(await lag() or 0)

    def write(table: str) -> None:
        with servers.administrator() as connection:
            connection.execute(f"CREATE TABLE public.{table} (id int)".encode())

    await replica.open()
    try:
        write("first")
        servers.catch_up()
        await eventually(current)
        servers.pause_replay()
        write("second")
        await eventually(behind)
        servers.stop_standby()
        await eventually(unknown)
    finally:
        await replica.close()


async def in_recovery(connection: Connection) -> bool:
    return bool(await connection.fetch_value("SELECT pg_is_in_recovery()"))
