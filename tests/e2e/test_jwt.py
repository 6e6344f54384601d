"""Tokens through real ports of both services: whose data, which rights, and keys that change.

Rows of the fault catalogue: 59 (credentials), 60 (other tenants), 61 (scopes and bound callers).
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message

from tests.e2e.conftest import Services, Shared, StartServices
from tests.e2e.methods import METHODS, Method, call, refused
from tests.e2e.requests import valid
from tests.token_issuer import AUDIENCE, ISSUER, KeyPair, TokenIssuer, claims, key_set, part

OLD, NEW = KeyPair("old"), KeyPair("new", "RS256", 2)
GOOD = TokenIssuer(OLD)
EVERYTHING = "read write maintenance admin"

GET_CONTEXT = METHODS["RetrievalService/GetContext"]


LIST_JOBS = METHODS["ExtractionService/ListJobs"]


ON_BOTH = (GET_CONTEXT, LIST_JOBS)


def settings(jwks: Path | str) -> dict[str, Any]:
    return {
        "auth": "jwt",
        "jwt_issuer": ISSUER,
        "jwt_audience": AUDIENCE,
        "jwt_jwks": str(jwks),
    }


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    """The file with the key set."""
    place = tmp_path / "keys.json"
    place.write_bytes(key_set(OLD))
    return place


@pytest.fixture(scope="module")
def service_settings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    place = tmp_path_factory.mktemp("keys") / "keys.json"
    place.write_bytes(key_set(OLD))
    return settings(place)


@pytest.fixture
def guarded(shared_services: Shared) -> Services:
    """Both services with tokens required, the module's; each call brings its own credential."""
    return shared_services.services


def bearer(token: str) -> list[tuple[str, str]]:
    return [("authorization", f"Bearer {token}")]


async def code_of(
    services: Services, token: str, method: Method, request: Message | None = None
) -> grpc.StatusCode:
    request = valid(method) if request is None else request
    try:
        await call(services, method, request, metadata=bearer(token))
    except grpc.aio.AioRpcError as error:
        code: grpc.StatusCode = error.code()
        return code
    return grpc.StatusCode.OK


async def until_in(services: Services, token: str, *, let_in: bool = True) -> None:
    """Wait until both services let the token in, or no longer do."""
    async with asyncio.timeout(180):
        for method in ON_BOTH:
            while True:
                code = await code_of(services, token, method)
                if (code is grpc.StatusCode.OK) is let_in:
                    break
                await asyncio.sleep(0.02)


async def test_row_59_every_rpc_refuses_every_bad_token_with_one_text(
    guarded: Services, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="hitherto")
    head, body, signature = GOOD.token(scope=EVERYTHING).split(".")
    bad = [
        None,
        "canary",
        f"{part({'alg': 'none'})}.{body}.",
        f"{head}.{part(claims(sub='canary', scope=EVERYTHING))}.{signature}",
        GOOD.token(exp=1_000_000_000, iat=None),
        GOOD.token(nbf=4_000_000_000),
        GOOD.token(aud="canary"),
        GOOD.token(exp=None),
        TokenIssuer(KeyPair("canary")).token(),
        TokenIssuer(KeyPair("old", number=2)).token(),
    ]
    texts = set()
    for method in METHODS.values():
        # What is wrong is found for all RPCs in one place.
        for token in bad if method in ON_BOTH else (None, bad[4]):
            metadata = [] if token is None else bearer(token)
            refusal = await refused(guarded, method, valid(method), metadata=metadata)
            assert refusal.code is grpc.StatusCode.UNAUTHENTICATED, method.name
            assert refusal.reason == "CREDENTIAL_INVALID"
            texts.add(refusal.everything)
    assert len(texts) == 1
    logged = "".join(f"{record.getMessage()} {vars(record)}" for record in caplog.records)
    for secret in (head, body, signature, "canary"):
        assert secret not in texts.copy().pop()
        assert secret not in logged
    whys = {getattr(record, "why", None) for record in caplog.records}
    assert {"it has expired", "exp is missing", "nbf is in the future"} <= whys


async def test_keys_in_a_file_rotate_without_a_restart(
    start_services: StartServices, keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hitherto_shared.auth.key_source.KeyFile.every", 0.05)
    monkeypatch.setattr("hitherto_shared.auth.key_source.KeyFile.between_surprises", 0.05)
    old, new = GOOD.token(), TokenIssuer(NEW).token()
    async with start_services(**settings(keys)) as services:
        await until_in(services, old)
        assert await code_of(services, new, GET_CONTEXT) is grpc.StatusCode.UNAUTHENTICATED
        publish(keys, key_set(OLD, NEW))
        await until_in(services, new)
        await until_in(services, old)
        # A file that is being broken or taken away changes nothing.
        publish(keys, b'{"keys": [')
        await until_in(services, new)
        await asyncio.to_thread(keys.unlink)
        await until_in(services, old)
        publish(keys, key_set(NEW))
        await until_in(services, old, let_in=False)
        await until_in(services, new)


def publish(place: Path, body: bytes) -> None:
    draft = place.with_suffix(".draft")
    draft.write_bytes(body)
    draft.rename(place)
