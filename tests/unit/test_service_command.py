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
from hitherto_shared.config import SharedSettings
from hitherto_shared.service_command import ELSEWHERE, read_arguments, unknown_variables, variables

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


def test_every_variable_of_the_table_is_known() -> None:
    """Neither service warns of what the other or the client reads, and of nothing that is gone."""
    documented = set(re.findall(r"^\| `(HITHERTO_\w+)` \|", PAGE.read_text("utf-8"), re.MULTILINE))
    assert documented <= variables(SharedSettings) | ELSEWHERE
    assert documented >= ELSEWHERE


_FLOATS = [
    (settings, name)
    for settings in (ExtractionSettings, RetrievalSettings)
    for name, field in settings.model_fields.items()
    if field.annotation in (float, float | None)
]


@pytest.mark.parametrize(("settings", "name"), _FLOATS, ids=str)
@pytest.mark.parametrize("value", ["inf", "nan"])
def test_a_duration_or_rate_without_end_is_refused(
    settings: type[SharedSettings], name: str, value: str
) -> None:
    with pytest.raises(ValidationError):
        settings.model_validate({name: value})


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


@pytest.mark.parametrize("module", ["hitherto_retrieval", "hitherto_extraction"])
def test_help_is_printed_and_nothing_is_started(module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", module, "--help"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0
    assert "docs/configuration.md" in done.stdout
    assert not done.stderr


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


def test_an_unknown_option_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    read_arguments("hitherto-retrieval", "x", ["--process-of=7"])
    for word, code in (("--port=1", 2), ("serve", 2), ("--version", 0)):
        with pytest.raises(SystemExit) as ended:
            read_arguments("hitherto-retrieval", "x", [word])
        assert ended.value.code == code
    assert capsys.readouterr().out.startswith("hitherto ")
