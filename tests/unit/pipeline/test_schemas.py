"""What a server with constrained decoding may write by our schemas has an end (row 77).

Servers that make a grammar of a schema refuse large repetitions, and hosted ones know a part of
JSON Schema only: the schemas keep to what all of them take.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hitherto_extraction.consolidation import merge_model as consolidation
from hitherto_extraction.pipeline import prompt as extraction
from hitherto_extraction.pipeline.answer import LABEL_CHARACTERS, MAX_CONTENT_BYTES
from hitherto_extraction.pipeline.answer_parsing import KEYS
from hitherto_extraction.pipeline.questions import MAX_CHARACTERS, MAX_QUESTIONS
from hitherto_extraction.pipeline.quotes import MAX_QUOTE

SCHEMAS = {each.VERSION: each._SCHEMA for each in (extraction, consolidation)}
KNOWN = frozenset(
    "type properties required additionalProperties items maxItems maxLength enum anyOf".split()
)
MOST = 2_000
"""From so many repetitions on llama.cpp refuses a grammar."""


def parts(schema: Any, depth: int = 0) -> Iterator[tuple[dict[str, Any], int]]:
    """Every schema within a schema, and how deep it lies."""
    yield schema, depth
    for inner in schema.get("properties", {}).values():
        yield from parts(inner, depth + 1)
    if "items" in schema:
        yield from parts(schema["items"], depth)
    for inner in schema.get("anyOf", ()):
        yield from parts(inner, depth)


def test_every_text_list_and_object_has_an_end() -> None:
    for version, schema in SCHEMAS.items():
        for part, depth in parts(schema):
            assert part.keys() <= KNOWN, version
            assert depth <= 5, version
            kind = part.get("type")
            if kind == "string":
                assert "enum" in part or 0 < part["maxLength"] < MOST, version
            elif kind == "array":
                assert 0 < part["maxItems"] < MOST, version
            elif kind == "object":
                assert part["additionalProperties"] is False, version
                assert part["properties"], version
                assert set(part.get("required", ())) <= part["properties"].keys(), version
            else:
                assert kind in ("number", "boolean", ["integer", "null"]) or "anyOf" in part, (
                    version
                )


def test_what_the_schema_allows_the_parser_takes() -> None:
    (new,) = [SCHEMAS[extraction.VERSION]["properties"]["new_memories"]["items"]["properties"]]
    assert 4 * max(new["content"]["maxLength"], new["detail"]["maxLength"]) <= MAX_CONTENT_BYTES
    assert new["tags"]["items"]["maxLength"] <= LABEL_CHARACTERS
    assert new["keywords"]["items"]["maxLength"] <= LABEL_CHARACTERS
    asked = new["questions"]
    assert (asked["maxItems"], asked["items"]["maxLength"]) == (MAX_QUESTIONS, MAX_CHARACTERS)


def test_a_quote_that_the_schema_allows_is_short_enough_to_be_one() -> None:
    keys = SCHEMAS[extraction.VERSION]["properties"]
    for name in (
        "updated_memories",
        "contradicted_memories",
        "achieved_goals",
        "forgotten_memories",
        "profile_changes",
    ):
        change = keys[name]["items"]
        assert change["properties"]["quote"]["maxLength"] <= MAX_QUOTE
        assert "source_message_ids" in change["properties"]
    assert set(keys) == set(KEYS) - {"profile"}
