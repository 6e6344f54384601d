"""Settings of the retrieval service, read from the environment."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, SecretStr, field_validator

from hitherto_retrieval.search.intent.content_types import ContentTypes
from hitherto_retrieval.search.intent.recency import RecencyWords
from hitherto_shared.config import Listen, SharedSettings
from hitherto_shared.database.connect import RETRIEVAL_LOGINS


class RetrievalSettings(SharedSettings):
    """Settings of this service; docs/configuration.md describes every variable."""

    logins = RETRIEVAL_LOGINS

    retrieval_listen: Listen = "127.0.0.1:50051"
    read_database_url: SecretStr | None = None

    embedding_deadline_ms: int = Field(800, ge=1, le=60_000)
    embedding_cache_size: int = Field(4096, ge=0)
    max_context_items: int = Field(10, validation_alias="MAX_CONTEXT_ITEMS", ge=1, le=200)
    max_context_tokens: int = Field(4000, validation_alias="MAX_CONTEXT_TOKENS", ge=1)
    token_encoding: Literal["o200k_base", "cl100k_base", "estimate"] = "o200k_base"
    read_pool_size: int = Field(16, ge=1, le=200)
    snapshot_memory_mb: int = Field(256, ge=0, le=65_536)
    read_processes: int = Field(1, ge=0, le=128)
    recency_words: str | None = None
    content_types: str | None = None

    @field_validator("recency_words")
    @classmethod
    def _are_recency_words(cls, setting: str | None) -> str | None:
        RecencyWords.from_setting(setting)
        return setting

    @field_validator("content_types")
    @classmethod
    def _are_content_types(cls, setting: str | None) -> str | None:
        ContentTypes.from_setting(setting)
        return setting
