"""What the schema holds of sealed rows (H3): nothing in clear beside them, and nothing lost."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg import errors

from hitherto_extraction.curation.user_settings import Sealing, UserSettings, change_settings
from hitherto_extraction.storage import users
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.database.tenancy import acting_for
from hitherto_shared.encryption.key_store import KeyStore
from hitherto_shared.encryption.user_key import UserKey
from hitherto_shared.encryption.user_keys import UserKeys
from hitherto_shared.encryption.wrapping import LocalWrapper
from hitherto_shared.errors import Conflict
from hitherto_shared.models import Scope
from tests.rows import inserting
from tests.waiting import eventually

SCOPE = Scope("t", "ana")
SEALED = b"\x01sealed"
_WAITING = """
SELECT EXISTS (
    SELECT FROM pg_locks AS waiting
    JOIN pg_locks AS here USING (pid)
    JOIN pg_database AS d ON d.oid = here.database AND d.datname = current_database()
    WHERE NOT waiting.granted)
"""
_PATH = "SET search_path = hitherto, public"

_MEMORY = {
    "memory_id": None,
    "type": "personal",
    "content": "",
    "confidence": "high",
    "source": "explicit",
    "origin": "user",
    "valid_from": "2026-01-01",
    "said_at": "2026-01-01",
    "lexical_no": 1,
    "lexical_length": 0,
    "sensitive": True,
    "embedding_state": "sealed",
    "sealed": SEALED,
}
_MESSAGE = {
    "conversation_id": "c",
    "message_no": 1,
    "message_id": "m",
    "role": "user",
    "content": "",
    "said_at": "2026-01-01",
    "sealed": SEALED,
}
_SUMMARY = {"conversation_id": "c", "title": "", "covers_to": 1, "sealed": SEALED}
_PROFILE = {"department": "care", "access_level": "high", "sealed": SEALED}
_PROFILE_VERSION = {"version": 1, "profile": "{}", "actor": "a", "sealed": SEALED}


@pytest.fixture
def connection(superuser_conninfo: str) -> Any:
    with psycopg.connect(superuser_conninfo) as opened:
        opened.execute(_PATH)
        insert(opened, "users", {})
        insert(opened, "conversations", {"conversation_id": "c"})
        yield opened


def insert(connection: Any, table: str, values: dict[str, Any]) -> None:
    held = {"tenant_id": SCOPE.tenant_id, "user_id": SCOPE.user_id, **values}
    if "memory_id" in held and held["memory_id"] is None:
        held["memory_id"] = uuid4()
    connection.execute(inserting(table, held), held)


WRONG: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("memories", _MEMORY, {"content": "x"}),
    ("memories", _MEMORY, {"detail": "x"}),
    ("memories", _MEMORY, {"tags": ["x"]}),
    ("memories", _MEMORY, {"keywords": ["x"]}),
    ("memories", _MEMORY, {"context": '{"a": 1}'}),
    ("memories", _MEMORY, {"metadata": '{"a": 1}'}),
    ("memories", _MEMORY, {"lexical_length": 3}),
    ("memories", _MEMORY, {"sensitive": False}),
    ("memories", _MEMORY, {"embedding_state": "pending"}),
    ("memories", _MEMORY, {"embedding_state": "stored"}),
    ("memories", _MEMORY, {"sealed": None, "embedding_state": "pending"}),
    ("memories", _MEMORY, {"sealed": None, "content": "x"}),
    ("messages", _MESSAGE, {"content": "x"}),
    ("messages", _MESSAGE, {"name": "x"}),
    ("messages", _MESSAGE, {"context_items": "[1]"}),
    ("messages", _MESSAGE, {"metadata": '{"a": 1}'}),
    ("messages", _MESSAGE, {"lexical_no": 1}),
    ("messages", _MESSAGE, {"embedding_state": "pending"}),
    ("conversation_summaries", _SUMMARY, {"title": "x"}),
    ("conversation_summaries", _SUMMARY, {"summary": "x"}),
    ("conversation_summaries", _SUMMARY, {"key_topics": ["x"]}),
    ("conversation_summaries", _SUMMARY, {"technical_topics": ["x"]}),
    ("conversation_summaries", _SUMMARY, {"followup_suggestions": ["x"]}),
    ("conversation_summaries", _SUMMARY, {"lexical_no": 1}),
    ("conversation_summaries", _SUMMARY, {"embedding_state": "pending"}),
    ("conversation_summaries", _SUMMARY, {"sealed": None}),
    ("profiles", _PROFILE, {"summary": "x"}),
    ("profiles", _PROFILE, {"current_projects": ["x"]}),
    ("profiles", _PROFILE, {"preferences": '{"a": 1}'}),
    ("profiles", _PROFILE, {"frequent_intents": ["x"]}),
    ("profiles", _PROFILE, {"facts": '{"a": 1}'}),
    ("profiles", _PROFILE, {"metadata": '{"a": 1}'}),
    ("profiles", _PROFILE, {"said_at": '{"a": 1}'}),
]


def refuse(connection: Any, table: str, row: dict[str, Any]) -> None:
    try:
        with connection.transaction():
            insert(connection, table, row)
    except errors.CheckViolation:
        return
    pytest.fail(f"{table} takes {row}")


def test_h3_no_word_stands_beside_what_is_sealed(connection: Any) -> None:
    for table, row, wrong in WRONG:
        refuse(connection, table, {**row, **wrong})
    for table, row in {table: row for table, row, _ in WRONG}.items():
        insert(connection, table, row)


def test_h3_a_version_without_its_seal_is_refused(connection: Any) -> None:
    """A copy that forgot the column would lose the text for good."""
    memory = {**_MEMORY, "memory_id": uuid4()}
    insert(connection, "memories", memory)
    version: dict[str, Any] = {
        **{
            name: memory[name]
            for name in ("memory_id", "type", "content", "confidence", "origin", "valid_from")
        },
        "version": 1,
        "detail": "",
        "importance": 0.5,
        "status": "active",
        "tags": [],
        "keywords": [],
        "context": "{}",
        "metadata": "{}",
        "known_from": "2026-01-01",
        "known_to": "2026-01-02",
        "sealed": SEALED,
    }
    insert(connection, "memory_versions", version)
    for wrong in ({"sealed": None}, {"content": "x"}, {"tags": ["x"]}, {"context": '{"a": 1}'}):
        refuse(connection, "memory_versions", {**version, "version": 2, **wrong})


def test_h3_a_profile_version_holds_nothing_beside_its_seal(connection: Any) -> None:
    insert(connection, "profiles", _PROFILE)
    insert(connection, "profile_versions", _PROFILE_VERSION)
    with pytest.raises(errors.CheckViolation):
        insert(
            connection,
            "profile_versions",
            {**_PROFILE_VERSION, "version": 2, "profile": '{"summary": "x"}'},
        )


async def turn_on(connection: Connection, keys: UserKeys, key: UserKey) -> UserSettings:
    """What UpdateUserSettings does."""
    async with connection.transaction():
        return await change_settings(
            connection.of(SCOPE),
            {"encrypt_sensitive": True},
            ["encrypt_sensitive"],
            UserSettings(),
            Sealing(keys, key),
        )


@pytest.fixture
async def database(conninfo: str) -> AsyncIterator[Database]:
    opened = Database(conninfo, "hitherto_write", application="test", max_size=3)
    await opened.open()
    with acting_for(SCOPE.tenant_id):
        yield opened
    await opened.close()


@pytest.fixture
def keys(tmp_path: Path) -> UserKeys:
    return UserKeys(LocalWrapper(os.urandom(32)), KeyStore(tmp_path), os.urandom(32))


async def test_h3_turning_on_waits_for_whoever_entered_and_leaves_the_rest_to_the_sweep(
    database: Database, keys: UserKeys
) -> None:
    """A message that is being accepted in clear has committed before, or sees the setting."""
    entered, go_on = asyncio.Event(), asyncio.Event()
    order: list[str] = []
    key = await keys.make(SCOPE.tenant_id, SCOPE.user_id)

    async def enter(connection: Connection) -> None:
        async with connection.transaction():
            await users.enter_user(connection.of(SCOPE))

    async def accept(connection: Connection) -> bool:
        async with connection.transaction():
            state = await users.enter_user(connection.of(SCOPE))
            entered.set()
            await go_on.wait()
            order.append("accepted")
        return state.encrypts

    async def turned_on(connection: Connection) -> UserSettings:
        made = await turn_on(connection, keys, key)
        order.append("on")
        return made

    async def waits() -> bool:
        return bool(await database.run(lambda c: c.fetch_value(_WAITING), timeout=120))

    async def seen(connection: Connection) -> tuple[bool, int]:
        state = await users.read_user(connection.of(SCOPE))
        assert state is not None
        return state.encrypts, await connection.fetch_value("SELECT to_seal FROM users")

    await database.run(enter, timeout=120)
    accepting = asyncio.ensure_future(database.run(accept, timeout=120))
    await entered.wait()
    turning = asyncio.ensure_future(database.run(turned_on, timeout=120))
    await eventually(waits)
    go_on.set()
    assert await accepting is False
    assert (await turning).encrypt_sensitive
    assert order == ["accepted", "on"]
    assert await database.run(seen, timeout=120) == (True, 1)


async def test_h3_a_key_that_was_erased_meanwhile_is_not_turned_on(
    database: Database, keys: UserKeys
) -> None:
    key = await keys.make(SCOPE.tenant_id, SCOPE.user_id)
    await keys.erase(SCOPE.tenant_id, SCOPE.user_id)
    with pytest.raises(Conflict):
        await database.run(lambda connection: turn_on(connection, keys, key), timeout=120)
