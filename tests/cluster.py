"""Databases on a real Citus cluster, made as docs/scaling.md says.

`HITHERTO_TEST_CITUS` names a database of its coordinator that knows the workers, with a superuser's
login and password: `postgresql://administrator:…@coordinator/database`. Nothing is done in that
database. The nodes log in to each other as this login by means of their own, and accept it with the
same password from here.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

CLUSTER = os.environ.get("TEST_CITUS", "")
_NODES = """
SELECT nodename, nodeport FROM pg_dist_node WHERE noderole = 'primary' ORDER BY groupid
"""
ROOT = Path(__file__).parents[1]
MIGRATE = Path(sys.executable).with_name("hitherto-migrate")


@contextmanager
def cluster_database() -> Iterator[str]:
    """A migrated, distributed database for as long as the block lasts, as its administrator.

    Skips the test where there is no cluster, also in CI, which has no cluster.
    """
    if not CLUSTER:
        pytest.skip("HITHERTO_TEST_CITUS names no cluster (tests/README.md)")
    with psycopg.connect(CLUSTER) as connection:
        nodes = connection.execute(_NODES).fetchall()
    name = f"test_{uuid4().hex}"
    there = [make_conninfo(CLUSTER, host=host, port=port) for host, port in nodes]
    database = sql.Identifier(name)
    try:
        for node in there:
            _run(node, sql.SQL("CREATE DATABASE {}").format(database))
            _run(make_conninfo(node, dbname=name), "CREATE EXTENSION citus")
        first = make_conninfo(there[0], dbname=name)
        _run(first, "SELECT citus_set_coordinator_host(%s, %s)", *nodes[0])
        for host, port in nodes[1:]:
            _run(first, "SELECT citus_add_node(%s, %s)", host, port)
        passwords = migrating(first, "--node-passwords").stdout
        for node in there:
            _run(make_conninfo(node, dbname=name), passwords)
        done = migrating(first)
        assert done.returncode == 0, done.stderr
        yield first
    finally:
        for node in reversed(there):
            _run(node, sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(database))


def migrating(conninfo: str, *options: str) -> subprocess.CompletedProcess[str]:
    """What `hitherto-migrate` does with a database."""
    return _done([MIGRATE, *options], conninfo)


def checked(conninfo: str) -> subprocess.CompletedProcess[str]:
    """What `make check-citus` says of a database."""
    return _done([sys.executable, "-m", "tools.citus"], conninfo)


def _done(command: Sequence[str | Path], conninfo: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        env={**os.environ, "DATABASE_URL": conninfo},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


def _run(conninfo: str, statement: str | sql.Composed, *parameters: object) -> None:
    with psycopg.connect(conninfo, autocommit=True) as connection:
        query = statement.encode() if isinstance(statement, str) else statement
        connection.execute(query, parameters or None)
