"""The command's ends that need no service."""

from __future__ import annotations

from pathlib import Path

import pytest


def test_what_cannot_be_used_ends_with_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from benchmarks.command import run
    from benchmarks.extraction.__main__ import BENCHMARK

    assert run(BENCHMARK, ["compare", str(tmp_path / "a"), str(tmp_path / "b")]) == 2
    assert "a cannot be read" in capsys.readouterr().err
    with pytest.raises(SystemExit) as raised:
        run(BENCHMARK, ["--language", "fr"])
    assert raised.value.code == 2
