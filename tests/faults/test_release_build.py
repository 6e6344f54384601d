"""`make release`: what it builds can be installed and checked by somebody who has nothing else."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

import pytest

from tests.local_processes import alive

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.faults


def run(*words: object, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in words],
        cwd="/",
        env={**os.environ, **more},
        capture_output=True,
        text=True,
        timeout=1_200,
        check=False,
    )


def check_alone(wheel: Path, environment: Path) -> None:
    """The wheel without the checkout and without tools of development runs everything."""
    uv = Path(sys.executable).with_name("uv")
    assert run(uv, "venv", "--python", sys.executable, environment).returncode == 0
    done = run(
        uv, "pip", "install", "--python", environment / "bin/python",
        "--constraint", ROOT / "requirements.lock", f"{wheel}[up]",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    installed = run(uv, "pip", "list", "--python", environment / "bin/python").stdout
    assert "hitherto" in installed
    assert not [name for name in ("pytest", "mypy", "ruff", "hypothesis") if name in installed]

    hitherto = environment / "bin/hitherto"
    # Otherwise the parts, which start at once, would each compile the same packages.
    assert run(environment / "bin/hitherto-extraction", "--help").returncode == 0
    with tempfile.TemporaryDirectory(prefix="hitherto-alone-", dir="/tmp") as base:
        os.chmod(base, 0o711)
        data = Path(base).resolve() / "data"
        settings = {
            "HITHERTO_DATA_DIR": str(data),
            "HITHERTO_REQUIRE_DATABASE_URL": "false",
            "HITHERTO_RETRIEVAL_LISTEN": "127.0.0.1:0",
            "HITHERTO_EXTRACTION_LISTEN": "127.0.0.1:0",
            "HITHERTO_HTTP_LISTEN": "127.0.0.1:0",
        }
        up = subprocess.Popen([hitherto, "up"], cwd="/", env={**os.environ, **settings})
        try:
            found = addresses(data, up)
            at = {
                f"HITHERTO_{name.upper()}_ADDRESS": found[name]
                for name in ("retrieval", "extraction")
            }
            saved = run(hitherto, "save", "ana", "Ana lives in Porto.", **settings, **at)
            assert saved.returncode == 0, saved.stderr
            told = run(hitherto, "context", "ana", "Where does she live?", **settings, **at)
            assert "Ana lives in Porto." in told.stdout
            assert run(hitherto, "down", **settings).returncode == 0
            assert up.wait(300) == 0
        finally:
            up.kill()
            up.wait()
        assert alive(data) == []

        demo = run(hitherto, "demo", "--data-dir", data, **settings)
        assert demo.returncode == 0, demo.stderr
        assert "learnt from her message of 2026-10-05" in demo.stdout
        assert alive(data) == []


def held_by_packages() -> set[str]:
    """Every file of the packages, by its name in the wheel."""
    listed = run("git", "-C", ROOT, "ls-files", "--", "shared", "services")
    assert listed.returncode == 0, listed.stderr
    folders = ("shared/", "services/retrieval/", "services/extraction/")
    held = {
        name.removeprefix(folder)
        for name in listed.stdout.splitlines()
        for folder in folders
        if name.startswith(f"{folder}hitherto")
    }
    # Otherwise the comparison would say nothing.
    assert held
    return held


def addresses(data: Path, up: subprocess.Popen[bytes]) -> dict[str, str]:
    """Where each part serves, once all do."""
    give_up = time.monotonic() + 600
    while time.monotonic() < give_up:
        assert up.poll() is None
        try:
            found: dict[str, str] = json.loads((data / "up.json").read_text())["addresses"]
        except (OSError, ValueError):
            found = {}
        if found:
            return found
        time.sleep(0.1)
    raise AssertionError("nothing serves")


def build(into: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tools.release", "--into", str(into), *words],
        cwd=ROOT,
        env={**os.environ, **more},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.timeout(3_600)
def test_a_release_is_complete(tmp_path: Path) -> None:
    into = tmp_path / "dist"
    # The parts in other languages: tests/e2e/test_client_packages.py has them packed.
    done = build(into, "--only", "python", "go")
    assert done.returncode == 0, done.stderr
    assert "Nothing was uploaded." in done.stdout
    assert ("Left out: go" in done.stdout) == (shutil.which("go") is None)

    (wheel,) = into.glob("hitherto-*-py3-none-any.whl")
    assert list(into.glob("hitherto-*.tar.gz"))
    names = zipfile.ZipFile(wheel).namelist()
    assert "hitherto/v1/conversation_pb2.py" in names
    assert any(name.startswith("hitherto_shared/database/migrations/0001") for name in names)
    # Also what is no module: statements, pages and styles of the console, the demo's conversations.
    assert held_by_packages() <= {*names}
    assert "hitherto_client/console/static/htmx.LICENSE" in names
    assert not [name for name in names if name.startswith(("tests/", "benchmarks/"))]
    check_alone(wheel, tmp_path / "alone")

    for line in (into / "SHA256SUMS").read_text().splitlines():
        digest, name = line.split("  ")
        assert hashlib.sha256((into / name).read_bytes()).hexdigest() == digest

    components = {
        part["name"] for part in json.loads((into / "sbom.cdx.json").read_text())["components"]
    }
    assert {"hitherto", "grpcio", "psycopg", "httpx2", "onnxruntime"} <= components
    # Tools of development are no part of the product.
    assert not components & {"pytest", "mypy", "ruff", "cyclonedx-bom"}


def test_a_machine_without_docker_says_so_and_goes_on(tmp_path: Path) -> None:
    """The packages of the images exist for both architectures all the same."""
    path = str(Path(sys.executable).parent)
    done = build(tmp_path / "dist", "--only", "images", PATH=path)
    assert done.returncode == 0, done.stderr
    assert "Left out: images: there is no docker on the path" in done.stdout
