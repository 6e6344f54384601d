"""The schema and the statements suit a Postgres that distributes rows by user (I5), as far as
can be seen without Citus; what does not is listed here and in docs/scaling.md."""

from __future__ import annotations

import re
from collections.abc import Iterator

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from hitherto_shared.database.connect import service_passwords
from hitherto_shared.database.embedded import EmbeddedPostgres
from tests.conftest import as_superuser, new_database
from tools.citus import __main__ as command
from tools.citus.routes import Route, ServiceStatement, obstacles, read_plan, service_statements
from tools.citus.schema_rules import (
    Distribution,
    broken_rules,
    policies_by_setting,
)

IN_STEPS = {
    "storage/changes._OF_USER",
    "storage/imported._TELL",
    "storage/imported._TELL_PROFILE",
    "storage/retention._OUTLIVED_MESSAGES",
}
"""What is read of the coordinator's tables first, or written to them last."""


@pytest.fixture(scope="module")
def migrated(postgres: EmbeddedPostgres) -> Iterator[psycopg.Connection]:
    """The schema as the migrations leave it, without the triggers of the tests."""
    with (
        new_database(postgres) as made,
        psycopg.connect(
            as_superuser(postgres, made), autocommit=True, prepare_threshold=None
        ) as connection,
    ):
        connection.execute(
            "DROP FUNCTION test_note_raised, test_require_raised, test_require_told CASCADE"
        )
        yield connection


@pytest.fixture
def changed(migrated: psycopg.Connection) -> Iterator[psycopg.Connection]:
    """The same, for changes that end with the test."""
    with migrated.transaction(force_rollback=True):
        yield migrated


def test_the_tables_obey_the_rules(migrated: psycopg.Connection) -> None:
    """A table that breaks one must be changed, or stay on the coordinator (`LOCAL`)."""
    assert broken_rules(migrated, Distribution()) == []


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (
            "CREATE TABLE notes (tenant_id text, user_id text)",
            "notes: neither distributed",
        ),
        ("ALTER TABLE memories ADD UNIQUE (memory_id)", "memories: memories_memory_id_key"),
        ("CREATE UNIQUE INDEX once ON memories (tenant_id, version)", "memories: once is unique"),
        ("ALTER TABLE preferences DROP CONSTRAINT preferences_pkey", "preferences: no primary key"),
        (
            "ALTER TABLE feedback ADD COLUMN job uuid REFERENCES jobs (job_id)",
            "feedback: feedback_job_fkey joins a distributed table and one of the coordinator",
        ),
        (
            "ALTER TABLE memories ADD CONSTRAINT on_document"
            " FOREIGN KEY (tenant_id, user_id, memory_id) REFERENCES documents",
            "memories: on_document refers to documents, which is distributed later",
        ),
        (
            "ALTER TABLE statements DROP CONSTRAINT statements_tenant_id_user_id_memory_id_fkey;"
            " ALTER TABLE statements ADD CONSTRAINT nulled FOREIGN KEY (tenant_id, user_id,"
            " memory_id) REFERENCES memories ON DELETE SET NULL",
            "statements: nulled changes rows",
        ),
        (
            "CREATE TRIGGER watch AFTER INSERT ON users EXECUTE FUNCTION refuse_change_of_audit()",
            "users: trigger watch",
        ),
        ("ALTER TABLE postings ALTER user_id TYPE varchar(9)", "postings: user_id must be text"),
    ],
)
def test_a_table_that_breaks_a_rule_is_found(
    changed: psycopg.Connection, change: str, complaint: str
) -> None:
    changed.execute(change.encode())
    assert any(line.startswith(complaint) for line in broken_rules(changed, Distribution()))


def test_no_statement_about_a_user_leaves_its_shard(migrated: psycopg.Connection) -> None:
    plan = Distribution()
    assert set(obstacles(migrated, service_statements(migrated, plan), plan)) == IN_STEPS
    assert policies_by_setting(migrated, plan) == set(plan.distributed)


def test_a_statement_that_leaves_its_shard_is_found(changed: psycopg.Connection) -> None:
    plan = Distribution()
    changed.execute(
        "CREATE FUNCTION newest(of_user text) RETURNS SETOF memories LANGUAGE sql STABLE AS"
        " 'SELECT * FROM memories AS m WHERE m.user_id = of_user'"
    )
    of_user = "tenant_id = %(tenant_id)s AND user_id = %(user_id)s"
    told = obstacles(
        changed,
        [
            ServiceStatement("a", "SELECT * FROM newest(%(user_id)s)", across=False),
            ServiceStatement("b", f"UPDATE users\nSET revision = random() WHERE {of_user}", False),
            ServiceStatement("c", f"SELECT FROM users AS u, jobs AS j WHERE {of_user}", False),
            ServiceStatement("d", f"SELECT content FROM memories WHERE {of_user}", False),
            ServiceStatement("e", "SELECT FROM users, jobs", across=True),
            ServiceStatement(
                "f", "UPDATE memories AS m SET type = CASE m.type WHEN 'fact' THEN 'goal' END", True
            ),
            ServiceStatement(
                "h",
                "INSERT INTO memory_embeddings (tenant_id, user_id, model) SELECT m.tenant_id,"
                " m.user_id, k.model FROM memories AS m JOIN embedding_models AS k ON k.active"
                f" WHERE m.{of_user}",
                False,
            ),
            ServiceStatement("g", "UPDATE jobs SET kind = CASE kind WHEN 'a' THEN 'b' END", True),
        ],
        plan,
    )
    assert told == {
        "a": "reads through newest",
        "b": "updates by random",
        "c": "joins jobs of the coordinator",
        "f": "compares by CASE column WHEN",
        "h": "inserts by embedding_models",
    }


# What Citus says, in its own words.
ONE_SHARD = """
Custom Scan (Citus Adaptive)
  Task Count: 1
  Tasks Shown: All
  ->  Task
        Node: host=localhost port=9701 dbname=hitherto
        ->  Index Scan using memories_pkey_102009 on memories_102009 memories
"""
ALL_SHARDS = ONE_SHARD.replace("Task Count: 1", "Task Count: 32")
WITH_SUBPLAN = f"""
Custom Scan (Citus Adaptive)
  ->  Distributed Subplan 3_1
        ->  Seq Scan on jobs
  Task Count: 1
{ONE_SHARD}
"""


@pytest.mark.parametrize(
    ("plan", "expected", "suits"),
    [
        ("Seq Scan on jobs", Route(), True),
        (ONE_SHARD, Route(tasks=1), True),
        (ALL_SHARDS, Route(tasks=32), False),
        (WITH_SUBPLAN, Route(tasks=1, steps=1), False),
        ("  ->  MapMergeJob\n        Map Task Count: 3", Route(), True),
    ],
)
def test_plans_of_citus_are_understood(plan: str, expected: Route, suits: bool) -> None:
    assert read_plan(plan) == expected
    assert expected.to_one_place is suits


def test_the_command_plans_every_statement(
    superuser_conninfo: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What cannot be planned, nobody would look at."""
    monkeypatch.delenv("DATABASE_URL", raising=False)
    assert command.main() == 2
    monkeypatch.setenv("DATABASE_URL", superuser_conninfo)
    assert command.main() == 1
    said = capsys.readouterr().out
    for words in (
        "usage: make check-citus",
        "This database has no Citus",
        "not planned by Postgres: 0\n",
    ):
        assert words in said
    (count,) = re.findall(r"^(\d+) statements, \d+ across users$", said, re.MULTILINE)
    assert int(count) > 500


def test_the_command_logs_in_with_the_passwords_of_the_services(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They are the environment's, as for `hitherto-migrate`, or follow from DATABASE_URL."""
    administrator = "postgresql://admin:a@localhost/hitherto"
    monkeypatch.setenv("HITHERTO_RETRIEVAL_PASSWORD", "r")
    monkeypatch.delenv("HITHERTO_EXTRACTION_PASSWORD", raising=False)
    parts = [conninfo_to_dict(each) for each in command.conninfos_of_logins(administrator)]
    passwords = {each["user"]: each["password"] for each in parts}
    assert passwords == {**service_passwords(administrator), "hitherto_read": "r"}


def test_nothing_is_distributed_twice() -> None:
    plan = Distribution()
    assert len(set(plan.distributed)) == len(plan.distributed)
