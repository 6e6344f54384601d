"""Opens what everything else depends on: databases, models, budget, keys, the audit log."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass

from hitherto_extraction.budget import Budget
from hitherto_extraction.config import ExtractionSettings
from hitherto_extraction.pipeline.failed_attempts import FailedAttempts, UnusableReplies
from hitherto_extraction.pipeline.prompt import HARMLESS, build_prompt
from hitherto_extraction.prices import Prices, load_prices
from hitherto_extraction.provider.guarded import GuardedChatModel, GuardedEmbedder
from hitherto_extraction.provider.openai_chat import OpenAIChatModel
from hitherto_extraction.provider.protocol import ChatModel
from hitherto_extraction.queue.enqueueing import JobQueue
from hitherto_extraction.queue.jobs import JobSignals
from hitherto_extraction.queue.limit import QueueLimit
from hitherto_extraction.recovery import EMBEDDER, LANGUAGE_MODEL
from hitherto_extraction.reembedding.phases import move_to_configured
from hitherto_extraction.storage import erased
from hitherto_extraction.upkeep.audit_digests import AuditDigests
from hitherto_shared.audit.reads import AuditedReads
from hitherto_shared.audit.trail import Trail
from hitherto_shared.circuit_breaker import CircuitBreaker
from hitherto_shared.database.arrays import register_arrays
from hitherto_shared.database.connect import Role, with_role
from hitherto_shared.database.installation import state_hash_key
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.embeddings.active_embedder import ActiveEmbedder
from hitherto_shared.embeddings.factory import embedders_for
from hitherto_shared.embeddings.registry import Embedders
from hitherto_shared.encryption.user_keys import UserKeys
from hitherto_shared.key_files import (
    load_deployment_secret,
    load_hash_key,
    load_installation_signer,
    open_user_keys,
)
from hitherto_shared.startup import configure_vectors

logger = logging.getLogger("hitherto.extraction")

NAME = "hitherto-extraction"
EXPORTS_AT_ONCE = 2
_CHECK_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Base:
    """What everything else depends on.

    `breakers` have the names of `recovery`.
    """

    settings: ExtractionSettings
    databases: Databases
    chat: ChatModel
    embedders: Embedders
    embedder: GuardedEmbedder
    secret: bytes
    trail: Trail
    reads: AuditedReads
    digests: AuditDigests
    keys: UserKeys
    prices: Prices
    budget: Budget
    account: FailedAttempts
    signals: JobSignals
    queue: JobQueue
    breakers: Mapping[str, CircuitBreaker]

    def dedupe_threshold(self) -> float:
        """The cosine of the active model above which two memories may be duplicates."""
        return self.settings.dedupe_threshold or self.embedder.dedupe_threshold


async def open_base(stack: AsyncExitStack, settings: ExtractionSettings, conninfo: str) -> Base:
    """Open it on a database with a current schema; leaving `stack` closes it.

    Raises:
        ValueError: The settings name another hash key than the installation has, or a budget and a
            model without a price.
    """
    breakers = {
        name: CircuitBreaker(f"the {what}", first_seconds=settings.job_backoff_seconds)
        for name, what in ((LANGUAGE_MODEL, "language model"), (EMBEDDER, "embedder"))
    }
    prices = prices_for(settings)
    chat = _chat(settings, breakers[LANGUAGE_MODEL])
    stack.push_async_callback(chat.close)
    embedders = embedders_for(settings)
    stack.push_async_callback(embedders.close)
    databases = await open_databases(stack, settings, conninfo)
    in_force = ActiveEmbedder(databases.maintenance, embedders)
    stack.push_async_callback(in_force.stop)
    await in_force.start()
    queue = JobQueue(settings.max_attempts, QueueLimit(settings.queue_limit))
    await move_to_configured(
        databases.maintenance,
        embedders,
        queue,
        tenant_id=settings.operator(settings.extraction_listen),
        by_itself=settings.embedded,
    )
    secret = load_deployment_secret(settings)
    trail = Trail(databases.hash_key)
    reads = AuditedReads(databases.write, trail)
    # Leaving `stack` writes what is left.
    stack.push_async_callback(reads.stop)
    await reads.start()
    keys = await open_user_keys(settings, databases.hash_key)
    return Base(
        settings,
        databases,
        chat,
        embedders,
        GuardedEmbedder(
            in_force, breakers[EMBEDDER], url_setting=settings.embedding_server.url_setting
        ),
        secret,
        trail,
        reads,
        AuditDigests(databases.maintenance, load_installation_signer(settings)),
        keys,
        prices,
        Budget(settings.daily_budget_usd),
        FailedAttempts(databases.write, prices, UnusableReplies(secret), keys),
        JobSignals(databases.listening),
        queue,
        breakers,
    )


def prices_for(settings: ExtractionSettings) -> Prices:
    """The prices of tokens, which every model needs if there is a budget (else a ValueError)."""
    asks = settings.chosen_extractor == "openai"
    prices = load_prices(settings.prices_file, settings.extraction_model if asks else "")
    if settings.daily_budget_usd > 0:
        if asks:
            prices.require(settings.extraction_model, "MEMORY_EXTRACTION_MODEL")
        if settings.chosen_embedder == "openai":
            prices.require(settings.embedding_model, "EMBEDDING_MODEL")
    return prices


def _chat(settings: ExtractionSettings, breaker: CircuitBreaker) -> ChatModel:
    """The language model, or the offline rules, which is logged."""
    if settings.chosen_extractor == "offline":
        # Its hundreds of patterns take a tenth of the time that the service takes to start.
        from hitherto_extraction.provider.offline import LIMITS, OfflineExtractor  # noqa: PLC0415

        logger.warning(
            "no language model is configured; extracting with the offline rules: %s", LIMITS
        )
        return OfflineExtractor()
    return GuardedChatModel(
        OpenAIChatModel(
            model=settings.extraction_model,
            server=settings.chat_server,
            timeout=settings.model_timeout_seconds,
            temperature=settings.extraction_temperature,
            max_tokens=settings.extraction_max_tokens,
        ),
        breaker,
        build_prompt(HARMLESS),
        url_setting=settings.chat_server.url_setting,
    )


@dataclass(frozen=True, slots=True)
class Databases:
    """A pool for each role, one for exports, and the key that identifies erased users.

    Attributes:
        listening: A connection string to listen for signals; None if a pooler allows none.
    """

    write: Database
    maintenance: Database
    removal: Database
    exports: Database
    hash_key: bytes
    listening: str | None


async def open_databases(
    stack: AsyncExitStack, settings: ExtractionSettings, conninfo: str
) -> Databases:
    """Open all pools; leaving `stack` closes them."""
    hash_key = load_hash_key(settings)

    async def configure(connection: Connection) -> None:
        await configure_vectors(connection)
        register_arrays(connection)
        erased.know_hash_key(connection, hash_key)

    def pool(role: Role, most: int) -> Database:
        return Database(
            conninfo,
            role,
            application=NAME,
            max_size=most,
            configure=configure,
            pooler=settings.pooler,
        )

    direct = settings.direct(conninfo)
    databases = Databases(
        pool("hitherto_write", settings.worker_concurrency + 8),
        pool("hitherto_maintenance", settings.worker_concurrency + 4),
        pool("hitherto_removal", 2),
        # Separate, because an export lasts as long as its reader takes.
        pool("hitherto_write", EXPORTS_AT_ONCE),
        hash_key,
        None if direct is None else with_role(direct, "hitherto_maintenance", application=NAME),
    )
    for database in (databases.write, databases.maintenance, databases.removal, databases.exports):
        stack.push_async_callback(database.close)
        await database.open()

    async def check(connection: Connection) -> None:
        await erased.check_hash_key(connection, hash_key)
        await state_hash_key(connection, hash_key)

    await databases.maintenance.run(check, timeout=_CHECK_SECONDS)
    return databases
