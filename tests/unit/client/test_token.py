"""A token in place of a key: given, from the environment, or made anew for every call."""

from __future__ import annotations

import pytest

from hitherto_client import Hitherto
from hitherto_client.command import main
from tests.refusing import refusing
from tests.unit.client.fake_services import Fakes


def sent(fakes: Fakes) -> list[str]:
    return [str(call.metadata["authorization"]) for call in fakes.calls("GetContext")]


def test_a_provider_is_asked_for_every_call(fakes: Fakes) -> None:
    tokens = iter(["a.b.c", "d.e.f"])
    with Hitherto(token=lambda: next(tokens)) as client:
        client.get_context("sarah")
        client.get_context("sarah")
    assert sent(fakes) == ["Bearer a.b.c", "Bearer d.e.f"]


@pytest.mark.parametrize("token", ["", "a b", "kh\u00f3a", "a\nb"])
def test_a_provider_that_gives_no_token_ends_the_call(fakes: Fakes, token: str) -> None:
    with Hitherto(token=lambda: token) as client, pytest.raises(ValueError, match="token"):
        client.get_context("sarah")
    assert fakes.calls("GetContext") == []


def test_what_cannot_be_a_token_is_refused_at_once() -> None:
    for token in ["a b", "kh\u00f3a", "a\nb"]:
        with pytest.raises(ValueError, match="token") as caught, refusing(token):
            Hitherto(token=token)
        assert token not in str(caught.value)


def test_the_environment_names_the_token(fakes: Fakes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HITHERTO_TOKEN", "a.b.c")
    with Hitherto() as client:
        client.get_context("sarah")
    assert main(["context", "sarah", "--json"]) == 0
    # What is given is meant more than what lies about.
    with Hitherto(api_key="mk_x_y") as client:
        client.get_context("sarah")
    assert sent(fakes) == ["Bearer a.b.c", "Bearer a.b.c", "Bearer mk_x_y"]


def test_a_key_and_a_token_are_one_too_many(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ValueError, match="HITHERTO_TOKEN"):
        Hitherto(api_key="mk_x_y", token="a.b.c")
    monkeypatch.setenv("HITHERTO_TOKEN", "a.b.c")
    monkeypatch.setenv("HITHERTO_API_KEY", "mk_x_y")
    assert main(["context", "sarah"]) == 2
    assert "HITHERTO_TOKEN" in capsys.readouterr().err
