"""A language without a package in clients/ needs only protos/."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROTOS = Path(__file__).resolve().parents[2] / "protos"
OWN_NAMESPACE = {
    "csharp": "namespace Hitherto.V1",
    "kotlin": "package com.hitherto.v1",
    "php": "namespace Hitherto\\V1;",
    "ruby": "module Hitherto",
}


@pytest.mark.parametrize("language", OWN_NAMESPACE)
def test_the_messages_can_be_generated(language: str, tmp_path: Path) -> None:
    # The protoc of the development environment has the well-known types beside it.
    protoc = shutil.which("protoc", path=str(Path(sys.executable).parent))
    assert protoc is not None
    files = sorted(str(path) for path in PROTOS.rglob("*.proto"))
    command = [protoc, f"-I{PROTOS}", f"--{language}_out={tmp_path}", *files]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    # Warnings of a generator tell of names that the language cannot keep.
    assert not done.stderr
    generated = "".join(path.read_text("utf-8") for path in tmp_path.rglob("*") if path.is_file())
    assert OWN_NAMESPACE[language] in generated
