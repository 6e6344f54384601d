"""Tool definitions in every format, and what arguments of a model are refused with (G1)."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from hitherto_client.tools import GUIDE, TOOLS, anthropic_tools, openai_tools
from hitherto_client.tools.arguments import (
    LONGEST_ARGUMENTS,
    ToolArgumentError,
    check,
    moment,
    read_arguments,
)
from tests.refusing import refusing

NAMES = [
    "save_memory", "search_memory", "get_profile", "retrieve_context", "find_entity",
    "get_recent_conversations", "query_user_knowledge", "prepare_action",
]  # fmt: skip
SCHEMAS: dict[str, Any] = {tool.name: tool.parameters for tool in TOOLS}


def test_the_eight_tools_are_valid_json_schema_and_name_no_user() -> None:
    assert list(SCHEMAS) == NAMES
    for tool in TOOLS:
        Draft202012Validator.check_schema(dict(tool.parameters))
        assert not {"user", "user_id"} & set(tool.parameters["properties"])
        assert tool.name in GUIDE


def test_only_actions_need_the_users_approval() -> None:
    told = {tool.name: (tool.side_effect, tool.approval, tool.reads_only) for tool in TOOLS}
    assert told.pop("prepare_action") == ("queued", "before_execution", False)
    assert told.pop("save_memory") == ("none", "not_required", False)
    assert set(told.values()) == {("none", "not_required", True)}


def test_saving_names_its_occasions() -> None:
    """Document 004: preferences, constraints, working style, important contacts, decisions."""
    (tool,) = (tool for tool in TOOLS if tool.name == "save_memory")
    for text in (tool.description, GUIDE):
        for occasion in ("preference", "constraint", "working", "important contact", "decision"):
            assert occasion in text


def test_formats_of_model_apis() -> None:
    chat, responses, anthropic = openai_tools(), openai_tools("responses"), anthropic_tools()
    assert [one["function"]["name"] for one in chat] == NAMES
    assert [(one["type"], one["name"]) for one in responses] == [("function", n) for n in NAMES]
    assert [one["input_schema"] for one in anthropic] == [tool.parameters for tool in TOOLS]


GOOD: list[tuple[str, Any]] = [
    ("save_memory", {"content": "Ana thích phở 🍜", "type": "preference", "tags": ["食"]}),
    ("save_memory", {"content": "x", "importance": 1, "type": None, "tags": None}),
    ("search_memory", '{"query": "أين تعيش؟", "limit": 50}'),
    ("get_profile", None),
    ("get_profile", ""),
    ("retrieve_context", {"query": "a", "time_filter": {"after": "2026-08-21"}}),
    ("prepare_action", {"action_type": "x", "params": {"a": [1, None]}, "description": "y"}),
]


def test_arguments_that_fit() -> None:
    for name, given in GOOD:
        check(SCHEMAS[name], read_arguments(given))


BAD: list[tuple[str, Any, str]] = [
    ("save_memory", {}, "content is required"),
    ("save_memory", {"content": None}, "content must be of type string"),
    ("save_memory", {"content": " \n"}, "content is empty"),
    ("save_memory", {"content": "x" * 8_001}, "content is longer than 8000 characters"),
    ("save_memory", {"content": "\ud800"}, "content is not valid Unicode text"),
    ("save_memory", {"content": "x", "user_id": "bo"}, "user_id is unknown"),
    ("save_memory", {"content": "x", "type": "FACT"}, "type must be one of: "),
    ("save_memory", {"content": "x", "importance": 1.1}, "importance must be between 0 and 1"),
    ("save_memory", '{"content": "x", "importance": NaN}', "importance must be between 0 and 1"),
    ("save_memory", {"content": "x", "importance": True}, "importance must be of type number"),
    ("save_memory", {"content": "x", "tags": ["a"] * 21}, "tags may have at most 20 items"),
    ("save_memory", {"content": "x", "tags": ["a", 1]}, "tags[1] must be of type string"),
    ("search_memory", {"query": "x", "limit": 51}, "limit must be between 1 and 50"),
    ("search_memory", {"query": "x", "limit": 2.5}, "limit must be of type integer"),
    ("retrieve_context", {"query": "x", "time_filter": {"on": "x"}}, "time_filter.on is unknown"),
    ("retrieve_context", {"query": "x", "sources": ["web"]}, "sources[0] must be one of: "),
    ("prepare_action", {"action_type": "x", "params": [], "description": "y"}, "params must be"),
    ("get_profile", "{", "not valid JSON"),
    ("get_profile", "[]", "must be a JSON object"),
    ("get_profile", "[" * 100_000, "not valid JSON"),
    ("get_profile", " " * (LONGEST_ARGUMENTS + 1), "longer than"),
]


def test_arguments_that_do_not_fit_say_what_would() -> None:
    for name, given, why in BAD:
        with pytest.raises(ToolArgumentError) as refused, refusing(name):
            check(SCHEMAS[name], read_arguments(given))
        assert why in str(refused.value)


def test_days_and_times_are_read_as_utc() -> None:
    for given in ["2026-08-21", "2026-08-21T14:30:00Z", "2026-08-21T16:30+02:00"]:
        assert moment(given, "after").isoformat()[:10] == "2026-08-21"


def test_other_times_are_refused() -> None:
    for given in ["yesterday", "0000-01-01", "0001-01-01T00:00+14:00"]:
        with pytest.raises(ToolArgumentError, match="after must be a day"), refusing(given):
            moment(given, "after")
