"""docker-compose.yml as the library that docker compose stands on reads it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
COMPOSE = "github.com/compose-spec/compose-go/v2/cmd@v2.16.2"


@pytest.mark.timeout(600)
def test_compose_resolves_the_file(tmp_path: Path) -> None:
    go = shutil.which("go")
    if go is None and not os.environ.get("CI"):
        pytest.skip("Go is needed, to run compose's own parser")
    assert go, "Go is needed in CI"
    # In a folder of its own: what `make compose-env` writes must not lie in the checkout.
    make_env = [ROOT / "docker" / "make_env.py", tmp_path / ".env", tmp_path / "hitherto.env"]
    subprocess.run(["python3", *map(str, make_env)], check=True, capture_output=True)
    # The library's own command knows no .env; docker compose does.
    passwords = dict(line.split("=") for line in (tmp_path / ".env").read_text().splitlines())
    text = re.sub(
        r"\$\{(\w+):\?[^}]*\}",
        lambda found: passwords[found[1]],
        (ROOT / "docker-compose.yml").read_text("utf-8"),
    )
    (tmp_path / "docker-compose.yml").write_text(text, "utf-8")
    command = [go, "run", COMPOSE, "-no-path-resolution", str(tmp_path / "docker-compose.yml")]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env={**os.environ, "GOFLAGS": "-mod=mod"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    services = yaml.safe_load(done.stdout)["services"]
    assert set(services) >= {"postgres", "migrate", "retrieval", "extraction"}
    for name in ("retrieval", "extraction"):
        environment = services[name]["environment"]
        assert [file["path"] for file in services[name]["env_file"]] == ["hitherto.env"]
        assert len(environment[f"HITHERTO_{name.upper()}_PASSWORD"]) == 48
        assert "POSTGRES_PASSWORD" not in environment
