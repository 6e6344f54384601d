"""What a user who encrypts teaches (H3; faults.md, section 3 "Encryption"): learnt sealed, compared
with what is sealed, taken back, and not learnt at all while the key is away."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import grpc
import pytest

from hitherto.v1 import job_pb2, memory_pb2
from hitherto_shared.encryption.rows import MEMORY
from tests.e2e.conftest import Services, StartServices, model_settings
from tests.e2e.curating import (
    checks,
    forget,
    history,
    restore,
    save,
    statement,
    stream,
    update,
)
from tests.e2e.learning import (
    Answering,
    ended,
    learn,
    memories,
    replies,
    rows,
    shown,
    submit,
    talk,
)
from tests.e2e.methods import ask
from tests.e2e.privacy import choose
from tests.e2e.sealed_memories import contents, held, in_clear
from tests.e2e.sealing import ENCRYPTING, PERSONAL, key_of
from tests.e2e.sessions import refusal_of
from tests.scripted_model import ChatAnswer, ScriptedModel, StatusFault
from tests.scripted_model.answers import memory, quoting
from tests.waiting import eventually

SERVICE_SETTINGS = ENCRYPTING
ZOLPIDEM = "Ana takes zolpidem"


@pytest.fixture
async def sealing(modelled: Services) -> Services:
    """Services with keys and the scripted model, and Ana, who encrypts."""
    await choose(modelled, encrypt_sensitive=True)
    modelled.model.script = replies(
        {
            "pills": [
                memory(
                    ZOLPIDEM,
                    type="personal",
                    tags=["zaphodic"],
                    entities=[{"name": "Quackenbush", "type": "person"}],
                ),
                memory("Ana drinks lapsang", tags=["tea"]),
            ],
            "10 milligrams": lambda r: {
                "new_memories": [memory("Ana snores", type="personal")],
                "updated_memories": [
                    {
                        "id": shown(r, "zolpidem"),
                        "content": f"{ZOLPIDEM} 10 mg",
                        "source_message_ids": ["m1"],
                    }
                ],
            },
            "stopped": lambda r: {
                "new_memories": [memory("Ana takes melatonin", type="personal")],
                "contradicted_memories": [
                    {"id": shown(r, "zolpidem"), "by": 0, "reason": "zolpidem made her ill"}
                ],
                # Its evidence, which is sealed, is quoted nowhere.
                "updated_memories": [{"id": shown(r, "lapsang"), "content": "Ana drinks tea"}],
            },
        }
    )
    return modelled


async def test_h3_learnt_shown_made_more_precise_taken_back_and_contradicted(
    sealing: Services,
) -> None:
    secret = ["zolpidem", "melatonin", "snores", "quackenbush", "zaphodic"]
    await learn(sealing, talk("Doctor Quackenbush gave me zolpidem pills", conversation="c1"))
    assert in_clear(sealing.conninfo, *secret) == {}
    # What is clear of the same message is found by its own words alone.
    assert "lapsang" in in_clear(sealing.conninfo, "lapsang")
    assert rows(sealing.conninfo, "SELECT count(*) FROM hitherto.memory_source_embeddings") == [
        (0,)
    ]
    assert rows(sealing.conninfo, "SELECT count(*) FROM hitherto.entities") == [(0,)]

    await learn(sealing, talk("It is 10 milligrams", conversation="poison"))
    seen = sealing.model.chat_requests[-1]
    assert {m.content for m in seen.memories} == {ZOLPIDEM, "Ana drinks lapsang"}
    known, snores = await held(sealing)
    assert (known.words["content"], known.version) == (f"{ZOLPIDEM} 10 mg", 2)
    assert known.words["tags"] == ["zaphodic"]

    # A roll-back gives back the earlier sealed words.
    reply = await ask(sealing, "RollbackSource", conversation_id="poison")
    assert (reply.counts["memories_forgotten"], reply.counts["memories_restored"]) == (1, 1)
    back, gone = await held(sealing)
    assert (back.memory_id, back.words["content"]) == (known.memory_id, ZOLPIDEM)
    assert (gone.memory_id, gone.status) == (snores.memory_id, "forgotten")
    assert in_clear(sealing.conninfo, *secret) == {}

    result = await learn(sealing, talk("I stopped that zolpidem", conversation="c3"))
    assert (result.memories_created, result.memories_contradicted) == (1, 1)
    old, _, new = await held(sealing)
    assert (old.status, new.status) == ("contradicted", "active")
    assert rows(
        sealing.conninfo,
        f"SELECT superseded_by FROM hitherto.memories WHERE memory_id = '{old.memory_id}'",
    ) == [(UUID(new.memory_id),)]
    assert history(sealing.conninfo, old.memory_id)[-1][:3] == ("contradicted", 4, "")
    assert in_clear(sealing.conninfo, *secret) == {}


async def test_h3_the_relevant_sealed_memories_go_into_the_prompt(
    start_services: StartServices, model: ScriptedModel
) -> None:
    """Not the most important ones alone: those that share words or tags with what is said."""
    settings = {**model_settings(model), **ENCRYPTING, "prompt_memories": 5}
    async with start_services(**settings) as services:
        await choose(services, encrypt_sensitive=True)
        await save(services, "Ana takes zolpidem", type=PERSONAL, importance=0.1)
        await save(services, "Ana was born in Hue", type=PERSONAL, tags=["family"], importance=0.1)
        for name in ("alder", "birch", "cedar", "ebony", "holly", "larch"):
            await save(services, f"Ana owns a {name} chair", type=PERSONAL, importance=0.9)
        await checks(services)
        model.script = lambda _: ChatAnswer.of(new_memories=[])
        await learn(services, talk("More about zolpidem, and about my family"))
        seen = {m.content for m in model.chat_requests[-1].memories}
        assert {"Ana takes zolpidem", "Ana was born in Hue"} <= seen
        assert len(seen) == 5


async def test_h3_what_was_forgotten_stays_forgotten(sealing: Services) -> None:
    sealing.model.script = replies({"sleep": [memory(ZOLPIDEM, type="personal")]})
    saved = (await save(sealing, ZOLPIDEM, type=PERSONAL)).memory
    gone = await forget(sealing, saved.id, reason="because zolpidem shames her")
    assert (gone.status, gone.content) == (memory_pb2.MEMORY_STATUS_FORGOTTEN, ZOLPIDEM)
    result = await learn(sealing, talk(("assistant", "You said how you sleep")))
    assert result.memories_created == 0
    assert [each.status for each in await held(sealing)] == ["forgotten"]
    back = await restore(sealing, saved.id)
    assert (back.status, back.content) == (memory_pb2.MEMORY_STATUS_ACTIVE, ZOLPIDEM)
    assert in_clear(sealing.conninfo, "zolpidem") == {}
    assert [entry[:3] for entry in history(sealing.conninfo, saved.id)] == [
        ("created", 1, ""),
        ("forgotten", 2, ""),
        ("restored", 3, ""),
    ]
    versions = rows(
        sealing.conninfo,
        f"SELECT content, sealed FROM memory_versions WHERE memory_id = '{saved.id}'",
    )
    key = await key_of(sealing)
    assert [content for content, _ in versions] == ["", ""]
    places = MEMORY.place(saved.id)
    assert {key.open(sealed, places)["content"] for _, sealed in versions} == {ZOLPIDEM}


SLEEPING: dict[str, Answering] = {
    "stopped": lambda r: {
        "new_memories": [memory("Ana sleeps well")],
        "contradicted_memories": [{"id": shown(r, "zolpidem"), "by": 0}],
    },
    "pills": lambda _: {"new_memories": [memory(ZOLPIDEM, type="personal")]},
}


@pytest.mark.parametrize("forgotten", [False, True])
async def test_row_10_what_comes_back_meets_what_was_said_meanwhile(
    sealing: Services, forgotten: bool
) -> None:
    """It stays untold where somebody asked to forget what was said; else the two are one memory."""

    async def sources() -> list[set[str]]:
        known = [each for each in await memories(sealing) if each.content == ZOLPIDEM]
        return [{source.conversation_id for source in each.sources} for each in known]

    sealing.model.script = replies(SLEEPING)
    await learn(sealing, talk("I take pills", conversation="first"))
    await learn(sealing, talk("I stopped that", conversation="bad"))
    await learn(sealing, talk("I take the pills again", conversation="again"))
    (again,) = [each for each in await memories(sealing) if each.content == ZOLPIDEM]
    if forgotten:
        await forget(sealing, again.id)
    counts = (await ask(sealing, "RollbackSource", conversation_id="bad")).counts
    if forgotten:
        assert counts["memories_restored"] == 0
        assert await sources() == []
        await restore(sealing, again.id)
    assert await sources() == [{"first", "again"}]
    assert in_clear(sealing.conninfo, "zolpidem") == {}


async def test_h3_without_the_key_a_job_waits_and_is_done_when_it_is_back(
    start_services: StartServices,
    model: ScriptedModel,
    tenant_conninfo: str,
    services_folder: Path,
) -> None:
    model.script = replies({"pills": [memory(ZOLPIDEM, type="personal")]})
    folder, away = services_folder / "data" / "user-keys", services_folder / "away"
    async with start_services(model, **ENCRYPTING) as services:
        await choose(services, encrypt_sensitive=True)
        saved = (await save(services, "Ana was born in Hue", type=PERSONAL)).memory
        await checks(services)
        folder.rename(away)
        for call in (
            save(services, "Ana takes melatonin", type=PERSONAL),
            update(services, saved.id, content="Ana was born in Hanoi"),
            forget(services, saved.id),
            restore(services, saved.id),
        ):
            refusal = await refusal_of(call)
            assert refusal.code is grpc.StatusCode.FAILED_PRECONDITION
            assert refusal.reason == "ENCRYPTION_NOT_CONFIGURED"
        # A stream goes on: each of its items is refused by itself.
        reply = await stream(services, [statement("Ana takes melatonin", type=PERSONAL)])
        assert (reply.saved_count, reply.rejected_count) == (0, 1)
        away.rename(folder)

        # The model does not answer as long as it takes to lose the key.
        asked = model.calls["chat"]
        model.always(StatusFault(503), endpoint="chat")
        (job_id,) = await submit(services, talk("My zolpidem pills"))
        await eventually(lambda: model.calls["chat"] > asked)
        folder.rename(away)
        waits = (
            "SELECT 1 FROM hitherto.jobs WHERE error_reason = 'ENCRYPTION_NOT_CONFIGURED'"
            f" AND job_id = '{job_id}' AND attempt = 0"
        )
        await eventually(lambda: rows(tenant_conninfo, waits))
        assert in_clear(tenant_conninfo, "zolpidem", "melatonin", "hanoi") == {}
        model.always(None, endpoint="chat")
        away.rename(folder)
        job = await ended(services, job_id)
        assert job.state == job_pb2.JOB_STATE_SUCCEEDED, job.error
    assert contents(await held(services)) == [
        "Ana was born in Hue",
        "Ana takes zolpidem",
    ]
    assert in_clear(tenant_conninfo, "zolpidem") == {}


async def test_row_38_sealed_late_words_are_the_ones_that_ended(sealing: Services) -> None:
    sealing.model.script = lambda r: quoting(
        r,
        new_memories=[memory(r.messages[-1].content, type="personal")],
        contradicted_memories=[{"id": each.local_id, "by": 0} for each in r.memories],
    )
    for town, month in (("Oslo", 3), ("Bern", 6), ("Rome", 5)):
        at = datetime(2026, month, 1, tzinfo=UTC)
        await learn(sealing, talk(f"Ana lives in {town}", conversation=town, at=at))
    said = contents(await held(sealing))
    ends = "SELECT extract(month FROM valid_to)::int FROM hitherto.memories"
    when = [month for (month,) in rows(sealing.conninfo, f"{ends} ORDER BY created_at")]
    assert dict(zip(said, when, strict=True)) == {
        "Ana lives in Oslo": 6,
        "Ana lives in Bern": None,
        "Ana lives in Rome": 6,
    }
    assert in_clear(sealing.conninfo, "lives in") == {}
