"""The extraction service as a process: the one place that wires it together."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from pydantic import ValidationError

from recollect.v1 import (
    extraction_service_pb2,
    extraction_service_pb2_grpc,
    maintenance_service_pb2,
    maintenance_service_pb2_grpc,
    memory_service_pb2,
    memory_service_pb2_grpc,
    privacy_service_pb2,
    privacy_service_pb2_grpc,
    session_service_pb2,
    session_service_pb2_grpc,
)
from recollect_extraction.config import ExtractionSettings
from recollect_extraction.handlers.answering import Answering
from recollect_extraction.handlers.extraction import ExtractionHandlers
from recollect_extraction.handlers.maintenance import MaintenanceHandlers
from recollect_extraction.handlers.memory import MemoryHandlers
from recollect_extraction.handlers.privacy import PrivacyHandlers
from recollect_extraction.intake import Intake, IntakeRules
from recollect_extraction.pipeline.backfill import Backfill
from recollect_extraction.pipeline.commit import Commit
from recollect_extraction.pipeline.extraction import Extraction, ExtractionRules
from recollect_extraction.prices import load_prices
from recollect_extraction.provider.offline import LIMITS, OfflineExtractor
from recollect_extraction.provider.openai_chat import OpenAIChatModel
from recollect_extraction.provider.protocol import ChatModel
from recollect_extraction.queue.signals import JobSignals
from recollect_extraction.sweeps import Sweeps
from recollect_extraction.worker import Worker, WorkerRules
from recollect_shared.config import describe
from recollect_shared.consistency import ConsistencyTokens
from recollect_shared.database.pool import Database
from recollect_shared.embeddings import active
from recollect_shared.embeddings.protocol import Embedder
from recollect_shared.paging import PageTokens
from recollect_shared.rpc.server import Server, Servicer
from recollect_shared.startup import (
    build_authenticator,
    configure_vectors,
    configured_embedder,
    load_deployment_secret,
    run_service,
    serve,
)
from recollect_shared.telemetry import configure_logging

NAME = "recollect-extraction"

logger = logging.getLogger("recollect.extraction")


@asynccontextmanager
async def running(settings: ExtractionSettings, conninfo: str) -> AsyncIterator[Server]:
    """The service at work on a database whose schema is up to date; leaving drains it."""
    async with AsyncExitStack() as stack:
        chat = build_chat(settings)
        stack.push_async_callback(chat.close)
        configured = configured_embedder(settings)
        stack.push_async_callback(configured.close)
        write = Database(
            conninfo,
            "recollect_write",
            application=NAME,
            max_size=settings.worker_concurrency + 8,
            configure=configure_vectors,
        )
        maintenance = Database(
            conninfo,
            "recollect_maintenance",
            application=NAME,
            max_size=4,
            configure=configure_vectors,
        )
        removal = Database(conninfo, "recollect_removal", application=NAME, max_size=2)
        for database in (write, maintenance, removal):
            stack.push_async_callback(database.close)
            await database.open()
        embedder = await _embedder_in_force(maintenance, configured)
        secret = load_deployment_secret(settings)
        signals = JobSignals(maintenance.conninfo)
        intake = Intake(
            write,
            IntakeRules(
                memory_enabled=settings.memory_enabled,
                extract_every=settings.extract_every,
                debounce_seconds=settings.extract_debounce_seconds,
                max_attempts=settings.max_attempts,
            ),
        )
        worker = Worker(
            maintenance,
            signals,
            {"memory-extraction": build_extraction(settings, write, chat, embedder).run},
            WorkerRules(
                concurrency=settings.worker_concurrency,
                lease_seconds=settings.lease_seconds,
                backoff_seconds=settings.job_backoff_seconds,
            ),
        )
        sweeps = Sweeps(
            maintenance,
            intake,
            Backfill(maintenance, embedder) if embedder is not None else None,
            idle_minutes=settings.extract_idle_minutes,
        )
        answering = Answering(write, ConsistencyTokens(secret))
        pages = PageTokens(secret)
        handlers = Handlers(
            ExtractionHandlers(answering, intake, signals, pages),  # type: ignore[abstract]
            MemoryHandlers(answering),  # type: ignore[abstract]
            MaintenanceHandlers(answering, pages),  # type: ignore[abstract]
            PrivacyHandlers(answering, removal),  # type: ignore[abstract]
        )
        server = Server(
            settings,
            settings.extraction_listen,
            servicers(handlers),
            build_authenticator(settings, settings.extraction_listen, write),
        )
        stack.push_async_callback(signals.stop)
        await signals.start()
        await worker.start()
        sweeps.start()
        await server.start()
        logger.info(
            "serving on port %d",
            server.port,
            extra={
                "extractor": chat.extractor,
                "model": chat.model,
                "embedder": embedder.name if embedder else "none",
                "database": "embedded" if settings.embedded else "DATABASE_URL",
            },
        )
        try:
            yield server
        finally:
            sweeps.stop()
            # Calls and jobs drain side by side, within the same time.
            await asyncio.gather(
                server.stop(settings.drain_seconds), worker.stop(settings.drain_seconds)
            )


def build_chat(settings: ExtractionSettings) -> ChatModel:
    """The language model, or the offline rules, which say so."""
    if settings.chosen_extractor == "offline":
        logger.warning("no language model is configured; the offline rules extract: %s", LIMITS)
        return OfflineExtractor()
    return OpenAIChatModel(
        model=settings.extraction_model,
        base_url=settings.openai_base_url,
        api_key=settings.api_key,
        timeout=settings.model_timeout_seconds,
    )


def build_extraction(
    settings: ExtractionSettings, write: Database, chat: ChatModel, embedder: Embedder | None
) -> Extraction:
    """The pipeline behind `memory-extraction` jobs."""
    threshold = settings.dedupe_threshold or (embedder.dedupe_threshold if embedder else 1.0)
    return Extraction(
        write,
        chat,
        embedder,
        Commit(write, memory_enabled=settings.memory_enabled, dedupe_threshold=threshold),
        load_prices(settings.prices_file),
        ExtractionRules(
            batch_tokens=settings.batch_tokens,
            prompt_memories=settings.prompt_memories,
            temperature=settings.extraction_temperature,
            max_tokens=settings.extraction_max_tokens,
        ),
    )


@dataclass(frozen=True, slots=True)
class Handlers:
    """The objects that answer, one per gRPC service."""

    extraction: ExtractionHandlers
    memory: MemoryHandlers
    maintenance: MaintenanceHandlers
    privacy: PrivacyHandlers


def servicers(handlers: Handlers) -> list[Servicer]:
    """Every gRPC service of this process; calls of later versions answer UNIMPLEMENTED."""
    return [
        Servicer(
            extraction_service_pb2.DESCRIPTOR.services_by_name["ExtractionService"],
            handlers.extraction,
            extraction_service_pb2_grpc.add_ExtractionServiceServicer_to_server,
        ),
        Servicer(
            memory_service_pb2.DESCRIPTOR.services_by_name["MemoryService"],
            handlers.memory,
            memory_service_pb2_grpc.add_MemoryServiceServicer_to_server,
        ),
        Servicer(
            session_service_pb2.DESCRIPTOR.services_by_name["SessionService"],
            session_service_pb2_grpc.SessionServiceServicer(),  # type: ignore[abstract]
            session_service_pb2_grpc.add_SessionServiceServicer_to_server,
        ),
        Servicer(
            maintenance_service_pb2.DESCRIPTOR.services_by_name["MaintenanceService"],
            handlers.maintenance,
            maintenance_service_pb2_grpc.add_MaintenanceServiceServicer_to_server,
        ),
        Servicer(
            privacy_service_pb2.DESCRIPTOR.services_by_name["PrivacyService"],
            handlers.privacy,
            privacy_service_pb2_grpc.add_PrivacyServiceServicer_to_server,
        ),
    ]


async def _embedder_in_force(database: Database, configured: Embedder) -> Embedder | None:
    async with database.connection() as connection:
        await active.register(connection, configured)
        embedder, why = active.fitting(configured, await active.active_model(connection))
    if embedder is None:
        logger.error("memories will be stored without vectors: %s", why)
    elif embedder.name != configured.name:
        logger.warning(
            "memories are embedded with %s; the configured %s is not used",
            embedder.name,
            configured.name,
        )
    return embedder


def main() -> None:
    """The command `recollect-extraction`."""
    try:
        settings = ExtractionSettings()
    except ValidationError as error:
        print(f"{NAME}: {describe(error)}", file=sys.stderr)
        sys.exit(2)
    configure_logging(NAME, settings.log_level)
    run_service(
        NAME,
        lambda: serve(
            settings, settings.extraction_listen, lambda conninfo: running(settings, conninfo)
        ),
    )


if __name__ == "__main__":
    main()
