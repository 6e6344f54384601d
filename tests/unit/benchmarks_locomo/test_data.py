"""The data set as it is read and found again in blocks, and what is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from benchmarks.locomo.blocks import GoldEvidence
from benchmarks.locomo.data import SOURCES, BenchmarkQuestion, DataSet, load

TRANSCRIPTS, QUESTIONS = SOURCES[0].transcripts, SOURCES[0].questions

MESSAGE = {
    "id": "D1:1", "role": "USER", "name": "Ann", "content": "Chào!",
    "created_at": "2023-05-08T13:56:00+00:00",
}  # fmt: skip
SESSION: dict[str, Any] = {
    "user_id": "ann", "conversation_id": "ann-1", "messages": [MESSAGE], "summary": "A greeting.",
    "facts": [{"content": "Ann says hello.", "evidence": ["D1:1"]}],
}  # fmt: skip


def write(folder: Path, queries: list[dict[str, Any]], source: DataSet = SOURCES[0]) -> None:
    folder.joinpath(source.transcripts).write_text(json.dumps(SESSION) + "\n", "utf-8")
    folder.joinpath(source.questions).write_text(json.dumps({"queries": queries}), "utf-8")


def query(number: int, gold: list[str]) -> dict[str, Any]:
    asked = {"user": "ann", "question": "What?", "category": "temporal"}
    return {"id": f"q{number}", "gold": gold, **asked}


def test_sessions_and_questions_are_read_and_the_ceiling_is_what_facts_can_show(
    tmp_path: Path,
) -> None:
    write(tmp_path, [query(0, ["D1:1"]), query(1, ["D1:1", "D1:2"]), query(2, [])])
    data = load(tmp_path)
    assert data.users == ["ann"]
    # A question without an answer in the conversation cannot be scored.
    assert [question.id for question in data.questions] == ["q0", "q1"]
    assert data.ceiling == pytest.approx(0.75)


def test_the_files_that_the_guide_shows_are_usable(tmp_path: Path) -> None:
    """docs/how-to.md; a line of the first file stands there on several."""
    guide = (Path(__file__).parents[3] / "docs/how-to.md").read_text("utf-8")
    session, questions_file = re.findall(r"```json\n(.*?)```", guide, re.DOTALL)
    own = SOURCES[1]
    (tmp_path / own.transcripts).write_text(session.replace("\n", "") + "\n", "utf-8")
    (tmp_path / own.questions).write_text(questions_file, "utf-8")
    data = load(tmp_path, own)
    assert (data.users, data.ceiling) == (["ana"], 1.0)


def test_what_is_missing_or_damaged_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=TRANSCRIPTS):
        load(tmp_path)
    write(tmp_path, [{"id": "q0"}])
    with pytest.raises(ValueError, match=f"{QUESTIONS} is not in LoCoMo's shape"):
        load(tmp_path)
    write(tmp_path, [query(0, [])])
    with pytest.raises(ValueError, match="no question with gold messages"):
        load(tmp_path)
    tmp_path.joinpath(TRANSCRIPTS).write_text("{", "utf-8")
    with pytest.raises(ValueError, match=f"{TRANSCRIPTS} is damaged"):
        load(tmp_path)


def talk(user: str, *contents: str) -> dict[str, Any]:
    messages = [
        {**MESSAGE, "id": f"D1:{place}", "content": content}
        for place, content in enumerate(contents, start=1)
    ]
    return {**SESSION, "user_id": user, "messages": messages}


def asked(user: str, *gold: str) -> BenchmarkQuestion:
    return BenchmarkQuestion(f"{user}-q", user, "Where?", "single-hop", frozenset(gold))


def test_evidence_is_what_stands_in_a_block_itself_or_as_a_fact() -> None:
    said = talk("ann", "I adopted a grey cat.", "What is she called?", "Mochi. # She sleeps a lot.")
    said["facts"] = [{"content": "Ann has a cat called Mochi.", "evidence": ["D1:1", "D1:3"]}]
    evidence = GoldEvidence([said, {**said, "user_id": "ben"}])
    for text, share in [
        ("nothing of it", 0),
        ("- 2023-05-08 Ann: I adopted a grey cat.", 1),
        ("- Mochi. # She sleeps a lot.", 1),
        ("- Ann has a cat called Mochi. (2023-05-08)", 2),
        ("Ann has a cat called Mochi.\nI adopted a grey cat.", 2),
    ]:
        found = evidence.covered(asked("ann", "D1:1", "D1:2", "D1:3"), text)
        assert found == pytest.approx(share / 3), text
