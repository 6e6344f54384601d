"""The rules of an import are those of the catalogue, as this version of Postgres words them.

A constraint that is not understood would let too much pass, to be refused only where it is stored,
and nowhere if it is sealed before.
"""

from __future__ import annotations

from typing import Any

import pytest

from hitherto_extraction.restoring.catalogue import Rules, read_rules
from hitherto_extraction.restoring.columns import MayBeAbsent
from hitherto_shared.database.pool import Database
from hitherto_shared.errors import InvalidRequest
from hitherto_shared.validation import Checks


@pytest.fixture
async def rules(conninfo: str) -> Rules:
    database = Database(conninfo, "hitherto_write", application="test", max_size=1)
    await database.open()
    try:
        return await database.run(read_rules, timeout=10)
    finally:
        await database.close()


def why_not(rules: Rules, table: str, column: str, value: Any) -> str:
    """Why a column may not hold a value; empty if it may."""
    rule = rules[table].columns[column]
    checks = Checks()
    (rule.kind if isinstance(rule, MayBeAbsent) else rule)(checks, column, value)
    try:
        checks.done()
    except InvalidRequest as error:
        return str(error)
    return ""


LIMITS: tuple[tuple[str, str, Any, Any, str], ...] = (
    ("memories", "status", "achieved", "holy", "must be one of active"),
    ("memories", "importance", 1, 1.01, "must be a number from 0 to 1"),
    ("memories", "content", "x" * 8192, "x" * 8193, "at most 8192 bytes"),
    ("memories", "content", "x", " ", "is required"),
    ("memories", "version", 1, 0, "must be a whole number from 1 to 1000000000"),
    ("memories", "memory_id", "01890000-0000-7000-8000-000000000000", "1", "must be an id"),
    ("memories", "metadata", {}, [], "must be an object"),
    ("memory_versions", "content", "x" * 8192, "x" * 8193, "at most 8192 bytes"),
    ("memory_versions", "type", "goal", "aim", "must be one of preference"),
    ("messages", "role", "tool", "king", "must be one of user"),
    ("messages", "content", "x" * 65536, "x" * 65537, "at most 65536 bytes"),
    ("messages", "name", "", "x" * 257, "at most 256 characters"),
    ("messages", "message_no", 1, 0, "must be a whole number from 1"),
    ("messages", "message_id", "a", "a\nb", "printable characters"),
    ("memory_sources", "conversation_id", "c", "", "is required"),
    ("conversations", "conversation_id", "x" * 256, "x" * 257, "at most 256 characters"),
    ("documents", "source_id", "x" * 1024, "x" * 1025, "at most 1024 characters"),
    ("documents", "content_hash", "\\x" + "0" * 64, "\\x00", "64 hexadecimal digits"),
    ("feedback", "rating", 5, 6, "must be a whole number from 1 to 5"),
    ("feedback", "rating", None, 0, "must be a whole number from 1 to 5"),
    ("users", "redact_secrets", "seal", "no", "must be one of redact, seal, off"),
    ("pending_actions", "state", "rejected", "expired", "must be one of"),
    ("pending_actions", "description", "x" * 16384, "x" * 16385, "at most 16384 bytes"),
    ("history", "recorded_at", "2026-01-01T00:00:00Z", None, "must be a time"),
)


def test_a_constraint_is_a_rule(rules: Rules) -> None:
    for table, column, held, refused, why in LIMITS:
        assert why_not(rules, table, column, held) == "", (table, column)
        assert why in why_not(rules, table, column, refused), (table, column)


def test_what_is_empty_by_default_may_be_absent(rules: Rules) -> None:
    absent = {
        name: rule.default
        for name, rule in rules["memories"].columns.items()
        if isinstance(rule, MayBeAbsent)
    }
    assert {"status", "importance", "version", "content", "created_at"}.isdisjoint(absent)
    assert (absent["detail"], absent["tags"], absent["context"]) == ("", [], {})
    assert (absent["sensitive"], absent["expires_at"]) == (False, None)
    profile = rules["profiles"].columns["access_level"]
    assert isinstance(profile, MayBeAbsent)
    assert profile.default == "standard"
