"""`make check-proto` notices every way in which generated files can differ from protos/."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import generate_protos, generated

STUB = generate_protos.STUBS / generate_protos.PACKAGE / "memory_pb2.py"
TEXTS = {STUB: "stub\n", generate_protos.API_DOCS: "page\n"}


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(generated, "ROOT", tmp_path)
    (tmp_path / STUB).parent.mkdir(parents=True)
    generated.write(TEXTS, generate_protos.committed())
    return tmp_path


def test_what_was_just_written_matches(repository: Path) -> None:
    generated.check(TEXTS, generate_protos.committed(), "protos/", "make proto")
    assert (repository / STUB).read_text("utf-8") == "stub\n"


@pytest.mark.parametrize(
    ("path", "text", "problem"),
    [
        (STUB, "edited\n", "out of date"),
        (STUB, None, "missing"),
        (generate_protos.API_DOCS, None, "missing"),
        (STUB.with_name("old_pb2_grpc.pyi"), "left over\n", "no longer generated"),
    ],
)
def test_a_difference_is_named_with_what_to_do(
    repository: Path, path: Path, text: str | None, problem: str
) -> None:
    if text is None:
        (repository / path).unlink()
    else:
        (repository / path).write_text(text, "utf-8")
    with pytest.raises(SystemExit) as failure:
        generated.check(TEXTS, generate_protos.committed(), "protos/", "make proto")
    assert f"{problem}: {path}" in str(failure.value)
    assert "make proto" in str(failure.value)


def test_writing_removes_what_is_no_longer_generated(repository: Path) -> None:
    left_over = repository / STUB.with_name("old_pb2.py")
    left_over.write_text("left over\n", "utf-8")
    own = repository / STUB.with_name("__init__.py")
    own.write_text('"""By hand."""\n', "utf-8")
    generated.write(TEXTS, generate_protos.committed())
    assert not left_over.exists()
    assert own.exists()
