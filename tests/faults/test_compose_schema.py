"""docker-compose.yml as the library that docker compose stands on reads it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from hitherto_extraction.config import ExtractionSettings
from hitherto_retrieval.config import RetrievalSettings

ROOT = Path(__file__).resolve().parents[2]

# Resolves env files, as docker compose does when it makes a container.
_READER = {
    "go.mod": """
module reader

go 1.24

require github.com/compose-spec/compose-go/v2 v2.16.2
""",
    "main.go": """
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
)

func main() {
	options, err := cli.NewProjectOptions(
		[]string{os.Args[1] + "/docker-compose.yml"}, cli.WithWorkingDirectory(os.Args[1]),
		cli.WithEnvFiles(), cli.WithDotEnv, cli.WithProfiles([]string{"*"}))
	var project *types.Project
	if err == nil {
		project, err = options.LoadProject(context.Background())
	}
	if err == nil {
		project, err = project.WithServicesEnvironmentResolved(true)
	}
	if err != nil {
		log.Fatal(err)
	}
	told, _ := project.MarshalYAML()
	fmt.Print(string(told))
}
""",
}

DECIDED = {"DATABASE_URL", "HITHERTO_SECRET_FILE"}
"""What no line of hitherto.env changes, besides the passwords."""
OF_OTHERS = {
    "OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4317",
    "OTEL_EXPORTER_OTLP_HEADERS": "api-key=a$$b==,x=y",
    "OTEL_TRACES_SAMPLER_ARG": "0.01",
}


def given() -> dict[str, str]:
    """A line of hitherto.env for every setting of both services, and some of OpenTelemetry's."""
    found = dict(OF_OTHERS)
    for settings in (RetrievalSettings, ExtractionSettings):
        for name, field in settings.model_fields.items():
            alias = field.validation_alias
            found[alias if isinstance(alias, str) else f"HITHERTO_{name.upper()}"] = f"my-{name}"
    return found


def resolved(folder: Path) -> dict[str, Any]:
    """The services of the compose file in `folder`."""
    go = shutil.which("go")
    if go is None and not os.environ.get("CI"):
        pytest.skip("Go is needed, to run compose's own parser")
    assert go, "Go is needed in CI"
    reader = folder / "reader"
    reader.mkdir()
    for name, text in _READER.items():
        (reader / name).write_text(text, "utf-8")
    done = subprocess.run(
        [go, "run", "-mod=mod", ".", str(folder)],
        cwd=reader,
        # A variable of this shell would stand in for a line of .env.
        env={name: value for name, value in os.environ.items() if "PASSWORD" not in name},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    services: dict[str, Any] = yaml.safe_load(done.stdout)["services"]
    return services


@pytest.mark.timeout(600)
def test_compose_passes_every_setting_on(tmp_path: Path) -> None:
    # In a folder of its own: what `make compose-env` writes must not lie in the checkout.
    shutil.copy(ROOT / "docker-compose.yml", tmp_path)
    (tmp_path / "docker").mkdir()
    shutil.copy(ROOT / "docker" / "defaults.env", tmp_path / "docker")
    make_env = [ROOT / "docker" / "make_env.py", tmp_path / ".env", tmp_path / "hitherto.env"]
    subprocess.run(["python3", *map(str, make_env)], check=True, capture_output=True)
    settings = given()
    with (tmp_path / "hitherto.env").open("a", encoding="utf-8") as file:
        file.writelines(f"{name}={value}\n" for name, value in settings.items())
    services = resolved(tmp_path)
    assert set(services) >= {"postgres", "migrate", "retrieval", "extraction", "prometheus"}
    assert len(settings) > 80
    for name in ("retrieval", "extraction"):
        environment = services[name]["environment"]
        own = f"HITHERTO_{name.upper()}_PASSWORD"
        assert len(environment[own]) == 48
        assert "POSTGRES_PASSWORD" not in environment
        passed = {key: value.replace("$$", "$") for key, value in settings.items()}
        changed = {key for key, value in passed.items() if environment[key] != value}
        assert changed == {own, *DECIDED}
