"""What each command shows, to people and to machines: one row for each."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest

from tests.unit.client.command_samples import ID, MEMORY
from tests.unit.client.fake_services import Fakes


def result(**fields: Any) -> dict[str, Any]:
    return {"memory": {**MEMORY, "content": "x"}, "score": 0.5, **fields}


MESSAGE = {
    "role": "ROLE_USER",
    "content": "I live in Huế 🏮.",
    "createdAt": "2024-05-01T12:51:30Z",
    "conversationId": "chat-7",
}
LEGS = [
    {"name": "semantic", "state": "LEG_STATE_FAILED", "reason": "connection refused"},
    {"name": "documents", "state": "LEG_STATE_TIMED_OUT"},
    {"name": "entity", "state": "LEG_STATE_SKIPPED", "reason": "no name", "duration": "0.0015s"},
]
BLOCK = "[ABOUT THE USER] x1\n\tSống ở Huế 🏮, 東京  [bold]\n[END ABOUT THE USER]\n"
SUMMARY = {"conversationId": "chat-8", "title": "Trip", "summary": "a plan"}
CHUNK = {
    "sourceType": "gmail", "sourceId": "mail-1", "contentType": "email", "title": "Invoice",
    "content": "forty units",
}  # fmt: skip
ENDED: dict[str, Any] = {
    **MEMORY, "status": "MEMORY_STATUS_CONTRADICTED", "validTo": "2026-09-21T00:00:00Z",
    "sources": [{"conversationId": f"chat-{n}"} for n in (1, 1, 2, 3)],
}  # fmt: skip
CONTRADICTED = {
    "kind": "HISTORY_EVENT_KIND_CONTRADICTED", "actor": "extraction", "jobId": "j1",
    "relatedMemoryId": "m2", "reason": "a newer statement",
}  # fmt: skip
# Typed, the call and its reply, then what stands in the output and what is told beside it.
SHOWN: list[tuple[str, str, dict[str, Any], list[str], list[str]]] = [
    # A block is printed as it is, and what is said about it goes elsewhere.
    ("context ana q", "GetContext",
     {"promptBlock": BLOCK, "promptTokens": 17, "degraded": True, "legs": LEGS[1:2]},
     [BLOCK],
     ["17 tokens", "something may be missing: documents timed out"]),
    # Each kind of result in the table of a search.
    ("search ana q", "SearchMemories",
     {"results": [result(matchedLegs=["semantic", "keyword"]), {"message": MESSAGE, "score": 0.4},
                  {"summary": SUMMARY, "score": 0.3}, {"documentChunk": CHUNK, "score": 0.2},
                  {"score": 0.1}]},
     ["2026-08-17", "semantic, keyword", "user, chat-7", "2024-05-01 12:51Z", "Trip: a plan",
      "chat-8", "document (email)", "Invoice: forty units", "gmail mail-1", "does not know"],
     []),
    # D9: until when a memory held, and what ended it, by its place or id.
    ("search ana q", "SearchMemories",
     {"results": [result(memory=ENDED | {"supersededBy": "new"}),
                  result(memory=ENDED | {"supersededBy": "there"}),
                  result(memory=MEMORY | {"id": "there"})]},
     ["to 2026-09-21", "fact (contradicted by new)", "fact (contradicted by #3)",
      "chat-1 and 2 more"],
     []),
    # An excerpt is told once, however many results it stands around.
    ("search ana q --excerpt 1", "SearchMemories",
     {"results": [result(excerpt=[MESSAGE, {**MESSAGE, "name": "Linh", "content": "\x1b[31mNo."}]),
      {"message": MESSAGE, "excerpt": [MESSAGE, {**MESSAGE, "name": "Linh"}]}]},
     ["What was said around #1", "Linh (user)", "No.", "Around #2 the same was said"],
     []),
    # D10: which leg is missing and why, also without --explain.
    ("search ana q", "SearchMemories",
     {"degraded": True, "results": [result()], "legs": LEGS},
     ["0.5000"],
     ["missing: semantic failed (connection refused); documents timed out"]),
    ("search ana q --explain", "SearchMemories",
     {"degraded": True, "results": [result(breakdown={"semantic": 0.2})], "legs": LEGS,
      "candidatesTotal": 9, "entities": [{"name": "Huế", "type": "ENTITY_TYPE_PLACE"}]},
     ["#1: these do not add up to its score, 0.5000"],
     ["skipped", "no name", "1.5 ms", "9 candidates", "names Huế (place)"]),
    ("memories ana", "ListMemories",
     {"memories": [{**MEMORY, "content": "first"}], "nextPageToken": "1", "totalSize": 2},
     ["first"],
     ["1 of 2; continue with --page-token 1, or --all"]),
    ("history ana m", "GetMemoryHistory",
     {"nextPageToken": "more", "events": [CONTRADICTED]},
     ["contradicted", "extraction", "a newer statement, job j1, memory m2"],
     ["--page-token more"]),
    ("save ana x", "SaveMemory",
     {"memory": {**MEMORY, "status": "MEMORY_STATUS_QUARANTINED"}},
     [],
     [f"hitherto review ana {ID}"]),
]  # fmt: skip


@pytest.mark.parametrize(("typed", "method", "reply", "out", "err"), SHOWN)
def test_what_is_shown(
    fakes: Fakes,
    monkeypatch: pytest.MonkeyPatch,
    typed: str,
    method: str,
    reply: dict[str, Any],
    out: list[str],
    err: list[str],
) -> None:
    monkeypatch.setenv("COLUMNS", "240")
    fakes.answer(method, reply)
    shown, told = fakes.run(0, shlex.split(typed))
    for part in out:
        assert part in shown
    for part in err:
        assert part in told
    assert bool(out) == bool(shown) or method == "SaveMemory"
    # Machines get the whole reply and nothing beside it.
    shown, told = fakes.run(0, [*shlex.split(typed), "--json"])
    assert isinstance(json.loads(shown), dict)
    assert told == ""


def test_a_command_that_is_named_can_be_typed(fakes: Fakes) -> None:
    fakes.answer("ForgetMemory", {"memory": MEMORY})
    assert f"`hitherto restore 'Ana Maria' {ID}`" in fakes.run(0, ["forget", "Ana Maria", ID]).err


def test_long_texts_are_cut_in_the_table_only(fakes: Fakes) -> None:
    fakes.answer("SearchMemories", {"results": [{"message": {"content": "word " * 5_000}}]})
    assert len(fakes.run(0, ["search", "ana", "q"]).out) < 2_500
    (found,) = json.loads(fakes.run(0, ["search", "ana", "q", "--json"]).out)["results"]
    assert len(found["message"]["content"]) == 25_000


def test_what_machines_read_hides_no_sign(fakes: Fakes) -> None:
    fakes.answer("GetContext", {"promptBlock": "sống\x85\u202e"})
    out = fakes.run(0, ["context", "ana", "--json"]).out
    assert json.loads(out)["prompt_block"] == "sống\x85\u202e"
    assert "\x85" not in out
    assert "\u202e" not in out


@pytest.mark.parametrize(
    ("typed", "method", "field", "page"),
    [
        ("memories ana", "ListMemories", "memories", {"userId": "ana"}),
        ("usage --by user", "GetUsage", "rows", {"userId": "ana"}),
    ],
)
def test_all_pages_are_one_document(
    fakes: Fakes, typed: str, method: str, field: str, page: dict[str, Any]
) -> None:
    fakes.pages(method, *({field: [page]} for _ in range(3)))
    found = json.loads(fakes.run(0, [*typed.split(), "--all", "--json"]).out)
    assert len(found[field]) == 3
    assert not found.get("next_page_token")
