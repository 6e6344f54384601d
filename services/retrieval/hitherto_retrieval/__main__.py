"""The process of the retrieval service, and the only place that wires it."""

from __future__ import annotations

import logging
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta

from pydantic import ValidationError

from hitherto.v1 import retrieval_service_pb2, retrieval_service_pb2_grpc
from hitherto_retrieval.change_feed import ChangeFeed
from hitherto_retrieval.config import RetrievalSettings
from hitherto_retrieval.handlers.retrieval import ReadDefaults, RetrievalHandlers
from hitherto_retrieval.handlers.watching import WatchTokens
from hitherto_retrieval.readers import Readers
from hitherto_retrieval.render.tokens import counter
from hitherto_retrieval.search.intent.question import Wording
from hitherto_retrieval.search.query import QueryEmbedders
from hitherto_retrieval.search.search import Search
from hitherto_retrieval.snapshots import Snapshots
from hitherto_retrieval.storage.connection_setup import prepare_counting, prepare_session
from hitherto_retrieval.storage.replica_lag import lag_shown
from hitherto_retrieval.usage_counts import AccessCounter, QueryUsageCounter
from hitherto_shared.audit.reads import AuditedReads
from hitherto_shared.audit.trail import Trail
from hitherto_shared.auth.departments import Departments
from hitherto_shared.changes import CHANNEL
from hitherto_shared.config import describe
from hitherto_shared.consistency import ConsistencyTokens
from hitherto_shared.database.connect import with_role
from hitherto_shared.database.installation import check_hash_key
from hitherto_shared.database.pool import Database
from hitherto_shared.database.room import RoomWatch
from hitherto_shared.database.signals import Signals
from hitherto_shared.database.watch import DatabaseWatch
from hitherto_shared.embeddings.factory import embedders_for
from hitherto_shared.key_files import load_deployment_secret, load_hash_key, open_user_keys
from hitherto_shared.paging import PageTokens
from hitherto_shared.processes import ProcessSpread, serve_in_processes
from hitherto_shared.rpc.server import Server, Servicer
from hitherto_shared.service_command import read_arguments, warn_of_unknown_variables
from hitherto_shared.startup import authentication, run_service
from hitherto_shared.telemetry import configure_logging

NAME = "hitherto-retrieval"
_POOL_WAIT_SECONDS = 1.0
_CHECK_SECONDS = 10.0

logger = logging.getLogger("hitherto.retrieval")


@asynccontextmanager
async def running(
    settings: RetrievalSettings, conninfo: str, *, processes: int = 1
) -> AsyncIterator[Server]:
    """The running service on a database with a current schema; leaving the context drains it.

    With several `processes`, it shares its port and the limit on connections with the others.

    Raises:
        ValueError: The settings name another hash key than the installation has, or a replica of
            a cluster.
    """
    async with AsyncExitStack() as stack:
        embedders = embedders_for(settings)
        primary = _pool(settings, conninfo, processes)
        # Counters have a separate connection, so that they never delay a reader.
        counters = Database(
            conninfo,
            "hitherto_read",
            application=f"{NAME}-counters",
            max_size=1,
            configure=prepare_counting,
            pooler=settings.pooler,
        )
        # So has the audit log: reads of another user's data wait for its entry.
        audited = Database(
            conninfo,
            "hitherto_read",
            application=f"{NAME}-audit",
            max_size=2,
            pooler=settings.pooler,
        )
        replica = None
        if settings.read_database_url is not None:
            there = settings.for_service(settings.read_database_url.get_secret_value())
            replica = _pool(settings, there, processes)
        secret = load_deployment_secret(settings)
        tokens = ConsistencyTokens(secret)
        readers = Readers(primary, replica, tokens)
        stack.push_async_callback(counters.close)
        stack.push_async_callback(audited.close)
        stack.push_async_callback(readers.close)
        await readers.open()
        if replica is not None and settings.metrics_listen is not None:
            await stack.enter_async_context(lag_shown(replica))
        hash_key = load_hash_key(settings)
        await readers.keys.run(
            lambda connection: check_hash_key(connection, hash_key),
            timeout=_CHECK_SECONDS,
            repeatable=True,
        )
        await counters.open_later()
        await audited.open_later()
        paid = QueryUsageCounter(counters)
        queries = QueryEmbedders(
            embedders,
            cache_size=settings.embedding_cache_size,
            call_seconds=2 * settings.embedding_deadline_ms / 1000,
            paid=paid.embedded,
        )
        stack.push_async_callback(queries.close)
        accesses = AccessCounter(counters)
        audit = AuditedReads(audited, Trail(hash_key))
        keys = await open_user_keys(settings, hash_key)
        snapshots = Snapshots(
            # Like API keys: at the primary while it is reachable.
            readers.keys,
            (settings.snapshot_memory_mb << 20) // processes,
        )
        stack.push_async_callback(snapshots.stop)
        await snapshots.start()
        feed = await _feed(stack, settings, conninfo, readers)
        handlers = RetrievalHandlers(
            readers,
            Search(
                queries,
                embedding_seconds=settings.embedding_deadline_ms / 1000,
                wording=Wording.from_settings(settings.recency_words, settings.content_types),
                snapshots=snapshots,
            ),
            accesses,
            PageTokens(secret),
            audit,
            ReadDefaults(
                memory_enabled=settings.memory_enabled,
                max_relevant=settings.max_context_items,
                max_tokens=settings.max_context_tokens,
                learns_after=timedelta(minutes=settings.extract_idle_minutes),
            ),
            dimensions=embedders.configured.dimensions,
            keys=keys,
            count_tokens=counter(settings.token_encoding),
            feed=feed,
            tokens=(tokens, WatchTokens(secret)),
        )
        server = Server(
            settings,
            settings.retrieval_listen,
            [
                Servicer(
                    retrieval_service_pb2.DESCRIPTOR.services_by_name["RetrievalService"],
                    handlers,
                    retrieval_service_pb2_grpc.add_RetrievalServiceServicer_to_server,
                )
            ],
            await stack.enter_async_context(
                authentication(settings, settings.retrieval_listen, readers.keys)
            ),
            departments=Departments(readers.keys),
            shares_port=processes > 1,
        )
        stack.push_async_callback(accesses.stop)
        await accesses.start()
        # Before the embedders close, so that calls that end by then are charged.
        stack.push_async_callback(paid.stop)
        await paid.start()
        stack.push_async_callback(audit.stop)
        await audit.start()
        await _watch_databases(stack, settings, counters, replica, server)
        await server.start()
        logger.info(
            "serving on port %d",
            server.port,
            extra={
                "embedder": embedders.configured.name,
                "database": "embedded" if settings.embedded else "DATABASE_URL",
            },
        )
        try:
            yield server
        finally:
            # Watchers would otherwise hold the drain for as long as it lasts.
            feed.end()
            await server.stop(settings.drain_seconds)


async def _watch_databases(
    stack: AsyncExitStack,
    settings: RetrievalSettings,
    primary: Database,
    replica: Database | None,
    server: Server,
) -> None:
    """Let the health service say whether one answers, and whether there is room on the disk."""
    room = RoomWatch(primary, server.say_of, settings.data_dir if settings.embedded else None)
    stack.push_async_callback(room.stop)
    await room.start()
    either = [primary] if replica is None else [primary, replica]
    watch = DatabaseWatch(either, server.say_of, writes=False)
    stack.push_async_callback(watch.stop)
    await watch.start()


async def _feed(
    stack: AsyncExitStack, settings: RetrievalSettings, conninfo: str, readers: Readers
) -> ChangeFeed:
    """What watchers of changes follow: the primary, which also signals them."""
    direct = settings.direct(conninfo)
    signals = Signals(
        CHANNEL,
        None if direct is None else with_role(direct, "hitherto_read", application=NAME),
        later="changes are told",
    )
    stack.push_async_callback(signals.stop)
    await signals.start()
    return ChangeFeed(readers.keys, signals, memory_enabled=settings.memory_enabled)


def _pool(settings: RetrievalSettings, conninfo: str, processes: int) -> Database:
    return Database(
        conninfo,
        "hitherto_read",
        application=NAME,
        max_size=max(1, settings.read_pool_size // processes),
        # A reader that would wait longer for a connection is refused with a retry delay.
        wait_seconds=_POOL_WAIT_SECONDS,
        configure=prepare_session,
        pooler=settings.pooler,
    )


def main() -> None:
    """The command `hitherto-retrieval`."""
    read_arguments(
        "hitherto-retrieval", "The retrieval service: answers searches, lists and contexts."
    )
    try:
        settings = RetrievalSettings()
    except ValidationError as error:
        print(f"{NAME}: {describe(error)}", file=sys.stderr)
        sys.exit(2)
    configure_logging(NAME, settings.log_level, settings.log_format)
    warn_of_unknown_variables(RetrievalSettings)
    run_service(
        NAME,
        lambda: serve_in_processes(
            settings,
            settings.retrieval_listen,
            ProcessSpread("hitherto_retrieval", "HITHERTO_READ_PROCESSES", settings.read_processes),
            lambda place: running(
                settings.model_copy(update={"retrieval_listen": place.listen}),
                place.conninfo,
                processes=place.processes,
            ),
        ),
    )


if __name__ == "__main__":
    main()
