"""Exports of chat assistants: what was said last, when it was said, and files that are none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hitherto_client.command import main
from hitherto_client.importers import ExportReport, ExportUnreadable, read_export
from hitherto_client.importers.chats import last_branch
from tests.refusing import refusing
from tests.unit.client.fake_services import Fakes

DAY = 86_400.0
FIRST = 1_672_531_200.0
"""2023-01-01."""


def written(folder: Path, *values: Any, name: str = "conversations.json") -> Path:
    path = folder / name
    path.write_text(json.dumps(list(values)), "utf-8")
    return path


def read(
    source: str, path: Path, report: ExportReport | None = None, **options: Any
) -> list[dict[str, Any]]:
    return list(read_export(source, path, report or ExportReport(), **options))


def chatgpt(*times: float | None, **more: Any) -> dict[str, Any]:
    """A conversation with a message of each time, one after another."""
    mapping = {
        f"n{place}": {
            "parent": f"n{place - 1}" if place else None,
            "message": {
                "id": f"m{place}",
                "author": {"role": "user"},
                "create_time": time,
                "content": {"content_type": "text", "parts": [f"Said as number {place}."]},
            },
        }
        for place, time in enumerate(times)
    }
    return {"conversation_id": "c", "mapping": mapping, **more}


def claude(*messages: tuple[str, str | None, str], **more: Any) -> dict[str, Any]:
    """A conversation of messages: id, parent if the export names parents, and time."""
    return {
        "uuid": "c",
        "chat_messages": [
            {"uuid": name, "sender": "human", "text": f"Said as {name}.", "created_at": time}
            | ({} if parent is None else {"parent_message_uuid": parent})
            for name, parent, time in messages
        ],
        **more,
    }


def letta(*times: str, **more: Any) -> dict[str, Any]:
    messages = [
        {"id": f"m{place}", "role": "user", "content": f"Number {place}.", "created_at": time}
        for place, time in enumerate(times)
    ]
    return {"agents": [{"id": "a", "messages": messages, **more}]}


@pytest.mark.parametrize(
    ("source", "value", "days"),
    [
        ("chatgpt", chatgpt(None, FIRST, None, FIRST + DAY, None), "01 01 01 02 02"),
        ("chatgpt", chatgpt(None, None, create_time=FIRST), "01 01"),
        ("chatgpt", chatgpt(0, update_time=FIRST + DAY), "02"),
        ("claude", claude(("a", None, ""), ("b", None, "2023-01-01T10:00:00Z")), "01 01"),
        ("claude", claude(("a", None, ""), created_at="2023-01-03T09:00:00+02:00"), "03"),
        ("letta", letta("", "2023-01-04", ""), "04 04 04"),
        ("letta", letta("", created_at="2023-01-05"), "05"),
    ],
)
def test_what_has_no_time_takes_that_of_its_neighbours_or_its_conversation(
    tmp_path: Path, source: str, value: dict[str, Any], days: str
) -> None:
    (found,) = read(source, written(tmp_path, value, name="conversations.json"))
    assert [one["created_at"][:10] for one in found["messages"]] == [
        f"2023-01-{day}" for day in days.split()
    ]


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("chatgpt", chatgpt(None, None)),
        ("claude", claude(("a", None, ""))),
        ("letta", letta("", "")),
    ],
)
class TestConversationsWithoutAnyTime:
    def test_are_dated_by_an_option(
        self, tmp_path: Path, fakes: Fakes, source: str, value: dict[str, Any]
    ) -> None:
        fakes.others.replies["StreamTranscripts"] = _take
        path = str(written(tmp_path, value))
        command = ["import", "--from", source, "--user", "ana", path]
        assert main([*command, "--undated", "2023-05-06"]) == 0
        (asked,) = fakes.calls("StreamTranscripts")
        (sent,) = asked.request
        times = [one.created_at.ToDatetime() for one in sent.transcript.messages]
        assert {f"{time:%Y-%m-%d}" for time in times} == {"2023-05-06"}

    def test_are_told(
        self, tmp_path: Path, fakes: Fakes, source: str, value: dict[str, Any]
    ) -> None:
        command = ["import", "--from", source, "--user", "ana", str(written(tmp_path, value))]
        assert "says nowhere when it was held" in fakes.run(0, [*command, "--dry-run"]).out
        report = ExportReport()
        assert read(source, written(tmp_path, value), report) == []
        assert len(report.undated) == 1
        assert "--undated" in fakes.run(1, command).err
        assert not fakes.calls("StreamTranscripts")


def test_a_conversation_named_by_a_whole_text_is_named_in_short(
    tmp_path: Path, fakes: Fakes
) -> None:
    talk = chatgpt(None, None, conversation_id="x" * 10_000)
    told = fakes.run(
        1, ["import", "--from", "chatgpt", "--user", "ana", str(written(tmp_path, talk))]
    ).err
    assert "x" * 20 in told
    assert len(told) < 1_000


def _take(requests: list[Any]) -> Any:
    from hitherto.v1 import extraction_service_pb2

    return extraction_service_pb2.StreamTranscriptsResponse(accepted_count=len(requests))


def test_a_refused_conversation_is_named(tmp_path: Path, fakes: Fakes) -> None:
    """An archive has no lines to look at, and a conversation has a name in it."""

    def refuse_one(requests: list[Any]) -> Any:
        reply = _take(requests[1:])
        reply.errors.add(index=1, code=9, reason="MESSAGE_ID_REUSED", message="is another")
        reply.rejected_count = 1
        return reply

    fakes.others.replies["StreamTranscripts"] = refuse_one
    talks = [chatgpt(FIRST, conversation_id=name) for name in "abc"]
    command = ["import", "--from", "chatgpt", "--user", "ana", str(written(tmp_path, *talks))]
    told = fakes.run(1, command).err
    assert "conversations.json: chatgpt:b: is another (MESSAGE_ID_REUSED)" in told
    assert "line" not in told
    (found,) = json.loads(fakes.run(1, [*command, "--json"]).out)["files"]
    problem = "chatgpt:b: is another (MESSAGE_ID_REUSED)"
    assert found["errors"] == [{"line": 0, "problem": problem}]


ROOT = "00000000-0000-4000-8000-000000000000"


def test_chatgpt_s_calls_of_tools_are_nobody_s_words(tmp_path: Path) -> None:
    """To its tools an assistant speaks as to people, but for whom the words are meant."""
    talk = chatgpt(FIRST, FIRST, FIRST, FIRST)
    hidden = {"is_visually_hidden_from_conversation": True}
    talk["mapping"]["n3"]["message"]["metadata"] = hidden
    for place, meant_for in enumerate(("all", "bio", None)):
        talk["mapping"][f"n{place}"]["message"] |= {
            "author": {"role": "assistant"},
            "recipient": meant_for,
        }
    (found,) = read("chatgpt", written(tmp_path, talk))
    assert [one["id"] for one in found["messages"]] == ["m0", "m2"]


@pytest.mark.parametrize("time", [-5.0, 8_205_200_000.0, 1_714_560_000_000.0, "0001-01-01"])
def test_a_time_that_nothing_can_have_is_none(tmp_path: Path, time: Any) -> None:
    """Milliseconds for seconds, or a year of a broken clock: the services would refuse it."""
    (found,) = read("chatgpt", written(tmp_path, chatgpt(FIRST, time)))
    assert [one["created_at"][:10] for one in found["messages"]] == ["2023-01-01"] * 2


@pytest.mark.parametrize(
    ("value", "said"),
    [
        # The second question is the edit of the first one, with its own answer.
        (
            claude(
                ("q1", ROOT, "2026-01-01T10:00:00Z"),
                ("a1", "q1", "2026-01-01T10:00:10Z"),
                ("q2", ROOT, "2026-01-01T10:01:00Z"),
                ("a2", "q2", "2026-01-01T10:01:10Z"),
            ),
            "q2 a2",
        ),
        # An answer was made again; the export names the first one as the last seen.
        (
            claude(
                ("q", ROOT, "2026-01-01T10:00:00Z"),
                ("a1", "q", "2026-01-01T10:00:10Z"),
                ("a2", "q", "2026-01-01T10:00:20Z"),
                current_leaf_message_uuid="a1",
            ),
            "q a1",
        ),
        # Exports of old name no parents.
        (claude(("a", None, "2026-01-01"), ("b", None, "2026-01-02")), "a b"),
        (claude(("a", None, "2026-01-01"), ("b", None, ""), ("c", "b", "2026-01-03")), "a b c"),
        # A circle ends.
        (claude(("a", "b", "2026-01-01"), ("b", "a", "2026-01-02"), ("c", "b", "")), "a b c"),
    ],
)
def test_claude_brings_the_last_branch_only(
    tmp_path: Path, value: dict[str, Any], said: str
) -> None:
    (found,) = read("claude", written(tmp_path, value))
    assert [one["id"] for one in found["messages"]] == said.split()


def test_claude_s_messages_before_a_gap_are_kept(tmp_path: Path) -> None:
    parents = {"q": ROOT, "old": ROOT, "a": "old", "b": "gone"}
    times = (f"2026-01-01T10:00:0{place}Z" for place in range(4))
    value = claude(
        *((name, parents[name], time) for name, time in zip(parents, times, strict=True))
    )
    (found,) = read("claude", written(tmp_path, value))
    assert [one["id"] for one in found["messages"]] == ["old", "a", "b"]


@pytest.mark.parametrize("current", ["", "nowhere", None, 7])
def test_chatgpt_brings_the_last_leaf_where_no_node_is_named(
    tmp_path: Path, current: object
) -> None:
    value = chatgpt(FIRST, FIRST + 1, FIRST + 2, current_node=current)
    value["mapping"]["other"] = json.loads(json.dumps(value["mapping"]["n1"]))
    value["mapping"]["other"]["message"]["content"]["parts"] = ["A first try."]
    (found,) = read("chatgpt", written(tmp_path, value))
    assert [one["content"][-2] for one in found["messages"]] == ["0", "1", "2"]


def nodes(*links: tuple[str, str | None, bool], **more: Any) -> dict[str, Any]:
    """A ChatGPT conversation of nodes, one a second: name, parent, and whether it has words."""
    value = chatgpt(*(FIRST + place for place in range(len(links))), **more)
    made = dict(zip((name for name, _, _ in links), value["mapping"].values(), strict=True))
    for name, parent, spoken in links:
        made[name] |= {"parent": parent} | ({} if spoken else {"message": None})
        if spoken:
            made[name]["message"]["id"] = name
    return {**value, "mapping": made}


@pytest.mark.parametrize("current", ["root", "tool", "", "nowhere"])
def test_a_node_after_which_nobody_spoke_is_not_the_last_one(tmp_path: Path, current: str) -> None:
    links = ("root", None, False), ("q", "root", True), ("a", "q", True), ("tool", None, False)
    (found,) = read("chatgpt", written(tmp_path, nodes(*links, current_node=current)))
    assert [one["id"] for one in found["messages"]] == ["q", "a"]


@pytest.mark.parametrize("current", ["d", ""])
@pytest.mark.parametrize(
    "links",
    [
        # A node is left out.
        [("a", None, True), ("b", "a", True), ("c", "gone", True), ("d", "c", True)],
        # So is the first one, of which all come.
        [("a", "root", True), ("b", "a", True), ("c", "gone", True), ("d", "c", True)],
        # What came after the gap was edited, and so was the first message.
        [
            *[("edited", "root", True), ("a", "root", True), ("b", "a", True)],
            *[("c2", "gone", True), ("c", "gone", True), ("d", "c", True)],
        ],
        # None names its parent.
        [("a", None, True), ("b", None, True), ("c", None, True), ("d", None, True)],
    ],
)
def test_what_was_said_before_a_gap_is_kept(
    tmp_path: Path, links: list[tuple[str, str | None, bool]], current: str
) -> None:
    (found,) = read("chatgpt", written(tmp_path, nodes(*links, current_node=current)))
    assert [one["id"] for one in found["messages"]] == ["a", "b", "c", "d"]


def test_what_nobody_spoke_in_is_gone_through_once() -> None:
    """However many of its ends are tried."""

    class Spoken(set[str]):
        asked = 0

        def __contains__(self, name: object) -> bool:
            self.asked += 1
            return super().__contains__(name)

    parents = {f"n{place}": f"n{place - 1}" if place else "" for place in range(300)}
    parents |= {f"end{place}": "n299" for place in range(300)}
    spoken = Spoken()
    assert last_branch(parents, "", list(parents), spoken) == []
    assert spoken.asked == len(parents)


def test_chatgpt_s_children_tell_what_no_parent_does(tmp_path: Path) -> None:
    value = nodes(*((name, None, True) for name in "abcd"))
    for name, children in {"a": ["b", "c"], "c": ["d"]}.items():
        value["mapping"][name]["children"] = children
    (found,) = read("chatgpt", written(tmp_path, value))
    assert [one["id"] for one in found["messages"]] == ["a", "c", "d"]
    # Without times or children it goes by the order of the file.
    value = chatgpt(*[None] * 12, create_time=FIRST)
    (found,) = read("chatgpt", written(tmp_path, value))
    assert [one["id"] for one in found["messages"]] == [f"m{place}" for place in range(12)]


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("chatgpt", chatgpt(FIRST, title="cut \ud83d", conversation_id="a\0b")),
        ("mem0", {"memory": "half \ud83d, nul \0", "categories": ["\udc00"]}),
        ("mem0", {"memory": "a", "metadata": {"\ud83d": [{"deep": "\0"}, "\ud83d"]}}),
        ("langgraph", {"key": "\ud83d", "value": {"a": "\udc00"}, "namespace": ["\0"]}),
        ("letta", {"text": "half \ud83d", "tags": ["\0"]}),
        ("hindsight", {"text": "a", "entities": ["\ud83d"], "type": "\0"}),
    ],
)
def test_what_no_text_can_hold_is_replaced(
    tmp_path: Path, source: str, value: dict[str, Any]
) -> None:
    """Programs cut titles and texts in the middle of an emoji; the rest of them is whole."""
    (found,) = read(source, written(tmp_path, value))
    told = json.dumps(found, ensure_ascii=False)
    assert "\\u0000" not in told
    assert "\ufffd" in told
    told.encode()


def test_records_inside_of_a_page_are_found_and_counted(tmp_path: Path) -> None:
    for source, value, empty, timeless in [
        ("chatgpt", {"conversations": [chatgpt(FIRST)]}, 0, 0),
        ("claude", {"conversations": [claude(("a", None, "2026-01-01"))]}, 0, 0),
        ("mem0", {"memories": [{"content": "Likes tea"}]}, 0, 1),
        ("mem0", {"results": [{"text": "Likes tea", "created_at": FIRST}, {"memory": " "}]}, 1, 0),
    ]:
        report = ExportReport()
        assert len(read(source, written(tmp_path, value), report)) == 1, value
        assert (report.empty, report.timeless) == (empty, timeless), value
    # Without any record nothing is wrong with it.
    assert read("mem0", written(tmp_path, {"results": []})) == []


def test_a_file_of_which_nothing_is_known_says_what_it_looks_like(tmp_path: Path) -> None:
    for source, value, like in [
        ("mem0", chatgpt(FIRST), "chatgpt"),
        ("chatgpt", claude(("a", None, "2026-01-01")), "claude"),
        ("claude", letta("2023-01-04"), "letta"),
    ]:
        path = written(tmp_path, value, value)
        with pytest.raises(ExportUnreadable) as refused, refusing(source):
            read(source, path)
        told = str(refused.value)
        assert f"holds nothing that {source} exports: 2 records" in told
        assert f"`{next(iter(value))}`" in told
        assert f"--from {like}" in told
