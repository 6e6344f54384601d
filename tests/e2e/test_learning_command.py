"""What waits says why, in the terminal and to a program; what was learnt is told in words."""

from __future__ import annotations

import asyncio
from pathlib import Path

from hitherto_client import AsyncHitherto
from hitherto_client.results import Job
from tests.e2e.conftest import Services
from tests.e2e.test_command import Typed, at, at_model, lines, said, typed  # noqa: F401 - fixtures
from tests.scripted_model import ScriptedModel, StatusFault
from tests.tenants import ISSUED, Tenant


async def test_a_refused_key_is_named_where_somebody_waits(
    at_model: Typed,  # noqa: F811
    modelled: Services,
    model: ScriptedModel,
    tmp_path: Path,
) -> None:
    """And everything is learnt as soon as the key is accepted, without a further command."""
    model.always(StatusFault(401))
    heard: list[Job] = []

    async def mend() -> None:
        """When the program that waits beside the command has been told."""
        async with AsyncHitherto(
            modelled.retrieval_address, modelled.extraction_address, api_key=modelled.token
        ) as client:
            while not (jobs := (await client.jobs().page()).items):  # noqa: ASYNC110
                await asyncio.sleep(0.05)

            def hear(state: Job) -> None:
                heard.append(state)
                if state.waits_for:
                    model.always(None)

            await asyncio.gather(
                client.wait_for_job(jobs[0]), client.wait_for_job(jobs[0], progress=hear)
            )

    async with asyncio.timeout(240):
        mending = asyncio.create_task(mend())
        told = await at_model("submit", lines(tmp_path, said("Likes green tea.")))
        await mending
    (waiting,) = [line for line in at_model.err.splitlines() if line.startswith("waiting: ")]
    assert "401" in waiting
    assert "OPENAI_API_KEY" in waiting
    assert "MODEL_MISCONFIGURED" not in waiting
    assert heard[-1].succeeded
    assert any("401" in state.waits_for for state in heard)
    assert "learnt about ana:" in told
    assert "Likes green tea." in told
    assert "1 conversation read: 1 learnt" in told


async def test_a_list_of_memories_says_why_more_is_not_known(
    at_model: Typed,  # noqa: F811
    modelled: Services,
    model: ScriptedModel,
    tmp_path: Path,
) -> None:
    model.always(StatusFault(401))
    await at_model("submit", lines(tmp_path, said("Likes green tea.")), "--no-wait")
    async with (
        asyncio.timeout(240),
        AsyncHitherto(
            modelled.retrieval_address, modelled.extraction_address, api_key=modelled.token
        ) as client,
    ):
        (job,) = (await client.jobs().page()).items
        while not job.waits_for:
            await asyncio.sleep(0.05)
            (job,) = (await client.jobs().page()).items
        await at_model("memories", "ana")
        (waiting,) = [line for line in at_model.err.splitlines() if line.startswith("waiting: ")]
        assert "401" in waiting
        assert "OPENAI_API_KEY" in waiting

        model.always(None)
        await client.wait_for_job(job)
    assert "Likes green tea." in await at_model("memories", "ana")
    assert "waiting" not in at_model.err


async def test_a_chat_that_waits_is_learnt_from_on_request(
    at: Typed,  # noqa: F811
    services: Services,
    tenant: Tenant,
) -> None:
    async with AsyncHitherto(
        services.retrieval_address, services.extraction_address, api_key=services.token
    ) as client:
        await client.add(
            "bea",
            [
                {"id": "m1", "role": "assistant", "content": "Where do you live?"},
                {"id": "m2", "role": "user", "content": "I live in Porto."},
                {"id": "m3", "role": "assistant", "content": "Noted."},
            ],
            conversation="monday",
        )
        (waiting,) = (await client.conversations("bea").page()).items
        assert waiting.pending_messages == 3
        assert waiting.learns_at is not None
        await at("memories", "bea")
        assert "1 conversation waits, learns in 10 min, or now: `hitherto learn bea`" in at.err

        assert "User lives in Porto." in await at("learn", "bea")
        await at("memories", "bea")
        assert "waits" not in at.err
        await at("learn", "bea")
        assert "nothing of bea waits" in at.err

        (memory,) = [each async for each in client.memories("bea")]
        told = (await at("why", "bea", memory.id)).splitlines()
        assert told[0] == "User lives in Porto."
        assert told[-3:] == [
            "  assistant: Where do you live?",
            "> user: I live in Porto.",
            "  assistant: Noted.",
        ]
        proof = await client.why("bea", memory.id)
        assert proof is not None
        assert [quote.message and quote.message.id for quote in proof.quotes] == ["m2"]
        assert await client.why("bea", "01890000-0000-7000-8000-000000000000") is None

    saved = await at.json("save", "bea", "Bea likes tea.")
    assert "no message stands behind it" in await at("why", "bea", saved["memory"]["id"])
    await at("save", "ana", "Ana likes tea.")
    assert await at("why", memory.id) == "\n".join([*told, ""]), "the id says whose it is"
    await at("why", "01890000-0000-7000-8000-000000000000", code=1)
    assert "nobody whom you may read" in at.err
    assert "`hitherto memories bea`" in (await at("why", "bea", code=2), at.err)[1]
    for user in ("ana", "bea"):
        await at("profile", user, "department=sales")
    person = ISSUED.token(sub="bea", tenant=tenant.tenant_id, scope="read", departments=["sales"])
    told_to_her = await at("why", memory.id, "--api-key", person)
    assert told_to_her == "\n".join([*told, ""]), "whose colleagues come first"
