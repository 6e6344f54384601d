"""`hitherto keys` on a database: keys are made, listed, used and revoked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from hitherto_client.command import main
from hitherto_shared.auth.api_keys import create_key, find_principal
from hitherto_shared.auth.principal import Principal
from hitherto_shared.database.connect import with_role
from hitherto_shared.database.pipeline_connection import PipelineConnection
from tests.unit.client.fake_services import RunCommand

Keys = Callable[..., Any]


@pytest.fixture
def keys(
    conninfo: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_command: RunCommand
) -> Keys:
    """Runs `hitherto keys … --json` on a database of this test and returns the document."""
    monkeypatch.setenv("DATABASE_URL", conninfo)
    monkeypatch.setenv("HITHERTO_DATA_DIR", str(tmp_path))

    def run(*arguments: str, code: int = 0) -> Any:
        out = run_command(code, ["keys", *arguments, "--json"]).out
        return json.loads(out) if out else None

    return run


async def principal(conninfo: str, key: str) -> Principal | None:
    """The caller that the services would see behind the key."""
    dsn = with_role(conninfo, "hitherto_read", application="hitherto-test")
    async with await PipelineConnection.connect(dsn, autocommit=True) as connection:
        return await find_principal(connection, key)


WRONG: list[list[str]] = [
    ["create"],
    ["create", "--name", " "],
    ["create", "--name", "a\x1b"],
    ["create", "--name", "a", "--tenant", ""],
    ["create", "--name", "a", "--user", ""],
    ["create", "--name", "a", "--for-user", ""],
    ["create", "--name", "a", "--for-user", "b\x00"],
    ["create", "--name", "a", "--for-user", "ana", "--user", "ana"],
    ["create", "--name", "a", *(f"--for-user=u{i}" for i in range(101))],
    ["create", "--name", "a", "--scope", "root"],
    ["create", "--name", "a", "--department", ""],
    ["create", "--name", "a", "--capability", "root"],
    ["create", "--name", "a", *(f"--department=d{i}" for i in range(101))],
    ["create", "--name", "a", "--expires-days", "99999999"],
    ["revoke"],
]


class TestKeys:
    def test_one_can_be_used_until_it_is_revoked(self, keys: Keys, conninfo: str) -> None:
        made = keys("create", "--name", "backend", "--tenant", "acme", "--scope", "read")
        held = asyncio.run(principal(conninfo, made["key"]))
        assert held is not None
        assert (held.tenant_id, set(held.scopes), held.user_id) == ("acme", {"read"}, None)
        (listed,) = keys("list", "--tenant", "acme")["keys"]
        assert (listed["key_id"], listed["revoked_at"]) == (made["key_id"], None)
        assert made["key"] not in json.dumps(listed)
        assert keys("list")["keys"] == []
        assert keys("revoke", made["key_id"], code=1) is None
        assert keys("revoke", made["key"], "--tenant", "acme")["revoked"] is True
        assert asyncio.run(principal(conninfo, made["key"])) is None
        (listed,) = keys("list", "--tenant", "acme")["keys"]
        assert listed["revoked_at"]

    def test_it_carries_departments_and_capabilities(
        self, keys: Keys, conninfo: str, run_command: RunCommand
    ) -> None:
        """E4."""
        departments = ["--department", "sales", "--department", "Ke\u0302\u0301 toa\u0301n"]
        made = keys("create", "--name", "hr", *departments, "--capability", "profiles.manage")
        assert made["capabilities"] == ["profiles.manage"]
        held = asyncio.run(principal(conninfo, made["key"]))
        assert held is not None
        assert held.departments == frozenset({"sales", "K\u1ebf to\u00e1n"})
        assert held.capabilities == {"profiles.manage"}
        plain = asyncio.run(principal(conninfo, keys("create", "--name", "backend")["key"]))
        assert plain is not None
        assert (plain.departments, plain.capabilities) == (None, frozenset())
        person = asyncio.run(
            principal(conninfo, keys("create", "--name", "phone", "--user", "ana")["key"])
        )
        assert person is not None
        assert (person.user_id, person.departments) == ("ana", frozenset())
        assert keys("create", "--name", "a", "--expires-days", "7")["expires_at"]
        out, _ = run_command(0, ["keys", "list"])
        assert "profiles.manage" in out
        assert "sales" in out

    def test_it_can_be_bound_to_a_list_of_users(
        self, keys: Keys, conninfo: str, run_command: RunCommand
    ) -> None:
        """Row 61: in one normal form, each once, and never for everybody."""
        users = ["--for-user", "Ho\u0302\u0300ng", "--for-user", "bo", "--for-user", "H\u1ed3ng"]
        made = keys("create", "--name", "duo", *users)
        assert (made["user_id"], made["user_ids"]) == (None, ["H\u1ed3ng", "bo"])
        held = asyncio.run(principal(conninfo, made["key"]))
        assert held is not None
        assert (held.user_id, held.users) == (None, frozenset({"bo", "H\u1ed3ng"}))
        assert (held.unbound, held.departments) == (False, frozenset())
        more = keys("create", "--name", "more", "--for-user", "bo", "--department", "sales")
        both = asyncio.run(principal(conninfo, more["key"]))
        assert both is not None
        assert (both.users, both.departments) == (frozenset({"bo"}), frozenset({"sales"}))
        plain = keys("create", "--name", "backend")
        listed = {key["name"]: key for key in keys("list")["keys"]}
        assert listed["duo"]["user_ids"] == made["user_ids"]
        # Whoever does not know of lists takes it for a key of no department.
        assert listed["duo"]["departments"] == made["departments"] == []
        assert listed["backend"]["user_ids"] is plain["user_ids"] is None
        assert "H\u1ed3ng, bo" in run_command(0, ["keys", "list"]).out
        # People see a key once, and a shell reads nothing else.
        out, err = run_command(0, ["keys", "create", "--name", "shown"])
        assert out.startswith("mk_")
        assert len(out.splitlines()) == 1
        assert "cannot be shown again" in err

    async def test_the_table_refuses_a_list_that_binds_nobody(self, conninfo: str) -> None:
        """Whoever writes it: an empty one in force, a person's, and one without departments."""
        dsn = with_role(conninfo, "hitherto_maintenance", application="hitherto-test")
        async with await PipelineConnection.connect(dsn, autocommit=True) as connection:
            refused: list[dict[str, Any]] = [
                {"user_ids": []},
                {"user_ids": ["bo"], "user_id": "ana"},
            ]
            for given in refused:
                with pytest.raises(psycopg.errors.CheckViolation):
                    await create_key(connection, tenant_id="a", name="x", scopes=["read"], **given)
            await create_key(connection, tenant_id="a", name="x", scopes=["read"], user_ids=["bo"])
            for change in ("departments = NULL", "user_ids = '{}'", "user_ids = '{\"\"}'"):
                with pytest.raises(psycopg.errors.CheckViolation):
                    await connection.execute(f"UPDATE api_keys SET {change}".encode())

    def test_wrong_usage(self, keys: Keys) -> None:
        for arguments in WRONG:
            assert main(["keys", *arguments]) == 2, arguments
        assert keys("list")["keys"] == []


def test_a_database_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_command: RunCommand
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://someone:geheim@127.0.0.1:1/nothing")
    monkeypatch.setenv("HITHERTO_DATA_DIR", str(tmp_path))
    out, err = run_command(3, ["keys", "list"])
    assert out == ""
    assert "DATABASE_URL" in err
    assert "geheim" not in err
