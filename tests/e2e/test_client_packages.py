"""The packages in clients/: their own tests, and the programs that their READMEs show first.

Both run against services over TLS that ask for a client's certificate and a token.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
from typing import Any

import psycopg
import pytest

from tests.certificates import Authority, Pair
from tests.e2e.client_packages import PACKAGES, Package, packed_once, unavailable
from tests.e2e.conftest import Services
from tests.scripted_model.assistant import Answer, AssistantRequest, ScriptedAssistant
from tools.version import version

RUN_SECONDS = 600
SAVED = {
    "Tôi sống ở Hà Nội và làm nghề nuôi cá.",
    "أعيش في القاهرة وأعمل مهندسة.",
    "👩🏽‍🚀 loves 🐙 and 日本語.",
}
"""What the tests of every package save and read."""

pytestmark = pytest.mark.timeout(2400)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"), "ours")


@pytest.fixture(scope="module")
def certificate(authority: Authority) -> Pair:
    """What the services show their callers, and in these tests the callers the services."""
    return authority.pair("certificate")


@pytest.fixture(scope="module")
def service_settings(authority: Authority, certificate: Pair) -> dict[str, Any]:
    return {
        "tls_certificate_file": certificate.certificate,
        "tls_key_file": certificate.key,
        "tls_client_ca_file": authority.file,
    }


@pytest.fixture(params=PACKAGES, scope="module")
def package(request: pytest.FixtureRequest) -> Package:
    return PACKAGES[request.param]()


@pytest.fixture
def environment(services: Services, authority: Authority, certificate: Pair) -> dict[str, str]:
    """What a client finds the services by, and may call them with."""
    return {
        # A proxy meant for the internet has no business on loopback.
        "http_proxy": "http://127.0.0.1:9",
        "https_proxy": "http://127.0.0.1:9",
        "HITHERTO_RETRIEVAL_ADDRESS": services.retrieval_address,
        "HITHERTO_EXTRACTION_ADDRESS": services.extraction_address,
        "HITHERTO_TOKEN": services.token,
        "HITHERTO_TLS_CA_FILE": str(authority.file),
        "HITHERTO_TLS_CLIENT_CERTIFICATE_FILE": str(certificate.certificate),
        "HITHERTO_TLS_CLIENT_KEY_FILE": str(certificate.key),
    }


async def run(command: list[str], package: Package, environment: dict[str, str]) -> str:
    """What the command prints; it must succeed."""
    # In a thread: the services run in the loop of this test.
    done = await asyncio.to_thread(
        subprocess.run,
        command,
        cwd=package.folder,
        env={**os.environ, **package.environment, **environment},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=RUN_SECONDS,
        check=False,
    )
    told = f"{done.stdout}\n{done.stderr}"
    assert done.returncode == 0, told[-8000:]
    return told


async def test_its_own_tests_pass(
    package: Package, environment: dict[str, str], tenant_conninfo: str
) -> None:
    await run(package.tests, package, {**environment, "HITHERTO_TEST_SERVICES": "1"})
    # Had those tests been skipped that call the services, nothing of them would be here.
    async with await psycopg.AsyncConnection.connect(tenant_conninfo) as connection:
        talked = await connection.execute("SELECT DISTINCT conversation_id FROM conversations")
        assert {name for (name,) in await talked.fetchall()} == {"monday", "tuesday"}
        saved = await connection.execute("SELECT content FROM memories")
        assert {content for (content,) in await saved.fetchall()} >= SAVED


async def test_its_quick_start_runs(package: Package, environment: dict[str, str]) -> None:
    told = await run(package.programs[0], package, environment)
    assert "Ana lives in Porto." in told


@pytest.mark.parametrize(
    ("language", "kinds"),
    [("typescript", [".tgz"]), ("java", ["-javadoc.jar", "-sources.jar", ".jar", ".pom"])],
)
def test_a_release_has_what_registries_ask_for(language: str, kinds: list[str]) -> None:
    """`tools.release` packs the same builds."""
    into = packed_once(language)
    archives = sorted(path.name for path in into.iterdir())
    assert archives == [f"hitherto-client-{version()}{kind}" for kind in kinds]


async def test_a_model_of_the_ai_sdk_remembers(environment: dict[str, str]) -> None:
    """The second program of the TypeScript package, which docs/integrations.md shows too."""
    package = PACKAGES["typescript"]()

    def answer(asked: AssistantRequest) -> Answer:
        known = "Porto" in str(asked.body["input"])
        return Answer("You live in Porto." if known else "I do not know.")

    async with ScriptedAssistant(answer) as model:
        provider = {"OPENAI_BASE_URL": model.base_url, "OPENAI_API_KEY": "test"}
        told = await run(package.programs[1], package, environment | provider)
    assert "You live in Porto." in told


def test_a_skip_in_ci_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="no network"):
        unavailable("no network")
    monkeypatch.delenv("CI")
    with pytest.raises(pytest.skip.Exception, match="no network"):
        unavailable("no network")
