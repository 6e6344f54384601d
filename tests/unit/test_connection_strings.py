"""No command and no service repeats a connection string, however it is written (row 63)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest

from hitherto_retrieval import readers
from hitherto_retrieval.readers import Readers
from hitherto_shared.consistency import ConsistencyTokens, Lineage
from hitherto_shared.database.bootstrap import bootstrap
from hitherto_shared.database.connect import DatabaseUnreachable, connected, with_role
from hitherto_shared.database.faults import no_answer_in_time
from hitherto_shared.database.pool import Connection, Database

SECRET = "hunter2"

MALFORMED = [
    f"postgresql//boss:{SECRET}@h/x",
    f"postgresql://boss:{SECRET}%zz@h/x",
    f"postgresql://boss:{SECRET}/more@h/x",
    f"postgresql://boss:{SECRET}@more@nowhere.invalid/x",
    f"host=h password='{SECRET}",
    f"host=h password={SECRET}\udcff",
]
OUT_OF_REACH = f"postgresql://boss:{SECRET}@127.0.0.1:1/x"
COMMANDS = [
    ["hitherto_shared.database.migrate"],
    ["hitherto_shared.database.migrate", "--check"],
    ["hitherto_shared.database.migrate", "--help"],
    ["hitherto_retrieval"],
    ["hitherto_extraction"],
]


@pytest.mark.parametrize("url", MALFORMED)
def test_a_string_that_cannot_be_read_is_not_quoted(url: str) -> None:
    for work in (
        lambda: connected(with_role(url, "hitherto_read", application="test")),
        lambda: connected(with_role(url, "hitherto_owner", application="test")),
        lambda: bootstrap(url),
    ):
        with pytest.raises(DatabaseUnreachable) as caught:
            work()
        assert SECRET not in str(caught.value)
        assert "percent-encode" in str(caught.value)


@pytest.mark.faults
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_what_is_printed_has_no_password(command: list[str], tmp_path: Path) -> None:
    # Each as a process: what matters is what stands on the terminal, whoever wrote it there.
    one_each = [MALFORMED[3], OUT_OF_REACH]
    for url in one_each:
        done = subprocess.run(
            [sys.executable, "-m", *command],
            env={
                "PATH": os.environ.get("PATH", ""),
                "HOME": str(tmp_path),
                "DATABASE_URL": url,
                "HITHERTO_LOG_LEVEL": "DEBUG",
            },
            capture_output=True,
            check=False,
            timeout=60,
        )
        said = done.stdout + done.stderr
        assert (done.returncode == 0) == (command[-1] == "--help")
        assert SECRET.encode() not in said, (url, said)
        assert b"boss:" not in said, (url, said)
        if url in MALFORMED and command[-1] != "--help":
            assert b"Traceback" not in said
            assert b"DATABASE_URL" in said
            assert b"percent-encode" in said


# Which lineages of a replica stray from the primary's; integration/replica/ has real servers.


class Server:
    """Stands for a database: it tells its lineage, which is its connection as well."""

    def __init__(self, lineage: Lineage) -> None:
        self.lineage = lineage
        self.slow = False

    async def run(self, work: Callable[[Connection], Awaitable[Any]], **_: object) -> Any:
        if self.slow:
            raise no_answer_in_time()
        return await work(cast(Connection, self))


PRIMARY, FOLLOWER = Lineage("a", 2, standby=False), Lineage("a", 2, standby=True)
PROMOTED = Lineage("a", 3, standby=False)


async def test_a_strayed_replica_is_told_from_one_that_follows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def lineage_of(connection: Connection) -> Lineage:
        return cast(Server, connection).lineage

    monkeypatch.setattr(readers, "lineage_of", lineage_of)
    for primary, replica, strayed in (
        (PRIMARY, PROMOTED, True),
        (PRIMARY, Lineage("a", 1, standby=True), True),
        (PRIMARY, Lineage("a", 3, standby=True), True),
        (PRIMARY, Lineage("b", 2, standby=False), True),
        (FOLLOWER, Lineage("b", 2, standby=True), True),
        (PRIMARY, FOLLOWER, False),
        # After a failover both strings may name one server.
        (PRIMARY, PRIMARY, False),
        # The control files of two standbys need not agree.
        (FOLLOWER, Lineage("a", 1, standby=True), False),
        (Lineage("a", 1, standby=True), PRIMARY, False),
    ):
        servers = [Server(primary), Server(replica)]
        first, second = (cast(Database, each) for each in servers)
        watched = Readers(first, second, ConsistencyTokens(b"s" * 32))
        assert await watched._strayed() is strayed, (primary, replica)
        for slow in servers:
            # A slow primary readmits no strayed replica, nor gets the reads of one that follows.
            slow.slow = True
            assert await watched._strayed() is strayed, (primary, replica)
            slow.slow = False
