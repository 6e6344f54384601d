"""The command line of the services, and variables that nobody reads."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from hitherto_extraction.config import ExtractionSettings
from hitherto_retrieval.config import RetrievalSettings
from hitherto_shared.config import SharedSettings, describe
from hitherto_shared.key_files import secret_path
from hitherto_shared.service_command import ELSEWHERE, unknown_variables, variables
from tests.refusing import refusing

PAGE = Path(__file__).resolve().parents[2] / "docs" / "configuration.md"


def test_a_misspelt_variable_is_named_with_the_nearest_one() -> None:
    environment = {
        "HITHERTO_WORKER_CONCURENCY": "8",
        "HITHERTO_READ_PROCESSES": "2",
        "HITHERTO_DATA_DIR": "/x",
        "HITHERTO_TOKEN": "x",
        "HITHERTO_MODEL_EXTRA": "{}",
        "HITHERTO_RECONCILE": "false",
        "HITHERTO_FLUX": "1",
        "PATH": "/bin",
    }
    for settings in (ExtractionSettings, RetrievalSettings):
        assert unknown_variables(settings, environment) == {
            "HITHERTO_WORKER_CONCURENCY": "HITHERTO_WORKER_CONCURRENCY",
            "HITHERTO_FLUX": None,
        }


@pytest.mark.parametrize("settings", [ExtractionSettings, RetrievalSettings])
def test_a_tilde_is_the_home_wherever_a_setting_comes_from(
    settings: type[SharedSettings], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Shells replace it, files of variables do not: keys would lie in a folder named `~`."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("HITHERTO_DATA_DIR", "~/data")
    monkeypatch.setenv("HITHERTO_HASH_KEY_FILE", "~/keys/hash")
    read = settings()
    assert (read.data_dir, read.hash_key_file) == (tmp_path / "data", tmp_path / "keys" / "hash")
    assert secret_path(read) == tmp_path / "data" / "secret"


@pytest.mark.parametrize(
    ("path", "told"), [("~no-such-user/x", "no user"), ("/tmp/" + "x" * 300, "too long")]
)
def test_a_path_that_cannot_be_is_refused_with_its_variable(
    path: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HITHERTO_DATA_DIR", "HITHERTO_PRICES_FILE"):
        with monkeypatch.context() as environment:
            environment.setenv(name, path)
            with pytest.raises(ValidationError) as caught:
                ExtractionSettings()
        assert describe(caught.value).startswith(f"{name}: ")
        assert told in describe(caught.value)


@pytest.mark.parametrize("settings", [ExtractionSettings, RetrievalSettings])
def test_a_line_end_is_no_part_of_a_value(
    settings: type[SharedSettings], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A secret that was made by `echo` ends with one, and some tools keep blanks."""
    for name, value in {
        "DATABASE_URL": "postgresql://u:p@h/d\n",
        "OPENAI_API_KEY": "sk-1\r\n",
        "HITHERTO_DATA_DIR": f"{tmp_path}\n",
        "HITHERTO_LOG_LEVEL": " INFO",
        "HITHERTO_METRICS_TENANTS": "true ",
        "HITHERTO_DRAIN_SECONDS": " 5 ",
        "HITHERTO_MODEL_EXTRA": '{"a": 1}\n',
        f"HITHERTO_{settings.__name__.removesuffix('Settings').upper()}_LISTEN": "[::1]:1\n",
    }.items():
        monkeypatch.setenv(name, value)
    read = settings()
    assert read.database_url is not None
    assert read.openai_api_key is not None
    assert read.database_url.get_secret_value() == "postgresql://u:p@h/d"
    assert read.openai_api_key.get_secret_value() == "sk-1"
    assert (read.data_dir, read.log_level, read.metrics_tenants) == (tmp_path, "INFO", True)
    assert (read.drain_seconds, read.model_extra_fields) == (5, {"a": 1})


@pytest.mark.parametrize("quote", ["'", '"'])
@pytest.mark.parametrize(
    "name", ["DATABASE_URL", "HITHERTO_DATA_DIR", "OPENAI_API_KEY", "HITHERTO_DRAIN_SECONDS"]
)
def test_quotes_around_a_value_are_told(
    name: str, quote: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `docker run --env-file` passes them on: a folder of that name would be made."""
    monkeypatch.setenv(name, f"{quote}/canary{quote}")
    with pytest.raises(ValidationError) as refused:
        RetrievalSettings()
    told = describe(refused.value)
    assert told == f"{name}: the quotes around it are part of the value: remove them"


def test_every_variable_of_the_table_is_known() -> None:
    """Neither service warns of what the other or the client reads, and of nothing that is gone."""
    documented = set(re.findall(r"^\| `(HITHERTO_\w+)` \|", PAGE.read_text("utf-8"), re.MULTILINE))
    assert documented <= variables(SharedSettings) | ELSEWHERE
    assert documented >= ELSEWHERE


def test_a_duration_or_rate_without_end_is_refused() -> None:
    kinds: list[type[SharedSettings]] = [ExtractionSettings, RetrievalSettings]
    found = 0
    for settings in kinds:
        for name, field in settings.model_fields.items():
            if field.annotation in (float, float | None):
                found += 1
                for value in ("inf", "nan"):
                    with pytest.raises(ValidationError), refusing((name, value)):
                        settings.model_validate({name: value})
    assert found


@pytest.mark.parametrize(
    ("variable", "value"),
    [("HITHERTO_EXTRACT_IDLE_MINUTES", "1e9"), ("HITHERTO_MAX_STREAMS_PER_CONNECTION", str(2**31))],
)
def test_a_number_that_postgres_or_grpc_cannot_hold_is_refused(
    variable: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(ValidationError):
        ExtractionSettings()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux")
@pytest.mark.parametrize(
    "module",
    [
        "hitherto_retrieval",
        "hitherto_extraction",
        "hitherto_shared.database.migrate",
        "hitherto_shared.encryption.command",
        "hitherto_shared.rpc.probe",
    ],
)
def test_help_that_cannot_be_written_is_a_failure(module: str) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", module, "--help"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr.endswith("the output cannot be written: No space left on device\n")
    assert len(done.stderr.splitlines()) == 1
