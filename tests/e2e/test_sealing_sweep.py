"""The sweep that seals what stood in clear before encryption was turned on (H3).

Somebody has all there is in clear. Then encryption is turned on in the database, and the sweep is
run by the test, so that it can be cut off where it hurts.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from hitherto_extraction.budget import Budget
from hitherto_extraction.prices import load_prices
from hitherto_extraction.sealing import SealedVectors, SealingSweep
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.embeddings.openai_api import OpenAIEmbedder
from hitherto_shared.encryption.key_store import KeyStore
from hitherto_shared.encryption.user_keys import UserKeys
from hitherto_shared.encryption.wrapping import LocalWrapper
from hitherto_shared.model_server import ModelServer
from hitherto_shared.sealing import load_secret
from hitherto_shared.startup import configure_vectors
from tests.e2e.conftest import Services, StartServices, model_settings
from tests.e2e.curating import change
from tests.e2e.indexed import check_words
from tests.e2e.learning import ALL_STATUSES, learn, memories, rows, submit, talk
from tests.e2e.methods import ask
from tests.e2e.sealed_life import (
    ASKED,
    CLEAR,
    OWES,
    REPLIED,
    SAID,
    TREATED,
    WORDS,
    first_talk,
    live,
)
from tests.e2e.sealing import ENCRYPTING, KEK, dump, holding, keys_of, reply_in
from tests.e2e.sessions import refusal_of
from tests.scripted_model import ScriptedModel, StatusFault

MANY = 230
"""Messages, so that sealing them takes several transactions."""

_LEFT = "SELECT to_seal FROM users WHERE user_id = 'ana'"
_CLEAR_ROWS = "SELECT count(*) FROM messages WHERE sealed IS NULL AND user_id = 'ana'"
_ON = "UPDATE users SET encrypt_sensitive = true, to_seal = to_seal + 1 WHERE user_id = 'ana'"

Result = TypeVar("Result")


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


@pytest.fixture
def settings(model: ScriptedModel) -> dict[str, Any]:
    return {**model_settings(model), **ENCRYPTING, "job_max_retries": 0}


@pytest.fixture(autouse=True)
async def filled(
    start_services: StartServices, model: ScriptedModel, settings: dict[str, Any], tmp_path: Path
) -> None:
    """A database in which Ana has everything in clear, and has turned encryption on."""
    async with start_services(**settings) as services:
        await live(services, model, entities=["Quuentity"])
        many = (f"line {n} of {SAID[5]}x{n}" for n in range(MANY))
        await learn(services, talk(*many, conversation="many"))
        await learn(services, talk("bo says zzbobo", user="bo", conversation="b"))
    # What an unusable reply says the installation can open, but no dump shows.
    assert set(WORDS) - set(holding(dump(services.conninfo), WORDS)) == {*REPLIED, *ASKED}
    # What UpdateUserSettings does, with no service that would begin to sweep.
    key = await keys_of(tmp_path).make("default", "ana")
    change(
        services.conninfo,
        "UPDATE users SET key_id = %(key)s WHERE user_id = 'ana'",
        key=key.key_id,
    )
    change(services.conninfo, _ON)


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
    held = {m.content: m for m in await memories(services, statuses=ALL_STATUSES)}
    assert set(held) == {TREATED, OWES, CLEAR}
    assert (held[TREATED].detail, list(held[TREATED].tags)) == ("quldetail at length", ["qultag"])
    found = await ask(services, "GetConversation", conversation_id="c1")
    assert [m.content for m in found.messages] == [m.content for m in first_talk().messages]
    # Messages that come again are known as the same, and as others.
    assert (await submit(services, first_talk()))[0]
    other = first_talk()
    other.messages[1].content = "another"
    assert (await refusal_of(submit(services, other))).reason == "MESSAGE_ID_REUSED"


_WITHOUT_VECTORS = """
DELETE FROM memory_embeddings WHERE memory_id IN (SELECT memory_id FROM memories WHERE sensitive);
UPDATE memories SET embedding_state = 'pending' WHERE sensitive;
"""
_AARON = """
INSERT INTO users (tenant_id, user_id, encrypt_sensitive, to_seal)
VALUES ('default', 'aaron', true, 1);
INSERT INTO profiles (tenant_id, user_id, summary) VALUES ('default', 'aaron', 'x');
CREATE FUNCTION away() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE deadlock_detected; END $$;
CREATE TRIGGER away BEFORE UPDATE ON profiles FOR EACH ROW
WHEN (OLD.user_id = 'aaron') EXECUTE FUNCTION away();
"""


async def test_h3_what_stood_before_is_sealed_once_it_can_be(
    start_services: StartServices,
    settings: dict[str, Any],
    model: ScriptedModel,
    conninfo: str,
    superuser_conninfo: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    clear = rows(superuser_conninfo, _CLEAR_ROWS)
    # Turned off before the sweep, nothing more is sealed.
    change(superuser_conninfo, "UPDATE users SET encrypt_sensitive = false WHERE user_id = 'ana'")
    async with sweeping(conninfo, model, tmp_path) as (sweep, _):
        assert await sweep.run() == 1
    assert rows(superuser_conninfo, _LEFT) == [(0,)]
    assert rows(superuser_conninfo, _CLEAR_ROWS) == clear
    check_words(superuser_conninfo)
    change(superuser_conninfo, _ON)

    # Without the key it waits.
    async with sweeping(conninfo, model, tmp_path, kek=b"o" * 32) as (sweep, _):
        assert await sweep.run() == 0
    assert rows(superuser_conninfo, _LEFT) == [(1,)]
    assert rows(superuser_conninfo, _CLEAR_ROWS) == clear
    assert "until the key is available: ENCRYPTION_NOT_CONFIGURED" in caplog.text
    assert not any(word in caplog.text for word in WORDS)

    # While the embedder is away, what lacks a vector waits for one; no word stays in clear.
    change(superuser_conninfo, _WITHOUT_VECTORS)
    model.always(StatusFault(503), endpoint="embeddings")
    async with sweeping(conninfo, model, tmp_path) as (sweep, _):
        assert await sweep.run() == 0
        assert holding(dump(superuser_conninfo), WORDS) == {}
        assert rows(superuser_conninfo, _LEFT) == [(1,)]
    model.always(None, endpoint="embeddings")

    # A row of Aaron's cannot be sealed; Ana comes after him.
    await keys_of(tmp_path).make("default", "aaron")
    change(superuser_conninfo, _AARON)
    async with sweeping(conninfo, model, tmp_path) as (sweep, _):
        assert await sweep.run() == 1
        # Again there is nothing to do.
        before = sorted(map(str, rows(superuser_conninfo, "SELECT sealed FROM messages")))
        assert await sweep.run() == 0
        assert before == sorted(map(str, rows(superuser_conninfo, "SELECT sealed FROM messages")))
        all_sealed(superuser_conninfo)
    # Who does not encrypt has everything as it was.
    assert "zzbobo" in holding(dump(superuser_conninfo), ["zzbobo"])
    (row,) = rows(superuser_conninfo, "SELECT job_id, claim_no, sealed FROM unusable_replies")
    key = await keys_of(tmp_path).open("default", "ana")
    assert "qubrokenreply" in reply_in(row, key, tmp_path)
    async with start_services(**settings) as services:
        await all_readable(services)


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
