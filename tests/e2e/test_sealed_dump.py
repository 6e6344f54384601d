"""What a stolen dump tells of somebody who encrypts: nothing (H3; faults.md, section 3).

Words that stand nowhere else are said and saved in every field; then every value of every table of
the catalogue is searched for them, as an administrator of the database sees it.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest
from psycopg import sql

from hitherto.v1 import extraction_service_pb2, job_pb2, memory_pb2
from hitherto_shared.database.embedded import EmbeddedPostgres
from hitherto_shared.encryption.failures import DecryptionFailed, KeyGone
from tests.e2e.conftest import Services, StartServices, model_settings
from tests.e2e.curating import checks, save, update
from tests.e2e.learning import ended, learn, memories, rows, submit, talk
from tests.e2e.leaving import erase, export
from tests.e2e.methods import ask
from tests.e2e.privacy import choose
from tests.e2e.sealing import (
    ENCRYPTING,
    PERSONAL,
    Cell,
    change_profile,
    dump,
    holding,
    key_files,
    keys_of,
)
from tests.e2e.sessions import refusal_of
from tests.scripted_model import ChatAnswer, ChatRequest, RawReply, ScriptedModel, text_vector
from tests.scripted_model.answers import memory, quoting
from tests.waiting import eventually

pytestmark = pytest.mark.usefixtures("frequent_sweeps")

SAID = [
    "qumsguser",
    "qumsgassistant",
    "qumsgname",
    "qumsgmeta",
    "qumsgitem",
    "bímậtlờinói",
    "秘密の猫",
]
LEARNT = ["qulcontent", "quldetail", "qultag", "qulkeyword", "qulentity", "qulcontext"]
SUMMED = ["qustitle", "qussummary", "qustopic", "qustechnical", "qusfollowup"]
PROFILE = ["qupsummary", "qupproject", "qupprefkey", "qupprefvalue", "qupintent", "qupfactkey",
           "qupfactvalue", "qupmeta"]  # fmt: skip
SAVED = ["quscontent", "qusdetail", "qustag", "quskeyword", "quscontext", "qusmeta"]
CHANGED = ["quucontent", "quudetail", "quutag", "quukeyword", "quuentity", "quucontext", "quumeta"]
BY_HAND = ["quhsummary", "quhproject", "quhfactkey", "quhfactvalue", "quhmeta", "quhintent"]
ASKED = ["quaskedwords"]
BROKEN = ["qubrokenreply", "qubrokentalk"]
WORDS = [*SAID, *LEARNT, *SUMMED, *PROFILE, *SAVED, *CHANGED, *BY_HAND, *ASKED, *BROKEN]

_CLEAR = "The user drinks green tea."

_SAID = (
    "I take qumsguser, and bímậtlờinói, and 秘密の猫."
    " qupsummary, qupproject, qupprefvalue, qupintent, qupfactvalue, qupmeta."
)


def everything(request: ChatRequest) -> ChatAnswer:
    """An answer with a word in each field, and one memory that is not sensitive."""
    if request.consolidation:
        return ChatAnswer.of(memories=[])
    source = request.messages[0].local_id
    return quoting(
        request,
        new_memories=[
            memory(
                "The user is treated for qulcontent.",
                [source],
                type="personal",
                detail="quldetail at length",
                tags=["qultag"],
                keywords=["qulkeyword"],
                entities=[{"name": "Qulentity", "type": "person"}],
                context={"place": "qulcontext"},
            ),
            memory(_CLEAR, [source]),
        ],
        profile={
            "summary": "qupsummary",
            "current_projects": ["qupproject"],
            "preferences": {"qupprefkey": "qupprefvalue"},
            "frequent_intents": ["qupintent"],
            "facts": {"health": {"qupfactkey": "qupfactvalue"}},
            "metadata": {"note": "qupmeta"},
        },
        conversation_summary={
            "title": "qustitle",
            "summary": "qussummary",
            "key_topics": ["qustopic"],
            "technical_topics": ["qustechnical"],
            "outcome": "resolved",
            "followup_suggestions": ["qusfollowup"],
        },
    )


async def say_everything(services: Services) -> None:
    """Submit a conversation with a word in every field of its messages."""
    transcript = talk(
        _SAID,
        ("assistant", "You said qumsgassistant."),
    )
    first, second = transcript.messages
    first.name = "qumsgname"
    first.metadata.update({"qumsgmeta": "qumsgmeta"})
    second.context_item_ids.append("qumsgitem")
    await learn(services, transcript)


async def save_everything(services: Services, *, entities: Sequence[str] = ()) -> str:
    """Save a sensitive memory by hand and correct it; its id. One that is sealed names nobody."""
    saved = await save(
        services,
        "The user owes quscontent.",
        type=PERSONAL,
        detail="qusdetail",
        tags=["qustag"],
        keywords=["quskeyword"],
        context={"quscontext": "quscontext"},
        metadata={"qusmeta": "qusmeta"},
    )
    await update(
        services,
        saved.memory.id,
        *("content", "detail", "tags", "keywords", "context", "metadata"),
        *(["entities"] if entities else []),
        content="The user owes quucontent now.",
        detail="quudetail",
        tags=["quutag"],
        keywords=["quukeyword"],
        entities=entities,
        context={"quucontext": "quucontext"},
        metadata={"quumeta": "quumeta"},
    )
    await change_profile(
        services,
        summary="quhsummary",
        current_projects=["quhproject"],
        frequent_intents=["quhintent"],
        facts={"health": {"quhfactkey": "quhfactvalue"}},
        metadata={"note": "quhmeta"},
    )
    return saved.memory.id


async def answer_with_nothing(services: Services, model: ScriptedModel) -> None:
    """A job that dies of what the model answers."""
    await checks(services)
    model.queue(*(RawReply.saying("not json: qubrokenreply") for _ in range(8)))
    (dead,) = await submit(services, talk("qubrokentalk", conversation="c2"))
    assert (await ended(services, dead)).state == job_pb2.JOB_STATE_DEAD
    model.queue()


async def leave_traces(services: Services) -> None:
    """Search and ask for context, which also may leave traces."""
    for words in ("quaskedwords qulcontent", "quaskedwords qumsguser"):
        await ask(services, "SearchMemories", query=words)
        await ask(services, "GetContext", query=words, conversation_id="c1")


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
    async with start_services(**model_settings(model), **ENCRYPTING, job_max_retries=0) as services:
        yield services


def nothing_told(
    superuser_conninfo: str, model: ScriptedModel, words: Sequence[str] = WORDS
) -> None:
    cells = list(dump(superuser_conninfo))
    assert any(cell.text == _CLEAR for cell in cells), "the dump is not read as it is written"
    assert holding(cells, words) == {}
    assert told_by_vectors(cells, model) == set()


async def test_h3_the_test_finds_what_is_in_clear(
    encrypting: Services, model: ScriptedModel, superuser_conninfo: str
) -> None:
    """Of somebody who does not encrypt nearly every word stands there, and so do the vectors."""
    await say_everything(encrypting)
    await save_everything(encrypting, entities=["Quuentity"])
    cells = list(dump(superuser_conninfo))
    sealed_anyway = {*BROKEN, *ASKED}
    assert set(WORDS) - set(holding(cells, WORDS)) == sealed_anyway
    assert told_by_vectors(cells, model) >= {("memory_embeddings", "embedding")}


async def test_h3_of_all_that_somebody_who_encrypts_says_saves_and_asks(
    encrypting: Services, model: ScriptedModel, superuser_conninfo: str
) -> None:
    """Also of answers that nothing can be made of, repeated batches, keys and finished jobs."""
    await choose(encrypting, encrypt_sensitive=True)
    await say_everything(encrypting)
    nothing_told(superuser_conninfo, model)
    memory_id = await save_everything(encrypting)
    nothing_told(superuser_conninfo, model)
    await answer_with_nothing(encrypting, model)
    assert rows(superuser_conninfo, "SELECT sealed_reply FROM unusable_replies") == [("",)]
    await leave_traces(encrypting)
    request = extraction_service_pb2.SubmitTranscriptsRequest(
        transcripts=[talk(_SAID)], idempotency_key="k"
    )
    for _ in range(2):
        for job in (await encrypting.extraction.SubmitTranscripts(request)).jobs:
            await ended(encrypting, job.id)
    nothing_told(superuser_conninfo, model)
    # Its owner sees what a dump does not tell.
    (held,) = [m for m in await memories(encrypting) if m.id == memory_id]
    assert held.content == "The user owes quucontent now."
    assert (list(held.tags), held.type) == (["quutag"], memory_pb2.MEMORY_TYPE_PERSONAL)


async def test_h3_of_what_stood_there_before(
    encrypting: Services, model: ScriptedModel, superuser_conninfo: str
) -> None:
    """The sweep seals it: rows, versions, history, index, mentions and vectors."""
    await say_everything(encrypting)
    await save_everything(encrypting, entities=["Quuentity"])
    await answer_with_nothing(encrypting, model)
    await choose(encrypting, encrypt_sensitive=True)
    await eventually(
        lambda: rows(superuser_conninfo, "SELECT 1 FROM users WHERE to_seal > 0") == [],
        seconds=180,
    )
    nothing_told(superuser_conninfo, model)
    held = {m.content for m in await memories(encrypting)}
    assert {_CLEAR, "The user owes quucontent now."} <= held


def swap(postgres: EmbeddedPostgres, conninfo: str, backup: str, *, back: bool) -> None:
    """Copy a test's database, or put the copy in its place."""
    name = str(psycopg.conninfo.conninfo_to_dict(conninfo)["dbname"])
    with psycopg.connect(postgres.superuser_conninfo(), autocommit=True) as connection:
        kept, live = sql.Identifier(backup), sql.Identifier(name)
        if not back:
            connection.execute(
                sql.SQL("CREATE DATABASE {} TEMPLATE {} OWNER hitherto_owner").format(kept, live)
            )
            return
        connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(live))
        connection.execute(sql.SQL("ALTER DATABASE {} RENAME TO {}").format(kept, live))


async def test_h3_a_backup_from_before_an_erasure_opens_no_more(
    start_services: StartServices,
    model: ScriptedModel,
    postgres: EmbeddedPostgres,
    conninfo: str,
    superuser_conninfo: str,
    tmp_path: Path,
) -> None:
    """The key goes with the user: a backup of the database that is restored tells nothing."""
    model.script = everything
    settings: dict[str, Any] = {**model_settings(model), **ENCRYPTING, "job_max_retries": 0}
    async with start_services(**settings) as services:
        await choose(services, encrypt_sensitive=True)
        await say_everything(services)
        await save_everything(services)
        await choose(services, user="bo", encrypt_sensitive=True)
        await save(services, "Bo is afraid of heights.", user="bo", type=PERSONAL)
        assert holding([Cell("", "", (await export(services)).text)], WORDS)
    key = await keys_of(tmp_path).open("default", "ana")
    backup = f"{psycopg.conninfo.conninfo_to_dict(conninfo)['dbname']}_backup"
    swap(postgres, conninfo, backup, back=False)
    async with start_services(**settings) as services:
        await erase(services)
    assert len(key_files(tmp_path)) == 1
    swap(postgres, conninfo, backup, back=True)
    with pytest.raises(KeyGone):
        await keys_of(tmp_path).open("default", "ana")
    async with start_services(**settings) as services:
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
            superuser_conninfo,
            "SELECT memory_id, sealed FROM memories WHERE user_id = 'ana' AND sealed IS NOT NULL",
        )
        assert sealed
        for memory_id, text in sealed:
            with pytest.raises(DecryptionFailed):
                again.open(text, ("memory", str(memory_id)))
