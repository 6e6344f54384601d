"""What a user decides about being remembered (H1, C3, B2), through the calls that set it."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import grpc
import pytest

from hitherto.v1 import job_pb2, privacy_pb2
from hitherto.v1 import memory_service_pb2 as memory
from tests.e2e.conftest import Services, StartServices
from tests.e2e.curating import save
from tests.e2e.handing_over import document, taken_in
from tests.e2e.learning import ended, learn, memories, rows, submit, talk
from tests.e2e.methods import METHODS, ask, call
from tests.e2e.privacy import SCOPES, choose, context, search, settings
from tests.e2e.requests import valid
from tests.e2e.sessions import items, refusal_of
from tests.e2e.sessions import update as update_session
from tests.scripted_model import SlowDrip

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
DEFAULTS = {
    "memory_enabled": True,
    "learning_enabled": True,
    "retention_days": 0,
    "message_retention_days": 0,
    "encrypt_sensitive": False,
    "time_zone": "UTC",
}
READS = [
    method
    for name, method in METHODS.items()
    if name.startswith("RetrievalService/")
    and "reason" in method.response.DESCRIPTOR.fields_by_name
]


def plain(found: privacy_pb2.UserSettings) -> dict[str, Any]:
    """By name; every field must be set."""
    assert all(found.HasField(name) for name in DEFAULTS)  # type: ignore[arg-type]
    return {name: getattr(found, name) for name in DEFAULTS}


class TestWhatIsInForce:
    async def test_c3_those_of_the_installation_and_of_a_user_who_goes_before(
        self, start_services: StartServices
    ) -> None:
        """Asking makes nobody known. C3: 0 keeps for ever where the installation does not; the
        mask alone gives it back."""
        given = {"memory_enabled": False, "retention_days": 30, "message_retention_days": 7}
        async with start_services(**given) as services:
            assert plain(await settings(services)) == {**DEFAULTS, **given}
            assert rows(services.conninfo, "SELECT 1 FROM hitherto.users") == []
            assert (await choose(services, retention_days=0)).retention_days == 0
            assert (await settings(services)).retention_days == 0
            back = await choose(services, mask=["retention_days"])
            assert back.retention_days == 30

    async def test_h1_a_user_who_need_not_be_known_chooses(self, services: Services) -> None:
        """Others are left as they are, 0 is a value, and names in any script are names. A present
        mask is the whole truth, an absent one means every field with a value."""
        zone = {"time_zone": "Asia/Ho_Chi_Minh"}
        cases: list[tuple[list[str] | None, dict[str, Any], dict[str, Any]]] = [
            (None, {"retention_days": 0, **zone}, zone),
            (None, {}, {}),
            ([], {"learning_enabled": False}, {}),
            (["retention_days"], {"learning_enabled": False, "retention_days": 9},
             {"retention_days": 9}),
            (["time_zone", "time_zone"], zone, zone),
            (None, {"encrypt_sensitive": False, "message_retention_days": 36_500},
             {"message_retention_days": 36_500}),
        ]  # fmt: skip
        for number, (mask, values, changed) in enumerate(cases):
            user = f"Thảo 🍵 {number}"
            chosen = await choose(services, user=user, mask=mask, **values)
            assert plain(chosen) == {**DEFAULTS, **changed}, number
            assert plain(await settings(services, user)) == plain(chosen)
        assert plain(await settings(services, "bo")) == DEFAULTS

    async def test_what_cannot_be(self, services: Services) -> None:
        """INVALID_ARGUMENT names the field, and nobody becomes known by it."""
        cases: list[tuple[list[str] | None, dict[str, Any], str]] = [
            (None, {"retention_days": -1}, "user_settings.retention_days"),
            (None, {"message_retention_days": 36_501}, "user_settings.message_retention_days"),
            (None, {"time_zone": "Saigon"}, "user_settings.time_zone"),
            (None, {"time_zone": ""}, "user_settings.time_zone"),
            (["retention_days", "user_settings.time_zone"], {}, "update_mask.paths[1]"),
            (["retention_days"] * 51, {}, "update_mask"),
        ]
        for mask, values, field in cases:
            refusal = await refusal_of(choose(services, mask=mask, **values))
            assert refusal.code is grpc.StatusCode.INVALID_ARGUMENT
            assert (refusal.reason, list(refusal.fields)) == ("INVALID_FIELD", [field])
        assert rows(services.conninfo, "SELECT 1 FROM hitherto.users") == []

    async def test_h3_encryption_is_refused_where_there_is_no_key(self, services: Services) -> None:
        """A wish that cannot be met is not taken down as if it were, nor is the rest."""
        refusal = await refusal_of(choose(services, encrypt_sensitive=True, learning_enabled=False))
        assert refusal.code is grpc.StatusCode.FAILED_PRECONDITION
        assert refusal.reason == "ENCRYPTION_NOT_CONFIGURED"
        assert "HITHERTO_ENCRYPTION_KEY_FILE" in refusal.message
        assert plain(await settings(services)) == DEFAULTS
        assert rows(services.conninfo, "SELECT 1 FROM hitherto.users") == []
        # To switch it off, or to follow the installation again, takes no key.
        await choose(services, encrypt_sensitive=False)
        await choose(services, mask=["encrypt_sensitive"])

    async def test_b4_a_key_changes_once_and_two_at_once_both_hold(
        self, services: Services
    ) -> None:
        """A repetition answers with what is in force now and undoes nothing done since; nobody's
        change overwrites another field."""
        await choose(services, key="k", retention_days=5)
        await choose(services, retention_days=6)
        assert (await choose(services, key="k", retention_days=5)).retention_days == 6
        refusal = await refusal_of(choose(services, key="k", retention_days=7))
        assert refusal.reason == "IDEMPOTENCY_KEY_REUSED"
        await asyncio.gather(
            *(choose(services, learning_enabled=False) for _ in range(4)),
            *(choose(services, retention_days=9) for _ in range(4)),
        )
        found = await settings(services)
        assert (found.learning_enabled, found.retention_days) == (False, 9)


class TestMemoryOff:
    async def test_h1_off_no_read_tells_anything_and_on_again(self, services: Services) -> None:
        """Every reply is empty but for its reason, from the next call on. On again, all is there;
        what was said meanwhile is not."""
        said = talk("My name is Ana. I live in Lisbon.", "Tôi sống ở Đà Nẵng 🏖.", at=NOON)
        await learn(services, said)
        await taken_in(services, document("d1", "Ana works in Lisbon."))
        await update_session(services, {"last_message": "Lisbon"}, recent=items("m1"))
        assert (await context(services, "Where does she live?")).relevant
        held = {m.content for m in await memories(services)}
        await choose(services, memory_enabled=False)
        names = {method.name.partition("/")[2] for method in READS}
        told = {"GetContext", "SearchMemories", "GetSuggestions", "GetSession", "GetProfile"}
        assert names >= told, "the list is not empty by accident"
        for method in READS:
            (reply,) = await call(services, method, valid(method))
            assert reply == method.response(reason="MEMORY_DISABLED"), method.name
        off = await context(services, "Where does she live?")
        assert (off.reason, list(off.relevant), off.prompt_block) == ("MEMORY_DISABLED", [], "")
        for scope in SCOPES:
            found = await search(services, "Lisbon", scopes=[scope])
            assert (found.reason, list(found.results)) == ("MEMORY_DISABLED", [])
        (job_id,) = await submit(services, talk("I work as a baker.", conversation="c2", at=NOON))
        job = await ended(services, job_id)
        assert job.state == job_pb2.JOB_STATE_CANCELLED
        assert job.error.startswith("MEMORY_DISABLED")
        assert (await refusal_of(save(services, "I like tea."))).reason == "MEMORY_DISABLED"
        await choose(services, mask=["memory_enabled"])
        assert {m.content for m in await memories(services)} == held
        for scope in SCOPES[:3]:
            found = await search(services, "baker", scopes=[scope])
            assert not any("baker" in str(result) for result in found.results)
        await learn(services, talk("I work as a pilot.", conversation="c3", at=NOON))
        assert any("pilot" in m.content for m in await memories(services))

    @pytest.mark.parametrize("off", ["memory_enabled", "learning_enabled"])
    async def test_h1_a_job_that_is_asking_the_model_discards_its_answer(
        self, modelled: Services, off: str
    ) -> None:
        """The answer comes, and is not written down."""
        modelled.model.queue(SlowDrip(seconds=0.05, size=8))
        (job_id,) = await submit(modelled, talk("canary:late", at=NOON))
        async with asyncio.timeout(180):
            await modelled.model.called(1)
        switches: dict[str, Any] = {off: False}
        await choose(modelled, **switches)
        job = await ended(modelled, job_id)
        assert job.state == job_pb2.JOB_STATE_CANCELLED
        assert job.error.startswith(off.replace("enabled", "disabled").upper())
        assert rows(modelled.conninfo, "SELECT 1 FROM hitherto.memories") == []

    @pytest.mark.parametrize("off", ["memory_enabled", "learning_enabled"])
    async def test_h1_what_waits_is_discarded_unasked(self, modelled: Services, off: str) -> None:
        """Messages that waited for their job when the switch was turned: nobody is asked. Feedback
        teaches nothing either (F6), and with memory off its words are not stored."""
        await learn(modelled, talk("How?", ("assistant", "x" * 400), at=NOON))
        asked = modelled.model.calls["chat"]
        waiting = talk("canary:waiting", conversation="c2").messages
        await ask(modelled, "AppendMessages", conversation_id="c2", messages=waiting)
        switches: dict[str, Any] = {off: False}
        await choose(modelled, **switches)
        reply = await ask(modelled, "EndConversation", conversation_id="c2")
        job = await ended(modelled, reply.job.id)
        assert job.state == job_pb2.JOB_STATE_CANCELLED
        assert job.error.startswith(off.replace("enabled", "disabled").upper())
        assert modelled.model.calls["chat"] == asked
        edit = memory.ResponseEdit(original="x" * 400, edited="x" * 100)
        told = {"conversation_id": "c1", "message_id": "c1-2", "edit": edit}
        assert not (await ask(modelled, "RecordFeedback", **told)).preferences
        kept = rows(modelled.conninfo, "SELECT 1 FROM hitherto.feedback")
        assert len(kept) == (off == "learning_enabled")


class TestLearningOff:
    async def test_b2_nothing_is_extracted_and_what_is_saved_counts(
        self, services: Services
    ) -> None:
        """B2: reads and SaveMemory work; learning begins again when it is on."""
        await learn(services, talk("I live in Lisbon.", at=NOON))
        await choose(services, learning_enabled=False)
        (job_id,) = await submit(services, talk("I work as a baker.", conversation="c2", at=NOON))
        job = await ended(services, job_id)
        assert job.state == job_pb2.JOB_STATE_CANCELLED
        assert job.error.startswith("LEARNING_DISABLED")
        await save(services, "The user likes jasmine tea.")
        contents = [m.content for m in await memories(services)]
        assert any("Lisbon" in content for content in contents)
        assert any("jasmine" in content for content in contents)
        assert not any("baker" in content for content in contents)
        await choose(services, learning_enabled=True)
        await learn(services, talk("I work as a pilot.", conversation="c3", at=NOON))
        assert any("pilot" in m.content for m in await memories(services))

    @pytest.mark.parametrize("how", ["SubmitTranscripts", "AppendMessages"])
    async def test_h1_what_was_said_meanwhile_is_not_learnt_when_it_is_sent_again(
        self, services: Services, how: str
    ) -> None:
        """Nor with more around it, nor by a retry: a client may send whole conversations."""
        said = talk("My dog is called Rex.", "I work as a baker.", "I live in Lisbon.", at=NOON)
        before, meanwhile = talk(at=NOON), talk(at=NOON)
        before.messages.extend(said.messages[:1])
        meanwhile.messages.extend(said.messages[:2])
        await ask(services, "AppendMessages", conversation_id="c1", messages=before.messages)
        await choose(services, learning_enabled=False)
        if how == "SubmitTranscripts":
            (job_id,) = await submit(services, meanwhile)
        else:
            messages = meanwhile.messages[1:]
            reply = await ask(services, how, conversation_id="c1", messages=messages)
            job_id = reply.job.id
        await choose(services, learning_enabled=True)
        assert await submit(services, meanwhile) == [job_id]
        job = await ended(services, job_id)
        assert job.state == job_pb2.JOB_STATE_CANCELLED
        assert job.error.startswith("LEARNING_DISABLED")
        await learn(services, said)
        await ask(services, "RetryJob", job_id=job_id)
        await ended(services, job_id)
        (learnt,) = await memories(services)
        assert "Lisbon" in learnt.content
