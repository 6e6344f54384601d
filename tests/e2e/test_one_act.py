"""Forgetting and correcting as one act: what else states it is named, and can be taken along."""

from __future__ import annotations

from typing import Any

import pytest

from hitherto.v1 import memory_pb2
from hitherto.v1 import memory_service_pb2 as pb
from tests.e2e.conftest import Services
from tests.e2e.curating import change, events, found, restore, update
from tests.e2e.learning import learn, memories, replies, talk
from tests.e2e.masks import masked
from tests.e2e.methods import ask
from tests.e2e.privacy import choose
from tests.e2e.sealed_memories import contents
from tests.e2e.sealed_memories import held as sealed_memories
from tests.e2e.sealing import ENCRYPTING, PERSONAL
from tests.scripted_model import ScriptedModel
from tests.scripted_model.answers import memory, value

SERVICE_SETTINGS = ENCRYPTING

HOME = "Ana lives in Lisbon"
PORTO = "Ana lives in Porto"
SAME = "Lives in Lisbon."
DOG = "Ana has a dog called Milo"
LOCATION = "facts.personal.location"
FORGOTTEN = memory_pb2.MEMORY_STATUS_FORGOTTEN


async def said(services: Services, model: ScriptedModel) -> memory_pb2.Memory:
    """Let a message teach two memories with the same words, another one, a value and a summary."""
    model.script = replies(
        {
            "Lisbon": {
                "new_memories": [memory(HOME), memory(SAME, type="context"), memory(DOG)],
                "profile_changes": [
                    value(LOCATION, "Lisbon", "I live in Lisbon"),
                    value("facts.personal.pet", "Milo", "a dog called Milo"),
                ],
                "conversation_summary": {"title": "Home", "summary": "Ana lives in Lisbon."},
            }
        }
    )
    await learn(services, talk("I live in Lisbon, and I have a dog called Milo."))
    return next(each for each in await memories(services) if each.content == HOME)


async def forget(
    services: Services, memory_id: str, *, carry_along: bool = False
) -> pb.ForgetMemoryResponse:
    return await services.memory.ForgetMemory(
        pb.ForgetMemoryRequest(user_id="ana", memory_id=memory_id, carry_along=carry_along)
    )


async def correct(
    services: Services, memory_id: str, content: str, *, carry_along: bool = False, **fields: Any
) -> pb.UpdateMemoryResponse:
    request = pb.UpdateMemoryRequest(
        user_id="ana",
        memory_id=memory_id,
        memory=memory_pb2.Memory(content=content, **fields),
        carry_along=carry_along,
    )
    return await services.memory.UpdateMemory(masked(request))


def places(stated: Any) -> set[tuple[str, str]]:
    """The kinds of places, and the words there."""
    return {(each.WhichOneof("place"), each.text) for each in stated}


async def told(services: Services) -> str:
    """What the assistant is told when somebody asks for the home."""
    query = "Where does Ana live? In Lisbon?"
    return str((await ask(services, "GetContext", query=query, min_relevance=0.0)).prompt_block)


async def facts(services: Services) -> dict[str, Any]:
    profile = (await ask(services, "GetProfile")).profile
    return dict(profile.facts.fields["personal"].struct_value.items())


async def test_the_assistant_is_no_longer_told_what_is_forgotten(modelled: Services) -> None:
    home = await said(modelled, modelled.model)
    assert "Lisbon" in await told(modelled)
    first = await forget(modelled, home.id)
    also = {("memory_id", SAME), ("profile_path", "Lisbon")}
    assert places(first.also_states) == also
    assert [each.profile_path for each in first.also_states if each.profile_path] == [LOCATION]
    assert not first.carried_along
    assert "Lisbon" in await told(modelled)

    second = await forget(modelled, home.id, carry_along=True)
    assert places(second.carried_along) == also
    assert not second.also_states
    block = await told(modelled)
    assert "Lisbon" not in block
    assert "Milo" in block
    assert await facts(modelled) == {"pet": "Milo"}
    assert [words for words in await found(modelled, "Lisbon") if "Lisbon" in words] == []
    assert {each.content for each in await memories(modelled)} == {DOG}

    # Nothing is lost: each comes back.
    [other] = [each.memory_id for each in second.carried_along if each.memory_id]
    assert (await restore(modelled, other)).content == SAME


async def test_the_assistant_is_no_longer_told_what_was_corrected(modelled: Services) -> None:
    home = await said(modelled, modelled.model)
    first = await correct(modelled, home.id, PORTO)
    kinds = {kind for kind, _ in places(first.also_states)}
    assert kinds == {"memory_id", "profile_path", "conversation_id"}
    assert "Lisbon" in await told(modelled)

    second = await correct(modelled, home.id, PORTO, carry_along=True)
    assert second.memory.version == first.memory.version
    assert places(second.carried_along) == {("memory_id", SAME), ("profile_path", "Lisbon")}
    assert not second.also_states
    block = await told(modelled)
    assert "Lisbon" not in block
    assert "Porto" in block
    # The words before the correction stay, as something forgotten.
    held = await memories(modelled, statuses=[FORGOTTEN])
    assert {each.content for each in held} == {HOME, SAME}
    again = await correct(modelled, home.id, PORTO, carry_along=True)
    assert not again.carried_along
    assert len(await memories(modelled, statuses=[FORGOTTEN])) == 2


@pytest.mark.parametrize("encrypt", [False, True])
async def test_a_value_that_another_memory_holds_stays(modelled: Services, encrypt: bool) -> None:
    """A name stands in many memories, in clear or sealed, and goes with none of them."""
    home = await said(modelled, modelled.model)
    await choose(modelled, encrypt_sensitive=encrypt)
    [dog] = [each for each in await memories(modelled) if each.content == DOG]
    await update(modelled, dog.id, "sensitive", sensitive=encrypt)
    profile = pb.UpdateProfileRequest(user_id="ana")
    profile.profile.facts.update({"personal": {"name": "Ana"}})
    profile.update_mask.paths.append("facts.personal.name")
    await modelled.memory.UpdateProfile(profile)
    reply = await forget(modelled, home.id, carry_along=True)
    assert places(reply.carried_along) == {("memory_id", SAME), ("profile_path", "Lisbon")}
    assert await facts(modelled) == {"pet": "Milo", "name": "Ana"}


async def test_c6_a_memory_that_is_certain_once_another_went_along_goes_as_it_is_then(
    modelled: Services,
) -> None:
    """Forgetting the first memory with the same words ends the doubt about the second."""
    alike = [memory(SAME, type="context"), memory("In Lisbon Ana lives", type="decision")]
    modelled.model.script = replies({"Lisbon": {"new_memories": [memory(HOME), *alike]}})
    await learn(modelled, talk("I live in Lisbon."))
    known = await memories(modelled)
    [home] = [each for each in known if each.content == HOME]
    # They go in this order.
    cause, doubted = sorted((each for each in known if each != home), key=lambda each: each.id)
    change(
        modelled.conninfo,
        "UPDATE memories SET doubt = jsonb_build_object('because', %(cause)s::text, 'reason', '',"
        " 'since', now()) WHERE memory_id = %(doubted)s::uuid",
        cause=cause.id,
        doubted=doubted.id,
    )
    reply = await forget(modelled, home.id, carry_along=True)
    assert len(reply.carried_along) == 2
    told = await events(modelled, doubted.id)
    assert [each.version for each in told] == [3, 2, 1]
    hidden = await memories(modelled, statuses=[FORGOTTEN])
    assert not any(each.HasField("doubt") for each in hidden)


@pytest.mark.parametrize("marked", [{"sensitive": True}, {"type": PERSONAL}])
async def test_h3_the_words_before_a_correction_are_sealed_with_the_memory(
    modelled: Services, marked: dict[str, Any]
) -> None:
    home = await said(modelled, modelled.model)
    await choose(modelled, encrypt_sensitive=True)
    await correct(modelled, home.id, PORTO, carry_along=True, **marked)
    assert set(contents(await sealed_memories(modelled))) == {HOME, PORTO}
    assert [words for words in await found(modelled, "Lisbon") if HOME in words] == []


async def test_h3_a_memory_that_has_yet_to_be_sealed_is_corrected(modelled: Services) -> None:
    for encrypt in (True, False):
        await choose(modelled, encrypt_sensitive=encrypt)
    home = await said(modelled, modelled.model)
    await update(modelled, home.id, sensitive=True)
    # Encryption is on again, and no sweep has run since.
    change(modelled.conninfo, "UPDATE users SET encrypt_sensitive = true WHERE user_id = 'ana'")
    await correct(modelled, home.id, PORTO, carry_along=True)
    assert set(contents(await sealed_memories(modelled))) == {HOME, PORTO}
