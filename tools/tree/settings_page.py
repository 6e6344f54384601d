"""docs/configuration.md lists every setting there is, with its true default, and no other.

README.md shows a few of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from pydantic.fields import FieldInfo

from hitherto_extraction.config import ExtractionSettings
from hitherto_retrieval.config import RetrievalSettings
from hitherto_shared.config import SharedSettings

ROOT = Path(__file__).resolve().parents[2]
_PAGE = "docs/configuration.md"
_ROW = r"\| `(\w+)` \| (\w+) \| (`[^`]+`|\S+) \| (.{10,}\.) \|"
"""Who reads it, its default, and what it means: a sentence."""
_SHOWN = r"^\| `(\w+)` \| (`[^`]+`|\S+) \| .+\. \|$"
"""A row of the README."""


def settings() -> Mapping[str, tuple[str, FieldInfo]]:
    """Every variable with the services that read it."""
    found = {}
    services: dict[str, type[SharedSettings]] = {
        "retrieval": RetrievalSettings,
        "extraction": ExtractionSettings,
    }
    for who, settings_class in services.items():
        for name, field in settings_class.model_fields.items():
            alias = field.validation_alias
            variable = alias if isinstance(alias, str) else f"HITHERTO_{name.upper()}"
            found[variable] = ("both" if name in SharedSettings.model_fields else who, field)
    return found


def broken() -> Sequence[str]:
    """The rows that are missing, wrong or left over."""
    page = (ROOT / _PAGE).read_text("utf-8")
    lines = [line for line in page.splitlines() if line.startswith("| `")]
    rows = {row[1]: row for row in (re.fullmatch(_ROW, line) for line in lines) if row}
    found = []
    if len(rows) < len(lines):
        found.append(f"{_PAGE}: each setting has one row of four cells that ends with a sentence")
    readers = {name: row[2] for name, row in rows.items() if row[2] != "client"}
    known = {name: who for name, (who, _) in settings().items()}
    found += [f"{_PAGE}: {name} is read by {who}" for name, who in known.items() - readers.items()]
    found += [f"{_PAGE}: nobody reads {name}" for name in readers.keys() - known.keys()]
    found += [
        f"{_PAGE}: the default of {name} is {_written(field.default)}"
        for name, (_, field) in settings().items()
        if field.default_factory is None
        and name in rows
        and rows[name][3] != _written(field.default)
    ]
    shown = re.findall(_SHOWN, (ROOT / "README.md").read_text("utf-8"), re.MULTILINE)
    found += [
        f"README.md: {name} stands in {_PAGE} with another default, or not at all"
        for name, default in shown
        if name not in rows or rows[name][3] != default
    ]
    read = {*_read_by_the_client()}
    ours = {name for name in read if name.startswith("HITHERTO_") or name == "DATABASE_URL"}
    left = {name for name, row in rows.items() if row[2] == "client"} - read
    found += [f"{_PAGE}: the client reads {name}" for name in ours - rows.keys()]
    return [*found, *(f"{_PAGE}: the client does not read {name}" for name in left)]


def _written(value: object) -> str:
    if value is None:
        return "unset"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


def _read_by_the_client() -> Iterator[str]:
    for path in (ROOT / "shared/hitherto_client").rglob("*.py"):
        source = path.read_text("utf-8")
        yield from re.findall(r"""env(?:iron)?(?:\.get\(|\[)\s*"(\w+)""", source)
        yield from re.findall(r"""getenv\(\s*"(\w+)""", source)
