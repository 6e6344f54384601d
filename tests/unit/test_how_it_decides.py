"""docs/how-it-decides.md and docs/comparison.md say what the code does and what was published."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest

from hitherto_extraction.pipeline import caps
from hitherto_extraction.storage import upkeep
from hitherto_retrieval.render import evidence, layouts
from hitherto_retrieval.search import search
from hitherto_shared.embeddings import offline, onnx, openai_api

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/how-it-decides.md").read_text("utf-8")
PUBLISHED = (ROOT / "benchmarks/README.md").read_text("utf-8").splitlines()


@pytest.mark.parametrize(("name", "tables"), [("how-it-decides.md", 4), ("comparison.md", 1)])
def test_every_row_of_figures_is_a_published_one(name: str, tables: int) -> None:
    lines = (ROOT / "docs" / name).read_text("utf-8").splitlines()
    found = [
        [header, *itertools.takewhile(lambda line: line.startswith("|"), lines[at + 2 :])]
        for at, header in enumerate(lines)
        if lines[at + 1 : at + 2] and set(lines[at + 1]) == {"|", "-"} and header in PUBLISHED
    ]
    assert len(found) == tables
    for header, *rows in found:
        start = PUBLISHED.index(header)
        published = itertools.takewhile(lambda line: line.startswith("|"), PUBLISHED[start:])
        assert set(rows) - set(published) == set(), header


def test_the_numbers_are_those_of_the_code() -> None:
    words = re.sub(r"\s+", " ", PAGE.replace("<br>", " "))
    small = openai_api._THRESHOLDS["text-embedding-3-small"]
    for told in (
        f"{small} for text-embedding-3-small, {onnx.DEDUPE_THRESHOLD} for the local ONNX model,"
        f" {offline.DEDUPE_THRESHOLD} for the offline embedder",
        f"always {caps._AT_LEAST}, never more than {caps._AT_MOST}",
        f"Candidates: {search.CANDIDATES} of each kind",
        f"profile {layouts._PROFILE_FLOOR:.0%}".replace("%", " %"),
        f"this conversation {layouts._ONGOING_FLOOR:.0%}".replace("%", " %"),
        f"named entities {layouts._NAMED_FLOOR:.0%}".replace("%", " %"),
        f"standing wishes {layouts._PINNED:.0%}".replace("%", " %"),
        f"down to {evidence._STOP} of the best",
    ):
        assert told in words, told
    assert caps._ONE_IN == 4
    statements = (ROOT / Path(str(upkeep.__file__))).read_text("utf-8")
    for told, written in (
        ("below 0.3", "importance < 0.3"),
        ("not used for 30 days", "not used for 30 days"),
        ("older than 90 days", "interval '90 days'"),
    ):
        assert told in words
        assert written in statements
