"""The sweep that seals what stood in clear before encryption was turned on (H3).

Somebody has all there is in clear. Then encryption is turned on in the database, and the sweep is
run by the test, so that it can be cut off where it hurts.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import psycopg
import pytest

from hitherto.v1 import memory_pb2
from hitherto_extraction.budget import Budget
from hitherto_extraction.prices import load_prices
from hitherto_extraction.sealing.sweep import SealedVectors, SealingSweep
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.embeddings.openai_api import OpenAIEmbedder
from hitherto_shared.encryption.key_store import KeyStore
from hitherto_shared.encryption.user_keys import UserKeys
from hitherto_shared.encryption.wrapping import LocalWrapper
from hitherto_shared.model_server import ModelServer
from hitherto_shared.sealing import load_secret
from hitherto_shared.startup import configure_vectors
from tests.e2e.conftest import Services, StartServices, model_settings
from tests.e2e.curating import save, update
from tests.e2e.indexed import check_words
from tests.e2e.learning import ended, learn, memories, rows, submit, talk
from tests.e2e.methods import ask
from tests.e2e.sealing import (
    ENCRYPTING,
    KEK,
    PERSONAL,
    change_profile,
    dump,
    holding,
    keys_of,
    reply_in,
)
from tests.e2e.sessions import refusal_of
from tests.scripted_model import ChatAnswer, ChatRequest, RawReply, ScriptedModel, StatusFault
from tests.scripted_model.answers import memory, quoting

SAID = ["bệnhviệnhuế", "秘密の猫と薬", "🫀zwj👩‍⚕️", "سِرّي", "zzassistanttold", "zzname", "zzmeta"]
SUMMED = ["zztitle", "zzsummary", "zztopic", "zztechnical", "zzfollow", "会話の題"]
LEARNT = ["trịliệu", "zzdetail", "zztag", "zzkeyword", "zzentity", "zzcontext", "zzreason"]
SAVED = ["nợnần", "zzsaveddetail", "zzsavedtag", "zzsavedmeta", "借金の話", "zzwhy"]
PROFILE = ["zzprofile", "zzfact", "zzproject"]
BROKEN = ["zzbrokenreply"]
WORDS = [*SAID, *SUMMED, *LEARNT, *SAVED, *PROFILE, *BROKEN]
CLEAR = "The user drinks green tea."
MANY = 230
"""Messages, so that sealing them takes several transactions."""

_LEFT = "SELECT to_seal FROM users WHERE user_id = 'ana'"
_CLEAR_ROWS = "SELECT count(*) FROM messages WHERE sealed IS NULL AND user_id = 'ana'"

Result = TypeVar("Result")


def script(request: ChatRequest) -> ChatAnswer:
    """Words in every field, a harmless memory, and later the end of it, with a quoting reason."""
    if request.consolidation:
        return ChatAnswer.of(memories=[])
    source = request.messages[0].local_id
    if any("coffee" in message.content for message in request.messages):
        (tea,) = [known.local_id for known in request.memories if CLEAR in known.content]
        return quoting(
            request,
            contradicted_memories=[
                {"id": tea, "reason": "they said zzreason", "source_message_ids": [source]}
            ],
        )
    if not any(SAID[0] in message.content for message in request.messages):
        return ChatAnswer.of(new_memories=[])
    return quoting(
        request,
        new_memories=[
            memory(
                "The user gets trịliệu.",
                [source],
                type="personal",
                detail="zzdetail",
                tags=["zztag"],
                keywords=["zzkeyword"],
                entities=[{"name": "Zzentity", "type": "person"}],
                context={"place": "zzcontext"},
            ),
            memory(CLEAR, [source], entities=[{"name": "Teahouse", "type": "place"}]),
        ],
        profile={"summary": "zzprofile", "facts": {"zzfact": "zzfact"}},
        conversation_summary={
            "title": "zztitle 会話の題",
            "summary": "zzsummary",
            "key_topics": ["zztopic"],
            "technical_topics": ["zztechnical"],
            "outcome": "resolved",
            "followup_suggestions": ["zzfollow"],
        },
    )


def first_talk() -> Any:
    transcript = talk(*SAID[:3], f"{SAID[3]} zzprofile zzfact", ("assistant", SAID[4]))
    transcript.messages[0].name = "Zzname"
    transcript.messages[0].metadata.update({"zzmeta": "zzmeta"})
    return transcript


async def fill(services: Services, model: ScriptedModel, messages: int) -> None:
    """Everything that a user can have, in clear, with so many messages in one conversation."""
    await learn(services, first_talk())
    await learn(
        services,
        talk(*(f"line {n} of {SAID[0]}x{n}" for n in range(messages)), conversation="many"),
    )
    saved = await save(
        services,
        "The user has nợnần.",
        type=PERSONAL,
        detail="zzsaveddetail",
        tags=["zzsavedtag"],
        metadata={"zzsavedmeta": "zzsavedmeta"},
    )
    await update(
        services,
        saved.memory.id,
        "content",
        "entities",
        content="The user has 借金の話 now.",
        entities=["Zzwhy"],
    )
    await change_profile(services, current_projects=["zzproject"])
    await learn(services, talk("no green tea anymore, coffee", conversation="c3"))
    model.always(RawReply.saying("not json: zzbrokenreply"))
    (dead,) = await submit(services, talk("hm", conversation="c4"))
    assert (await ended(services, dead)).error
    model.always(None)


class Killed(Exception):
    """What a process that is killed tells: nothing that anybody catches."""


class Mortal(Database):
    """A database whose process dies after some transactions."""

    lives: int = 1_000_000

    async def run(
        self,
        work: Callable[[Connection], Awaitable[Result]],
        *,
        timeout: float,
        repeatable: bool = False,
    ) -> Result:
        """As `Database.run`, as long as there is life."""
        if not self.lives:
            raise Killed
        self.lives -= 1
        return await super().run(work, timeout=timeout, repeatable=repeatable)


@asynccontextmanager
async def sweeping(
    conninfo: str, model: ScriptedModel, tmp_path: Path, *, kek: bytes = KEK
) -> AsyncIterator[tuple[SealingSweep, Mortal]]:
    """The sweep as the service has it, and the database that it seals on."""
    data = tmp_path / "data"
    hash_key = load_secret(data / "hash_key")
    async with AsyncExitStack() as stack:
        maintenance = Database(
            conninfo, "hitherto_maintenance", application="test", configure=configure_vectors
        )
        removal = Mortal(
            conninfo, "hitherto_removal", application="test", configure=configure_vectors
        )
        for database in (maintenance, removal):
            stack.push_async_callback(database.close)
            await database.open()
        embedder = OpenAIEmbedder(
            "text-embedding-3-small", 64, server=ModelServer(model.base_url, "test")
        )
        stack.push_async_callback(embedder.close)
        yield (
            SealingSweep(
                maintenance,
                removal,
                UserKeys(LocalWrapper(kek), KeyStore(data / "user-keys"), hash_key),
                SealedVectors(removal, embedder, load_prices(None), Budget()),
            ),
            removal,
        )


async def turn_on(superuser_conninfo: str, tmp_path: Path) -> None:
    """What UpdateUserSettings does, with no service that would begin to sweep."""
    key = await keys_of(tmp_path).make("default", "ana")
    with psycopg.connect(superuser_conninfo, autocommit=True) as connection:
        connection.execute(
            "UPDATE users SET encrypt_sensitive = true, key_id = %s, to_seal = to_seal + 1"
            " WHERE user_id = 'ana'",
            [key.key_id],
        )


@pytest.fixture
def settings(model: ScriptedModel) -> dict[str, Any]:
    model.script = script
    return {**model_settings(model), **ENCRYPTING, "job_max_retries": 0}


@pytest.fixture
async def filled(
    request: pytest.FixtureRequest,
    start_services: StartServices,
    model: ScriptedModel,
    settings: dict[str, Any],
    superuser_conninfo: str,
    tmp_path: Path,
) -> None:
    """A database in which Ana has everything in clear, and has turned encryption on."""
    async with start_services(**settings) as services:
        await fill(services, model, getattr(request, "param", 3))
        await learn(services, talk("bo says zzbobo", user="bo", conversation="b"))
    # What an unusable reply says the installation can open, but no dump shows.
    assert set(WORDS) - set(holding(dump(superuser_conninfo), WORDS)) == set(BROKEN)
    await turn_on(superuser_conninfo, tmp_path)


def all_sealed(superuser_conninfo: str) -> None:
    """No word is left anywhere, no vector of them, and the indexes agree with the rows."""
    assert rows(superuser_conninfo, _LEFT) == [(0,)]
    assert holding(dump(superuser_conninfo), WORDS) == {}
    of_ana = "FROM {} WHERE user_id = 'ana'"
    for table in ("message_embeddings", "summary_embeddings", "memory_source_embeddings"):
        assert rows(superuser_conninfo, f"SELECT 1 {of_ana.format(table)}") == []
    texts = "SELECT sum(texts), sum(terms) FROM passage_statistics WHERE user_id = 'ana'"
    assert rows(superuser_conninfo, texts) == [(0, 0)]
    check_words(superuser_conninfo)
    # Each memory has one vector, where it belongs.
    assert rows(
        superuser_conninfo,
        "SELECT count(*) FROM memories AS m WHERE user_id = 'ana' AND (m.sealed IS NULL)"
        " <> (EXISTS (SELECT FROM memory_embeddings AS e WHERE e.memory_id = m.memory_id)"
        "     AND NOT EXISTS (SELECT FROM sealed_embeddings AS e WHERE e.memory_id = m.memory_id))",
    ) == [(0,)]
    assert rows(superuser_conninfo, "SELECT count(*) FROM sealed_embeddings") == [(2,)]
    # The statistics of the memories' index count what is in it.
    assert rows(
        superuser_conninfo,
        "SELECT u.lexical_terms - (SELECT sum(lexical_length) FROM memories AS m"
        " WHERE m.user_id = u.user_id) FROM users AS u WHERE u.user_id = 'ana'",
    ) == [(0,)]
    known = rows(superuser_conninfo, "SELECT name, mention_count FROM entities")
    assert known == [("Teahouse", 1)]


async def all_readable(services: Services) -> None:
    """Its owner sees it all as before."""
    every = [number for number in memory_pb2.MemoryStatus.values() if number]
    held = {m.content: m for m in await memories(services, statuses=every)}
    assert set(held) == {"The user gets trịliệu.", "The user has 借金の話 now.", CLEAR}
    assert held["The user gets trịliệu."].detail == "zzdetail"
    assert list(held["The user gets trịliệu."].tags) == ["zztag"]
    found = await ask(services, "GetConversation", conversation_id="c1")
    assert [m.content for m in found.messages] == [m.content for m in first_talk().messages]
    # Messages that come again are known as the same, and as others.
    assert (await submit(services, first_talk()))[0]
    other = first_talk()
    other.messages[1].content = "another"
    assert (await refusal_of(submit(services, other))).reason == "MESSAGE_ID_REUSED"


@pytest.mark.usefixtures("filled")
async def test_h3_what_stood_before_is_sealed(
    start_services: StartServices,
    settings: dict[str, Any],
    model: ScriptedModel,
    conninfo: str,
    superuser_conninfo: str,
    tmp_path: Path,
) -> None:
    async with sweeping(conninfo, model, tmp_path) as (sweep, _):
        assert await sweep.run() == 1
        all_sealed(superuser_conninfo)
        # Again there is nothing to do.
        before = sorted(map(str, rows(superuser_conninfo, "SELECT sealed FROM messages")))
        assert await sweep.run() == 0
        assert before == sorted(map(str, rows(superuser_conninfo, "SELECT sealed FROM messages")))
    # Who does not encrypt has everything as it was.
    assert "zzbobo" in holding(dump(superuser_conninfo), ["zzbobo"])
    (row,) = rows(superuser_conninfo, "SELECT job_id, claim_no, sealed FROM unusable_replies")
    key = await keys_of(tmp_path).open("default", "ana")
    assert "zzbrokenreply" in reply_in(row, key, tmp_path)
    async with start_services(**settings) as services:
        await all_readable(services)


@pytest.mark.parametrize("filled", [MANY], indirect=True)
@pytest.mark.usefixtures("filled")
async def test_h3_killed_between_two_transactions_it_goes_on(
    start_services: StartServices,
    settings: dict[str, Any],
    model: ScriptedModel,
    conninfo: str,
    superuser_conninfo: str,
    tmp_path: Path,
) -> None:
    """Whenever it dies, what is sealed opens, and the next run goes on with the rest."""
    seen: list[int] = []
    async with sweeping(conninfo, model, tmp_path) as (sweep, removal):
        done = 0
        for _ in range(100):
            removal.lives = 3 + len(seen)
            try:
                done = await sweep.run()
            except Killed:
                seen.append(rows(superuser_conninfo, _CLEAR_ROWS)[0][0])
                assert rows(superuser_conninfo, _LEFT) == [(1,)]
                continue
            break
    assert done == 1
    assert len(seen) > 2
    assert seen == sorted(seen, reverse=True)
    all_sealed(superuser_conninfo)
    async with start_services(**settings) as services:
        await all_readable(services)


@pytest.mark.usefixtures("filled")
async def test_h3_without_the_key_the_sweep_waits(
    model: ScriptedModel,
    conninfo: str,
    superuser_conninfo: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    clear = rows(superuser_conninfo, _CLEAR_ROWS)
    async with sweeping(conninfo, model, tmp_path, kek=b"o" * 32) as (sweep, _):
        assert await sweep.run() == 0
    assert rows(superuser_conninfo, _LEFT) == [(1,)]
    assert rows(superuser_conninfo, _CLEAR_ROWS) == clear
    assert "until the key is available: ENCRYPTION_NOT_CONFIGURED" in caplog.text
    assert not any(word in caplog.text for word in WORDS)
    async with sweeping(conninfo, model, tmp_path) as (sweep, _):
        assert await sweep.run() == 1
    all_sealed(superuser_conninfo)


@pytest.mark.usefixtures("filled")
async def test_h3_turned_off_before_the_sweep_nothing_more_is_sealed(
    model: ScriptedModel, conninfo: str, superuser_conninfo: str, tmp_path: Path
) -> None:
    clear = rows(superuser_conninfo, _CLEAR_ROWS)
    with psycopg.connect(superuser_conninfo, autocommit=True) as connection:
        connection.execute("UPDATE users SET encrypt_sensitive = false WHERE user_id = 'ana'")
    async with sweeping(conninfo, model, tmp_path) as (sweep, _):
        assert await sweep.run() == 1
    assert rows(superuser_conninfo, _LEFT) == [(0,)]
    assert rows(superuser_conninfo, _CLEAR_ROWS) == clear
    check_words(superuser_conninfo)


@pytest.mark.usefixtures("filled")
async def test_h3_an_embedder_that_is_away_keeps_no_word_in_clear(
    model: ScriptedModel, conninfo: str, superuser_conninfo: str, tmp_path: Path
) -> None:
    """What lacks a vector waits for one; the words of everything leave the indexes at once."""
    with psycopg.connect(superuser_conninfo, autocommit=True) as connection:
        connection.execute("DELETE FROM memory_embeddings")
        connection.execute("UPDATE memories SET embedding_state = 'pending'")
    model.always(StatusFault(503), endpoint="embeddings")
    async with sweeping(conninfo, model, tmp_path) as (sweep, _):
        assert await sweep.run() == 0
        assert holding(dump(superuser_conninfo), WORDS) == {}
        assert rows(superuser_conninfo, _LEFT) == [(1,)]
        model.always(None, endpoint="embeddings")
        assert await sweep.run() == 1
    assert len(rows(superuser_conninfo, "SELECT 1 FROM sealed_embeddings")) == 2


@pytest.mark.usefixtures("filled")
async def test_h3_one_user_does_not_stop_the_sweep(
    model: ScriptedModel, conninfo: str, superuser_conninfo: str, tmp_path: Path
) -> None:
    """A row of Aaron's cannot be sealed; Ana comes after him."""
    await keys_of(tmp_path).make("default", "aaron")
    with psycopg.connect(superuser_conninfo, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO users (tenant_id, user_id, encrypt_sensitive, to_seal)"
            " VALUES ('default', 'aaron', true, 1)"
        )
        connection.execute(
            "INSERT INTO profiles (tenant_id, user_id, summary) VALUES ('default', 'aaron', 'x')"
        )
        connection.execute(
            "CREATE FUNCTION away() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN RAISE deadlock_detected; END $$"
        )
        connection.execute(
            "CREATE TRIGGER away BEFORE UPDATE ON profiles FOR EACH ROW"
            " WHEN (OLD.user_id = 'aaron') EXECUTE FUNCTION away()"
        )
    async with sweeping(conninfo, model, tmp_path) as (sweep, _):
        assert await sweep.run() == 1
    all_sealed(superuser_conninfo)
