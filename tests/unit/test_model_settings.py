"""Which server chat and vectors go to, by the environment."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from hitherto_shared.config import SharedSettings, describe
from hitherto_shared.model_server import ModelServer

NAMES = (
    "OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_API_VERSION", "AZURE_OPENAI_ENDPOINT",
    "AZURE_OPENAI_API_KEY", "AZURE_OPENAI_AD_TOKEN", "EMBEDDING_BASE_URL", "EMBEDDING_API_KEY",
)  # fmt: skip
AZURE = {
    "AZURE_OPENAI_ENDPOINT": "https://r.openai.azure.com",
    "AZURE_OPENAI_API_KEY": "k",
    "OPENAI_API_VERSION": "2024-10-21",
}


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> object:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)

    def settings(**variables: str) -> SharedSettings:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        return SharedSettings()

    return settings


def seen(server: ModelServer) -> tuple[str, str, str, str]:
    return str(server.root), server.key, server.url_setting, server.key_setting


def test_vectors_come_from_the_server_of_the_language_model(read: object) -> None:
    settings = read(OPENAI_BASE_URL="http://h/v1", OPENAI_API_KEY="k")  # type: ignore[operator]
    expected = ("http://h/v1", "k", "OPENAI_BASE_URL", "OPENAI_API_KEY")
    assert seen(settings.chat_server) == seen(settings.embedding_server) == expected


def test_vectors_may_have_a_server_of_their_own(read: object) -> None:
    settings = read(  # type: ignore[operator]
        OPENAI_BASE_URL="http://h/v1",
        OPENAI_API_KEY="k",
        EMBEDDING_BASE_URL="http://e/v1",
        EMBEDDING_API_KEY="s",
        HITHERTO_MODEL_HEADERS='{"X-Chat": "1"}',
        HITHERTO_MODEL_EXTRA='{"reasoning_effort": "low"}',
        HITHERTO_EMBEDDING_EXTRA='{"truncate": "END"}',
    )
    assert settings.chat_server.headers == {"X-Chat": "1"}
    assert settings.chat_server.extra == {"reasoning_effort": "low"}
    server = settings.embedding_server
    assert seen(server) == ("http://e/v1", "s", "EMBEDDING_BASE_URL", "EMBEDDING_API_KEY")
    # What lets one in at one server is not shown to another.
    assert (server.headers, server.extra) == ({}, {"truncate": "END"})


@pytest.mark.parametrize(
    ("left_out", "told"),
    [("OPENAI_API_VERSION", "OPENAI_API_VERSION"), ("AZURE_OPENAI_API_KEY", "AZURE_OPENAI_API_K")],
)
def test_azure_names_what_is_missing(read: object, left_out: str, told: str) -> None:
    given = {name: value for name, value in AZURE.items() if name != left_out}
    with pytest.raises(ValidationError) as caught:
        read(**given)  # type: ignore[operator]
    assert told in describe(caught.value)


def test_azure_addresses_a_deployment_and_sends_its_own_key(read: object) -> None:
    server = read(**AZURE).chat_server  # type: ignore[operator]
    assert str(server.address("/embeddings", "my deployment")) == (
        "https://r.openai.azure.com/openai/deployments/my%20deployment/embeddings"
        "?api-version=2024-10-21"
    )
    headers = server.request_headers()
    assert headers["api-key"] == "k"
    assert "Authorization" not in headers


def test_a_token_takes_the_place_of_azures_key(read: object) -> None:
    server = read(**AZURE, AZURE_OPENAI_AD_TOKEN="t").chat_server  # type: ignore[operator]
    headers = server.request_headers()
    assert headers["Authorization"] == "Bearer t"
    assert "api-key" not in headers


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("HITHERTO_MODEL_EXTRA", "[1]"),
        ("HITHERTO_MODEL_EXTRA", "{canary"),
        ("HITHERTO_MODEL_HEADERS", '{"a": 1}'),
        ("HITHERTO_MODEL_HEADERS", '{"a b": "c"}'),
        ("HITHERTO_EMBEDDING_HEADERS", '{"a": "canary\\nb: c"}'),
        ("HITHERTO_EMBEDDING_EXTRA", '"canary"'),
        ("HITHERTO_MODEL_TIMEOUT_SECONDS", "3601"),
        ("EMBEDDING_DIMENSIONS", "4096"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named(read: object, variable: str, value: str) -> None:
    with pytest.raises(ValidationError) as caught:
        read(**{variable: value})  # type: ignore[operator]
    told = describe(caught.value)
    assert variable in told
    assert "canary" not in told


def test_the_headers_of_the_same_server_go_along(read: object) -> None:
    settings = read(  # type: ignore[operator]
        OPENAI_BASE_URL="http://h/v1",
        HITHERTO_MODEL_HEADERS='{"api-key": "a", "X-B": "c"}',
        HITHERTO_EMBEDDING_HEADERS='{"X-B": "d"}',
    )
    assert settings.embedding_server.headers == {"api-key": "a", "X-B": "d"}
    with pytest.raises(ValidationError, match="not both"):
        read(**AZURE, OPENAI_BASE_URL="http://h/v1")  # type: ignore[operator]


def test_the_query_of_an_address_is_kept() -> None:
    server = ModelServer("https://u:p@h/v1/?a=b#c")
    assert str(server.address("/embeddings", "m")) == "https://h/v1/embeddings?a=b"


def test_neither_keys_nor_headers_are_in_the_own_text(read: object) -> None:
    settings = read(  # type: ignore[operator]
        **AZURE, EMBEDDING_API_KEY="canary", HITHERTO_MODEL_HEADERS='{"api-key": "canary"}'
    )
    for shown in (settings, settings.chat_server, settings.embedding_server):
        assert "canary" not in repr(shown)
