"""The extraction service as a process: the one place that wires it together."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from pydantic import ValidationError

from recollect_extraction.budget import Budget
from recollect_extraction.config import ExtractionSettings
from recollect_extraction.consolidation.asking import Asking
from recollect_extraction.consolidation.calls import Consolidations
from recollect_extraction.consolidation.runner import Consolidation, ConsolidationRules
from recollect_extraction.curation.check import Check, Reads
from recollect_extraction.curation.clearing import Clearing
from recollect_extraction.curation.erasing import Erasing
from recollect_extraction.curation.exporting import Exporting
from recollect_extraction.curation.saving import Saving
from recollect_extraction.curation.user_settings import UserSettings
from recollect_extraction.documents.ingest import KIND as DOCUMENTS
from recollect_extraction.documents.ingest import IngestRules
from recollect_extraction.documents.runner import Ingestion
from recollect_extraction.handlers.answering import Answering
from recollect_extraction.handlers.curation import Curation
from recollect_extraction.handlers.documents import Documents
from recollect_extraction.handlers.erasure import Leaving
from recollect_extraction.handlers.extraction import ExtractionHandlers
from recollect_extraction.handlers.maintenance import MaintenanceHandlers
from recollect_extraction.handlers.memory import MemoryHandlers
from recollect_extraction.handlers.privacy import PrivacyHandlers
from recollect_extraction.handlers.reembedding import Reembedding
from recollect_extraction.handlers.services import Handlers, servicers
from recollect_extraction.handlers.sessions import SessionHandlers
from recollect_extraction.handlers.user_control import UserControl
from recollect_extraction.intake import Intake, IntakeRules
from recollect_extraction.pipeline.account import Account, UnusableReplies
from recollect_extraction.pipeline.backfill import Backfill
from recollect_extraction.pipeline.commit import Commit
from recollect_extraction.pipeline.crowding import Crowding
from recollect_extraction.pipeline.extraction import Extraction, ExtractionRules
from recollect_extraction.pipeline.preview import Preview
from recollect_extraction.prices import Prices, load_prices
from recollect_extraction.provider.guarded import GuardedChatModel, GuardedEmbedder
from recollect_extraction.provider.offline import LIMITS, OfflineExtractor
from recollect_extraction.provider.openai_chat import OpenAIChatModel
from recollect_extraction.provider.protocol import ChatModel
from recollect_extraction.queue.limit import QueueLimit
from recollect_extraction.queue.signals import JobSignals
from recollect_extraction.reembedding.begin import move_to_configured
from recollect_extraction.reembedding.fill import Fill
from recollect_extraction.reembedding.phases import KIND as REEMBEDDING
from recollect_extraction.scheduler import Scheduler
from recollect_extraction.sealing.sweep import SealingSweep
from recollect_extraction.sealing.vectors import SealedVectors
from recollect_extraction.sessions.context import SessionRules
from recollect_extraction.storage import erased
from recollect_extraction.storage.retention import KeepFor
from recollect_extraction.sweeps import Sweeps
from recollect_extraction.upkeep.audit_digests import HOURS_SECONDS, AuditDigests
from recollect_extraction.upkeep.calls import Upkeep
from recollect_extraction.upkeep.decay import Decay
from recollect_extraction.upkeep.retention import Retention
from recollect_extraction.upkeep.schedules import (
    CONSOLIDATION,
    DECAY,
    IDLE,
    RETENTION,
    Schedules,
    read_schedules,
)
from recollect_extraction.worker import Worker, WorkerRules
from recollect_shared.audit.reads import AuditedReads
from recollect_shared.audit.trail import Trail
from recollect_shared.auth.departments import Departments
from recollect_shared.circuit_breaker import CircuitBreaker
from recollect_shared.config import describe
from recollect_shared.consistency import ConsistencyTokens
from recollect_shared.database.installation import state_hash_key
from recollect_shared.database.pool import Connection, Database
from recollect_shared.embeddings.in_force import EmbedderInForce
from recollect_shared.embeddings.protocol import Embedder
from recollect_shared.encryption.user_keys import UserKeys
from recollect_shared.paging import PageTokens
from recollect_shared.processes import Spread, serve_in_processes
from recollect_shared.rpc.server import Server
from recollect_shared.startup import (
    authentication,
    configure_vectors,
    embedders_for,
    load_deployment_secret,
    load_hash_key,
    load_installation_signer,
    load_user_keys,
    run_service,
)
from recollect_shared.telemetry import configure_logging

NAME = "recollect-extraction"
EXPORTS_AT_ONCE = 2

logger = logging.getLogger("recollect.extraction")


@asynccontextmanager
async def running(
    settings: ExtractionSettings, conninfo: str, *, processes: int = 1
) -> AsyncIterator[Server]:
    """The service at work on a database whose schema is up to date; leaving drains it.

    With several `processes` it shares its port with the others, and nothing else.
    """
    async with AsyncExitStack() as stack:
        chat = build_chat(settings)
        stack.push_async_callback(chat.close)
        embedders = embedders_for(settings)
        stack.push_async_callback(embedders.close)
        databases = await open_databases(stack, settings, conninfo)
        write, maintenance, removal = databases.write, databases.maintenance, databases.removal
        in_force = EmbedderInForce(maintenance, embedders)
        stack.push_async_callback(in_force.stop)
        await in_force.start()
        embedder = GuardedEmbedder(
            in_force,
            CircuitBreaker("the embedder", first_seconds=settings.job_backoff_seconds),
        )
        await move_to_configured(
            maintenance,
            embedders,
            tenant_id=settings.operator(settings.extraction_listen),
            by_itself=settings.embedded,
            max_attempts=settings.max_attempts,
        )
        secret = load_deployment_secret(settings)
        audit = await open_audit(stack, settings, databases)
        keys = load_user_keys(settings, databases.hash_key)
        signals = JobSignals(maintenance.conninfo)
        money = build_money(settings, write, secret, keys)
        limit = QueueLimit(settings.queue_limit)
        intake = Intake(
            write,
            IntakeRules(
                memory_enabled=settings.memory_enabled,
                extract_every=settings.extract_every,
                debounce_seconds=settings.extract_debounce_seconds,
                max_attempts=settings.max_attempts,
            ),
            limit,
            audit.trail,
            keys,
        )
        decay = Decay(maintenance, max_memories=settings.max_memories)
        keep = KeepFor(settings.retention_days, settings.message_retention_days)
        retention = Retention(removal, keep)
        commit = build_commit(settings, write, embedder)
        consolidation = build_consolidation(
            settings, maintenance, write, chat, embedder, money, keys
        )
        extraction = build_extraction(settings, write, chat, embedder, commit, money, keys)
        preview = Preview(
            write,
            extraction,
            commit,
            memory_enabled=settings.memory_enabled,
            budget=money.budget,
            keys=keys,
        )
        saving = Saving(
            embedder,
            lambda: settings.dedupe_threshold or embedder.dedupe_threshold,
            memory_enabled=settings.memory_enabled,
            max_attempts=settings.max_attempts,
            crowding=Crowding(above=settings.consolidate_above, max_attempts=settings.max_attempts),
        )
        check = Check(write, extraction, memory_enabled=settings.memory_enabled, keys=keys)
        worker = Worker(
            maintenance,
            signals,
            {
                "memory-extraction": Reads(extraction, check).run,
                DOCUMENTS: Ingestion(
                    write,
                    embedder,
                    money.prices,
                    memory_enabled=settings.memory_enabled,
                ).run,
                CONSOLIDATION: consolidation.run,
                DECAY: decay.run,
                RETENTION: retention.run,
                REEMBEDDING: Fill(maintenance, embedders, money.prices, money.budget).run,
            },
            WorkerRules(
                concurrency=settings.worker_concurrency,
                lease_seconds=settings.lease_seconds,
                backoff_seconds=settings.job_backoff_seconds,
            ),
            money.budget,
            audit.trail,
        )
        sweeps = Sweeps(
            maintenance,
            intake,
            Backfill(
                maintenance,
                embedder,
                money.prices,
                message_vectors=settings.message_vectors,
            ),
            idle_minutes=settings.extract_idle_minutes,
            sealing=build_sealing(databases, embedder, money.prices, secret, keys),
        )
        schedules = Schedules(
            maintenance,
            read_schedules(settings.schedule_lines),
            idle=sweeps.queue_idle,
            keep=keep,
            max_attempts=settings.max_attempts,
            audit=audit.digests.sign,
        )
        scheduler = Scheduler(
            schedules,
            [
                *sweeps.at_intervals(
                    idle=any(each.name == IDLE and each.cron for each in schedules.all)
                ),
                (HOURS_SECONDS, audit.digests.close_hours),
            ],
        )
        answering = Answering(write, ConsistencyTokens(secret), audit.trail, audit.reads, keys)
        pages = PageTokens(secret)
        handlers = Handlers(
            ExtractionHandlers(
                answering,
                intake,
                signals,
                pages,
                preview,
                Documents(
                    removal, IngestRules(settings.memory_enabled, settings.max_attempts), limit
                ),
            ),
            MemoryHandlers(answering, Curation(saving, embedder, signals)),
            SessionHandlers(
                answering,
                SessionRules(
                    context_seconds=settings.ttl_session,
                    recent_seconds=settings.ttl_recent,
                    memory_enabled=settings.memory_enabled,
                ),
            ),
            MaintenanceHandlers(
                answering,
                pages,
                Upkeep(
                    maintenance,
                    {DECAY: decay, RETENTION: retention},
                    max_attempts=settings.max_attempts,
                ),
                schedules,
                Reembedding(maintenance, embedders, settings.max_attempts),
                Consolidations(maintenance, consolidation, max_attempts=settings.max_attempts),
                removal,
                money.budget,
            ),
            PrivacyHandlers(
                answering,
                removal,
                UserControl(
                    UserSettings(
                        memory_enabled=settings.memory_enabled,
                        retention_days=keep.memory_days,
                        message_retention_days=keep.message_days,
                    ),
                    Clearing(
                        write,
                        removal,
                        max_attempts=settings.max_attempts,
                        trail=audit.trail,
                        keys=keys,
                    ),
                    keys,
                ),
                build_leaving(settings, databases, audit.trail, secret, keys),
                pages,
            ),
        )
        server = Server(
            settings,
            settings.extraction_listen,
            servicers(handlers),
            await stack.enter_async_context(
                authentication(settings, settings.extraction_listen, write)
            ),
            departments=Departments(write),
            shares_port=processes > 1,
        )
        stack.push_async_callback(signals.stop)
        await signals.start()
        await worker.start()
        scheduler.start()
        await server.start()
        logger.info(
            "serving on port %d",
            server.port,
            extra={
                "extractor": chat.extractor,
                "model": chat.model,
                "embedder": embedder.name,
                "database": "embedded" if settings.embedded else "DATABASE_URL",
            },
        )
        try:
            yield server
        finally:
            scheduler.stop()
            # Whoever watches a job would otherwise hold the drain for as long as it lasts.
            signals.end()
            # Calls and jobs drain side by side, within the same time.
            await asyncio.gather(
                server.stop(settings.drain_seconds), worker.stop(settings.drain_seconds)
            )


@dataclass(frozen=True, slots=True)
class Databases:
    """The database in each role that this service plays, and the key they know erased users by."""

    write: Database
    maintenance: Database
    removal: Database
    exports: Database
    hash_key: bytes


async def open_databases(
    stack: AsyncExitStack, settings: ExtractionSettings, conninfo: str
) -> Databases:
    """Open a pool for each role; leaving `stack` closes them.

    Raises:
        ValueError: The installation has another hash key than the settings name.
    """
    hash_key = load_hash_key(settings)

    async def configure(connection: Connection) -> None:
        await configure_vectors(connection)
        erased.know_hash_key(connection, hash_key)

    databases = Databases(
        Database(
            conninfo,
            "recollect_write",
            application=NAME,
            max_size=settings.worker_concurrency + 8,
            configure=configure,
        ),
        Database(
            conninfo,
            "recollect_maintenance",
            application=NAME,
            max_size=settings.worker_concurrency + 4,
            configure=configure,
        ),
        Database(conninfo, "recollect_removal", application=NAME, max_size=2, configure=configure),
        # Apart, because an export lasts as long as its reader takes.
        Database(
            conninfo,
            "recollect_write",
            application=NAME,
            max_size=EXPORTS_AT_ONCE,
            configure=configure,
        ),
        hash_key,
    )
    for database in (
        databases.write,
        databases.maintenance,
        databases.removal,
        databases.exports,
    ):
        stack.push_async_callback(database.close)
        await database.open()

    async def check(connection: Connection) -> None:
        await erased.check_hash_key(connection, hash_key)
        await state_hash_key(connection, hash_key)

    await databases.maintenance.run(check, timeout=10.0)
    return databases


@dataclass(frozen=True, slots=True)
class Audit:
    """What writes the audit log: changes, reads, and the digests of its days."""

    trail: Trail
    reads: AuditedReads
    digests: AuditDigests


async def open_audit(
    stack: AsyncExitStack, settings: ExtractionSettings, databases: Databases
) -> Audit:
    """Begin to write the audit log; leaving `stack` writes what is left."""
    trail = Trail(databases.hash_key)
    reads = AuditedReads(databases.write, trail)
    stack.push_async_callback(reads.stop)
    await reads.start()
    signer = load_installation_signer(settings)
    return Audit(trail, reads, AuditDigests(databases.maintenance, signer))


def build_leaving(
    settings: ExtractionSettings,
    databases: Databases,
    trail: Trail,
    secret: bytes,
    keys: UserKeys,
) -> Leaving:
    """What exports and erases users."""
    return Leaving(
        Erasing(databases.removal, load_installation_signer(settings), trail, keys),
        Exporting(databases.exports, trail, UnusableReplies(secret), keys),
    )


def build_chat(settings: ExtractionSettings) -> ChatModel:
    """The language model, or the offline rules, which say so."""
    if settings.chosen_extractor == "offline":
        logger.warning("no language model is configured; the offline rules extract: %s", LIMITS)
        return OfflineExtractor()
    return GuardedChatModel(
        OpenAIChatModel(
            model=settings.extraction_model,
            base_url=settings.openai_base_url,
            api_key=settings.api_key,
            timeout=settings.model_timeout_seconds,
        ),
        CircuitBreaker("the language model", first_seconds=settings.job_backoff_seconds),
    )


@dataclass(frozen=True, slots=True)
class Money:
    """What work may cost, and who writes down what it did cost."""

    prices: Prices
    budget: Budget
    account: Account


def build_money(
    settings: ExtractionSettings, write: Database, secret: bytes, keys: UserKeys
) -> Money:
    """Prices, budget and account of this installation."""
    prices = load_prices(settings.prices_file)
    return Money(
        prices,
        Budget(settings.daily_budget_usd),
        Account(write, prices, UnusableReplies(secret), keys),
    )


def build_sealing(
    databases: Databases, embedder: Embedder, prices: Prices, secret: bytes, keys: UserKeys
) -> SealingSweep:
    """What seals what stood in clear before encryption was turned on."""
    return SealingSweep(
        databases.maintenance,
        databases.removal,
        keys,
        UnusableReplies(secret),
        SealedVectors(databases.removal, embedder, prices),
    )


def build_commit(settings: ExtractionSettings, write: Database, embedder: Embedder) -> Commit:
    """What writes the outcomes of extractions."""
    return Commit(
        write,
        memory_enabled=settings.memory_enabled,
        dedupe_threshold=lambda: settings.dedupe_threshold or embedder.dedupe_threshold,
        crowding=Crowding(above=settings.consolidate_above, max_attempts=settings.max_attempts),
    )


def build_consolidation(
    settings: ExtractionSettings,
    maintenance: Database,
    write: Database,
    chat: ChatModel,
    embedder: Embedder,
    money: Money,
    keys: UserKeys,
) -> Consolidation:
    """What is behind `consolidation` jobs."""
    return Consolidation(
        maintenance,
        write,
        Asking(
            chat,
            embedder,
            money.prices,
            temperature=settings.extraction_temperature,
            max_tokens=settings.extraction_max_tokens,
        ),
        ConsolidationRules(
            above=settings.consolidate_above, memory_enabled=settings.memory_enabled
        ),
        money.account,
        money.budget,
        keys,
    )


def build_extraction(
    settings: ExtractionSettings,
    write: Database,
    chat: ChatModel,
    embedder: Embedder,
    commit: Commit,
    money: Money,
    keys: UserKeys,
) -> Extraction:
    """The pipeline behind `memory-extraction` jobs."""
    return Extraction(
        write,
        chat,
        embedder,
        commit,
        money.prices,
        ExtractionRules(
            batch_tokens=settings.batch_tokens,
            prompt_memories=settings.prompt_memories,
            temperature=settings.extraction_temperature,
            max_tokens=settings.extraction_max_tokens,
            message_vectors=settings.message_vectors,
        ),
        money.account,
        money.budget,
        keys,
    )


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
        lambda: serve_in_processes(
            settings,
            settings.extraction_listen,
            Spread("recollect_extraction", "RECOLLECT_WORKER_PROCESSES", settings.worker_processes),
            lambda place: running(
                settings.model_copy(update={"extraction_listen": place.listen}),
                place.conninfo,
                processes=place.processes,
            ),
        ),
    )


if __name__ == "__main__":
    main()
