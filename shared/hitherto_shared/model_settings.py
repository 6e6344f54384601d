"""Settings of the models' servers, which both services read from the environment."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, model_validator
from pydantic_settings import BaseSettings, NoDecode

from hitherto_shared.model_server import ModelServer

_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")
MOST_DIMENSIONS = 4000
DEFAULT_EMBEDDING_MODEL = "text-embedding-3-small"


def _json_object(value: object) -> object:
    """A JSON object in a variable; a setting in code is one already."""
    try:
        found = json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ValueError('it must be a JSON object, such as {"name": "value"}')
    return found


def _sendable(headers: dict[str, str]) -> dict[str, str]:
    for name, value in headers.items():
        if not (_HEADER.fullmatch(name) and value.isascii() and value.isprintable()):
            raise ValueError("header names and values must be printable ASCII")
    return headers


def _fits_a_page(dimensions: int) -> int:
    """Vectors lie in the pages of their table, of 8 KiB, with two bytes a number."""
    if dimensions > MOST_DIMENSIONS:
        raise ValueError(
            f"it may be at most {MOST_DIMENSIONS}: set a shorter length that the model can be "
            "shortened to, such as 1024, which the server is then asked for"
        )
    return dimensions


JsonObject = Annotated[dict[str, Any], NoDecode, BeforeValidator(_json_object)]
Headers = Annotated[
    dict[str, str], NoDecode, BeforeValidator(_json_object), AfterValidator(_sendable)
]


class ModelSettings(BaseSettings):
    """Where the language model and the embedder are."""

    openai_api_key: SecretStr | None = Field(None, validation_alias="OPENAI_API_KEY")
    openai_base_url: str | None = Field(None, validation_alias="OPENAI_BASE_URL")
    azure_endpoint: str | None = Field(None, validation_alias="AZURE_OPENAI_ENDPOINT")
    azure_api_key: SecretStr | None = Field(None, validation_alias="AZURE_OPENAI_API_KEY")
    azure_token: SecretStr | None = Field(None, validation_alias="AZURE_OPENAI_AD_TOKEN")
    openai_api_version: str | None = Field(None, validation_alias="OPENAI_API_VERSION")
    model_headers: Headers = Field(default_factory=dict, repr=False)
    model_extra_fields: JsonObject = Field(
        default_factory=dict, validation_alias="HITHERTO_MODEL_EXTRA"
    )
    model_timeout_seconds: float = Field(60.0, gt=0, le=3600)

    embedder: Literal["openai", "onnx", "offline"] | None = None
    embedding_base_url: str | None = Field(None, validation_alias="EMBEDDING_BASE_URL")
    embedding_api_key: SecretStr | None = Field(None, validation_alias="EMBEDDING_API_KEY")
    embedding_headers: Headers = Field(default_factory=dict, repr=False)
    embedding_extra: JsonObject = Field(default_factory=dict)
    embedding_model: str = Field(DEFAULT_EMBEDDING_MODEL, validation_alias="EMBEDDING_MODEL")
    embedding_dimensions: Annotated[int, AfterValidator(_fits_a_page)] | None = Field(
        None, validation_alias="EMBEDDING_DIMENSIONS", ge=8
    )
    onnx_model_dir: Path | None = None

    @property
    def model_available(self) -> bool:
        """True when the environment names a language model's server or key."""
        named = (self.openai_api_key, self.openai_base_url, self.azure_endpoint)
        return any(value is not None for value in named)

    @property
    def embeddings_available(self) -> bool:
        """True when the environment names an embedder's server or key."""
        named = (self.embedding_api_key, self.embedding_base_url)
        return self.model_available or any(value is not None for value in named)

    @property
    def chosen_embedder(self) -> Literal["openai", "onnx", "offline"]:
        """The effective embedder: as configured, else OpenAI's if its key or base URL is set."""
        if self.embedder is not None:
            return self.embedder
        if self.onnx_model_dir is not None:
            return "onnx"
        return "openai" if self.embeddings_available else "offline"

    @property
    def chat_server(self) -> ModelServer:
        """The server of the language model, with its key in clear."""
        if self.azure_endpoint is None:
            return ModelServer(
                self.openai_base_url,
                _clear(self.openai_api_key),
                headers=self.model_headers,
                extra=self.model_extra_fields,
            )
        return ModelServer(
            self.azure_endpoint,
            _clear(self.azure_api_key),
            azure_version=self.openai_api_version or "",
            azure_token=_clear(self.azure_token),
            url_setting="AZURE_OPENAI_ENDPOINT",
            headers=self.model_headers,
            extra=self.model_extra_fields,
            key_setting="AZURE_OPENAI_API_KEY",
        )

    @property
    def embedding_server(self) -> ModelServer:
        """The server of the embedder: that of the language model unless it has its own."""
        server = self.chat_server
        if self.embedding_base_url is not None:
            server = ModelServer(
                self.embedding_base_url,
                _clear(self.openai_api_key),
                url_setting="EMBEDDING_BASE_URL",
            )
        headers = {**server.headers, **self.embedding_headers}
        server = replace(server, headers=headers, extra=self.embedding_extra)
        if self.embedding_api_key is None:
            return server
        return replace(
            server,
            api_key=_clear(self.embedding_api_key),
            azure_token=None,
            key_setting="EMBEDDING_API_KEY",
        )

    @model_validator(mode="after")
    def _azure_is_whole(self) -> Self:
        if self.azure_endpoint is None:
            return self
        if self.openai_base_url is not None:
            raise ValueError("set OPENAI_BASE_URL or AZURE_OPENAI_ENDPOINT, not both")
        if not (self.openai_api_version or "").strip():
            raise ValueError(
                "AZURE_OPENAI_ENDPOINT needs OPENAI_API_VERSION, such as 2024-10-21; for Azure's "
                "newer API set OPENAI_BASE_URL=https://RESOURCE.openai.azure.com/openai/v1 instead"
            )
        if self.azure_api_key is None and self.azure_token is None:
            raise ValueError(
                "AZURE_OPENAI_ENDPOINT needs AZURE_OPENAI_API_KEY or AZURE_OPENAI_AD_TOKEN"
            )
        return self


def _clear(secret: SecretStr | None) -> str | None:
    return None if secret is None else secret.get_secret_value()
