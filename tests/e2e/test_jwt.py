"""Tokens through real ports of both services: whose data, which rights, and keys that change.

Rows of the fault catalogue: 59 (credentials), 60 (other tenants), 61 (scopes and bound callers).
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
from pathlib import Path
from typing import Any

import grpc
import pytest
from cryptography.hazmat.primitives import serialization
from google.protobuf.message import Message

from hitherto.v1 import extraction_service_pb2 as extraction
from hitherto.v1 import job_pb2
from hitherto_shared.auth.access import rules_of
from tests.e2e.conftest import Services, Shared, StartServices
from tests.e2e.methods import METHODS, OFFERED, SERVICES, Method, call, refused
from tests.e2e.requests import message, submit, transcript, valid
from tests.token_issuer import AUDIENCE, ISSUER, KeyPair, TokenIssuer, claims, key_set, part

RULES = rules_of(SERVICES)
OLD, NEW = KeyPair("old"), KeyPair("new", "RS256", 2)
GOOD = TokenIssuer(OLD)
EVERYTHING = "read write maintenance admin"

GET_CONTEXT = METHODS["RetrievalService/GetContext"]
LIST_MEMORIES = METHODS["RetrievalService/ListMemories"]
LIST_JOBS = METHODS["ExtractionService/ListJobs"]
SUBMIT = METHODS["ExtractionService/SubmitTranscripts"]
WATCH_JOB = METHODS["ExtractionService/WatchJob"]
ON_BOTH = (GET_CONTEXT, LIST_JOBS)
DENIED = (grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAUTHENTICATED)


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


def any_request(method: Method) -> Message:
    """A valid request where the call is offered, else an empty one."""
    return valid(method) if method in OFFERED else method.request()


async def code_of(
    services: Services, token: str, method: Method, request: Message | None = None
) -> grpc.StatusCode:
    request = any_request(method) if request is None else request
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


async def learn(services: Services, token: str, line: str) -> None:
    accepted = await call(
        services, SUBMIT, submit(transcript(message(line))), metadata=bearer(token)
    )
    request = extraction.WatchJobRequest(job_id=accepted[0].jobs[0].id)
    watched = await call(services, WATCH_JOB, request, metadata=bearer(token))
    assert watched[-1].job.state == job_pb2.JOB_STATE_SUCCEEDED


async def contents(services: Services, token: str) -> list[str]:
    (reply,) = await call(services, LIST_MEMORIES, valid(LIST_MEMORIES), metadata=bearer(token))
    return [memory.content for memory in reply.memories]


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
        GOOD.token(iat=4_000_000_000, exp=4_000_000_060),
        signed_by_the_public_key(),
        GOOD.token(aud="canary"),
        GOOD.token(iss="canary"),
        GOOD.token(exp=None),
        GOOD.token(sub=None),
        GOOD.token(tenant=None),
        TokenIssuer(KeyPair("canary")).token(),
        TokenIssuer(KeyPair("old", number=2)).token(),
    ]
    texts = set()
    for method in METHODS.values():
        for token in bad:
            metadata = [] if token is None else bearer(token)
            refusal = await refused(guarded, method, any_request(method), metadata=metadata)
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


def signed_by_the_public_key() -> str:
    """HS256 with what everybody knows as the secret; the library refuses to sign with that."""
    public = OLD.private.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    text = f"{part({'alg': 'HS256', 'kid': 'old'})}.{part(claims(scope=EVERYTHING))}"
    return f"{text}.{part(hmac.new(public, text.encode(), hashlib.sha256).digest())}"


async def test_row_61_a_person_acts_for_themselves_only(guarded: Services) -> None:
    """Every offered call that names a user: own or listed yes, another's no, `any` may do both."""
    rights = {"scope": EVERYTHING, "hitherto_capabilities": "profiles.manage"}
    own = GOOD.token(**rights)
    service = GOOD.token(sub="backend", hitherto_user_scope="any", **rights)
    listed = GOOD.token(sub="backend", hitherto_user_scope=["ana", "cleo"], **rights)
    tried = 0
    for method in OFFERED:
        if RULES[method.path].user_path != ("user_id",):
            continue
        tried += 1
        theirs: Any = valid(method)
        theirs.user_id = "bo"
        for token in (own, listed):
            refusal = await refused(guarded, method, theirs, metadata=bearer(token))
            assert refusal.reason == "USER_NOT_ALLOWED", method.name
        for token in (own, service):
            assert await code_of(guarded, token, method) not in DENIED, method.name
        # A list has no user to fill in where the request may leave the user out.
        ours: Any = valid(method)
        ours.user_id = "ana"
        assert await code_of(guarded, listed, method, ours) not in DENIED, method.name
        assert await code_of(guarded, service, method, theirs) not in DENIED, method.name
    assert tried > 20
    batch = submit(transcript(), transcript(user="bo"))
    refusal = await refused(guarded, SUBMIT, batch, metadata=bearer(own))
    assert refusal.reason == "USER_NOT_ALLOWED"


async def test_row_60_the_claim_decides_the_tenant(guarded: Services) -> None:
    ours, theirs = GOOD.token(tenant="ours"), GOOD.token(tenant="theirs")
    await learn(guarded, ours, "I live in Porto.")
    assert "Porto" in " ".join(await contents(guarded, ours))
    assert await contents(guarded, theirs) == []
    assert await contents(guarded, GOOD.token(tenant="default")) == []
    (jobs,) = await call(guarded, LIST_JOBS, extraction.ListJobsRequest(), metadata=bearer(theirs))
    assert jobs.total_size == 0


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
