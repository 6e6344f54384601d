"""ClearMemories (H1): all is forgotten, can be brought back, and nothing in flight does so."""

from __future__ import annotations

import asyncio
import itertools
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import grpc
import pytest

from hitherto.v1 import job_pb2, memory_pb2
from hitherto.v1 import memory_service_pb2 as memory
from hitherto_extraction.curation import clearing
from hitherto_extraction.storage import reindexing
from hitherto_shared.errors import Unavailable
from tests.e2e.conftest import Services
from tests.e2e.curating import change, history, restore, save, update
from tests.e2e.handing_over import document, taken_in
from tests.e2e.learning import ALL_STATUSES, ended, learn, memories, rows, submit, talk
from tests.e2e.methods import ask
from tests.e2e.privacy import SCOPES, choose, clear, context, search
from tests.e2e.sealing import change_profile
from tests.e2e.sessions import items, refusal_of
from tests.e2e.sessions import read as read_session
from tests.e2e.sessions import update as update_session
from tests.e2e.sweeping import WITHOUT_A_MEMORY, sweeping
from tests.scripted_model import RawReply, SlowDrip
from tests.tenants import tenant_of

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
FORGOTTEN = memory_pb2.MEMORY_STATUS_FORGOTTEN
NOTHING = {"memories": 0, "profiles": 0, "conversations": 0, "messages": 0}

# So many memories of one user, with vectors, in every status that there is.
_MANY = """
WITH made AS (
    INSERT INTO hitherto.memories (tenant_id, user_id, memory_id, type, content, confidence,
        source, origin, status, valid_from, said_at, lexical_no, lexical_length, embedding_state,
        superseded_by)
    SELECT u.tenant_id, u.user_id, gen_random_uuid(), 'fact', 'Fact number ' || n || ' 🍵', 'high',
           'explicit', 'user', s.status, now(), now(), 100000 + n, 3, 'stored',
           CASE s.status WHEN 'superseded' THEN gen_random_uuid() END
    FROM hitherto.users AS u, generate_series(1, %(many)s) AS n,
         LATERAL (SELECT (ARRAY['active', 'achieved', 'archived', 'quarantined', 'contradicted',
                                'superseded'])[1 + n %% 6] AS status) AS s
    WHERE u.user_id = 'ana'
    RETURNING tenant_id, user_id, memory_id, status
)
INSERT INTO hitherto.memory_embeddings (tenant_id, user_id, memory_id, model, dimensions, status,
                                         embedding, text_version)
SELECT made.tenant_id, made.user_id, made.memory_id, e.model, e.dimensions, made.status,
       (SELECT v.embedding FROM hitherto.memory_embeddings AS v LIMIT 1), 1
FROM made, hitherto.embedding_models AS e WHERE e.active
"""


def seed(conninfo: str, many: int) -> None:
    """Give ana many memories beside the one that she has."""
    change(conninfo, _MANY, many=many)


def statuses(conninfo: str) -> dict[str, int]:
    return dict(rows(conninfo, "SELECT status, count(*) FROM hitherto.memories GROUP BY 1"))


async def remembered(services: Services, word: str) -> bool:
    """Whether anything that is read of memories tells the word."""
    told = await context(services, word)
    found = await search(services, word, scopes=SCOPES[:1])
    listed = await memories(services)
    contents = [
        *(result.memory.content for result in [*told.relevant, *found.results]),
        *(held.content for held in [*told.memories, *listed]),
        *(entity.name for entity in [*told.entities, *found.entities]),
    ]
    return any(word in content for content in contents)


async def append(services: Services, content: str, number: int, conversation: str = "c1") -> None:
    """One message of a running chat."""
    said = talk(content, conversation=conversation).messages
    said[0].id = f"{conversation}-{number}"
    await ask(services, "AppendMessages", conversation_id=conversation, messages=said)


async def end(services: Services, conversation: str = "c1") -> job_pb2.Job:
    """End a chat; its job once it has ended."""
    reply = await ask(services, "EndConversation", conversation_id=conversation)
    return await ended(services, reply.job.id)


class TestEverythingIsForgotten:
    async def test_h1_and_can_be_brought_back(self, services: Services) -> None:
        """Each memory has its version and its line; searches and contexts are silent."""
        await learn(services, talk("I live in Lisbon.", "Tôi thích trà sen 🍵.", at=NOON))
        made = (await save(services, "Anna works with Marco at Acme.")).memory
        saved = await update(services, made.id, "entities", entities=["Marco"])
        before = {m.id: m for m in await memories(services, statuses=ALL_STATUSES)}
        assert await remembered(services, "Lisbon")
        assert await remembered(services, "Marco")

        assert await clear(services) == {**NOTHING, "memories": len(before)}

        after = {m.id: m for m in await memories(services, statuses=ALL_STATUSES)}
        assert {m.status for m in after.values()} == {FORGOTTEN}
        assert {i: m.version for i, m in after.items()} == {
            i: m.version + 1 for i, m in before.items()
        }
        for word in ("Lisbon", "Marco", "sen"):
            assert not await remembered(services, word)
        last = history(services.conninfo, saved.id)[-1]
        assert "forgotten" in last
        assert clearing.REASON in last

        back = await restore(services, saved.id)
        assert (back.status, back.content) == (memory_pb2.MEMORY_STATUS_ACTIVE, saved.content)
        assert await remembered(services, "Marco")
        assert not await remembered(services, "Lisbon")

    async def test_h1_of_every_status_and_many(
        self, services: Services, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """More than one transaction takes; what was ended or waited is restored as it was."""
        monkeypatch.setattr(clearing, "BATCH", 50)
        await save(services, "The user likes tea.")
        seed(services.conninfo, 2 * clearing.BATCH + 100)
        total = 2 * clearing.BATCH + 101
        assert (await clear(services))["memories"] == total
        assert statuses(services.conninfo) == {"forgotten": total}
        assert rows(
            services.conninfo,
            "SELECT count(*), count(DISTINCT memory_id) FROM hitherto.history"
            " WHERE action = 'forgotten' AND version = 2",
        ) == [(total, total)]
        assert rows(
            services.conninfo, "SELECT DISTINCT status FROM hitherto.memory_embeddings"
        ) == [("forgotten",)]
        for status in ("quarantined", "contradicted", "achieved"):
            ((memory_id,),) = rows(
                services.conninfo,
                f"SELECT memory_id FROM hitherto.memory_versions WHERE status = '{status}' LIMIT 1",
            )
            back = await restore(services, str(memory_id))
            assert memory_pb2.MemoryStatus.Name(back.status).endswith(status.upper())

    async def test_b4_a_key_clears_once(self, services: Services) -> None:
        """What is saved after the first call is not cleared by its repetition."""
        await save(services, "The user likes tea.")
        first = await clear(services, key="k")
        await save(services, "The user plays the cello.")
        assert await clear(services, key="k") == first == {**NOTHING, "memories": 1}
        assert len(await memories(services)) == 1

    async def test_h1_what_replaced_is_no_longer_named(self, modelled: Services) -> None:
        """Neither names the other while both are forgotten; restored, the older one does again."""
        old = (await save(modelled, "The user lives in Lisbon.")).memory
        new = (await save(modelled, "The user drinks tea.")).memory
        for values, which in (
            (f"status = 'contradicted', valid_to = valid_from, superseded_by = '{new.id}'", old),
            (f"supersedes = '{{{old.id}}}'", new),
        ):
            change(
                modelled.conninfo, f"UPDATE memories SET {values} WHERE memory_id = '{which.id}'"
            )
        assert (await clear(modelled))["memories"] == 2
        links = "SELECT superseded_by, supersedes FROM hitherto.memories"
        assert rows(modelled.conninfo, links) == [(None, []), (None, [])]
        back = await restore(modelled, old.id)
        assert (back.status, back.superseded_by) == (memory_pb2.MEMORY_STATUS_CONTRADICTED, new.id)

    async def test_of_nobody_else_and_with_memory_off_too(self, services: Services) -> None:
        """Row 60: another user's stay; of somebody unknown there is nothing."""
        for user in ("ana", "bo"):
            await save(services, "The user likes tea.", user=user)
        assert await clear(services, user="Thảo 🍵", profile=True, conversations=True) == NOTHING
        # Who wants no memory may clear what there is.
        await choose(services, memory_enabled=False)
        assert (await clear(services))["memories"] == 1
        assert await clear(services) == NOTHING
        assert len(await memories(services, user="bo")) == 1


def cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the second batch of a clearing fail."""
    real, calls = clearing._forget, itertools.count(1)

    async def breaking(*args: Any) -> Any:
        if next(calls) == 2:
            raise Unavailable("cut", reason="DATABASE_UNAVAILABLE")
        return await real(*args)

    monkeypatch.setattr(clearing, "_forget", breaking)


class TestOnce:
    @pytest.mark.parametrize("key", ["", "k"])
    async def test_two_at_once_share_the_work(
        self, services: Services, monkeypatch: pytest.MonkeyPatch, key: str
    ) -> None:
        """Nothing is forgotten twice, with the same key or without one."""
        # No call waits for the lock of another one's batch until it is refused.
        monkeypatch.setattr(clearing, "BATCH", 50)
        await save(services, "The user likes tea.")
        seed(services.conninfo, 2 * clearing.BATCH)
        total = 2 * clearing.BATCH + 1
        counts = await asyncio.gather(*(clear(services, key=key) for _ in range(3)))
        assert statuses(services.conninfo) == {"forgotten": total}
        assert rows(
            services.conninfo,
            "SELECT count(*) FROM hitherto.history WHERE action = 'forgotten'",
        ) == [(total,)]
        if key:
            assert counts[0] == counts[1] == counts[2]
        else:
            assert sum(each["memories"] for each in counts) == total

    async def test_one_that_is_cut_off_goes_on(
        self, services: Services, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What was done stays done; the same key again does the rest."""
        monkeypatch.setattr(clearing, "BATCH", 50)
        await learn(services, talk("I live in Lisbon.", at=NOON))
        seed(services.conninfo, 2 * clearing.BATCH)
        cut_off(monkeypatch)
        refusal = await refusal_of(clear(services, key="k", conversations=True))
        assert refusal.reason == "DATABASE_UNAVAILABLE"
        assert statuses(services.conninfo)["forgotten"] == clearing.BATCH
        rest = await clear(services, key="k", conversations=True)
        assert rest["memories"] + clearing.BATCH == statuses(services.conninfo)["forgotten"]
        assert set(statuses(services.conninfo)) == {"forgotten"}
        assert rest["conversations"] == 1
        assert await clear(services, key="k", conversations=True) == rest

    async def test_one_that_is_cut_off_takes_what_there_was(
        self, modelled: Services, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Nothing that was saved, said, set or restored before the same key came again."""
        monkeypatch.setattr(clearing, "BATCH", 3)
        kept, again, *_ = [(await save(modelled, f"Ana plays no. {n}")).memory for n in range(6)]
        await change_profile(modelled, summary="Before")
        await learn(modelled, talk("canary:before", conversation="c0", at=NOON))
        await learn(modelled, talk("canary:late", conversation="c2", at=NOON))
        cut_off(monkeypatch)
        everything: dict[str, Any] = {"profile": True, "conversations": True, "key": "k"}
        with pytest.raises(grpc.aio.AioRpcError):
            await clear(modelled, **everything)
        assert statuses(modelled.conninfo)["forgotten"] == clearing.BATCH
        new = (await save(modelled, "The user plays the cello")).memory
        await restore(modelled, kept.id)
        assert (await save(modelled, again.content)).memory.id == again.id
        await change_profile(modelled, summary="Afterwards")
        await learn(modelled, talk("canary:after", conversation="c1", at=datetime.now(UTC)))
        await append(modelled, "canary:waits", 1, conversation="c3")
        # The key is another request's, also while that one has not ended.
        refusal = await refusal_of(clear(modelled, key="k"))
        assert refusal.reason == "IDEMPOTENCY_KEY_REUSED"
        await clear(modelled, **everything)
        told = await memories(modelled)
        (after,) = [each for each in told if "after" in each.content]
        assert {each.id for each in told} == {new.id, kept.id, again.id, after.id}
        assert (await ask(modelled, "GetProfile")).profile.summary == "Afterwards"
        found = await ask(modelled, "ListConversations")
        assert {each.conversation_id for each in found.conversations} == {"c1", "c3"}
        assert (await end(modelled, "c3")).state == job_pb2.JOB_STATE_SUCCEEDED
        refusal = await refusal_of(clear(modelled, key="k"))
        assert refusal.reason == "IDEMPOTENCY_KEY_REUSED"


class TestNothingInFlightComesBack:
    async def test_h1_what_waits(self, modelled: Services) -> None:
        """Messages that no job has taken are passed over, and those that come after are learnt."""
        await append(modelled, "canary:before", 1)
        await append(modelled, "canary:elsewhere", 1, conversation="c2")
        assert await clear(modelled) == NOTHING
        await append(modelled, "canary:after", 2)
        assert (await end(modelled)).state == job_pb2.JOB_STATE_SUCCEEDED
        assert (await end(modelled, "c2")).state == job_pb2.JOB_STATE_CANCELLED
        ((content,),) = rows(modelled.conninfo, "SELECT content FROM hitherto.memories")
        assert "after" in content
        (job_id,) = await submit(modelled, talk("canary:elsewhere", conversation="c2"))
        assert (await ended(modelled, job_id)).state == job_pb2.JOB_STATE_CANCELLED
        assert modelled.model.calls["chat"] == 1

    async def test_h1_a_job_that_is_asking_the_model_and_those_behind_it(
        self, modelled: Services
    ) -> None:
        """Row 57's fence: its answer is refused, and neither retry nor resubmission learns it. The
        next job is not held up by them."""
        modelled.model.queue(SlowDrip(seconds=0.05, size=8))
        said = [talk(f"canary:late{n}", conversation=f"c{n}", at=NOON) for n in range(4)]
        job_ids = [*await submit(modelled, *said), str(uuid4())]
        async with asyncio.timeout(180):
            await modelled.model.called(1)
        change(
            modelled.conninfo,
            "INSERT INTO jobs (job_id, tenant_id, user_id, kind, max_attempts)"
            " VALUES (%(job_id)s, %(tenant)s, 'ana', 'reconciliation', 4)",
            job_id=job_ids[-1],
            tenant=tenant_of(modelled.conninfo),
        )
        assert await clear(modelled) == NOTHING
        for job_id in job_ids:
            job = await ended(modelled, job_id)
            assert (job.state, job.error) == (job_pb2.JOB_STATE_CANCELLED, "CANCELLED_BY_CALLER")
        assert await submit(modelled, said[0]) == [job_ids[0]]
        await ask(modelled, "RetryJob", job_id=job_ids[0])
        assert (await ended(modelled, job_ids[0])).state == job_pb2.JOB_STATE_SUCCEEDED
        await learn(modelled, talk("canary:next", conversation="next", at=NOON))
        ((content,),) = rows(
            modelled.conninfo, "SELECT content FROM hitherto.memories WHERE status = 'active'"
        )
        assert "next" in content
        assert not await remembered(modelled, "late")
        assert modelled.model.calls["chat"] == 2

    async def test_h1_a_dead_job_that_is_run_again(self, modelled: Services) -> None:
        """An operator who repairs the model and retries what died brings nothing back."""
        modelled.model.always(RawReply.saying("no JSON"))
        (job_id,) = await submit(modelled, talk("canary:dead", at=NOON))
        assert (await ended(modelled, job_id)).state == job_pb2.JOB_STATE_DEAD
        await clear(modelled)
        modelled.model.always(None)
        await ask(modelled, "RetryJob", job_id=job_id)
        assert (await ended(modelled, job_id)).state == job_pb2.JOB_STATE_SUCCEEDED
        assert rows(modelled.conninfo, "SELECT 1 FROM hitherto.memories") == []

    async def test_b11_said_again_later_it_is_learnt_again(self, modelled: Services) -> None:
        """B11: only what the user says after the clearing counts, however old the words are."""
        await learn(modelled, talk("canary:tea", at=NOON))
        await clear(modelled)
        await learn(modelled, talk("canary:tea", conversation="c2", at=NOON))
        assert statuses(modelled.conninfo) == {"forgotten": 1}
        later = datetime.now(UTC) + timedelta(seconds=1)
        await learn(modelled, talk("canary:tea", conversation="c3", at=later))
        assert await remembered(modelled, "tea")


class TestWhatElseIsCleared:
    async def test_h1_the_profile(self, services: Services) -> None:
        """Emptied with a new version; the history has both; the rights of the person stay."""
        await learn(
            services, talk("My name is Ana. I live in Lisbon.", ("assistant", "x" * 400), at=NOON)
        )
        home = "Sống ở Huế 🏯"
        await change_profile(services, summary=home, department="research", current_projects=["S"])
        edit = memory.ResponseEdit(original="x" * 400, edited="x" * 100)
        await ask(services, "RecordFeedback", conversation_id="c1", message_id="c1-2", edit=edit)
        before = (await ask(services, "GetProfile")).profile
        assert (await context(services, "Huế")).preferences
        assert (await clear(services, profile=True))["profiles"] == 1
        after = (await ask(services, "GetProfile")).profile
        assert after.version == before.version + 1
        assert (after.summary, list(after.current_projects)) == ("", [])
        assert not after.facts.fields
        assert not after.preferences.fields
        assert after.department == "research"
        told = await context(services, "Huế")
        assert not told.preferences
        assert "Huế" not in told.prompt_block
        newest = (await ask(services, "GetProfileHistory")).events[0]
        assert (newest.before["summary"], newest.after["summary"]) == (home, "")
        # What was only inferred counts too.
        await ask(services, "RecordFeedback", conversation_id="c1", message_id="c1-2", edit=edit)
        for emptied in (1, 0):
            assert (await clear(services, profile=True))["profiles"] == emptied

    async def test_h1_only_what_was_asked_for(self, services: Services) -> None:
        """Profile, conversations and documents stay unless they are named; documents always."""
        await learn(services, talk("My name is Ana. I live in Lisbon.", at=NOON))
        await taken_in(services, document("d1", "All about Lisbon."))
        await clear(services)
        told = await context(services, "Lisbon")
        assert told.profile.version >= 1
        # It stays, and contexts leave it out: it repeats what is forgotten.
        assert not told.conversations
        listed = await ask(services, "ListConversations")
        assert [c.conversation_id for c in listed.conversations] == ["c1"]
        assert not (await search(services, "Lisbon", scopes=SCOPES[:1])).results
        # So do searches, unless one asks for what is forgotten.
        assert not (await search(services, "Lisbon", scopes=[SCOPES[1]])).results
        statuses = [memory_pb2.MEMORY_STATUS_FORGOTTEN]
        found = await search(services, "Lisbon", scopes=[SCOPES[1]], statuses=statuses)
        assert found.results
        assert (await search(services, "Lisbon", scopes=[SCOPES[3]])).results

    async def test_h1_f7_conversations_with_all_that_was_said(self, services: Services) -> None:
        """Messages, summaries, sessions and their passages are gone for good."""
        said = ("I live in Lisbon. Zanzibarquux!", "Nhà ở Huế 🏯.")
        for n in range(3):
            await learn(services, talk(*said, conversation=f"c{n}", at=NOON))
        await append(services, "And Zanzibarquux waits.", 1, conversation="waiting")
        await update_session(services, {"last_message": "Huế"}, recent=items("m1"))
        counts = await clear(services, conversations=True)
        assert (counts["conversations"], counts["messages"]) == (4, 7)
        for scope in SCOPES:
            assert not (await search(services, "Zanzibarquux Lisbon Huế", scopes=[scope])).results
        session = await read_session(services)
        assert not session.HasField("context")
        assert not session.recent_items
        for table in (
            "conversations", "messages", "message_embeddings", "conversation_summaries",
            "summary_embeddings", "passage_postings", "session_contexts", "recent_items",
            "memory_sources", "consolidation_groups",
        ):  # fmt: skip
            assert rows(services.conninfo, f"SELECT 1 FROM hitherto.{table}") == [], table
        assert (await clear(services, conversations=True)) == NOTHING
        result = await learn(services, talk("I work as a pilot.", conversation="c1", at=NOON))
        assert result.memories_created == 1

    async def test_the_index_is_read_once_for_all_conversations(
        self, modelled: Services, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It grows with the user, as their number does: each read it all, for an hour or more."""
        for n in range(4):
            await learn(modelled, talk(f"canary:zebra{n}", conversation=f"c{n}", at=NOON))
        real, swept = reindexing.sweep_postings, 0

        async def counting(*args: Any) -> None:
            nonlocal swept
            swept += 1
            await real(*args)

        monkeypatch.setattr(reindexing, "sweep_postings", counting)
        assert (await clear(modelled, conversations=True))["conversations"] == 4
        assert swept == 1
        assert rows(modelled.conninfo, WITHOUT_A_MEMORY) == []

    async def test_the_index_is_swept_after_a_call_that_ended_early(
        self, modelled: Services, conninfo: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Whoever called never repeats it, as after the end of their process or of ours."""
        for n in range(2):
            await learn(modelled, talk(f"canary:zebra{n}", conversation=f"c{n}", at=NOON))

        async def breaking(*_args: Any) -> Any:
            raise Unavailable("cut", reason="DATABASE_UNAVAILABLE")

        monkeypatch.setattr(clearing, "_finish", breaking)
        with pytest.raises(grpc.aio.AioRpcError):
            await clear(modelled, conversations=True)
        assert rows(modelled.conninfo, "SELECT 1 FROM hitherto.messages") == []
        assert rows(modelled.conninfo, WITHOUT_A_MEMORY)
        async with sweeping(conninfo) as sweeps:
            while await sweeps.drop_words():
                pass
            assert rows(modelled.conninfo, WITHOUT_A_MEMORY) == []
