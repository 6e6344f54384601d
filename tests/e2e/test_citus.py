"""Both services on a real Citus cluster answer as on one server (I5).

One life of a user is led on each, and every step of it compared. See `tests/cluster.py` for what
the tests need; without it they are skipped.
"""

from __future__ import annotations

import asyncio
import dataclasses
import io
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message

from hitherto_client import AsyncHitherto
from hitherto_extraction.upkeep.table_statistics import TableStatistics
from hitherto_retrieval import __main__ as retrieval
from hitherto_retrieval.config import RetrievalSettings
from hitherto_shared.database import pipeline_connection
from hitherto_shared.database.embedded import EmbeddedPostgres
from hitherto_shared.database.pool import Database
from tests.cluster import checked, cluster_database, migrating
from tests.conftest import as_superuser, new_database
from tests.e2e.conftest import both_services, model_settings
from tests.e2e.learning import shown
from tests.e2e.receiver import Received, Receiver
from tests.e2e.sealing import ENCRYPTING
from tests.scripted_model import ChatAnswer, ChatRequest, ScriptedModel
from tests.scripted_model.answers import change, memory, merged, quoting
from tests.waiting import eventually

USER = "ana"
SCOPES: tuple[Any, ...] = ("memories", "messages", "summaries", "documents")
_ID = re.compile(r"\b(?:msg_|act_)?[0-9a-f]{8}[0-9a-f-]*")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d[\d:.]*(?:Z|[+-]\d\d:?\d\d)?")
_SENTENCE = re.compile(r"Ana [\w ]+\w")
_TAGS = re.compile(r"\s*#(\w+)")
_VOLATILE = re.compile(
    r"token|sha256|seconds|elapsed|_ms$|^score$|^access_count$|^last_accessed_at$"
)
_EXACT = ("users", "conversations", "messages", "memories", "documents", "conversation_summaries")
"""Tables of which two lives have as many rows; how many jobs and audit entries depends on time."""
_BY_BEA = """
UPDATE history SET actor = 'jwt:bea'
WHERE tenant_id = 'default' AND user_id = 'ana' AND memory_id = %(memory_id)s
"""
_NAMING_BEA = "SELECT count(*) FROM history WHERE actor LIKE '%:bea'"
_SEALED = "SELECT count(*) > 0 FROM sealed_embeddings"
_HOLD_USER = """
SELECT FROM users WHERE tenant_id = 'default' AND user_id = 'ana' FOR UPDATE
"""
_LONG_AGO = """
UPDATE jobs SET finished_at = finished_at - interval '2 minutes' WHERE job_id = %(job_id)s
"""
_COUNTED = "SELECT reltuples > 0 FROM pg_class WHERE oid = 'memories'::regclass"
_COUNTED_ON_NODES = """
SELECT bool_or(result::real > 0)
FROM run_command_on_shards('memories',
    'SELECT reltuples FROM pg_class WHERE oid = ''%s''::regclass')
"""
_LET_COORDINATOR_HOLD = """
SELECT citus_set_node_property(nodename, nodeport, 'shouldhaveshards', true)
FROM pg_dist_node WHERE groupid = 0
"""
_MOVE_A_SHARD = """
SELECT citus_move_shard_placement(s.shardid, s.nodename, s.nodeport, c.nodename, c.nodeport,
    'block_writes')
FROM citus_shards AS s CROSS JOIN pg_dist_node AS c
WHERE s.table_name = 'hitherto.users'::regclass AND c.groupid = 0
ORDER BY s.shardid LIMIT 1
"""
_MANY_USERS = """
INSERT INTO hitherto.users (tenant_id, user_id)
SELECT 'default', 'user-' || number FROM generate_series(1, 3000) AS number
"""
_COUNTED_BY_NODE = """
SELECT nodeid, bool_and(result::real > 0)
FROM run_command_on_placements('hitherto.users',
    'SELECT reltuples FROM pg_class WHERE oid = ''%s''::regclass')
JOIN pg_dist_node USING (nodename, nodeport)
GROUP BY nodeid
"""
_NODES = "SELECT nodeid FROM pg_dist_node"
_WORKERS = "SELECT nodename, nodeport FROM pg_dist_node WHERE groupid > 0"
_END_OTHERS = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
"""
_AGED = """
UPDATE memories SET importance = 0.2, created_at = '2020-01-01 00:00Z',
    updated_at = '2020-01-01 00:00Z'
WHERE content LIKE '%rain%'
"""


def answer(request: ChatRequest) -> ChatAnswer:
    """Learn each message word for word, with its #tags; a move contradicts the old home."""
    if request.consolidation:
        ids = [known.local_id for known in request.memories]
        return ChatAnswer.of(memories=[merged("The user likes quiet cafes", ids)])
    said = [each for each in request.messages if "walrus" not in each.content]
    verb, _, words = said[0].content.partition(": ") if said else ("", "", "")
    if words:
        known = shown(request, "pottery")
        more = {"content": words} if verb == "Now" else {}
        named = "updated_memories" if verb == "Now" else "forgotten_memories"
        cited = change(known, said[0].content, said[0].local_id, **more)
        return quoting(request, **{named: [cited]})
    found: dict[str, Any] = {
        "new_memories": [
            memory(_TAGS.sub("", each.content), [each.local_id], tags=_TAGS.findall(each.content))
            for each in said
        ]
    }
    homes = [known.local_id for known in request.memories if "lives in Porto" in known.content]
    if homes and said and "Lisbon" in said[0].content:
        found["contradicted_memories"] = [{"id": homes[0], "by": 0}]
    return quoting(request, **found)


class Life:
    """What happens to one user, in the order of `STEPS`."""

    def __init__(self, client: AsyncHitherto, model: ScriptedModel, administrator: str) -> None:
        self.client, self.model, self.administrator = client, model, administrator
        self.known: dict[str, Any] = {}

    async def _learn(self, text: str, conversation: str, **more: Any) -> Any:
        said: Any = {"role": "user", "content": text, **more}
        await self.client.add(USER, [said], conversation=conversation)
        return [await self._ended(job) for job in await self.client.learn(USER)]

    async def _ended(self, job: Any) -> Any:
        final = await self.client.wait_for_job(job, timeout=240)
        return final.state, final.result, final.error

    async def _upkeep(self, start: Any) -> Any:
        return start.counts, await self._ended(start.job)

    async def _contents(self, **asked: Any) -> list[tuple[str, str]]:
        listed = [each async for each in self.client.memories(USER, **asked)]
        return sorted((each.content, str(each.status)) for each in listed)

    async def save(self) -> Any:
        for name, content, tags in (
            ("home", "Ana lives in Porto", []),
            ("cat", "Ana has a cat named Mia", ["pets"]),
        ):
            saved = await self.client.save_memory(USER, content, tags=tags)
            self.known[name] = saved.memory.id
        return await self._contents()

    async def submit_and_learn(self) -> Any:
        return await self._learn("Ana works at Siemens with Tom", "c1"), await self._contents()

    async def learn_another(self) -> Any:
        return await self._learn("Ana has a dog called Rex", "c2"), await self._contents()

    async def contradict(self) -> Any:
        learnt = await self._learn("Ana lives in Lisbon now", "c3")
        statuses = ["active", "superseded", "quarantined"]
        return learnt, await self._contents(statuses=statuses)

    async def change(self) -> Any:
        changed = await self.client.update_memory(
            USER, self.known["cat"], content="Ana has two cats", tags=["pets", "home"]
        )
        return changed, await self._contents()

    async def forget(self) -> Any:
        await self.client.forget_memory(USER, self.known["cat"], reason="too much")
        return await self._contents()

    async def restore(self) -> Any:
        await self.client.restore_memory(USER, self.known["cat"])
        events = [each async for each in self.client.memory_history(USER, self.known["cat"])]
        return await self._contents(), events

    async def search_everywhere(self) -> Any:
        found = {}
        for scope in SCOPES:
            reply = await self.client.search(USER, "where Ana lives", scopes=[scope])
            found[scope] = [each.text for each in reply.results][:1]
        return found

    async def search_with_filters(self) -> Any:
        now = datetime.now(UTC)
        return [
            (await self.client.search(USER, "cats", tags=["pets"], types=["fact"])).results,
            (await self.client.search(USER, "cats", confidence_min="high")).results,
            (await self.client.search(USER, "lives", as_of=now)).results,
            (await self.client.search(USER, "lives", known_at=now)).results,
        ]

    async def context(self) -> Any:
        asked = [
            await self.client.get_context(USER, words) for words in ("", "Where does she live")
        ]
        # Which of a memory and the message behind it is shown, seconds may decide.
        return [sorted(set(_SENTENCE.findall(each.prompt_block))) for each in asked]

    async def profile(self) -> Any:
        await self.client.update_profile(USER, facts={"personal": {"location": "Lisbon"}})
        events = [each async for each in self.client.profile_history(USER)]
        return await self.client.get_profile(USER), events

    async def session(self) -> Any:
        made = await self.client.update_session(USER, "s1", context={"page": 1})
        added = await self.client.add_pending_action(USER, "mail", session_id="s1")
        resolved = await self.client.resolve_pending_action(
            USER, added.pending_action.id, "confirmed"
        )
        return made, resolved, await self.client.get_session(USER, "s1")

    async def documents(self) -> Any:
        page: Any = {
            "source_type": "wiki",
            "source_id": "p1",
            "title": "Plan",
            "content": "The Apollo project ships in May. " * 40,
            "content_type": "page",
        }
        reply = await self.client.ingest_documents(USER, [page])
        ended = await self._ended(reply.job)
        found = (await self.client.search(USER, "Apollo ships", scopes=["documents"])).results
        return ended, found, [each async for each in self.client.documents(USER)]

    async def overflow_of_postings(self) -> Any:
        """One word stands in more messages, and in more memories, than a segment holds.

        Tables that grow so are analysed soon, also where autovacuum does not.
        """
        with psycopg.connect(self.administrator, autocommit=True) as connection:
            connection.execute("ALTER TABLE memories SET (autovacuum_enabled = false)")
        talks: list[Any] = [
            {
                "user_id": USER,
                "conversation_id": f"w{part}",
                "messages": [
                    {"role": "user", "content": f"walrus {part} {number}"} for number in range(90)
                ],
            }
            for part in range(3)
        ]
        submitted = await self.client.submit_transcripts(talks)
        ended = [await self._ended(job) for job in submitted]
        many: list[Any] = [
            {"user_id": USER, "content": f"The walrus of house {number} is called Wal{number}"}
            for number in range(270)
        ]
        stored = await self.client.import_memories(many)
        last: list[Any] = [("messages", "walrus 2 89"), ("memories", "the walrus Wal269")]
        found = [
            (await self.client.search(USER, words, scopes=[scope], limit=1)).results
            for scope, words in last
        ]

        async def analysed() -> bool:
            with psycopg.connect(self.administrator, autocommit=True) as connection:
                counted = _COUNTED_ON_NODES if _distributed(connection) else _COUNTED
                return connection.execute(counted).fetchone() == (True,)

        await eventually(analysed, "statistics")
        return ended, stored, found, len(await self._contents())

    async def decay(self) -> Any:
        await self.client.save_memory(USER, "Ana saw rain on Monday")
        with psycopg.connect(self.administrator, autocommit=True) as connection:
            connection.execute(_AGED)
        counted = await self.client.run_decay(USER, dry_run=True)
        ran = await self._upkeep(await self.client.run_decay(USER))
        return counted.counts, ran, await self._contents(statuses=["archived"])

    async def merge(self) -> Any:
        for place in ("mornings", "evenings", "weekends", "holidays", "breaks"):
            await self._learn(f"The user likes quiet cafes for {place} #cafes", f"k-{place}")
        ran = await self._upkeep(await self.client.consolidate(USER, tag="cafes"))
        kept = [each async for each in self.client.memories(USER, tags=["cafes"])]
        return ran, sorted(each.content for each in kept)

    async def reembed(self) -> Any:
        started = await self.client.reembed("start", model="text-embedding-3-large", dimensions=32)
        ended = await self._ended(started.job)
        switched = await self.client.reembed("switch")
        found = await self.client.search(USER, "quiet cafes", limit=1)
        back = await self.client.reembed("rollback")
        names = [(each.active_model, each.active_dimensions) for each in (switched, back)]
        return ended[0], names, found.results

    async def undo_merge(self) -> Any:
        (merged_one,) = [each async for each in self.client.memories(USER, tags=["cafes"])]
        back = await self.client.undo_consolidation(USER, merged_one.id)
        return sorted(each.content for each in back), await self._contents(tags=["cafes"])

    async def restore_what_was_archived(self) -> Any:
        statuses: Any = ["archived"]
        archived = [each async for each in self.client.memories(USER, statuses=statuses)]
        (faded,) = [each for each in archived if "rain" in each.content]
        await self.client.restore_memory(USER, faded.id)
        return await self._contents(statuses=["active", "archived"])

    async def roll_back(self) -> Any:
        counted = await self.client.rollback_source(USER, conversation="c2", dry_run=True)
        done = await self.client.rollback_source(USER, conversation="c2")
        return counted, done, await self._contents(tags=[])

    async def roll_back_a_job(self) -> Any:
        await self.client.add(
            USER, [{"role": "user", "content": "Ana plays chess"}], conversation="c4"
        )
        (job,) = await self.client.learn(USER)
        await self._ended(job)
        return await self.client.rollback_source(USER, job=job), await self._contents()

    async def roll_back_a_model(self) -> Any:
        learnt = await self._learn("Ana collects stamps", "c5")
        model = "gpt-4o-mini"
        counted = await self.client.rollback_source(USER, model=model, dry_run=True)
        done = await self.client.rollback_source(USER, model=model)
        return learnt, counted, done, await self._contents()

    async def deliver(self) -> Any:
        async with Receiver() as receiver:
            made = await self.client.create_webhook(receiver.url, include_content=True)
            await self.client.save_memory(USER, "Ana sings in a choir")

            def of_it() -> list[Received]:
                """Not what an earlier step may still have changed."""
                return [each for each in receiver.received if "sings in a choir" in str(each.data)]

            await eventually(of_it, "a delivery")
            (sent, *_) = of_it()

            async def ended() -> bool:
                found = [each async for each in self.client.webhook_deliveries()]
                return {str(each.state) for each in found} == {"delivered"}

            await eventually(ended, "the delivery's end")
            await self.client.delete_webhook(made.webhook.id)
            return sent.signed_with(made.secret), "Ana sings in a choir" in str(sent.data)

    async def watch(self) -> Any:
        """Whoever watches from now on, or behind a place, is told of what changes."""
        told: Any = self.client.watch_memories(USER, include_content=True, timeout=240)
        first = await anext(told)
        saved = await self.client.save_memory(USER, "Ana keeps bees")
        again: Any = self.client.watch_memories(USER, after=first.token, timeout=240)
        found = []
        for stream in (told, again):
            async for item in stream:
                of_it = [each.kind for each in item.changes if each.memory_id == saved.memory.id]
                if of_it:
                    found.append(of_it)
                    break
            await stream.aclose()
        return found

    async def other_times(self) -> Any:
        """Words that were brought up to date, or taken back on request, at each time."""
        days = [datetime(2026, 3, day, tzinfo=UTC) for day in (2, 12, 22)]
        told = [await self._learn("Ana does pottery on Mondays", "p1", created_at=days[0])]
        words = "Now: Ana does pottery on Fridays"
        told.append(await self._learn(words, "p2", created_at=days[1]))
        known_at = datetime.now(UTC)

        async def at_each() -> Any:
            asked: list[dict[str, Any]] = [
                *({"as_of": day + timedelta(days=1)} for day in days),
                *({"as_of": day + timedelta(days=1), "known_at": known_at} for day in days),
            ]
            return [
                [
                    each.text
                    for each in (await self.client.search(USER, "pottery", **moment)).results
                ]
                for moment in asked
            ]

        found = [await at_each()]
        kept = [each async for each in self.client.memories(USER) if "pottery" in each.content]
        told.append(await self._learn("Forget: the pottery", "p3", created_at=days[2]))
        found.append(await at_each())
        back = await self.client.rollback_source(USER, conversation="p3")
        found.append(await at_each())
        await self.client.forget_memory(USER, kept[0].id)
        await self.client.restore_memory(USER, kept[0].id)
        again = await self.client.rollback_source(USER, conversation="p2")
        return told, found, back, again, await at_each()

    async def clear_twice(self) -> Any:
        """What was said since, a repeated call does not take."""
        many: list[Any] = [{"user_id": "cleo", "content": f"Cleo has hat {n}"} for n in range(30)]
        await self.client.import_memories(many)
        cleared = [await self.client.clear_memories("cleo", idempotency_key="k")]
        await self.client.save_memory("cleo", "Cleo has a coat")
        cleared.append(await self.client.clear_memories("cleo", idempotency_key="k"))
        return cleared, [each.content async for each in self.client.memories("cleo")]

    async def erase_an_actor(self) -> Any:
        saved = await self.client.save_memory("bea", "Bea likes tea")
        with psycopg.connect(self.administrator, autocommit=True) as connection:
            connection.execute(_BY_BEA, {"memory_id": self.known["home"]})
            named = connection.execute(_NAMING_BEA).fetchone()
            await self.client.erase_user("bea")
            left = connection.execute(_NAMING_BEA).fetchone()
        told = [each async for each in self.client.memory_history(USER, self.known["home"])]
        return bool(saved), named, left, sorted({each.actor for each in told})

    async def wait_for_the_node(self) -> Any:
        """A cluster tells that a job has just ended once its rows are seen on their node too."""
        await self._learn("Ana plays the cello", "c7")
        states: Any = ["succeeded"]
        (job, earlier, *_) = [each async for each in self.client.jobs(USER, states=states)]
        with psycopg.connect(self.administrator, autocommit=True) as connection:
            connection.execute(_LONG_AGO, {"job_id": earlier.id})
        with psycopg.connect(self.administrator) as connection:
            distributed = _distributed(connection)
            connection.execute(_HOLD_USER)
            asked = asyncio.ensure_future(self.client.get_job(job.id))
            done, _ = await asyncio.wait([asked], timeout=1.0 if distributed else 60.0)
            told = await self.client.get_job(earlier.id)
        return (await asked).state, bool(done) is not distributed, told.state

    async def lose_connections(self) -> Any:
        """All that lead to the nodes end, as where these are started again."""
        with psycopg.connect(self.administrator, autocommit=True) as connection:
            nodes = connection.execute(_WORKERS).fetchall() if _distributed(connection) else [()]
        for node in nodes:
            there = dict(zip(("host", "port"), node, strict=False))
            with psycopg.connect(self.administrator, autocommit=True, **there) as connection:
                connection.execute(_END_OTHERS)
        found = await self.client.search(USER, "cats", limit=1)
        saved = await self.client.save_memory(USER, "Ana has been to Rome")
        return found.results, saved.memory, await self._learn("Ana reads novels", "c6")

    async def seal(self) -> Any:
        """What is sensitive is sealed by a sweep, and read as before."""
        await self.client.save_memory(USER, "Ana takes insulin", sensitive=True)
        await self.client.update_user_settings(USER, encrypt_sensitive=True)

        async def sealed() -> bool:
            with psycopg.connect(self.administrator, autocommit=True) as connection:
                return connection.execute(_SEALED).fetchone() == (True,)

        await eventually(sealed, "vectors of sealed rows")
        found = (await self.client.search(USER, "insulin", limit=1)).results
        return found, await self._contents()

    async def retention_and_clearing(self) -> Any:
        ran = await self._upkeep(await self.client.run_retention(USER))
        return ran, await self.client.delete_conversation(USER, "c1"), await self._contents()

    async def export(self) -> Any:
        data = io.BytesIO()
        manifest = await self.client.export_user(USER, data)
        self.known["export"] = data.getvalue()
        counts: dict[str, int] = {}
        for line in data.getvalue().splitlines():
            table = json.loads(line)["table"]
            counts[table] = counts.get(table, 0) + 1
        assert manifest.user_id == USER
        return sorted(counts), {name: counts.get(name) for name in _EXACT}

    async def erase(self) -> Any:
        receipt = await self.client.erase_user(USER)
        counts = {name: receipt.counts.get(name) for name in _EXACT}
        return sorted(receipt.counts), counts, await self._contents()

    async def bring_back(self) -> Any:
        await self.client.reinstate_user(USER)
        await self.client.import_user(USER, io.BytesIO(self.known["export"]))
        found = await self.client.search(USER, "quiet cafes", limit=1)
        return found.results, await self._contents()


STEPS: dict[str, Callable[[Life], Awaitable[Any]]] = {
    name: step for name, step in vars(Life).items() if not name.startswith("_") and callable(step)
}


def _distributed(connection: psycopg.Connection) -> bool:
    return bool(connection.execute("SELECT to_regclass('pg_dist_node')").fetchone() != (None,))


def comparable(value: Any, name: str = "") -> Any:
    """An answer without what two runs never share: ids, times, tokens, last digits."""
    if isinstance(value, Message):
        value = MessageToDict(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {
            key: comparable(each, str(key))
            for key, each in value.items()
            if not _VOLATILE.search(str(key))
        }
    if isinstance(value, list | tuple):
        return [comparable(each) for each in value]
    if isinstance(value, float):
        return round(value, 2)
    if isinstance(value, bool | int) or value is None:
        return value
    return _TIME.sub("TIME", _ID.sub("ID", str(value)))


@dataclass(frozen=True)
class Lives:
    """The answers of both lives, by step, and the cluster's database."""

    server: dict[str, Any]
    cluster: dict[str, Any]
    administrator: str


@pytest.fixture(scope="module")
async def lives(
    postgres: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Lives]:
    with cluster_database() as administrator, new_database(postgres) as conninfo:
        folder = tmp_path_factory.mktemp("citus")
        yield Lives(
            await _lived(conninfo, as_superuser(postgres, conninfo), folder / "server"),
            await _lived(
                administrator,
                f"{administrator} options='-c search_path=hitherto,public'",
                folder / "cluster",
            ),
            administrator,
        )


async def _lived(conninfo: str, administrator: str, folder: Path) -> dict[str, Any]:
    """The answers of a whole life; of a step that failed, why."""
    told: dict[str, Any] = {}
    async with AsyncExitStack() as stack:
        model = await stack.enter_async_context(ScriptedModel(answer))
        services = await stack.enter_async_context(
            both_services(
                conninfo, folder, **model_settings(model), **ENCRYPTING, webhook_private=True
            )
        )
        client = await stack.enter_async_context(
            AsyncHitherto(services.retrieval_address, services.extraction_address, timeout=120)
        )
        life = Life(client, model, administrator)
        for name, step in STEPS.items():
            try:
                told[name] = comparable(await step(life))
            except Exception as error:
                told[name] = f"failed: {type(error).__name__}: {error}"
    return told


@pytest.mark.parametrize("step", STEPS)
async def test_a_step_is_answered_as_on_one_server(lives: Lives, step: str) -> None:
    expected = lives.server[step]
    assert not str(expected).startswith("failed"), expected
    assert lives.cluster[step] == expected


async def test_users_lie_on_the_nodes(lives: Lives) -> None:
    """What was compared was distributed, and read under row-level security."""
    with psycopg.connect(lives.administrator) as connection:
        tables: dict[str, str] = dict(
            connection.execute(
                "SELECT table_name::text, citus_table_type FROM citus_tables"
            ).fetchall()
        )
        empty = connection.execute("SELECT count(*) FROM ONLY hitherto.users").fetchone()
    assert tables["hitherto.memories"] == "distributed"
    assert tables["hitherto.embedding_models"] == "reference"
    assert "hitherto.jobs" not in tables
    assert empty is not None
    again = migrating(lives.administrator)
    assert (again.returncode, again.stdout) == (0, "the database is up to date\n"), again.stderr


async def test_every_statement_goes_where_it_is_known_to(lives: Lives) -> None:
    """What waits for all shards, the loss of any node holds up: `make check-citus`."""
    done = checked(lives.administrator)
    assert done.returncode == 0, done.stdout + done.stderr


async def test_shards_are_analysed_on_every_node(lives: Lives) -> None:
    """Also on the coordinator, which has some where it is the only node."""
    with psycopg.connect(lives.administrator, autocommit=True) as connection:
        for statement in (_LET_COORDINATOR_HOLD, _MOVE_A_SHARD, _MANY_USERS):
            connection.execute(statement)
        maintenance = Database(lives.administrator, "hitherto_maintenance", application="test")
        await maintenance.open()
        try:
            await TableStatistics(maintenance).refresh(120.0)
        finally:
            await maintenance.close()
        nodes = {node: True for (node,) in connection.execute(_NODES).fetchall()}
        assert dict(connection.execute(_COUNTED_BY_NODE).fetchall()) == nodes


async def test_no_replica_is_read_beside_a_cluster(
    conninfo: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its tokens would promise what they cannot; one server is taken for a coordinator here."""
    monkeypatch.setattr(pipeline_connection, "_ON_CITUS", "SELECT 1")
    monkeypatch.setattr(pipeline_connection, "_ON_NODES", "SELECT 1")
    given: dict[str, Any] = {"database_url": conninfo, "data_dir": tmp_path, "auth": "off"}
    settings = RetrievalSettings(
        retrieval_listen="127.0.0.1:0", read_database_url=conninfo, **given
    )
    with pytest.raises(ValueError, match="READ_DATABASE_URL must be unset on Citus"):
        async with retrieval.running(settings, conninfo):
            pass
