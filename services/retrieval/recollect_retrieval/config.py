"""What the retrieval service reads from the environment."""

from __future__ import annotations

from pydantic import Field, SecretStr

from recollect_shared.config import SharedSettings


class RetrievalSettings(SharedSettings):
    """Settings of this service; see the README's table for every variable."""

    retrieval_listen: str = "127.0.0.1:50051"
    read_database_url: SecretStr | None = None

    embedding_deadline_ms: int = Field(800, ge=1, le=60_000)
    embedding_cache_size: int = Field(4096, ge=0)
    max_context_items: int = Field(10, validation_alias="MAX_CONTEXT_ITEMS", ge=1, le=200)
    max_context_tokens: int = Field(4000, validation_alias="MAX_CONTEXT_TOKENS", ge=1)
    read_pool_size: int = Field(16, ge=1, le=200)
