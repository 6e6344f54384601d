"""HITHERTO_AUTH=jwt: what must be set, what is refused at start, and that the text names it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import jwt
import pytest
from pydantic import ValidationError

from hitherto_shared.auth.token_settings import web_token_authentication
from hitherto_shared.config import SharedSettings, describe
from hitherto_shared.database.pool import Reads
from hitherto_shared.errors import NotAuthenticated
from hitherto_shared.startup import authentication
from tests.refusing import refusing
from tests.token_issuer import AUDIENCE, ISSUER, KeyPair, TokenIssuer, claims, key_set

NO_DATABASE = cast(Reads, None)


def settings(tmp_path: Path, **given: Any) -> SharedSettings:
    usual = {
        "data_dir": tmp_path, "auth": "jwt", "jwt_issuer": ISSUER, "jwt_audience": AUDIENCE,
        "jwt_jwks": str(tmp_path / "keys.json"), **given,
    }  # fmt: skip
    return SharedSettings(**usual)


def test_settings_that_are_refused(tmp_path: Path) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"jwt_audience": None}, "HITHERTO_JWT_AUDIENCE"),
        ({"jwt_audience": ""}, "HITHERTO_JWT_AUDIENCE"),
        ({"jwt_issuer": None}, "HITHERTO_JWT_ISSUER"),
        ({"jwt_tenant_claim": " "}, "HITHERTO_JWT_TENANT_CLAIM"),
        ({"jwt_jwks": None}, "HITHERTO_JWT_JWKS"),
        ({"jwt_algorithms": "none"}, "HITHERTO_JWT_ALGORITHMS"),
        ({"jwt_algorithms": "RS256,none"}, "HITHERTO_JWT_ALGORITHMS"),
        ({"jwt_algorithms": "rs256"}, "HITHERTO_JWT_ALGORITHMS"),
        ({"jwt_algorithms": "HS256"}, "HITHERTO_JWT_SECRET_FILE"),
        ({"jwt_algorithms": "RS256", "jwt_secret_file": Path("x")}, "HITHERTO_JWT_SECRET_FILE"),
        (
            {"jwt_algorithms": "RS256", "jwt_secret_file": Path("x"), "jwt_jwks": None},
            "HITHERTO_JWT_JWKS",
        ),
        ({"auth": None}, "HITHERTO_AUTH"),
    ]
    for given, told in cases:
        with pytest.raises(ValidationError) as caught, refusing(given):
            settings(tmp_path, **given)
        assert told in describe(caught.value), given


async def test_it_verifies_what_the_settings_say(tmp_path: Path) -> None:
    (tmp_path / "keys.json").write_bytes(key_set(KeyPair()))
    secret = tmp_path / "secret"
    secret.write_bytes(b"s" * 32)
    secret.chmod(0o600)
    spaced = settings(
        tmp_path, jwt_issuer=f" {ISSUER}\n", jwt_tenant_claim="org", jwt_secret_file=secret
    )
    async with authentication(spaced, "0.0.0.0:1", NO_DATABASE) as door:
        for token in (
            TokenIssuer().token(org="b"),
            jwt.encode(claims(org="b"), b"s" * 32, "HS256"),
        ):
            found = await door.authenticate(f"Bearer {token}")
            assert (found.tenant_id, found.user_id) == ("b", "ana")


def test_which_algorithms_are_in_force(tmp_path: Path) -> None:
    secret: dict[str, Any] = {"jwt_secret_file": Path("x")}
    for given, found in [
        ({}, ("RS256", "ES256", "EdDSA")),
        ({"jwt_algorithms": "EdDSA, RS256"}, ("EdDSA", "RS256")),
        (secret | {"jwt_jwks": None}, ("HS256",)),
        (secret, ("RS256", "ES256", "EdDSA", "HS256")),
        (secret | {"jwt_algorithms": "ES256 HS256"}, ("ES256", "HS256")),
    ]:
        assert settings(tmp_path, **given).token_algorithms() == found


def test_tokens_stay_the_way_in_where_others_can_come(tmp_path: Path) -> None:
    assert settings(tmp_path).auth_mode("0.0.0.0:1") == "jwt"


def empty_set(place: Path) -> None:
    place.write_bytes(key_set())


def private_key(place: Path) -> None:
    place.write_text('{"keys": [{"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA", "d": "AA"}]}')


def no_json(place: Path) -> None:
    place.write_text("-----BEGIN PUBLIC KEY-----")


@pytest.mark.parametrize("make", [None, empty_set, private_key, no_json])
async def test_a_file_without_keys_ends_the_start(
    tmp_path: Path, make: Callable[[Path], None] | None
) -> None:
    if make is not None:
        make(tmp_path / "keys.json")
    with pytest.raises(ValueError, match="HITHERTO_JWT_JWKS"):
        async with authentication(settings(tmp_path), "127.0.0.1:1", NO_DATABASE):
            raise AssertionError("it started")


async def test_an_address_that_is_away_does_not(tmp_path: Path) -> None:
    away = settings(tmp_path, jwt_jwks="http://127.0.0.1:1/keys")
    async with authentication(away, "127.0.0.1:1", NO_DATABASE) as door:
        with pytest.raises(NotAuthenticated):
            await door.authenticate(f"Bearer {TokenIssuer().token()}")


@pytest.mark.parametrize(
    "held",
    [
        None,
        b"x" * 31,
        b"x" * 5000,
        b"-----BEGIN PUBLIC KEY-----\n" + b"A" * 64,
        b"ssh-ed25519 " + b"A" * 64,
    ],
)
async def test_secrets_that_are_refused(tmp_path: Path, held: bytes | None) -> None:
    place = tmp_path / "secret"
    if held is not None:
        place.write_bytes(held)
        place.chmod(0o600)
    with pytest.raises(ValueError, match="HITHERTO_JWT_SECRET_FILE") as caught:
        async with web_token_authentication(
            settings(tmp_path, jwt_jwks=None, jwt_secret_file=place)
        ):
            raise AssertionError("it started")
    assert "xxx" not in str(caught.value)
