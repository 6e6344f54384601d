"""docs/how-it-decides.md and docs/comparison.md say what the code does and what was published."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import takewhile
from pathlib import Path

from hitherto_extraction.pipeline import caps
from hitherto_extraction.storage import upkeep
from hitherto_retrieval.render import evidence, layouts
from hitherto_retrieval.search import search
from hitherto_shared.database.fragments import expanded
from hitherto_shared.embeddings import offline, onnx, openai_api

ROOT = Path(__file__).resolve().parents[2]
_TABLES = {"how-it-decides.md": 4, "comparison.md": 1}


def broken() -> Sequence[str]:
    """The rows and numbers that the pages tell differently."""
    return [*_unpublished(), *_other_numbers()]


def _unpublished() -> Iterator[str]:
    """Rows of figures that benchmarks/README.md does not have."""
    published = (ROOT / "benchmarks/README.md").read_text("utf-8").splitlines()
    for name, tables in _TABLES.items():
        lines = (ROOT / "docs" / name).read_text("utf-8").splitlines()
        found = [
            [header, *takewhile(lambda line: line.startswith("|"), lines[at + 2 :])]
            for at, header in enumerate(lines)
            if lines[at + 1 : at + 2] and set(lines[at + 1]) == {"|", "-"} and header in published
        ]
        if len(found) != tables:
            yield f"docs/{name}: {len(found)} tables of benchmarks/README.md in place of {tables}"
        for header, *rows in found:
            start = published.index(header)
            known = set(takewhile(lambda line: line.startswith("|"), published[start:]))
            yield from (f"docs/{name}: {row!r} was not published" for row in {*rows} - known)


def _other_numbers() -> Iterator[str]:
    """Numbers of the code that docs/how-it-decides.md does not tell."""
    page = (ROOT / "docs/how-it-decides.md").read_text("utf-8")
    words = re.sub(r"\s+", " ", page.replace("<br>", " "))
    statements = Path(str(upkeep.__file__)).read_text("utf-8") + expanded(upkeep._ARCHIVE)
    small = openai_api._THRESHOLDS["text-embedding-3-small"]
    for told in (
        f"{small} for text-embedding-3-small, {onnx.DEDUPE_THRESHOLD} for the local ONNX model,"
        f" {offline.DEDUPE_THRESHOLD} for the offline embedder",
        "one in four" if caps._ONE_IN == 4 else f"one in {caps._ONE_IN}",
        f"always {caps._AT_LEAST}, never more than {caps._AT_MOST}",
        f"Candidates: {search.CANDIDATES} of each kind",
        f"profile {layouts._PROFILE_FLOOR:.0%}".replace("%", " %"),
        f"this conversation {layouts._ONGOING_FLOOR:.0%}".replace("%", " %"),
        f"named entities {layouts._NAMED_FLOOR:.0%}".replace("%", " %"),
        f"standing wishes {layouts._PINNED:.0%}".replace("%", " %"),
        f"down to {evidence._STOP} of the best",
    ):
        if told not in words:
            yield f"docs/how-it-decides.md does not say {told!r}, as the code does"
    for told, written in (
        ("below 0.3", "importance < 0.3"),
        ("not used for 30 days", "not used for 30 days"),
        ("older than 90 days", "updated_at + interval '90 days'"),
    ):
        if told not in words or written not in statements:
            yield f"docs/how-it-decides.md and {upkeep.__name__} differ on {told!r}"
