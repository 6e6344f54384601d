"""Reads the data set. A row that is wrong ends the run with its name and what to change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import yaml
from pydantic import ValidationError

from benchmarks.extraction.rows import ConversationCase

DATA = Path(__file__).parent / "data"


class BadData(ValueError):
    """A file of the data set cannot be used; the text names the file, the row and the fault."""


def load(folder: Path = DATA) -> list[ConversationCase]:
    """Every row of every file in `folder`, by file name and then in order.

    Raises:
        BadData: A file or a row is wrong, two rows have one id, or there is none.
    """
    rows = [row for path in sorted(folder.glob("*.yaml")) for row in _yaml(path)]
    seen: set[str] = set()
    for row in rows:
        if row.id in seen:
            raise BadData(f"two rows have the id {row.id!r}: give one of them another")
        seen.add(row.id)
    if not rows:
        raise BadData(f"no row in {folder.name}: it must hold .yaml files")
    return rows


def choose(
    rows: Sequence[ConversationCase],
    *,
    languages: Sequence[str] = (),
    categories: Sequence[str] = (),
    limit: int | None = None,
) -> list[ConversationCase]:
    """The rows of some languages and categories, at most `limit`; empty means all.

    With a limit the languages take turns, so that a few rows show something of each.

    Raises:
        BadData: No row is left.
    """
    chosen = [
        row
        for row in rows
        if (not languages or row.language in languages)
        and (not categories or row.category in categories)
    ]
    if limit is not None:
        chosen = _in_turns(chosen)[:limit]
    if not chosen:
        raise BadData("no row has these languages and categories: see --help for their names")
    return chosen


def _in_turns(rows: Iterable[ConversationCase]) -> list[ConversationCase]:
    by_language: dict[str, list[ConversationCase]] = {}
    for row in rows:
        by_language.setdefault(row.language, []).append(row)
    places = [
        (place, number, row)
        for number, group in enumerate(by_language.values())
        for place, row in enumerate(group)
    ]
    places.sort(key=lambda entry: entry[:2])
    return [row for _, _, row in places]


def _yaml(path: Path) -> list[ConversationCase]:
    try:
        # A subclass of the safe loader that makes strings of everything.
        found = list(yaml.load_all(path.read_text("utf-8"), Loader=_Loader))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise BadData(f"{path.name} is not YAML: {' '.join(str(error).split())}") from None
    return [
        _row(path, number, item) for number, item in enumerate(found, 1) if item not in (None, "")
    ]


def _row(path: Path, number: int, item: Any) -> ConversationCase:
    name = item.get("id") if isinstance(item, Mapping) else None
    place = f"{path.name}, row {number}" + (f" ({name})" if name else "")
    try:
        row = ConversationCase.model_validate(item)
        ZoneInfo(row.time_zone)
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(map(str, fault['loc'])) or 'row'}: {fault['msg']}"
            for fault in error.errors(include_input=False, include_url=False)
        )
        raise BadData(f"{place}: {faults}") from None
    except (LookupError, ValueError, OSError):
        raise BadData(f"{place}: time_zone {row.time_zone!r} is no IANA name") from None
    return row


class _Loader(yaml.SafeLoader):
    """YAML whose scalars are all strings ("no" is a word, not false) and whose keys are unique."""

    yaml_implicit_resolvers: dict[str, list[Any]] = {}  # noqa: RUF012

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Refuse a key that comes twice, which YAML would let win silently."""
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        twice = {key for key in keys if keys.count(key) > 1}
        if twice:
            raise yaml.constructor.ConstructorError(
                "a row", node.start_mark, f"the key {sorted(twice)[0]!r} comes twice"
            )
        return super().construct_mapping(node, deep)
