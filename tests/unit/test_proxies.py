"""Which proxy the way to the embeddings takes: the same one as the openai client's."""

from __future__ import annotations

import pytest
from yarl import URL

from hitherto_shared.embeddings.proxies import proxy_for

PROXY = "http://proxy.example:3128"
MODELS = "https://api.models.example/v1"


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http", "https", "all", "no"):
        monkeypatch.delenv(f"{name}_proxy", raising=False)
        monkeypatch.delenv(f"{name}_proxy".upper(), raising=False)


def chosen(url: str) -> str | None:
    proxy = proxy_for(URL(url))
    return None if proxy is None else str(proxy).rstrip("/")


@pytest.mark.parametrize(
    ("variable", "url", "expected"),
    [
        ("HTTPS_PROXY", MODELS, PROXY),
        ("https_proxy", MODELS, PROXY),
        ("ALL_PROXY", MODELS, PROXY),
        ("HTTP_PROXY", MODELS, None),
        ("HTTP_PROXY", "http://127.0.0.1:8080/v1", PROXY),
        ("HTTPS_PROXY", "http://127.0.0.1:8080/v1", None),
    ],
)
def test_the_variable_of_the_scheme_names_the_proxy(
    monkeypatch: pytest.MonkeyPatch, variable: str, url: str, expected: str | None
) -> None:
    assert chosen(url) is None
    monkeypatch.setenv(variable, PROXY)
    assert chosen(url) == expected
    # One may be given without a scheme, and that of the address goes before that of all.
    monkeypatch.setenv(variable, "proxy.example:3128")
    assert chosen(url) == expected
    if variable != "ALL_PROXY":
        monkeypatch.setenv("ALL_PROXY", "http://other.example:1")
        assert chosen(url) == (expected or "http://other.example:1")


def test_no_proxy_lists_who_is_reached_without(monkeypatch: pytest.MonkeyPatch) -> None:
    cases: list[tuple[str, str, bool]] = [
        ("*", MODELS, True),
        ("api.models.example", MODELS, True),
        ("models.example", MODELS, True),
        ("*.models.example", MODELS, True),
        (".api.models.example", MODELS, False),
        ("other.example,,models.example", MODELS, True),
        ("models.example:443", MODELS, True),
        ("models.example:8443", MODELS, False),
        ("models.example:8443", "https://models.example:8443/v1", True),
        ("https://api.models.example", MODELS, True),
        ("http://api.models.example", MODELS, False),
        ("localhost", "https://localhost:8080/v1", True),
        ("localhost", "https://127.0.0.1:8080/v1", False),
        ("127.0.0.1", "https://127.0.0.1:8080/v1", True),
        ("10.0.0.0/8", "https://10.1.2.3/v1", True),
        ("10.0.0.0/8", "https://11.1.2.3/v1", False),
        ("10.0.0.1:8080", "https://10.0.0.1:8080/v1", True),
        ("::1", "https://[::1]:8080/v1", True),
        ("[::1]:8080", "https://[::1]:8080/v1", True),
        ("fd00::/8", "https://[fd12::1]/v1", True),
        ("fd00::/8", "https://[fe12::1]/v1", False),
        (" , ", MODELS, False),
    ]
    for entries, url, direct in cases:
        monkeypatch.setenv("HTTPS_PROXY", PROXY)
        monkeypatch.setenv("NO_PROXY", entries)

        assert (chosen(url) is None) is direct, entries


@pytest.mark.parametrize("address", ["socks5://u:hidden@h:1", "http://u:hidden@h:99999", "http://"])
def test_a_proxy_that_cannot_be_used_names_its_variable(
    monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", address)

    with pytest.raises(ValueError, match="HTTPS_PROXY") as caught:
        proxy_for(URL(MODELS))

    assert "hidden" not in str(caught.value)


def test_a_proxy_that_cannot_be_used_does_not_matter_to_whom_it_is_not_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "socks5://h:1")
    monkeypatch.setenv("NO_PROXY", "models.example")

    assert chosen(MODELS) is None
    assert chosen("http://127.0.0.1/v1") is None
