"""`make release`: what it builds can be installed and checked by somebody who has nothing else."""

import hashlib
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.faults


@pytest.mark.timeout(900)
def test_a_release_is_complete(tmp_path: Path) -> None:
    into = tmp_path / "dist"
    done = subprocess.run(
        [sys.executable, "-m", "tools.release", "--into", str(into), "--without-images"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Nothing was uploaded." in done.stdout

    (wheel,) = into.glob("hitherto-*-py3-none-any.whl")
    assert list(into.glob("hitherto-*.tar.gz"))
    names = zipfile.ZipFile(wheel).namelist()
    assert "hitherto/v1/conversation_pb2.py" in names
    assert any(name.startswith("hitherto_shared/database/migrations/0001") for name in names)
    console = "hitherto_client/console"
    assert {
        f"{console}/static/{name}" for name in ("console.css", "htmx.min.js", "htmx.LICENSE")
    } < {*names}
    assert f"{console}/templates/page.html" in names
    assert not [name for name in names if name.startswith(("tests/", "benchmarks/"))]

    for line in (into / "SHA256SUMS").read_text().splitlines():
        digest, name = line.split("  ")
        assert hashlib.sha256((into / name).read_bytes()).hexdigest() == digest

    components = {
        part["name"] for part in json.loads((into / "sbom.cdx.json").read_text())["components"]
    }
    assert {"hitherto", "grpcio", "psycopg", "httpx2", "onnxruntime"} <= components
    # Tools of development are no part of the product.
    assert not components & {"pytest", "mypy", "ruff", "cyclonedx-bom"}
