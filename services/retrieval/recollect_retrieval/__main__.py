"""The retrieval service as a process: the one place that wires it together."""

from __future__ import annotations

import asyncio
import logging
import sys

from pydantic import ValidationError

from recollect.v1 import retrieval_service_pb2, retrieval_service_pb2_grpc
from recollect_retrieval.accesses import AccessCounter
from recollect_retrieval.config import RetrievalSettings
from recollect_retrieval.handlers.retrieval import Defaults, RetrievalHandlers
from recollect_retrieval.readers import Readers
from recollect_retrieval.search.memories import MemorySearch
from recollect_retrieval.search.query import QueryEmbedder
from recollect_shared.config import describe
from recollect_shared.consistency import ConsistencyTokens
from recollect_shared.database.pool import Database
from recollect_shared.embeddings import active
from recollect_shared.embeddings.factory import build_embedder
from recollect_shared.embeddings.protocol import Embedder
from recollect_shared.paging import PageTokens
from recollect_shared.rpc.server import Server, Servicer, end_signal
from recollect_shared.startup import (
    build_authenticator,
    configure_vectors,
    load_deployment_secret,
    locate_database,
    run_service,
)
from recollect_shared.telemetry import configure_logging

NAME = "recollect-retrieval"

logger = logging.getLogger("recollect.retrieval")


async def serve(settings: RetrievalSettings) -> None:
    """Run the service until it is told to end."""
    end = end_signal()
    settings.auth_mode(settings.retrieval_listen)
    configured = build_embedder(
        settings.chosen_embedder,
        model=settings.embedding_model,
        dimensions=settings.embedding_dimensions,
        base_url=settings.openai_base_url,
        api_key=settings.api_key,
        onnx_model_dir=str(settings.onnx_model_dir or ""),
        timeout=settings.model_timeout_seconds,
    )
    located = await asyncio.to_thread(locate_database, settings)
    try:
        await _serve_on(settings, located.conninfo, configured, end)
    finally:
        await configured.close()
        await asyncio.to_thread(located.release)


async def _serve_on(
    settings: RetrievalSettings, conninfo: str, configured: Embedder, end: asyncio.Event
) -> None:
    primary = Database(
        conninfo,
        "recollect_read",
        application=NAME,
        max_size=settings.read_pool_size,
        configure=configure_vectors,
    )
    # Counters have connections of their own, so that they never stand in a reader's way.
    counters = Database(conninfo, "recollect_read", application=f"{NAME}-counters", max_size=1)
    replica = None
    if settings.read_database_url is not None:
        replica = Database(
            settings.read_database_url.get_secret_value(),
            "recollect_read",
            application=NAME,
            max_size=settings.read_pool_size,
            configure=configure_vectors,
        )
    databases = [database for database in (primary, counters, replica) if database is not None]
    for database in databases:
        await database.open()
    accesses = AccessCounter(counters)
    queries = None
    try:
        secret = load_deployment_secret(settings)
        async with primary.connection() as connection:
            model = await active.active_model(connection)
        embedder, why_not = active.fitting(configured, model)
        if embedder is None:
            logger.warning("searches run without the semantic leg: %s", why_not)
        else:
            queries = QueryEmbedder(embedder, cache_size=settings.embedding_cache_size)
        handlers = RetrievalHandlers(  # type: ignore[abstract]
            Readers(primary, replica, ConsistencyTokens(secret)),
            MemorySearch(queries, why_not, embedding_seconds=settings.embedding_deadline_ms / 1000),
            accesses,
            PageTokens(secret),
            Defaults(
                memory_enabled=settings.memory_enabled,
                max_relevant=settings.max_context_items,
                max_tokens=settings.max_context_tokens,
            ),
            dimensions=embedder.dimensions if embedder is not None else None,
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
            build_authenticator(settings, settings.retrieval_listen, primary),
        )
        await accesses.start()
        await server.start()
        logger.info(
            "serving on %s",
            settings.retrieval_listen,
            extra={
                "embedder": embedder.name if embedder is not None else "none",
                "database": "embedded" if settings.embedded else "DATABASE_URL",
            },
        )
        await end.wait()
        await server.stop(settings.drain_seconds)
    finally:
        if queries is not None:
            await queries.close()
        await accesses.stop()
        for database in databases:
            await database.close()


def main() -> None:
    """The command `recollect-retrieval`."""
    try:
        settings = RetrievalSettings()
    except ValidationError as error:
        print(f"{NAME}: {describe(error)}", file=sys.stderr)
        sys.exit(2)
    configure_logging(NAME, settings.log_level)
    run_service(NAME, lambda: serve(settings))


if __name__ == "__main__":
    main()
