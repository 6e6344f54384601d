"""Settings of the extraction service, read from the environment."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from hitherto_extraction.telling.delivering import read_schedule
from hitherto_extraction.upkeep.schedules import NAMES, read_line
from hitherto_shared.config import Listen, Place, SharedSettings
from hitherto_shared.database.connect import EXTRACTION_LOGINS


class ExtractionSettings(SharedSettings):
    """Settings of this service; docs/configuration.md describes every variable."""

    logins = EXTRACTION_LOGINS

    extraction_listen: Listen = "127.0.0.1:50052"

    extractor: Literal["openai", "offline"] | None = None
    extraction_model: str = Field("gpt-4o-mini", validation_alias="MEMORY_EXTRACTION_MODEL")
    extraction_temperature: float = Field(
        0.3, validation_alias="MEMORY_EXTRACTION_TEMPERATURE", ge=0, le=2
    )
    extraction_max_tokens: int = Field(
        4000, validation_alias="MEMORY_EXTRACTION_MAX_TOKENS", ge=64, le=100_000
    )
    extract_every: int = Field(10, validation_alias="MEMORY_EXTRACT_EVERY_N_MESSAGES", ge=1)
    extract_debounce_seconds: float = Field(2.0, ge=0, le=600)
    batch_tokens: int = Field(6_000, ge=200, description="Conversation text in one model call")

    prompt_memories: int = Field(50, ge=0, le=500)
    message_vectors: bool = True
    reconcile: bool = True
    consolidate_above: int = Field(5, ge=1, le=1_000)
    daily_changes: int = Field(20, ge=0, le=1_000_000)
    dedupe_threshold: float | None = Field(None, gt=0, le=1)
    prices_file: Place | None = None
    daily_budget_usd: float = Field(0.0, ge=0, le=1_000_000_000)
    queue_limit: int = Field(100_000, ge=0, le=1_000_000_000)

    retention_days: int = Field(0, ge=0, le=36_500)
    message_retention_days: int = Field(0, ge=0, le=36_500)
    max_memories: int = Field(0, ge=0, le=1_000_000_000)
    schedule_decay: str = "0 3 * * *"
    schedule_consolidation: str = "30 3 * * *"
    schedule_retention: str = "0 4 * * *"
    schedule_audit: str = "30 0 * * *"
    schedule_idle: str = "* * * * *"

    redact_secrets: Literal["redact", "off"] = "redact"

    change_days: int = Field(7, ge=1, le=365)
    webhook_private: bool = False
    webhook_retry_seconds: str = "5 30 120 600 1800 3600 7200 18000"
    webhook_timeout_seconds: float = Field(10.0, gt=0, le=60)
    webhook_disable_after: int = Field(20, ge=1, le=1_000_000)

    ttl_session: int = Field(1_800, ge=1, le=31_536_000)
    ttl_recent: int = Field(900, ge=1, le=31_536_000)

    worker_concurrency: int = Field(4, ge=1, le=256)
    worker_processes: int = Field(1, ge=0, le=128)
    lease_seconds: float = Field(60.0, ge=1, le=3600)
    job_max_retries: int = Field(3, ge=0, le=100)
    planning_seconds: float = Field(10.0, ge=0.001, le=25)
    quality_sample: int = Field(100, ge=0, le=1_000_000)
    job_backoff_seconds: float = Field(2.0, ge=0.01, le=600)

    @property
    def max_attempts(self) -> int:
        """The first attempt and its retries."""
        return self.job_max_retries + 1

    @property
    def schedule_lines(self) -> dict[str, str]:
        """The cron line of each schedule by its name."""
        return {name: getattr(self, f"schedule_{name}") for name in NAMES}

    @field_validator(*(f"schedule_{name}" for name in NAMES))
    @classmethod
    def _is_a_cron_line(cls, line: str) -> str:
        read_line(line)
        return line

    @field_validator("webhook_retry_seconds")
    @classmethod
    def _are_waits(cls, setting: str) -> str:
        read_schedule(setting)
        return setting

    @property
    def chosen_extractor(self) -> Literal["openai", "offline"]:
        """The effective extractor: as configured, else a model if its key or base URL is set."""
        if self.extractor is not None:
            return self.extractor
        return "openai" if self.model_available else "offline"
