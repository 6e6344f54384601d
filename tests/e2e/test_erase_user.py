"""EraseUser and ReinstateUser (H2; faults.md rows 55 and 56): nothing is left, and coming back."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import grpc
import pytest

from hitherto.v1 import extraction_service_pb2 as extraction
from hitherto.v1 import memory_service_pb2 as memory
from hitherto.v1 import privacy_service_pb2 as privacy
from hitherto.v1 import profile_pb2
from hitherto.v1 import retrieval_service_pb2 as retrieval
from hitherto_extraction.storage import erasure
from hitherto_extraction.sweeps import Sweeps
from hitherto_retrieval.__main__ import running as retrieval_running
from hitherto_retrieval.config import RetrievalSettings
from hitherto_shared import metrics
from hitherto_shared.errors import Unavailable
from hitherto_shared.identifiers import uuid7
from hitherto_shared.signing import BrokenSignature, load_signer, verify
from tests.e2e.canaries import naming, plant
from tests.e2e.conftest import Services, StartServices
from tests.e2e.credentials import bearer, key
from tests.e2e.curating import change, save, statement, stream
from tests.e2e.handing_over import document, taken_in
from tests.e2e.learning import learn, memories, rows, submit, talk
from tests.e2e.leaving import erase, reinstate
from tests.e2e.masks import masked
from tests.e2e.methods import OFFERED, ask, call
from tests.e2e.privacy import choose, context, search
from tests.e2e.requests import valid
from tests.e2e.sessions import items, refusal_of
from tests.e2e.sessions import update as update_session
from tests.tenants import tenant_of
from tests.waiting import eventually

USER = "kanari-person"
ERASED = (grpc.StatusCode.FAILED_PRECONDITION, "USER_ERASED")


async def refused(going: Any) -> bool:
    refusal = await refusal_of(going)
    return (refusal.code, refusal.reason) == ERASED


@pytest.fixture
def without_sweeps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Background duties of services that start after this leave planted rows as they are."""
    monkeypatch.setattr(Sweeps, "at_intervals", lambda *_, **__: [])


async def change_as(services: Services, credential: Any, **fields: Any) -> None:
    """Change Ana's profile."""
    request = memory.UpdateProfileRequest(user_id="ana", profile=profile_pb2.Profile(**fields))
    await services.memory.UpdateProfile(masked(request), metadata=credential)


class TestNothingIsLeft:
    async def test_row_55_a_canary_in_every_column_is_gone(
        self, without_sweeps: None, services: Services, superuser_conninfo: str
    ) -> None:
        """Every table by the catalogue; another tenant's user of the same id keeps all."""
        planted = plant(superuser_conninfo, "default", USER)
        plant(superuser_conninfo, "other", USER)
        untold = "SELECT 1 FROM memory_changes WHERE position IS NULL"
        await eventually(lambda: not rows(superuser_conninfo, untold))
        theirs = naming(superuser_conninfo, "kanari-other")
        assert planted.tables <= set(naming(superuser_conninfo, USER))
        erased = metrics.ERASURES.labels("user")._value.get()
        receipt = await erase(services, USER)
        assert metrics.ERASURES.labels("user")._value.get() == erased + 1
        # What was spent stays on the tenant's bill: the model and the stage, and nobody's name.
        assert set(naming(superuser_conninfo, "kanari-default")) == {"usage_ledger"}
        assert naming(superuser_conninfo, "kanari-other") == theirs
        left = naming(superuser_conninfo, USER)
        assert left
        assert all("other" in line.split("\t") for lines in left.values() for line in lines)
        assert dict.fromkeys(planted.tables, 1) == dict(receipt.counts)

    async def test_h2_of_what_the_services_wrote(self, modelled: Services) -> None:
        """Of all that the RPCs leave behind, with idempotency keys that name the user."""
        await learn(modelled, talk("canary:tea I live in Lisbon.", user=USER))
        await learn(modelled, talk("canary:coffee", user="bo"))
        await save(modelled, "The user plays the cello.", user=USER, idempotency_key=f"{USER}-1")
        await taken_in(modelled, document("d1", "All about tea."), user=USER)
        await update_session(modelled, {"last_message": "Huế"}, user=USER, recent=items("m1"))
        await choose(modelled, user=USER, time_zone="Asia/Ho_Chi_Minh", key=f"{USER}-2")
        await ask(modelled, "RunDecay", user_id=USER)
        await ask(
            modelled,
            "SubmitTranscripts",
            transcripts=[
                talk("canary:both", user=USER, conversation="c9"),
                talk("canary:both", user="bo", conversation="c9"),
            ],
            idempotency_key="both",
        )
        await context(modelled, "tea", user=USER)
        receipt = await erase(modelled, USER, key=f"{USER}-3")
        assert naming(modelled.conninfo, USER, "canary:tea", "cello") == {}
        assert receipt.counts["memories"] >= 2
        assert receipt.counts["idempotency_keys"] == 3
        (left,) = rows(
            modelled.conninfo,
            "SELECT user_ids, cardinality(resource_ids) FROM hitherto.idempotency_keys"
            " WHERE key = 'both'",
        )
        assert left == (["bo"], 1)
        nobodys = "SELECT sum(calls) FROM hitherto.usage_ledger WHERE user_id = ''"
        assert rows(modelled.conninfo, nobodys)[0][0] > 0
        # The offline batch of the other is theirs.
        assert await memories(modelled, user="bo")

    async def test_b14_what_two_erased_users_cost_in_one_job_stays_on_the_bill(
        self, services: Services
    ) -> None:
        """A job of the whole tenant charges each user under its own id, with equal stages."""
        job_id = uuid7()
        for user, cost in ((USER, 0.25), ("bo", 0.5), ("cleo", 2)):
            change(
                services.conninfo,
                "INSERT INTO usage_ledger (tenant_id, user_id, day, job_id, stage, model, kind,"
                " calls, input_tokens, output_tokens, cost_usd) VALUES (%(tenant)s, %(user)s,"
                " current_date, %(job)s, 'consolidation', 'm', 'consolidation', 1, 10, 20,"
                " %(cost)s)",
                tenant=tenant_of(services.conninfo), user=user, job=job_id, cost=cost,
            )  # fmt: skip
        for user in (USER, "bo"):
            await save(services, "The user plays the cello.", user=user)
            await erase(services, user)
        assert rows(
            services.conninfo,
            "SELECT user_id, sum(calls), sum(input_tokens), sum(output_tokens), sum(cost_usd)"
            f" FROM usage_ledger WHERE job_id = '{job_id}' GROUP BY user_id ORDER BY user_id",
        ) == [("", 2, 20, 40, Decimal("0.75")), ("cleo", 1, 10, 20, Decimal(2))]

    async def test_h2_reads_are_empty_and_writes_refused(self, services: Services) -> None:
        """Every RPC that names one user, by the descriptors; none of them leaves a trace."""
        await learn(services, talk("I live in Lisbon."))
        await erase(services)
        checked = 0
        for method in OFFERED:
            request: Any = valid(method)
            fields = request.DESCRIPTOR.fields_by_name
            if method.name.startswith("PrivacyService/ReinstateUser"):
                continue
            if not {"user_id", "transcript", "item", "transcripts"} & set(fields):
                continue
            if "user_id" in fields:
                request.user_id = "ana"
            checked += 1
            if "idempotency_key" not in fields or method.name in (
                "PrivacyService/EraseUser",
                "MemoryService/StreamMemories",
                "ExtractionService/StreamTranscripts",
            ):
                continue
            refusal = await refusal_of(call(services, method, request))
            assert (refusal.code, refusal.reason) == ERASED, method.name
        assert checked > 30
        told = await context(services, "Lisbon")
        assert not told.memories
        assert not told.profile.version
        assert not (await search(services, "Lisbon")).results
        for reading in (
            ask(services, "GetProfile"),
            ask(services, "GetConversation", conversation_id="c1"),
        ):
            assert (await refusal_of(reading)).code == grpc.StatusCode.NOT_FOUND
        assert naming(services.conninfo, "\tana\t", "{ana}") == {}

    async def test_streams_refuse_item_by_item_and_leave_no_trace(self, services: Services) -> None:
        """The rest of an import goes on."""
        await erase(services, USER)
        reply = await stream(
            services, [statement("Likes tea.", user=user) for user in (USER, "bo", USER)]
        )
        assert (reply.saved_count, reply.rejected_count) == (1, 2)
        assert {error.reason for error in reply.errors} == {"USER_ERASED"}
        talks = (
            extraction.StreamTranscriptsRequest(transcript=talk("Hello", user=user))
            for user in (USER, "bo")
        )
        taken = await services.extraction.StreamTranscripts(talks)
        assert (taken.accepted_count, taken.rejected_count) == (1, 1)
        assert naming(services.conninfo, USER) == {}


class TestReceipt:
    async def test_h2_signed_and_about_nobody_by_name(self, services: Services) -> None:
        """The signature covers the fields; the key is the installation's; the id is not in it."""
        await save(services, "The user likes tea.", user="Thảo 🍵")
        receipt = await erase(services, "Thảo 🍵")
        signer = load_signer(services.folder / "data" / "signing_key.pem")
        verify(signer.public_key, receipt.signed_payload.encode(), receipt.signature)
        with pytest.raises(BrokenSignature):
            verify(
                signer.public_key,
                receipt.signed_payload.replace('"users":1', '"users":2').encode(),
                receipt.signature,
            )
        signed = json.loads(receipt.signed_payload)
        assert signed["id"] == receipt.id
        assert UUID(receipt.id).version == 7
        assert signed["counts"] == dict(receipt.counts)
        assert (signed["user_hash"], signed["key_id"]) == (receipt.user_hash, receipt.key_id)
        assert signed["erased_at"].startswith(receipt.erased_at.ToDatetime().isoformat()[:19])
        assert receipt.key_id == signer.key_id
        assert "Th" not in receipt.signed_payload
        assert receipt.counts["memories"] == 1

    async def test_row_56_twice_is_once(self, services: Services) -> None:
        """Also at the same moment, with a key, without one, and of somebody unknown."""
        await save(services, "The user likes tea.")
        receipts = await asyncio.gather(*(erase(services, key=key) for key in ("", "k", "k", "")))
        assert all(receipt == receipts[0] for receipt in receipts)
        assert await erase(services) == receipts[0]
        assert sum((await erase(services, "nobody")).counts.values()) == 0
        assert await refused(save(services, "The user likes tea.", user="nobody"))

    async def test_b4_a_key_erases_once(self, services: Services) -> None:
        """After the user was reinstated its repetition erases nobody; its body is told apart."""
        await save(services, "The user likes tea.")
        first = await erase(services, key="ana-leaves")
        assert await reinstate(services, key="ana-returns")
        await save(services, "The user plays the cello.")
        assert await erase(services, key="ana-leaves") == first
        assert len(await memories(services)) == 1
        refusal = await refusal_of(erase(services, "bo", key="ana-leaves"))
        assert refusal.reason == "IDEMPOTENCY_KEY_REUSED"
        assert refusal.metadata == {"idempotency_key": "ana-leaves"}
        second = await erase(services)
        assert second.id != first.id
        assert second.user_hash == first.user_hash
        assert await reinstate(services, key="ana-returns")
        assert await refused(save(services, "The user plays the cello."))
        assert naming(services.conninfo, "ana-", "\tana\t", "{ana}") == {}


class TestReinstate:
    async def test_row_56_refused_until_reinstated(self, services: Services) -> None:
        """Nothing comes back; what is said from then on is learnt; settings start anew. Of nobody
        it changes nothing and makes no row."""
        assert not await reinstate(services, USER)
        assert naming(services.conninfo, USER) == {}
        await learn(services, talk("I live in Lisbon."))
        await choose(services, learning_enabled=False)
        assert not await reinstate(services)
        assert len(await memories(services)) == 1
        await erase(services)
        assert await refused(submit(services, talk("I live in Porto.")))
        assert await reinstate(services)
        assert not await reinstate(services)
        assert not await memories(services)
        result = await learn(services, talk("I live in Porto.", conversation="c2"))
        assert result.memories_created == 1
        assert result.profile_version == 1

    async def test_h2_what_a_person_did_to_others_no_longer_names_the_person(
        self, start_services: StartServices, conninfo: str
    ) -> None:
        """By a key or a token; the others' histories stay, and those of namesakes elsewhere."""
        async with start_services(auth="api-key") as services:
            office = bearer(await key(conninfo))
            boss = bearer(
                await key(conninfo, name="kanari-phone", user_id=USER, departments=["sales"])
            )
            for credential, fields in (
                (office, {"department": "sales"}),
                (boss, {"summary": "one"}),
                (office, {"summary": "two"}),
            ):
                await change_as(services, credential, **fields)
            change(
                services.conninfo,
                "UPDATE history SET actor = 'jwt:' || %(user)s WHERE event_id ="
                " (SELECT event_id FROM history WHERE actor LIKE '%%:test' LIMIT 1)",
                user=USER,
            )
            assert naming(services.conninfo, "kanari") != {}
            request = privacy.EraseUserRequest(user_id=USER)
            await services.privacy.EraseUser(request, metadata=office)
            assert naming(services.conninfo, "kanari") == {}
            told = await services.retrieval.GetProfileHistory(
                retrieval.GetProfileHistoryRequest(user_id="ana"), metadata=office
            )
            assert len(told.events) == 3
            assert "erased" in {event.actor for event in told.events}


class TestCutOff:
    async def test_row_56_goes_on(
        self, services: Services, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The fence stands from the first step on; the receipt of the next call covers all."""
        real, calls, after = erasure.remove_some, 0, 0

        async def breaking(*args: Any, **options: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls > after:
                raise Unavailable("cut", reason="DATABASE_UNAVAILABLE")
            return await real(*args, **options)

        for after in (0, 1, 3, 8):
            user, calls = f"{USER}-{after}", 0
            await learn(services, talk("I live in Lisbon.", "I work as a pilot.", user=user))
            count = "SELECT count(*) FROM hitherto.{} WHERE user_id = '{}'"
            held = {
                table: rows(services.conninfo, count.format(table, user))[0][0]
                for table in ("memories", "messages", "postings", "jobs")
            }
            monkeypatch.setattr(erasure, "remove_some", breaking)
            refusal = await refusal_of(erase(services, user, key=user))
            assert refusal.reason == "DATABASE_UNAVAILABLE"
            assert not await memories(services, user=user)
            assert await refused(save(services, "The user likes tea.", user=user))
            assert await refused(reinstate(services, user))
            monkeypatch.setattr(erasure, "remove_some", real)
            receipt = await erase(services, user, key=user)
            assert {table: receipt.counts[table] for table in held} == held, after
            assert await erase(services, user) == receipt
            assert naming(services.conninfo, user) == {}

    async def test_more_rows_than_a_step_removes_and_a_caller_without_patience(
        self, services: Services
    ) -> None:
        """Steps of a thousand, all of them counted; a deadline that passes leaves a fence."""
        await save(services, "The user likes tea.")
        change(
            services.conninfo,
            "INSERT INTO preferences (tenant_id, user_id, type, key, value, confidence)"
            " SELECT %(tenant)s, 'ana', 't', n::text, '1', 0.5 FROM generate_series(1, 2500) n",
            tenant=tenant_of(services.conninfo),
        )
        with pytest.raises(grpc.aio.AioRpcError):
            await services.privacy.EraseUser(privacy.EraseUserRequest(user_id="ana"), timeout=0.001)
        assert (await erase(services)).counts["preferences"] == 2500

    async def test_row_56_who_is_bound_to_departments_goes_on(
        self, start_services: StartServices, conninfo: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The department is known until the end; after it only the whole tenant's is answered."""
        async with start_services(auth="api-key") as services:
            whole = bearer(await key(conninfo))
            bound = bearer(await key(conninfo, departments=["sales"]))
            elsewhere = bearer(await key(conninfo, departments=["legal"]))
            await change_as(services, whole, department="sales", summary="tea")
            request = privacy.EraseUserRequest(user_id="ana", idempotency_key="k")
            real = erasure.require_none_left

            async def breaking(*_: Any) -> None:
                raise Unavailable("cut", reason="DATABASE_UNAVAILABLE")

            monkeypatch.setattr(erasure, "require_none_left", breaking)
            refusal = await refusal_of(services.privacy.EraseUser(request, metadata=bound))
            assert refusal.reason == "DATABASE_UNAVAILABLE"
            monkeypatch.setattr(erasure, "require_none_left", real)
            refusal = await refusal_of(services.privacy.EraseUser(request, metadata=elsewhere))
            assert refusal.code == grpc.StatusCode.PERMISSION_DENIED
            receipt = (await services.privacy.EraseUser(request, metadata=bound)).receipt
            assert (receipt.counts["profiles"], receipt.counts["profile_versions"]) == (1, 1)
            assert naming(services.conninfo, "\tana\t", "{ana}", "tea") == {}
            refusal = await refusal_of(services.privacy.EraseUser(request, metadata=bound))
            assert refusal.code == grpc.StatusCode.PERMISSION_DENIED
            told = await services.privacy.EraseUser(request, metadata=whole)
            assert told.receipt == receipt


class TestHashKey:
    async def test_another_hash_key_than_that_of_the_installation_is_refused_at_the_start(
        self, start_services: StartServices, conninfo: str, superuser_conninfo: str, tmp_path: Path
    ) -> None:
        """Also before anybody was erased: users stand under it in the audit log."""
        async with start_services():
            pass
        another = tmp_path / "another"
        with pytest.raises(ValueError, match="HITHERTO_HASH_KEY_FILE"):
            async with start_services(hash_key_file=another):
                pass
        reading = RetrievalSettings(
            data_dir=tmp_path / "data",
            hash_key_file=another,
            retrieval_listen="127.0.0.1:0",
            auth="off",
        )
        with pytest.raises(ValueError, match="HITHERTO_HASH_KEY_FILE"):
            async with retrieval_running(reading, conninfo):
                pass
        (stated,) = rows(superuser_conninfo, "SELECT fact FROM hitherto.installation")
        assert stated == ("hash_key_id",)
        async with start_services():
            pass

    async def test_row_56_two_keys_at_once_fail_closed(
        self, start_services: StartServices, superuser_conninfo: str, tmp_path: Path
    ) -> None:
        """A replica with another key takes nobody new once users were erased."""
        async with AsyncExitStack() as stack:
            other = await stack.enter_async_context(
                start_services(hash_key_file=tmp_path / "another")
            )
            # As if both had been started at once before anybody said which key it is.
            change(superuser_conninfo, "DELETE FROM hitherto.installation")
            services = await stack.enter_async_context(start_services())
            await erase(services)
            assert await refused(save(other, "The user likes tea."))
            assert await refused(save(other, "The user likes tea.", user="bo"))
            assert (await save(services, "The user likes tea.", user="bo")).memory.id
