"""What holds for the vectors of memories, document chunks, messages and summaries alike (B10, C7).

Each test has a text of every corpus, so that none of them goes a way of its own.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from hitherto_extraction.pipeline.backfill import Backfill
from hitherto_extraction.reembedding import phases
from hitherto_extraction.sealing import seal_table
from hitherto_extraction.storage import documents, reembedding, users
from hitherto_extraction.storage.corpora import index
from hitherto_extraction.storage.corpora.messages import MESSAGES
from hitherto_shared.embeddings.active_embedder import register_model
from hitherto_shared.embeddings.offline import OfflineEmbedder
from hitherto_shared.embeddings.protocol import EmbeddingBatch
from hitherto_shared.encryption.at_hand import keys_at_hand
from hitherto_shared.encryption.key_store import KeyStore
from hitherto_shared.encryption.user_keys import UserKeys
from hitherto_shared.encryption.wrapping import LocalWrapper
from hitherto_shared.errors import WrongState
from hitherto_shared.model_api import ModelRefused
from tests.e2e.indexed import check_words
from tests.integration.passages.every_corpus import (
    NEW,
    TABLES,
    Interrupted,
    fill,
    one_of_each,
    reembed,
    refill,
    started,
    states,
    vectors,
)
from tests.integration.upkeep.past import ANA
from tests.integration.upkeep.stage import Stage
from tests.waiting import eventually

NONE = dict.fromkeys(TABLES, 0)
ONE = dict.fromkeys(TABLES, 1)
_ROLES = """
SELECT model, CASE WHEN active THEN 'active' WHEN target THEN 'target' END
FROM embedding_models WHERE active OR target ORDER BY 2
"""
_COUNTING = """
SELECT 1 FROM pg_locks WHERE relation = 'hitherto.document_chunks'::regclass AND NOT granted
"""
STORED = {corpus: ["stored"] for corpus in TABLES}


async def nothing(_: str) -> None:
    pass


def changing(stage: Stage) -> Callable[[str], Awaitable[None]]:
    """Rewords the memory or the summary, deletes the message or the chunk."""

    async def change(corpus: str) -> None:
        if corpus == "documents":
            ids = [row[0] for row in await stage.rows("SELECT chunk_id FROM document_chunks")]
            async with stage.removal.connection() as connection, connection.transaction():
                await users.lock_user(connection.of(ANA))
                await documents.delete_chunks(connection.of(ANA), ids)
        elif corpus == "messages":
            async with stage.removal.connection() as connection, connection.transaction():
                await users.lock_user(connection.of(ANA))
                await index.drop(connection.of(ANA), MESSAGES, [("plain", 1)])
                await connection.execute("DELETE FROM messages")
        elif corpus == "summaries":
            await stage.rows(
                "UPDATE conversation_summaries SET title = 'summaries anew',"
                " text_version = text_version + 1, embedding_state = 'pending'"
            )
        else:
            await stage.rows(
                "UPDATE memories SET content = 'memories anew', version = version + 1,"
                " text_version = version + 1, embedding_state = 'pending'"
            )

    return change


@pytest.mark.parametrize("run", [fill, reembed])
async def test_a_late_vector_of_earlier_words_is_not_kept(
    stage: Stage, run: Callable[[Stage, OfflineEmbedder], Awaitable[object]]
) -> None:
    await one_of_each(stage)
    name = NEW if run is reembed else ""
    if run is fill:
        assert await Backfill(stage.maintenance, Interrupted(changing(stage))).run() == 0
    else:
        await run(stage, Interrupted(changing(stage), name))
    assert await vectors(stage) == NONE
    assert (await states(stage))["memories"] == (await states(stage))["summaries"] == ["pending"]
    await run(stage, Interrupted(nothing, name))
    assert await vectors(stage) == {**NONE, "memories": 1, "summaries": 1}


@pytest.mark.parametrize("run", [fill, reembed])
async def test_a_late_vector_of_sealed_words_is_not_kept(
    stage: Stage, tmp_path: Path, run: Callable[[Stage, OfflineEmbedder], Awaitable[object]]
) -> None:
    """H3: encryption is turned on while the embedder has the words in hand."""
    await one_of_each(stage)
    keys = UserKeys(LocalWrapper(os.urandom(32)), KeyStore(tmp_path), os.urandom(32))
    key = await keys.make(ANA.tenant_id, ANA.user_id)

    async def seal(corpus: str) -> None:
        tables = {"messages": "messages", "summaries": "conversation_summaries"}
        await stage.rows(f"UPDATE users SET encrypt_sensitive = true, key_id = '{key.key_id}'")
        if corpus in tables:
            async with stage.removal.connection() as connection, connection.transaction():
                user = connection.of(ANA)
                await users.lock_user(user)
                with keys_at_hand(key):
                    assert await seal_table(user, tables[corpus]) == 1
        elif corpus == "memories":
            await stage.rows(
                "UPDATE memories SET sealed = 'x', sensitive = true, content = '', tags = '{}',"
                " lexical_length = 0, embedding_state = 'sealed'"
            )

    await run(stage, Interrupted(seal, NEW if run is reembed else ""))
    assert await vectors(stage) == {**NONE, "documents": 1}
    words = "SELECT DISTINCT corpus FROM passage_postings"
    assert await stage.rows(words) == []
    assert await stage.rows("SELECT DISTINCT texts FROM passage_statistics") == [(0,)]


async def test_of_two_back_fills_at_once_one_embeds_a_corpus(stage: Stage) -> None:
    """As many replicas have one each; the others leave it the corpus, unless it died."""
    await one_of_each(stage)
    embedded: list[str] = []

    class Listed(Interrupted):
        async def embed(
            self, texts: Sequence[str], *, timeout: float | None = None
        ) -> EmbeddingBatch:
            embedded.extend(text.partition(" ")[0] for text in texts)
            return await super().embed(texts)

    done: list[int] = []

    async def meanwhile(corpus: str) -> None:
        done.append(await Backfill(stage.maintenance, Listed(nothing)).run())

    done.append(await Backfill(stage.maintenance, Listed(meanwhile)).run())
    assert done == [len(TABLES) - 1, 1]
    assert Counter(embedded) == ONE
    assert await vectors(stage) == ONE
    assert await states(stage) == STORED
    # Nobody has a turn now; one that was never ended is over in time.
    await one_of_each(stage, "later", 2)
    await stage.rows("UPDATE schedule_runs SET taken_at = now() + interval '1 hour'")
    assert await Backfill(stage.maintenance, OfflineEmbedder()).run() == 0
    await stage.rows("UPDATE schedule_runs SET taken_at = now() - interval '1 second'")
    await fill(stage, OfflineEmbedder())
    assert await states(stage) == {corpus: each * 2 for corpus, each in STORED.items()}


async def test_a_back_fill_that_took_too_long_ends_nobody_elses_turn(stage: Stage) -> None:
    await one_of_each(stage)

    async def taken_over(corpus: str) -> None:
        await stage.rows("UPDATE schedule_runs SET taken_at = now() + interval '1 hour'")

    await Backfill(stage.maintenance, Interrupted(taken_over)).run()
    assert await stage.rows("SELECT count(*) FROM schedule_runs WHERE taken_at > now()") == [(4,)]


@pytest.mark.parametrize("switched", [False, True])
async def test_a_refusal_counts_for_the_active_model_alone(stage: Stage, switched: bool) -> None:
    """A text that the earlier model refused waits for the one that is active by now."""
    await one_of_each(stage)
    await one_of_each(stage, "unspeakable", 2)

    class Squeamish(OfflineEmbedder):
        async def embed(
            self, texts: Sequence[str], *, timeout: float | None = None
        ) -> EmbeddingBatch:
            if not any("unspeakable" in text for text in texts):
                return await super().embed(texts)
            if switched and len(texts) == 1:
                async with stage.maintenance.connection() as connection, connection.transaction():
                    await register_model(connection, NEW, self.dimensions)
                    await reembedding.activate(connection, NEW, keep_previous=False)
            raise ModelRefused("not this")

    settled = await Backfill(stage.maintenance, Squeamish()).run()
    assert settled == (0 if switched else 2 * len(TABLES))
    expected = ["pending", "pending"] if switched else ["refused", "stored"]
    assert await states(stage) == dict.fromkeys(TABLES, expected)
    # The accepted text has a vector all the same, for the day on which the model returns.
    assert await vectors(stage) == ONE


async def test_a_new_model_that_refuses_texts_is_complete_without_them(stage: Stage) -> None:
    """C7: however many they are, and although a text that is refused is asked for again."""
    for number, word in enumerate(("one", "two", "three", "four"), 1):
        await one_of_each(stage, word, number)

    class Refusing(Interrupted):
        harmless: Sequence[str] = ("Hello",)

        async def embed(
            self, texts: Sequence[str], *, timeout: float | None = None
        ) -> EmbeddingBatch:
            if tuple(texts) == self.harmless:
                return await super().embed(texts)
            raise ModelRefused("not this")

    for _ in range(2):
        counts = await reembed(stage, Refusing(nothing, NEW))
        assert counts == {"embedded": 0, "refused": 4 * len(TABLES)}
    assert await vectors(stage) == NONE
    Refusing.harmless = ()
    with pytest.raises(ModelRefused):
        await reembed(stage, Refusing(nothing, NEW))


async def test_what_a_new_model_refused_is_counted_in_the_last_attempt_alone(stage: Stage) -> None:
    """C7: counted in each, it would hide as many texts that still lack a vector."""
    for number, word in enumerate(("plain", "unspeakable"), 1):
        await one_of_each(stage, word, number)

    class Faint(Interrupted):
        async def embed(
            self, texts: Sequence[str], *, timeout: float | None = None
        ) -> EmbeddingBatch:
            if any("unspeakable" in text for text in texts):
                raise ModelRefused("not this")
            return await super().embed(texts)

    async def crash(corpus: str) -> None:
        if corpus == "summaries":
            raise ConnectionResetError

    held = await started(stage, Faint(nothing, NEW))
    with pytest.raises(ConnectionResetError):
        await refill(stage, Faint(crash, NEW), held)
    spent = (await stage.job(held)).result
    counts = await refill(stage, Faint(nothing, NEW), replace(held, result=spent))
    assert counts == {"embedded": len(TABLES), "refused": len(TABLES)}


async def test_a_batch_whose_vectors_cannot_be_stored_is_charged(stage: Stage) -> None:
    await one_of_each(stage)

    async def refuse(corpus: str) -> None:
        if corpus == "documents":
            await stage.rows("ALTER TABLE document_chunk_embeddings ADD CHECK (false) NOT VALID")

    embedder = Interrupted(refuse, NEW)
    held = await started(stage, embedder)
    with pytest.raises(psycopg.errors.CheckViolation):
        await refill(stage, embedder, held)
    assert await stage.rows("SELECT kind, calls FROM usage_ledger") == [("reembedding", 2)]
    assert (await stage.job(held)).result["usage"]["embedding_calls"] == 2


async def test_a_back_fill_switches_to_its_own_model_alone(stage: Stage) -> None:
    """C7: by the time it is done, another model is the target, to which nobody asked to switch."""
    await one_of_each(stage)
    first = await started(stage, Interrupted(nothing, NEW), switch=True)
    other = Interrupted(nothing, "offline-hash-other")
    await refill(stage, other, await started(stage, other))
    await refill(stage, Interrupted(nothing, NEW), first)
    assert await stage.rows(_ROLES) == [
        (OfflineEmbedder.name, "active"),
        ("offline-hash-other", "target"),
    ]


@pytest.mark.parametrize("came", [False, True])
async def test_a_back_fill_goes_on_with_many_texts_that_came_meanwhile(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, came: bool
) -> None:
    """C7: it switches when nearly all have a vector; those that are refused are not waited for."""
    monkeypatch.setattr(phases, "LEFT_OVER", 0)
    await one_of_each(stage)

    class Choosy(Interrupted):
        async def embed(
            self, texts: Sequence[str], *, timeout: float | None = None
        ) -> EmbeddingBatch:
            if any(text.startswith("memories plain") for text in texts):
                raise ModelRefused("too long")
            return await super().embed(texts)

    async def add(corpus: str) -> None:
        if came and corpus == "summaries":
            await one_of_each(stage, "later", 2)

    embedder = Choosy(add, NEW)
    held = await started(stage, embedder, switch=True)
    if came:
        with pytest.raises(WrongState) as refused:
            await refill(stage, embedder, held)
        assert refused.value.reason == "REEMBEDDING_NOT_READY"
        assert (NEW, "target") in await stage.rows(_ROLES)
    counts = await refill(stage, embedder, held)
    assert counts["refused"] == 1
    assert (NEW, "active") in await stage.rows(_ROLES)


async def test_texts_are_counted_for_a_switch_without_a_lock_on_its_job(
    stage: Stage, superuser_conninfo: str
) -> None:
    """C7: however long the count takes, it ends in a switch."""
    await one_of_each(stage)
    async with await psycopg.AsyncConnection.connect(superuser_conninfo) as other:

        async def lock(corpus: str) -> None:
            if corpus == "summaries":
                # Stands for millions of texts to count.
                await other.execute("LOCK TABLE hitherto.document_chunks IN ACCESS EXCLUSIVE MODE")

        embedder = Interrupted(lock, NEW)
        held = await started(stage, embedder, switch=True)
        filling = asyncio.ensure_future(refill(stage, embedder, held))
        await eventually(lambda: stage.rows(_COUNTING))
        free = await stage.rows("SELECT 1 FROM jobs FOR UPDATE SKIP LOCKED")
    await filling
    assert free
    assert (NEW, "active") in await stage.rows(_ROLES)


async def test_a_vector_of_an_unknown_model_is_passed_over(stage: Stage) -> None:
    await one_of_each(stage)
    assert await Backfill(stage.maintenance, Interrupted(nothing, "nobody-knows-it")).run() == 0
    assert await vectors(stage) == NONE
    assert await states(stage) == {corpus: ["pending"] for corpus in TABLES}


async def test_a_vector_of_another_length_is_passed_over(stage: Stage) -> None:
    """The registered length was corrected while texts were embedded with the earlier one."""
    await one_of_each(stage)
    async with stage.maintenance.connection() as connection:
        await register_model(connection, NEW, 32)
    assert await Backfill(stage.maintenance, Interrupted(nothing, NEW)).run() == 0
    assert await vectors(stage) == NONE


async def test_a_new_model_is_expected_by_every_text_and_the_old_one_again(stage: Stage) -> None:
    """C7: the switch and the way back leave no text in a state that is not so."""
    await one_of_each(stage)
    await fill(stage, OfflineEmbedder())
    counts = await reembed(stage, Interrupted(nothing, NEW))
    assert (counts["embedded"], counts["refused"]) == (len(TABLES), 0)
    await one_of_each(stage, "later", 2)
    await fill(stage, OfflineEmbedder())
    for model, expected in ((NEW, ["pending", "stored"]), (OfflineEmbedder().name, ["stored"] * 2)):
        async with stage.maintenance.connection() as connection, connection.transaction():
            await reembedding.activate(connection, model, keep_previous=True)
        assert await states(stage) == dict.fromkeys(TABLES, expected)
        async with stage.maintenance.connection() as connection:
            has = await reembedding.count(connection, model)
        assert has == (
            len(TABLES) * expected.count("stored"),
            len(TABLES) * expected.count("pending"),
        )


async def test_retention_of_messages_leaves_the_other_corpora_alone(
    stage: Stage, superuser_conninfo: str
) -> None:
    """C3: words and vectors of messages go; summaries, chunks and memories are found as before."""
    await one_of_each(stage)
    await fill(stage, OfflineEmbedder())
    assert (await stage.retention(0, 30))["messages"] == 1
    assert await vectors(stage) == {**ONE, "messages": 0}
    check_words(superuser_conninfo)
    assert await stage.rows("SELECT DISTINCT corpus FROM passage_postings") == [("summaries",)]
    # And memories with everything about them, without the summary.
    assert (await stage.retention(30, 0))["memories"] == 1
    assert await vectors(stage) == {**ONE, "messages": 0, "memories": 0}
    check_words(superuser_conninfo)
