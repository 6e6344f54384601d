"""Settings for connections, concurrent calls and rates."""

from __future__ import annotations

from pydantic import Field
from pydantic_settings import BaseSettings


class EdgeSettings(BaseSettings):
    """The limits that apply to every caller before any work is done for it."""

    max_concurrent_rpcs: int = Field(512, ge=1)
    max_body_bytes: int = Field(536_870_912, ge=1)
    tenant_share: float = Field(0.5, gt=0, le=1)
    user_share: float = Field(0.25, gt=0, le=1)
    max_connections: int = Field(10_000, ge=0)
    max_streams_per_connection: int = Field(256, ge=1, le=2**31 - 1)
    max_connection_age_seconds: float = Field(3_600.0, ge=0)
    max_connection_grace_seconds: float = Field(3_600.0, ge=0)
    max_connection_idle_seconds: float = Field(900.0, ge=0)
    keepalive_seconds: float = Field(60.0, ge=1)
    handshake_seconds: float = Field(10.0, gt=0)
    body_seconds: float = Field(10.0, gt=0)
    stream_idle_seconds: float = Field(60.0, gt=0)
    stream_unread_seconds: float = Field(60.0, gt=0)
    slow_call_ms: int = Field(1_000, ge=0)

    tenant_reads_per_second: float = Field(2_000.0, ge=0)
    tenant_read_bytes_per_second: int = Field(134_217_728, ge=0)
    tenant_writes_per_second: float = Field(1_000.0, ge=0)
    tenant_write_bytes_per_second: int = Field(33_554_432, ge=0)
    user_reads_per_second: float = Field(200.0, ge=0)
    user_read_bytes_per_second: int = Field(33_554_432, ge=0)
    user_writes_per_second: float = Field(200.0, ge=0)
    user_write_bytes_per_second: int = Field(8_388_608, ge=0)


RATE_SETTINGS = tuple(name for name in EdgeSettings.model_fields if name.endswith("_per_second"))
"""Names of the settings that limit rates; 0 disables each."""
