"""ExportUser of users who encrypt (H3, H2): in clear, refused, or saying what is lost."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import grpc
import psycopg
import pytest

from hitherto_extraction.storage import exports, holdings, sealing
from hitherto_shared.database.pool import Database
from hitherto_shared.encryption.rows import BY_TABLE
from tests.e2e.conftest import Services, StartServices, model_settings
from tests.e2e.curating import save
from tests.e2e.learning import submit, talk
from tests.e2e.leaving import Export, export
from tests.e2e.privacy import choose
from tests.e2e.sealing import ENCRYPTING, PERSONAL, change_profile, key_files, keys_of
from tests.e2e.sessions import refusal_of
from tests.e2e.test_sealed_dump import (
    BROKEN,
    BY_HAND,
    CHANGED,
    LEARNT,
    PROFILE,
    SAID,
    SAVED,
    SUMMED,
    answer_with_nothing,
    everything,
    save_everything,
    say_everything,
)
from tests.scripted_model import ScriptedModel

_NAMES_NOBODY = {"qulentity", "quuentity"}
"""What a sealed memory mentions is not kept."""


async def live(services: Services, model: ScriptedModel, *, encrypt: bool) -> None:
    """Everything a user may leave behind."""
    model.script = everything
    if encrypt:
        await choose(services, encrypt_sensitive=True)
    await say_everything(services)
    await save_everything(services)
    await answer_with_nothing(services, model)


def lost(found: Export) -> list[str]:
    """The tables of lines that say that they cannot be opened."""
    return [line["table"] for line in map(json.loads, found.text.splitlines()) if line.get("lost")]


def shape(found: Export) -> dict[str, set[str]]:
    """Which fields the rows of each table have."""
    shapes: dict[str, set[str]] = {}
    for table, row in found.rows:
        shapes.setdefault(table, set()).update(row)
    return shapes


@pytest.fixture
def settings(model: ScriptedModel) -> dict[str, Any]:
    return {**model_settings(model), "job_max_retries": 0}


async def test_h3_everything_comes_out_in_clear(
    start_services: StartServices, model: ScriptedModel, settings: dict[str, Any]
) -> None:
    async with start_services(**settings, **ENCRYPTING) as services:
        await live(services, model, encrypt=True)
        found = await export(services)
    folded = found.text.casefold()
    # Keys of JSON and names of tags are folded by rules of their own.
    words = {*SAID, *LEARNT, *SUMMED, *PROFILE, *SAVED, *CHANGED, *BY_HAND, *BROKEN}
    assert {word for word in words if word not in folded} == _NAMES_NOBODY
    assert lost(found) == []
    assert all("sealed" not in row for _, row in found.rows)
    (reply,) = found.of("unusable_replies")
    assert "qubrokenreply" in reply["reply"]


async def test_h3_as_in_an_export_of_somebody_who_does_not_encrypt(
    start_services: StartServices, model: ScriptedModel, settings: dict[str, Any]
) -> None:
    """The same fields in the same tables; memories, messages and profiles filled alike."""
    exported = {}
    model.script = everything
    async with start_services(**settings, **ENCRYPTING) as services:
        for encrypt in (False, True):
            user = "bo" if encrypt else "ana"
            if encrypt:
                await choose(services, user=user, encrypt_sensitive=True)
            await save(
                services, "The user owes quscontent.", user=user, type=PERSONAL, tags=["qustag"]
            )
            await change_profile(services, user=user, summary="quhsummary", facts={"a": "b"})
            exported[encrypt] = await export(services, user)
    clear, sealed = exported[False], exported[True]
    for table in ("memories", "profiles", "profile_versions"):
        assert shape(sealed)[table] == shape(clear)[table]
        (before,) = clear.of(table)
        (after,) = sealed.of(table)
        own = {"user_id", "memory_id", "embedding_state", "lexical_length", "lexical_no"}
        times = {name for name in before if name.endswith(("_at", "_from"))}
        for name in before.keys() - own - times:
            assert after[name] == before[name], name


async def test_h3_without_the_key_it_is_refused_before_its_first_line(
    start_services: StartServices, model: ScriptedModel, settings: dict[str, Any]
) -> None:
    async with start_services(**settings, **ENCRYPTING) as services:
        await live(services, model, encrypt=True)
        await save(services, "The user plays the organ.", user="bo")
    for given in ({}, {"encryption_key": "0b" * 32}):
        async with start_services(**settings, **given) as services:
            refusal = await refusal_of(export(services))
            assert refusal.code is grpc.StatusCode.FAILED_PRECONDITION
            assert refusal.reason == "ENCRYPTION_NOT_CONFIGURED"
            # Nothing of Bo is sealed.
            assert "organ" in (await export(services, "bo")).text


async def test_h3_a_reply_alone_asks_for_the_key(
    start_services: StartServices, model: ScriptedModel, settings: dict[str, Any]
) -> None:
    async with start_services(**settings, **ENCRYPTING) as services:
        await choose(services, encrypt_sensitive=True)
        await answer_with_nothing(services, model)
    async with start_services(**settings) as services:
        refusal = await refusal_of(export(services))
        assert refusal.reason == "ENCRYPTION_NOT_CONFIGURED"


async def test_h3_with_the_key_lost_the_rest_comes_out_and_says_what_is_lost(
    start_services: StartServices,
    model: ScriptedModel,
    settings: dict[str, Any],
    tmp_path: Path,
) -> None:
    async with start_services(**settings, **ENCRYPTING) as services:
        await live(services, model, encrypt=True)
        await save(services, "The user plays the organ.")
    (file,) = key_files(tmp_path)
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
    looked_at = set(re.findall(r"FROM (\w+)", sealing._HAS_SEALED))
    assert looked_at == set(BY_TABLE)
    with psycopg.connect(superuser_conninfo) as connection:
        named = connection.execute(
            b"SELECT table_name FROM information_schema.columns"
            b" WHERE table_schema = 'hitherto' AND column_name = 'sealed'"
        ).fetchall()
    assert {name for (name,) in named} == sealed
