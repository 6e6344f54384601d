"""What people type, and what reaches the services: one row for each command.

The tables stand in for services whose answers must be exact; tests/e2e/test_command.py and
tests/e2e/test_typed_commands.py run the commands against real ones.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict

from hitherto.v1 import retrieval_service_pb2
from hitherto_client.command import main
from hitherto_client.command.output import UsageError
from hitherto_client.command.profiles import read_changes
from tests.refusing import refusing
from tests.unit.client.command_samples import ID
from tests.unit.client.fake_services import Fakes

END_OF_MAY_1 = "2024-05-01T23:59:59.999999Z"
LENGTHY = "Dài " * 5


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the commands are typed, with the files that they read."""
    texts = {
        "vector.json": "[0.5, -1, 0]",
        "mine.txt": "{{memories}} ñ",
        "long": LENGTHY,
        "short": "Ngắn",
        "none.json": '["a"]',
        "two.jsonl": '{"user_id": "ana", "conversation_id": "c", "messages": []}\n' * 2,
        "bad.jsonl": '{"user_id": 1}',
        "chat.txt": "user: Tôi sống ở Huế.",
        "deep.json": "[" * 100_000,
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text, "utf-8")
    (tmp_path / "latin.json").write_bytes(b"\xff")
    monkeypatch.chdir(tmp_path)
    return tmp_path


SEARCH: dict[str, Any] = {
    "types": ["MEMORY_TYPE_GOAL", "MEMORY_TYPE_FACT"], "tags": ["a", "b"],
    "statuses": ["MEMORY_STATUS_ARCHIVED"], "sources": ["MEMORY_SOURCE_EXPLICIT"],
    "source_types": ["gmail", "jira"], "scopes": ["SEARCH_SCOPE_MEMORIES", "SEARCH_SCOPE_MESSAGES"],
    "limit": 3, "min_score": 0.25, "min_relevance": 0.5, "confidence_min": "CONFIDENCE_HIGH",
    "entity": "Ilse", "conversation_id": "c1", "created_after": "2024-01-01T00:00:00Z",
    "created_before": "2025-01-01T00:00:00Z", "as_of": END_OF_MAY_1,
    "known_at": "2024-06-01T10:00:00Z", "reference_time": "2024-07-01T00:00:00Z",
    "ranking": "weighted", "weights": {"keyword": 2.0, "recency": 0.0}, "explain": True,
    "excerpt_messages": 2, "count_access": False, "include_doubtful": False,
    "query_embedding": [0.5, -1.0, 0.0], "metadata_filter": {"team": "data"},
    "consistency_token": "abc",
}  # fmt: skip
SEARCH_OPTIONS = (
    "--type goal --type Fact --tag a --tag b --status archived --source explicit"
    " --source-type gmail --source-type jira --scope memories --scope Messages --limit 3"
    " --min-score 0.25 --min-relevance 0.5 --min-confidence high --entity Ilse --conversation c1"
    " --created-after 2024-01-01 --created-before 2025-01-01 --as-of 2024-05-01"
    " --known-at 2024-06-01T12:00:00+02:00 --reference-time 2024-07-01 --ranking weighted"
    " --weight keyword=2 --weight recency=0 --no-count-access --no-doubtful --explain"
    " --excerpt 2 --vector vector.json"
    """ --metadata '{"team": "data"}' --consistency-token abc"""
)
REQUESTS: list[tuple[str, str, dict[str, Any]]] = [
    ("search ana q", "SearchMemories", {"query": "q", "limit": 10}),
    ("search ana --limit 10 q", "SearchMemories", {"query": "q", "limit": 10}),
    (f"search ana q {SEARCH_OPTIONS}", "SearchMemories", {"query": "q", **SEARCH}),
    ("context ana q --max-relevant 0 --max-conversations 3 --max-entities 4 --order recent"
     " --as-of 2024-05-01 --scope messages --max-tokens 0 --max-memories 0 --conversation c"
     " --custom-template mine.txt --provenance", "GetContext",
     {"query": "q", "max_relevant": 0, "max_conversations": 3, "max_entities": 4,
      "memory_order": "MEMORY_ORDER_RECENT", "as_of": END_OF_MAY_1,
      "scopes": ["SEARCH_SCOPE_MESSAGES"], "max_tokens": 0, "max_memories": 0,
      "conversation_id": "c", "template": "PROMPT_TEMPLATE_CUSTOM",
      "custom_template": "{{memories}} ñ", "include_provenance": True}),
    ("context ana --template what-you-know", "GetContext",
     {"template": "PROMPT_TEMPLATE_WHAT_YOU_KNOW"}),
    ("memories ana --source explicit --as-of 2024-05-01 --created-after 2024-01-01", "ListMemories",
     {"sources": ["MEMORY_SOURCE_EXPLICIT"], "as_of": END_OF_MAY_1,
      "created_after": "2024-01-01T00:00:00Z", "page_size": 20}),
    ("review ana", "ListMemories", {"statuses": ["MEMORY_STATUS_QUARANTINED"], "page_size": 20}),
    ("conversations ana --outcome needs-followup", "ListConversations",
     {"outcomes": ["OUTCOME_NEEDS_FOLLOWUP"], "page_size": 20}),
    ("conversation ana c1 --messages 2", "GetConversation",
     {"conversation_id": "c1", "message_limit": 2}),
    ("memory ana m --consistency-token t", "GetMemory", {"memory_id": "m"}),
    ("profile ana --consistency-token t", "GetProfile", {}),
    ("history ana m --consistency-token t", "GetMemoryHistory",
     {"memory_id": "m", "page_size": 20}),
    ("history ana --consistency-token t", "GetProfileHistory", {"page_size": 20}),
    ("session ana s1 --consistency-token t", "GetSession", {"session_id": "s1"}),
    ("documents list ana --consistency-token t", "ListDocuments", {"page_size": 20}),
    ("documents show ana d1 --consistency-token t", "GetDocument", {"document_id": "d1"}),
    ("profile ana 'summary=A baker.' --clear department --version 3", "UpdateProfile",
     {"profile": {"summary": "A baker."}, "update_mask": "summary,department", "version": 3}),
    ("save ana x", "SaveMemory", {"content": "x"}),
    ("save ana 'Học tiếng Nhật' --type Goal --importance 0 --confidence low --source action"
     " --origin tool --tag a --tag b --keyword k --detail d --conversation c1"
     " --valid-from 2026-08-21 --no-sensitive --expires 2026-08-21T18:42:10+01:00"
     """ --metadata '{"x": [1]}' --context '{}'""", "SaveMemory",
     {"content": "Học tiếng Nhật", "type": "MEMORY_TYPE_GOAL", "importance": 0.0,
      "confidence": "CONFIDENCE_LOW", "source": "MEMORY_SOURCE_ACTION", "origin": "ORIGIN_TOOL",
      "tags": ["a", "b"], "keywords": ["k"], "detail": "d", "conversation_id": "c1",
      "valid_from": "2026-08-21T00:00:00Z", "expires_at": "2026-08-21T17:42:10Z",
      "metadata": {"x": [1.0]}, "context": {}}),
    (f"correct ana {ID} 'Lives in Oslo.' --entity Oslo --clear metadata.old --version 2"
     " --valid-to 2026-01-01 --importance 0", "UpdateMemory",
     {"memory_id": ID, "version": 2,
      "update_mask": "content,importance,entities,validTo,metadata.old",
      "memory": {"content": "Lives in Oslo.", "entities": ["Oslo"], "importance": 0.0,
      "valid_to": "2026-01-01T00:00:00Z"}}),
    (f"review ana {ID} --reject --reason injected", "ReviewMemory",
     {"memory_id": ID, "decision": "REVIEW_DECISION_REJECT", "reason": "injected"}),
    ("feedback ana c1 a1 --original long --edited short", "RecordFeedback",
     {"conversation_id": "c1", "message_id": "a1", "edit": {"original": LENGTHY,
      "edited": "Ngắn"}}),
    (f"forget ana {ID} --reason r", "ForgetMemory", {"memory_id": ID, "reason": "r"}),
    (f"forget ana {ID} --carry-along", "ForgetMemory", {"memory_id": ID, "carry_along": True}),
    (f"restore ana {ID}", "RestoreMemory", {"memory_id": ID}),
    (f"undo ana {ID}", "UndoConsolidation", {"memory_id": ID}),
    ("settings ana memory_enabled=OFF retention_days=0 --reset learning_enabled",
     "UpdateUserSettings",
     {"user_settings": {"memory_enabled": False, "retention_days": 0},
      "update_mask": "memoryEnabled,retentionDays,learningEnabled"}),
    ("clear ana --profile --yes", "ClearMemories", {"include_profile": True}),
    ("jobs --user ana --state dead --state FAILED --limit 7", "ListJobs",
     {"states": ["JOB_STATE_DEAD", "JOB_STATE_FAILED"], "page_size": 7}),
    ("jobs --retry --all --state dead --reason MODEL_UNUSABLE --user ana --since 2026-09-01",
     "RetryJob",
     {"filter": {"states": ["JOB_STATE_DEAD"], "reasons": ["MODEL_UNUSABLE"], "user_id": "ana",
      "created_after": "2026-09-01T00:00:00Z"}}),
    (f"jobs --cancel {ID}", "CancelJob", {"job_id": ID}),
    ("usage --by user,day --kind decay --since 2026-11-01", "GetUsage",
     {"group_by": ["USAGE_DIMENSION_USER", "USAGE_DIMENSION_DAY"], "kinds": ["decay"],
      "since": "2026-11-01T00:00:00Z", "page_size": 20}),
]  # fmt: skip


def test_what_was_typed_reaches_the_request(fakes: Fakes, folder: Path) -> None:
    """And nothing else does: what was not said stays unset."""
    for typed, method, request_of in REQUESTS:
        fakes.extraction.add_job()
        assert main([*shlex.split(typed), "--json"]) == 0, typed
        sent = MessageToDict(fakes.calls(method)[-1].request, preserving_proto_field_name=True)
        if method[:3] not in ("Get", "Lis", "Sea"):
            assert sent.pop("idempotency_key"), typed
        if "consistency_token" not in request_of and "--consistency-token" in typed:
            assert sent.pop("consistency_token") == "t", typed
        assert sent == request_of | ({"user_id": "ana"} if "user_id" in sent else {}), typed


REFUSED = """
search ana q --weight keyword | --weight =2 | --weight keyword=nan | --weight keyword=two
search ana q --excerpt -1 | --as-of yesterday | --metadata '[1]' | --scope letters
search ana q --vector no-such-file | --vector none.json | --vector deep.json | --vector latin.json
context ana --template custom | --template markdown --custom-template mine.txt | --template poem
context ana --custom-template no-such-file | --max-tokens -1 | --max-tokens 99999999999
context ana --timeout 0 | --timeout nan
save ana x --type poem | --importance much | --valid-from yesterday | --expires 0000-00-00
save ana x --metadata '[1]' | --metadata '{'
correct ana ID | ID --tag a --clear tags | ID --metadata [1]
review ana --approve | ID | ID --approve --reject | --reject
feedback ana c1 a1 | --rating 6 | --rating 0 | --original long | --original none --edited none
feedback ana c1 a1 --rating 5 --original long --edited short
settings ana memory_enabled | memory=off | memory_enabled=maybe | retention_days=-1
settings ana retention_days=٣ | retention_days=99999999999 | time_zone=UTC time_zone=UTC
settings ana time_zone=UTC --reset time_zone | --reset everything | erased=on | --reset erased
jobs --retry | --retry ID --all | --reason X | --since 2026-09-01
usage --by week | --by user, | --by user,week
preview two.jsonl | two.jsonl --line 3
import two.jsonl no-such-file
submit two.jsonl bad.jsonl | chat.txt | no-such-file
dance | search | jobs --state happy
"""


def refused() -> Iterator[str]:
    """Each line with the words before its first option or value, for all that follow."""
    heads = (
        *("context ana", "correct ana", "feedback ana c1 a1", "import", "jobs", "preview"),
        *("review ana", "save ana x", "search ana q", "settings ana", "submit", "usage"),
    )
    for line in REFUSED.strip().splitlines():
        head = next((each for each in heads if line.startswith(each)), "")
        for typed in line.removeprefix(head).split(" | "):
            yield f"{head} {typed}".strip()


def test_wrong_usage_sends_nothing(fakes: Fakes, folder: Path) -> None:
    cases = list(refused())
    for typed in cases:
        assert fakes.run(2, shlex.split(typed)).err, typed
        assert not any(fakes.recorder.calls.values()), typed


def test_values_of_a_profile() -> None:
    for typed, values in [
        ("summary=a=b", {"summary": "a=b"}),
        ("summary=3", {"summary": "3"}),
        ("facts.personal.location=Đà Nẵng 🏖", {"facts": {"personal": {"location": "Đà Nẵng 🏖"}}}),
        ("metadata.level=3", {"metadata": {"level": 3}}),
        ('metadata.level="3"', {"metadata": {"level": "3"}}),
        ("metadata.phone=0171 55", {"metadata": {"phone": "0171 55"}}),
        ("metadata.word=NaN", {"metadata": {"word": "NaN"}}),
        ("metadata.word=", {"metadata": {"word": ""}}),
        ('facts.languages=["vi", "en"]', {"facts": {"languages": ["vi", "en"]}}),
        ('facts={"a": {"b": 1}}', {"facts": {"a": {"b": 1}}}),
        ("current_projects=Atlas", {"current_projects": ["Atlas"]}),
        ('frequent_intents=["a", "b"]', {"frequent_intents": ["a", "b"]}),
    ]:
        profile, paths = read_changes([typed], [])
        assert MessageToDict(profile, preserving_proto_field_name=True) == values
        assert paths == [typed.partition("=")[0]]


def test_mistakes_about_a_profile() -> None:
    for typed, cleared, words in [
        (["summary"], [], "PATH=VALUE"),
        (["location=Berlin"], [], "facts.personal.location"),
        (["facts..a=x"], [], "no place in a profile"),
        (["summary=a", "summary=b"], [], "set twice"),
        (["facts=3"], [], "JSON object"),
        (["current_projects=[1]"], [], "once for each"),
        (["facts.a=1", "facts.a.b=2"], [], "goes through"),
        (["facts.a.b=2", "facts.a=1"], [], "a place within it"),
        (["facts={}", "facts.a=1"], [], "set whole"),
        (["facts.a=1", "facts={}"], [], "set whole"),
        (["summary=a"], ["summary"], "both set and cleared"),
        ([], ["nothing.here"], "no place in a profile"),
    ]:
        with pytest.raises(UsageError, match=words), refusing(typed):
            read_changes(typed, cleared)


def test_every_field_of_a_search_can_be_set() -> None:
    known = set(retrieval_service_pb2.SearchMemoriesRequest.DESCRIPTOR.fields_by_name)
    asked_elsewhere = {"user_id", "query"}
    assert known - set(SEARCH) - asked_elsewhere == set()
