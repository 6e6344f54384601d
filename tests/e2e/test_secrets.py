"""Secrets over real ports: H7. They reach neither the database nor a model."""

from __future__ import annotations

import random

from hitherto.v1 import privacy_pb2, session_service_pb2
from tests.e2e.conftest import Services
from tests.e2e.curating import save, statement, stream, update
from tests.e2e.handing_over import document, taken_in
from tests.e2e.importing import bring
from tests.e2e.learning import echo, ended, learn, memories, submit, talk
from tests.e2e.leaving import erase, export, reinstate
from tests.e2e.methods import ask
from tests.e2e.privacy import choose, settings
from tests.e2e.sealed_memories import in_clear
from tests.e2e.sealing import ENCRYPTING, change_profile
from tests.e2e.sessions import refusal_of, stub
from tests.unit.secret_samples import SECRETS

_OFF = privacy_pb2.SECRET_HANDLING_OFF
_SEAL = privacy_pb2.SECRET_HANDLING_SEAL


SERVICE_SETTINGS = ENCRYPTING


def made(shape: str, seed: int = 1) -> str:
    return SECRETS[shape](random.Random(seed))


async def append(services: Services, content: str) -> list[str]:
    """Append one message without an id; the ids."""
    messages = talk(content).messages
    messages[0].id = ""
    reply = await ask(services, "AppendMessages", conversation_id="c9", messages=messages)
    return list(reply.message_ids)


async def said(services: Services, conversation: str) -> list[str]:
    """The messages of a conversation, as they are read."""
    found = await ask(services, "GetConversation", conversation_id=conversation)
    return [message.content for message in found.messages]


async def test_h7_no_secret_reaches_the_database_or_a_model(modelled: Services) -> None:
    modelled.model.script = echo
    aws, card, hub, key = map(made, ("AWS access key", "card", "GitHub", "OpenAI"))
    password, npm, stripe, token = map(made, ("password", "npm", "Stripe", "web token"))
    talked = talk(f"I pay with {card} and log in with {aws}.", f"My password is {password}.")
    talked.messages[0].metadata.update({"header": f"Bearer {token}", "api_key": npm})
    result = await learn(modelled, talked)
    assert result.counts["secrets_redacted"] == 3
    assert "I pay with [redacted: card number] and log in with [redacted: AWS access key]." in [
        each.content for each in await memories(modelled)
    ]
    await append(modelled, f"use {hub} for the repository")
    saved = await save(modelled, f"The key is {key}", metadata={"note": npm}, detail=stripe)
    assert saved.memory.content == "The key is [redacted: OpenAI key]"
    await update(modelled, saved.memory.id, content=f"Her key is {key}", tags=[npm])
    await stream(modelled, [statement(f"The token is {token}")])
    _, job = await taken_in(modelled, document("d1", f"login {aws}\nthen {stripe}"))
    assert job.result.counts["secrets_redacted"] == 2
    await change_profile(modelled, summary=f"Uses {npm}", facts={"personal": {"password": "hush"}})
    session = session_service_pb2.UpdateSessionRequest(user_id="ana", session_id="s1")
    session.context.update({"last": f"card {card}"})
    await stub(modelled).UpdateSession(session)
    transcript = talk(f"Look at {hub} and {card}", conversation="c2")
    await ask(modelled, "PreviewExtraction", transcript=transcript)

    secrets = [aws, card, hub, key, password, npm, stripe, token, "hush"]
    assert in_clear(modelled.conninfo, *secrets) == {}
    asked = [request.user for request in modelled.model.chat_requests]
    asked += [text for request in modelled.model.embedding_requests for text in request.texts]
    assert asked
    assert [secret for secret in secrets if any(secret in text for text in asked)] == []


async def test_h7_a_message_that_is_sent_again_changes_nothing(services: Services) -> None:
    """Neither with its id nor without, and not after another choice either."""
    talked = talk(f"Log in with {made('AWS access key')}")
    [first] = await submit(services, talked)
    assert await submit(services, talked) == [first]
    text = f"and with {made('GitHub')}"
    ids = await append(services, text)
    assert await append(services, text) == ids
    await choose(services, redact_secrets=_OFF)
    assert await submit(services, talked) == [first]
    assert len(await said(services, "c1")) == len(await said(services, "c9")) == 1
    talked.messages[0].content += "!"
    refusal = await refusal_of(submit(services, talked))
    assert refusal.reason == "MESSAGE_ID_REUSED"


async def test_h7_a_person_chooses_what_happens(services: Services) -> None:
    assert (await settings(services)).redact_secrets == privacy_pb2.SECRET_HANDLING_REDACT
    await choose(services, redact_secrets=_OFF)
    text = f"Log in with {made('AWS access key')}"
    await ended(services, (await submit(services, talk(text)))[0])
    assert await said(services, "c1") == [text]
    talked = talk(text)
    talked.messages[0].content = f"Log in with {made('AWS access key', 2)}"
    assert (await refusal_of(submit(services, talked))).reason == "MESSAGE_ID_REUSED"

    refusal = await refusal_of(choose(services, redact_secrets=_SEAL))
    assert refusal.reason == "ENCRYPTION_OFF"
    after = await choose(services, redact_secrets=_SEAL, encrypt_sensitive=True)
    assert after.redact_secrets == _SEAL
    assert (await refusal_of(choose(services, encrypt_sensitive=False))).reason == "ENCRYPTION_OFF"
    after = await choose(services, mask=["redact_secrets"])
    assert after.redact_secrets == privacy_pb2.SECRET_HANDLING_REDACT
    refusal = await refusal_of(choose(services, redact_secrets=99))
    assert list(refusal.fields) == ["user_settings.redact_secrets"]


async def test_h7_a_sealed_secret_is_only_exported(modelled: Services) -> None:
    modelled.model.script = echo
    await choose(modelled, redact_secrets=_SEAL, encrypt_sensitive=True)
    key = made("AWS access key")
    text = f"Log in with {key} please"
    await learn(modelled, talk(text))
    assert await said(modelled, "c1") == ["Log in with [redacted: AWS access key] please"]
    assert in_clear(modelled.conninfo, key) == {}
    assert not any(key in request.user for request in modelled.model.chat_requests)
    exported = await export(modelled)
    [row] = [row for table, row in exported.rows if table == "messages"]
    assert row["unredacted"] == text

    await erase(modelled)
    await reinstate(modelled)
    await bring(modelled, exported.text.encode())
    assert [row for table, row in (await export(modelled)).rows if table == "messages"] == [row]
    assert (await settings(modelled)).redact_secrets == _SEAL
    assert in_clear(modelled.conninfo, key) == {}
