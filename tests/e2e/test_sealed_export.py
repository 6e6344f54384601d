"""ExportUser of users who encrypt (H3, H2): in clear, refused, or saying what is lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import grpc
import psycopg
import pytest

from hitherto_extraction.storage import exports, holdings, sealing
from hitherto_shared.database.pool import Database
from hitherto_shared.encryption.rows import BY_TABLE
from hitherto_shared.encryption.user_key import UserKey
from hitherto_shared.encryption.user_keys import UserKeys
from tests.e2e.conftest import StartServices, model_settings
from tests.e2e.curating import save
from tests.e2e.learning import submit, talk
from tests.e2e.leaving import Export, export
from tests.e2e.privacy import choose
from tests.e2e.sealed_life import BROKEN, LIVED, answer_with_nothing, live
from tests.e2e.sealing import ENCRYPTING, PERSONAL, change_profile, key_files, keys_of
from tests.e2e.sessions import refusal_of
from tests.scripted_model import ScriptedModel

_NAMES_NOBODY = {"qulentity", "quuentity"}
"""What a sealed memory mentions is not kept."""


def lost(found: Export) -> list[str]:
    """The tables of lines that say that they cannot be opened."""
    return [line["table"] for line in map(json.loads, found.text.splitlines()) if line.get("lost")]


def alike(clear: Export, sealed: Export) -> None:
    """The same fields in the same tables; memories and profiles filled alike."""
    own = {"user_id", "memory_id", "embedding_state", "lexical_length", "lexical_no"}
    for table in ("memories", "profiles", "profile_versions"):
        (before,), (after,) = clear.of(table), sealed.of(table)
        assert after.keys() == before.keys()
        times = {name for name in before if name.endswith(("_at", "_from"))}
        for name in before.keys() - own - times:
            assert after[name] == before[name], name


async def test_h3_in_clear_or_refused_or_saying_what_is_lost(
    start_services: StartServices,
    model: ScriptedModel,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings: dict[str, Any] = {**model_settings(model), "job_max_retries": 0}
    async with start_services(**settings, **ENCRYPTING) as services:
        for user in ("ana", "cy", "dee"):
            await choose(services, user=user, encrypt_sensitive=True)
        await live(services, model)
        await save(services, "The user plays the organ.")
        # A reply alone asks for the key too.
        await answer_with_nothing(services, model, user="cy")
        for user in ("bo", "dee"):
            owes = "The user owes quscontent."
            await save(services, owes, user=user, type=PERSONAL, tags=["qustag"])
            await change_profile(services, user=user, summary="quhsummary", facts={"a": "b"})
        alike(await export(services, "bo"), await export(services, "dee"))
        found = await export(services)
        # A key that was replaced before the snapshot opens nothing of it, and the next one all.
        stale, opened = [UserKey(b"o" * 32, "default", "ana", "gone")], UserKeys.open

        async def open_stale(keys: UserKeys, tenant_id: str, user_id: str) -> UserKey:
            return stale.pop() if stale else await opened(keys, tenant_id, user_id)

        monkeypatch.setattr(UserKeys, "open", open_stale)
        assert lost(await export(services)) == []
        assert not stale
    # Keys of JSON and names of tags are folded by rules of their own.
    folded = found.text.casefold()
    assert {word for word in [*LIVED, *BROKEN] if word not in folded} == _NAMES_NOBODY
    assert lost(found) == []
    assert all("sealed" not in row for _, row in found.rows)
    (reply,) = found.of("unusable_replies")
    assert "qubrokenreply" in reply["reply"]

    # Without the key, before its first line.
    for given in ({}, {"encryption_key": "0b" * 32}):
        async with start_services(**settings, **given) as services:
            for user in ("ana", "cy"):
                refusal = await refusal_of(export(services, user))
                assert refusal.code is grpc.StatusCode.FAILED_PRECONDITION
                assert refusal.reason == "ENCRYPTION_NOT_CONFIGURED"
            # Nothing of Bo is sealed.
            assert "quhsummary" in (await export(services, "bo")).text

    # With the key lost, the rest comes out.
    for file in key_files(tmp_path):
        file.unlink()
    async with start_services(**settings, **ENCRYPTING) as services:
        found = await export(services)
        assert "The user plays the organ." in found.text
        assert set(lost(found)) == set(BY_TABLE)
        assert {row["content"] for row in found.of("messages")} == {""}
        # A key from elsewhere opens none of it, and nothing is sealed with it.
        await keys_of(tmp_path).make("default", "ana")
        refusal = await refusal_of(submit(services, talk("I begin anew.", conversation="c9")))
        assert refusal.reason == "ENCRYPTION_NOT_CONFIGURED"
        again = await export(services)
    assert "I begin anew." not in again.text
    assert lost(again) == lost(found)


async def test_h3_every_table_with_something_sealed_is_opened(
    conninfo: str, superuser_conninfo: str
) -> None:
    """By the catalogue: a later table with a column `sealed` needs a place here."""
    database = Database(conninfo, "hitherto_write", application="test", max_size=1)
    await database.open()
    try:
        tables = await database.run(holdings.find_holdings, timeout=10)
    finally:
        await database.close()
    sealed = {table.name for table in tables if "sealed" in table.columns}
    assert sealed - exports.DERIVED_TABLES == set(BY_TABLE)
    assert set(sealing.CLEAR) == set(BY_TABLE)
    with psycopg.connect(superuser_conninfo) as connection:
        named = connection.execute(
            b"SELECT table_name FROM information_schema.columns"
            b" WHERE table_schema = 'hitherto' AND column_name = 'sealed'"
        ).fetchall()
    assert {name for (name,) in named} == sealed
