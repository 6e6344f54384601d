"""What a stolen dump tells of somebody who encrypts: nothing (H3; faults.md, section 3).

Words that stand nowhere else are said and saved in every field; then every value of every table of
the catalogue is searched for them, as an administrator of the database sees it.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest
from psycopg import sql

from hitherto.v1 import extraction_service_pb2, memory_pb2
from hitherto_shared.encryption.failures import DecryptionFailed, KeyGone
from tests.e2e.conftest import Services, StartServices
from tests.e2e.curating import save
from tests.e2e.learning import ALL_STATUSES, ended, learn, memories, rows, talk
from tests.e2e.leaving import erase, export
from tests.e2e.methods import ask
from tests.e2e.privacy import choose
from tests.e2e.sealed_life import (
    ASKED,
    CLEAR,
    FIRST_WORDS,
    OWES,
    REPLIED,
    WORDS,
    everything,
    first_talk,
    live,
    save_everything,
)
from tests.e2e.sealing import ENCRYPTING, PERSONAL, Cell, dump, holding, key_files, keys_of
from tests.e2e.sessions import refusal_of
from tests.scripted_model import ScriptedModel, text_vector
from tests.waiting import eventually

pytestmark = pytest.mark.usefixtures("frequent_sweeps")


def told_by_vectors(cells: Iterable[Cell], model: ScriptedModel) -> set[tuple[str, str]]:
    """Columns with a vector of a text in which one of the words stands, as numbers or bytes."""
    texts = [text for request in model.embedding_requests for text in request.texts]
    secret = [text for text in texts if any(word in text.casefold() for word in WORDS)]
    assert secret, "nothing sensitive was embedded: the test sees nothing"
    vectors = np.stack([text_vector(text, 64) for text in secret])
    halves = [row.astype(np.float16).tobytes().hex() for row in vectors]
    singles = [row.astype(np.float32).tobytes().hex() for row in vectors]
    pieces = [piece[n : n + 32] for piece in (*halves, *singles) for n in range(0, 256, 32)]
    found = set()
    for cell in cells:
        if cell.text.startswith("["):
            numbers = [float(x) for x in re.findall(r"-?\d[\d.e+-]*", cell.text.split("\n")[0])]
            if len(numbers) == 64 and float(np.max(vectors @ np.array(numbers))) > 0.9:
                found.add((cell.table, cell.column))
        if any(piece in cell.text for piece in pieces):
            found.add((cell.table, cell.column))
    return found


@pytest.fixture
async def encrypting(
    start_services: StartServices, model: ScriptedModel
) -> AsyncIterator[Services]:
    model.script = everything
    async with start_services(model, **ENCRYPTING, job_max_retries=0) as services:
        yield services


def nothing_told(superuser_conninfo: str, model: ScriptedModel) -> None:
    cells = list(dump(superuser_conninfo))
    assert any(cell.text == CLEAR for cell in cells), "the dump is not read as it is written"
    assert holding(cells, WORDS) == {}
    assert told_by_vectors(cells, model) == set()


async def test_h3_of_all_that_somebody_who_encrypts_says_saves_and_asks(
    encrypting: Services, model: ScriptedModel, superuser_conninfo: str
) -> None:
    """Also of answers that nothing can be made of, repeated batches, keys and finished jobs."""
    await choose(encrypting, encrypt_sensitive=True)
    await learn(encrypting, first_talk())
    nothing_told(superuser_conninfo, model)
    memory_id = await live(encrypting, model)
    nothing_told(superuser_conninfo, model)
    assert rows(superuser_conninfo, "SELECT sealed_reply FROM unusable_replies") == [("",)]
    # Searches and contexts may leave traces too.
    for words in (f"{ASKED[0]} qulcontent", f"{ASKED[0]} qumsguser"):
        await ask(encrypting, "SearchMemories", query=words)
        await ask(encrypting, "GetContext", query=words, conversation_id="c1")
    request = extraction_service_pb2.SubmitTranscriptsRequest(
        transcripts=[talk(FIRST_WORDS)], idempotency_key="k"
    )
    for _ in range(2):
        for job in (await encrypting.extraction.SubmitTranscripts(request)).jobs:
            await ended(encrypting, job.id)
    nothing_told(superuser_conninfo, model)
    # Its owner sees what a dump does not tell.
    (held,) = [m for m in await memories(encrypting) if m.id == memory_id]
    assert (held.content, list(held.tags)) == (OWES, ["quutag"])
    assert held.type == memory_pb2.MEMORY_TYPE_PERSONAL


async def test_h3_of_what_stood_there_before(
    encrypting: Services, model: ScriptedModel, superuser_conninfo: str
) -> None:
    """In clear nearly every word stands there, and so do the vectors. The sweep seals all of it:
    rows, versions, history, index, mentions and vectors."""
    await live(encrypting, model, entities=["Quuentity"])
    cells = list(dump(superuser_conninfo))
    assert set(WORDS) - set(holding(cells, WORDS)) == {*REPLIED, *ASKED}
    assert told_by_vectors(cells, model) >= {("memory_embeddings", "embedding")}
    await choose(encrypting, encrypt_sensitive=True)
    to_seal = "SELECT 1 FROM users WHERE to_seal > 0"
    await eventually(lambda: rows(superuser_conninfo, to_seal) == [], seconds=180)
    nothing_told(superuser_conninfo, model)
    held = {m.content for m in await memories(encrypting, statuses=ALL_STATUSES)}
    assert {CLEAR, OWES} <= held


def swap(superuser_conninfo: str, conninfo: str, backup: str, *, back: bool) -> None:
    """Copy a test's database, or put the copy in its place."""
    name = str(psycopg.conninfo.conninfo_to_dict(conninfo)["dbname"])
    with psycopg.connect(superuser_conninfo, autocommit=True) as connection:
        kept, current = sql.Identifier(backup), sql.Identifier(name)
        if not back:
            connection.execute(
                sql.SQL("CREATE DATABASE {} TEMPLATE {} OWNER hitherto_owner").format(kept, current)
            )
            return
        connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(current))
        connection.execute(sql.SQL("ALTER DATABASE {} RENAME TO {}").format(kept, current))


async def test_h3_a_backup_from_before_an_erasure_opens_no_more(
    start_services: StartServices, postgres: Any, conninfo: str, tmp_path: Path
) -> None:
    """The key goes with the user: a backup of the database that is restored tells nothing."""
    async with start_services(**ENCRYPTING) as services:
        await choose(services, encrypt_sensitive=True)
        await save_everything(services)
        await choose(services, user="bo", encrypt_sensitive=True)
        await save(services, "Bo is afraid of heights.", user="bo", type=PERSONAL)
        assert holding([Cell("", "", (await export(services)).text)], WORDS)
    key = await keys_of(tmp_path).open("default", "ana")
    backup = f"{psycopg.conninfo.conninfo_to_dict(conninfo)['dbname']}_backup"
    swap(postgres.superuser_conninfo(), conninfo, backup, back=False)
    async with start_services(**ENCRYPTING) as services:
        await erase(services)
    assert len(key_files(tmp_path)) == 1
    swap(postgres.superuser_conninfo(), conninfo, backup, back=True)
    with pytest.raises(KeyGone):
        await keys_of(tmp_path).open("default", "ana")
    async with start_services(**ENCRYPTING) as services:
        found = await export(services)
        assert holding([Cell("", "", found.text)], WORDS) == {}
        assert '"lost":true' in found.text
        assert "Bo is afraid of heights." in (await export(services, "bo")).text
        # Another key is not made over it, and would open none of it either.
        refusal = await refusal_of(choose(services, encrypt_sensitive=True))
        assert refusal.reason == "ENCRYPTION_NOT_CONFIGURED"
    again = await keys_of(tmp_path).make("default", "ana")
    assert again.key_id != key.key_id
    sealed = rows(
        services.conninfo,
        "SELECT memory_id, sealed FROM memories WHERE user_id = 'ana' AND sealed IS NOT NULL",
    )
    assert sealed
    for memory_id, text in sealed:
        with pytest.raises(DecryptionFailed):
            again.open(text, ("memory", str(memory_id)))
