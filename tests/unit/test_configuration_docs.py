"""docs/configuration.md lists every setting there is, with its true default, and no other."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from pydantic.fields import FieldInfo

from hitherto_extraction.config import ExtractionSettings
from hitherto_retrieval.config import RetrievalSettings
from hitherto_shared.config import SharedSettings

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "configuration.md").read_text("utf-8")


@dataclass(frozen=True)
class Row:
    who: str
    default: str
    meaning: str


def documented() -> dict[str, Row]:
    rows: dict[str, Row] = {}
    for line in PAGE.splitlines():
        if found := re.fullmatch(r"\| `(\w+)` \| (\w+) \| (`[^`]+`|\S+) \| (.+) \|", line):
            name, *cells = found.groups()
            assert name not in rows, f"{name} stands in the table twice"
            rows[name] = Row(*cells)
    return rows


def variable(name: str, field: FieldInfo) -> str:
    alias = field.validation_alias
    return alias if isinstance(alias, str) else f"HITHERTO_{name.upper()}"


def written(value: object) -> str:
    if value is None:
        return "unset"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


def settings() -> dict[str, tuple[str, FieldInfo]]:
    """Every variable with the services that read it."""
    classes: dict[str, type[SharedSettings]] = {
        "retrieval": RetrievalSettings,
        "extraction": ExtractionSettings,
    }
    found = {}
    for who, settings_class in classes.items():
        for name, field in settings_class.model_fields.items():
            reader = "both" if name in SharedSettings.model_fields else who
            found[variable(name, field)] = (reader, field)
    return found


def test_every_setting_stands_in_the_table_and_nothing_else() -> None:
    services = {name: row for name, row in documented().items() if row.who != "client"}
    assert {name: row.who for name, row in services.items()} == {
        name: who for name, (who, _) in settings().items()
    }


@pytest.mark.parametrize(
    "name", [name for name, (_, field) in settings().items() if field.default_factory is None]
)
def test_the_default_in_the_table_is_the_one_in_force(name: str) -> None:
    _, field = settings()[name]
    assert documented()[name].default == written(field.default)


def test_the_clients_variables_are_those_it_reads() -> None:
    sources = "\n".join(
        path.read_text("utf-8") for path in (ROOT / "shared/hitherto_client").rglob("*.py")
    )
    read = set(re.findall(r"""env(?:iron)?(?:\.get\(|\[)\s*"(\w+)""", sources))
    read |= set(re.findall(r"""getenv\(\s*"(\w+)""", sources))
    ours = {name for name in read if name.startswith("HITHERTO_") or name == "DATABASE_URL"}
    rows = documented()
    assert ours <= set(rows)
    assert {name for name, row in rows.items() if row.who == "client"} <= read


def test_every_row_says_something() -> None:
    rows = documented()
    assert len(PAGE.split("\n| `")) - 1 == len(rows), "a row does not have the four cells"
    assert all(len(row.meaning) > 10 and row.meaning.endswith(".") for row in rows.values())
