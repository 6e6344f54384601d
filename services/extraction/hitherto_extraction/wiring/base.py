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
from hitherto_extraction.provider.offline import LIMITS, OfflineExtractor
from hitherto_extraction.provider.openai_chat import OpenAIChatModel
from hitherto_extraction.provider.protocol import ChatModel
from hitherto_extraction.queue.limit import QueueLimit
from hitherto_extraction.queue.signals import JobSignals
from hitherto_extraction.recovery import EMBEDDER, LANGUAGE_MODEL
from hitherto_extraction.reembedding.phases import move_to_configured
from hitherto_extraction.wiring.databases import Audit, Databases, open_audit, open_databases
from hitherto_shared.circuit_breaker import CircuitBreaker
from hitherto_shared.embeddings.active_embedder import ActiveEmbedder
from hitherto_shared.embeddings.factory import embedders_for
from hitherto_shared.embeddings.registry import Embedders
from hitherto_shared.encryption.user_keys import UserKeys
from hitherto_shared.startup import load_deployment_secret, load_user_keys

logger = logging.getLogger("hitherto.extraction")


@dataclass(frozen=True, slots=True)
class CostControl:
    """The budget of work, and the recording of its cost."""

    prices: Prices
    budget: Budget
    account: FailedAttempts


@dataclass(frozen=True, slots=True)
class Base:
    """What everything else depends on.

    Attributes:
        settings: The service's settings.
        databases: The database with each role.
        chat: The language model, or the offline rules.
        embedders: The available embedding models.
        embedder: The active one, behind a circuit breaker.
        secret: The secret for tokens and unusable replies.
        audit: Writes the audit log.
        keys: Provides the data keys of users with encryption on.
        money: The budget of work.
        signals: Signals changes of jobs.
        limit: The limit of waiting jobs.
        breakers: The circuit breakers of the models, by the names of `recovery`.
    """

    settings: ExtractionSettings
    databases: Databases
    chat: ChatModel
    embedders: Embedders
    embedder: GuardedEmbedder
    secret: bytes
    audit: Audit
    keys: UserKeys
    money: CostControl
    signals: JobSignals
    limit: QueueLimit
    breakers: Mapping[str, CircuitBreaker]

    def dedupe_threshold(self) -> float:
        """The cosine of the active model above which two memories may be duplicates."""
        return self.settings.dedupe_threshold or self.embedder.dedupe_threshold


async def open_base(stack: AsyncExitStack, settings: ExtractionSettings, conninfo: str) -> Base:
    """Open it on a database with a current schema; leaving `stack` closes it.

    Raises:
        ValueError: The settings name another hash key than the installation has.
    """
    breakers = {
        name: CircuitBreaker(f"the {what}", first_seconds=settings.job_backoff_seconds)
        for name, what in ((LANGUAGE_MODEL, "language model"), (EMBEDDER, "embedder"))
    }
    chat = _chat(settings, breakers[LANGUAGE_MODEL])
    stack.push_async_callback(chat.close)
    embedders = embedders_for(settings)
    stack.push_async_callback(embedders.close)
    databases = await open_databases(stack, settings, conninfo)
    in_force = ActiveEmbedder(databases.maintenance, embedders)
    stack.push_async_callback(in_force.stop)
    await in_force.start()
    await move_to_configured(
        databases.maintenance,
        embedders,
        tenant_id=settings.operator(settings.extraction_listen),
        by_itself=settings.embedded,
        max_attempts=settings.max_attempts,
    )
    secret = load_deployment_secret(settings)
    audit = await open_audit(stack, settings, databases)
    keys = load_user_keys(settings, databases.hash_key)
    prices = load_prices(settings.prices_file)
    return Base(
        settings,
        databases,
        chat,
        embedders,
        GuardedEmbedder(in_force, breakers[EMBEDDER]),
        secret,
        audit,
        keys,
        CostControl(
            prices,
            Budget(settings.daily_budget_usd),
            FailedAttempts(databases.write, prices, UnusableReplies(secret), keys),
        ),
        JobSignals(databases.listening),
        QueueLimit(settings.queue_limit),
        breakers,
    )


def _chat(settings: ExtractionSettings, breaker: CircuitBreaker) -> ChatModel:
    """The language model, or the offline rules, which is logged."""
    if settings.chosen_extractor == "offline":
        logger.warning(
            "no language model is configured; extracting with the offline rules: %s", LIMITS
        )
        return OfflineExtractor()
    return GuardedChatModel(
        OpenAIChatModel(
            model=settings.extraction_model,
            base_url=settings.openai_base_url,
            api_key=settings.api_key,
            timeout=settings.model_timeout_seconds,
        ),
        breaker,
        build_prompt(
            HARMLESS,
            temperature=settings.extraction_temperature,
            max_tokens=settings.extraction_max_tokens,
        ),
    )
