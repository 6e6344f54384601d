"""A row that is wrong is named with what to change."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.command import run
from benchmarks.extraction.__main__ import BENCHMARK
from benchmarks.extraction.rows import BadData, choose, load

GOOD = """\
id: r1
language: en
category: fact
transcript:
  - {role: user, content: "No, I live in Porto.", created_at: 2026-03-04T09:00:00Z}
expected:
  - {types: [fact], contains: [Porto, [live, home]], says: The user lives in Porto.}
"""


def folder(path: Path, text: str, name: str = "rows.yaml") -> Path:
    path.joinpath(name).write_text(text, "utf-8")
    return path


@pytest.mark.parametrize(
    ("change", "to", "complaint"),
    [
        ("category: fact", "category: facts", "category 'facts' is none of"),
        ("language: en", "language: fr", "language"),
        ("types: [fact]", "types: [facts]", "expected.0.types.0"),
        ("role: user", "role: assistant", "no message is the user's"),
        ("role: user", "rôle: user", "transcript.0"),
        ("09:00:00Z", "09:00:00", "created_at"),
        ("lives in Porto", "lives in Faro", "lacks a word of its own"),
        ("language: en", "language: en\ntime_zone: Mars/Base", "no IANA name"),
        ("language: en", "language: en\nlanguage: vi", "comes twice"),
        ("transcript:", "transcript: [", "is not YAML"),
        (
            "expected:",
            "existing_memories:\n  - {type: fact, content: A, said_at: 2026-03-05T09:00:00Z, "
            "then: untouched}\nexpected:",
            "must be older than the talk",
        ),
        (
            "expected:",
            "existing_memories:\n  - {type: fact, content: A, said_at: 2026-03-01T09:00:00Z, "
            "then: achieved}\nexpected:",
            "only a goal can be achieved",
        ),
        ("expected:", "forbidden:\n  - {because: x}\nexpected:", "either `contains` or `pattern`"),
        (
            "expected:",
            'forbidden:\n  - {because: x, pattern: "("}\nexpected:',
            "no regular expression",
        ),
    ],
)
def test_what_is_wrong_is_said_with_file_and_row(
    tmp_path: Path, change: str, to: str, complaint: str
) -> None:
    with pytest.raises(BadData) as raised:
        load(folder(tmp_path, GOOD.replace(change, to, 1)))
    assert complaint in str(raised.value)
    assert "rows.yaml" in str(raised.value)
    if complaint not in ("is not YAML", "comes twice"):
        assert "row 1 (r1)" in str(raised.value)


def test_words_that_yaml_would_take_for_something_else_stay_words(tmp_path: Path) -> None:
    text = GOOD.replace("[Porto, [live, home]]", "[no, 2026]").replace("lives in Porto.", "no 2026")
    (row,) = load(folder(tmp_path, text))
    assert row.expected[0].contains == ("no", "2026")
    folder(tmp_path, GOOD, "a.yaml")
    with pytest.raises(BadData, match="two rows have the id 'r1'"):
        load(folder(tmp_path, GOOD, "b.yaml"))


def test_a_limit_takes_the_languages_in_turns() -> None:
    rows = choose(load(), limit=6)
    assert [row.language for row in rows].count("ja") == 2
    assert {row.category for row in choose(load(), languages=["vi"], categories=["sarcasm"])} == {
        "sarcasm"
    }
    with pytest.raises(BadData, match="no row has these"):
        choose(load(), languages=["xx"])


def test_a_command_that_names_no_results_or_languages_ends_with_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(BENCHMARK, ["compare", str(tmp_path / "a"), str(tmp_path / "b")]) == 2
    assert "a cannot be read" in capsys.readouterr().err
    with pytest.raises(SystemExit) as raised:
        run(BENCHMARK, ["--language", "fr"])
    assert raised.value.code == 2
