"""An export says in its last line what it holds, and one that was cut is refused (H2)."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import grpc
import pytest

from tests.e2e.conftest import Services
from tests.e2e.curating import save
from tests.e2e.leaving import export, unannounced
from tests.e2e.sessions import refusal_of
from tests.e2e.test_import_user import bring


@pytest.fixture
async def lines(services: Services) -> list[str]:
    """The lines of an export, with their ends."""
    for statement in ("The user drinks trà sen.", "The user lives in Huế.", "The user rows."):
        await save(services, statement)
    return (await export(services)).text.splitlines(keepends=True)


async def refused(services: Services, lines: list[str], user: str) -> str:
    refusal = await refusal_of(bring(services, "".join(lines).encode(), user))
    assert refusal.code is grpc.StatusCode.INVALID_ARGUMENT
    return refusal.message


async def test_h2_the_last_line_is_a_manifest_of_those_before_it(lines: list[str]) -> None:
    first, *between, last = map(json.loads, lines)
    assert first["manifest"] is True
    assert not any("manifest" in record for record in between)
    counts: dict[str, int] = {}
    for record in (first, *between):
        counts[record["table"]] = counts.get(record["table"], 0) + 1
    assert last["table"] == "manifest"
    assert last["row"]["counts"] == counts
    assert last["row"]["sha256"] == hashlib.sha256("".join(lines[:-1]).encode()).hexdigest()


async def test_h2_an_export_that_was_cut_between_lines_is_refused(
    services: Services, lines: list[str]
) -> None:
    for cut in (1, 5):
        message = await refused(services, lines[:-cut], "bo")
        assert "was cut off before its manifest" in message
        assert message.startswith(f"records[{len(lines) - cut + 1}]")
    # What it says to do helps.
    whole = await bring(services, "".join(lines).encode(), "bo")
    assert sum(whole.imported_counts.values()) + sum(whole.skipped_counts.values())


async def test_h2_a_manifest_of_other_records_is_refused(
    services: Services, lines: list[str]
) -> None:
    assert "of other records" in await refused(services, [*lines[:-3], *lines[-2:]], "bo")
    assert "follows the manifest" in await refused(services, [*lines, lines[1]], "cleo")
    last = json.loads(lines[-1])
    of_others: tuple[Any, ...] = (None, 3, [], {"memories": "3"}, {"memories": True})
    for counts in of_others:
        spoiled = last | {"row": last["row"] | {"counts": counts}}
        assert "of other records" in await refused(
            services, [*lines[:-1], json.dumps(spoiled)], "dee"
        )


async def test_h2_an_export_of_an_earlier_version_has_no_manifest(
    services: Services, lines: list[str]
) -> None:
    earlier: list[dict[str, Any]] = unannounced([json.loads(line) for line in lines])
    data = "\n".join(map(json.dumps, earlier)).encode()
    assert (await bring(services, data, "bo")).imported_counts["memories"] == 3
