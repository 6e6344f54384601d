"""What the records of an import may hold, by what the catalogue says of the columns they go to.

Type, NOT NULL, default and CHECK constraints tell. Where they say too little, `tables` says more.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from hitherto_extraction.restoring.columns import (
    Column,
    Kind,
    MayBeAbsent,
    RowCheck,
    digest,
    flag,
    free,
    moment,
    name,
    number,
    one_of,
    optional,
    several,
    text,
    uid,
    whole,
)
from hitherto_extraction.restoring.shapes import check_ending, statements_as, version_of_profile
from hitherto_extraction.restoring.tables import COMPUTED, IMPORTED, NEVER_EXPORTED
from hitherto_extraction.storage import holdings
from hitherto_extraction.storage.holdings import HeldColumn
from hitherto_shared.database.pool import Connection

_KIB = 1024
_NUMBERS = ("smallint", "integer", "bigint", "double precision")
# Whatever is counted goes on: the largest number of its type would admit no further change.
_MOST = {"smallint": 10**4, "integer": 10**9, "bigint": 2**53, "double precision": 2**53}
_PLAIN: Mapping[str, Kind] = {
    "uuid": uid,
    "boolean": flag,
    "timestamp with time zone": moment,
    "bytea": digest,
    "uuid[]": several(uid, 10_000),
    "bytea[]": several(digest, 1_000),
    "text[]": several(text(_KIB), 1_000),
}
_CONSTANT = re.compile(r"'(.*)'::(?:text|jsonb|\w+\[\])|(false|true)")


@dataclass(frozen=True, slots=True)
class TableRules:
    """What the records of a table hold: by imported column, and what is checked `also`."""

    columns: Mapping[str, Column]
    ignored: frozenset[str]
    also: RowCheck | None = None


Rules = Mapping[str, TableRules]
"""By table."""


async def read_rules(connection: Connection) -> Rules:
    """The rules of every imported table."""
    return rules_of(await holdings.find_columns(connection, list(IMPORTED)))


def rules_of(found: Mapping[str, Mapping[str, HeldColumn]]) -> Rules:
    """The rules of tables with these columns."""
    kinds = {table: _kinds(table, columns, found["memories"]) for table, columns in found.items()}
    rules = {
        table: TableRules(
            {each: _column(columns.get(each), kind) for each, kind in kinds[table].items()},
            frozenset(columns) - kinds[table].keys() - NEVER_EXPORTED,
        )
        for table, columns in found.items()
    }
    versions = rules["profile_versions"]
    profile = {"profile": version_of_profile(rules["profiles"].columns)}
    rules["profile_versions"] = replace(versions, columns={**versions.columns, **profile})
    for table in ("memories", "memory_versions"):
        rules[table] = replace(rules[table], also=check_ending)
    said = statements_as(kinds["memories"], rules["memories"].columns)
    rules["statements"] = replace(rules["statements"], also=said)
    return rules


def _kinds(
    table: str, columns: Mapping[str, HeldColumn], memories: Mapping[str, HeldColumn]
) -> dict[str, Kind]:
    """The values of the imported columns of a table, but null."""
    # A version was the memory once, but repeats no constraint of it.
    more = memories if table == "memory_versions" else {}
    found = {
        held.name: kind_of(replace(held, checks=held.checks + more[held.name].checks))
        if held.name in more
        else kind_of(held)
        for held in columns.values()
        if not held.computed and held.name not in COMPUTED | NEVER_EXPORTED
    }
    return {**found, **IMPORTED[table]}


def kind_of(held: HeldColumn) -> Kind:
    """The values of a column, but null."""

    def told(pattern: str) -> re.Match[str] | None:
        return re.search(rf"\b{pattern.replace('@', re.escape(held.name))}", held.checks)

    if words := _words(held):
        return one_of(*words)
    if held.kind in _NUMBERS:
        least, most = told(r"@ (>=?) \(?(\d+)"), told(r"@ <= \(?(\d+)")
        bounds = (
            int(least[2]) + (least[1] == ">") if least else 0,
            int(most[1]) if most else _MOST[held.kind],
        )
        return number(*bounds) if held.kind == "double precision" else whole(*bounds)
    if held.kind == "jsonb":
        return free(128 * _KIB, list if told(r"jsonb_typeof\(@\) = 'array'") else dict)
    if held.kind != "text":
        return _PLAIN[held.kind]
    filled = bool(told(r"@ <> ''::text") or told(r"char_length\(@\) >= 1"))
    # What is limited by characters is a name, and by bytes a text.
    if characters := told(r"char_length\(@\) <= (\d+)"):
        return name(int(characters[1]), required=filled)
    if held.name.endswith("_id"):
        return name(256)
    size = told(r"octet_length\(@\) <= (\d+)")
    return text(int(size[1]) if size else 64 * _KIB, required=filled)


def _words(held: HeldColumn) -> list[str]:
    """The few words that a column may hold."""
    found = re.search(rf"\({re.escape(held.name)} = ANY \(ARRAY\[(.*?)\]", held.checks)
    return re.findall(r"'([^']+)'::text", found[1]) if found else []


def _column(held: HeldColumn | None, kind: Kind) -> Column:
    """A column that may be absent if it is empty by default; a word or a number is told.

    None is what only the sealed value of a row holds, and not of every row.
    """
    if held is None or not held.required:
        return MayBeAbsent(optional(kind))
    constant = _CONSTANT.fullmatch(held.default)
    if constant is None or _words(held):
        return kind
    value: Any = constant[1]
    if constant[2]:
        value = constant[2] == "true"
    elif held.kind == "jsonb":
        value = json.loads(value)
    elif held.kind.endswith("[]"):
        value = []
    return MayBeAbsent(kind, value)
