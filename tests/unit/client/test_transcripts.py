"""Reading conversations from files, and cutting them into requests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format

from hitherto.v1 import conversation_pb2
from hitherto_client import batches as batching
from hitherto_client.batches import batches
from hitherto_client.inputs import MessageInput
from hitherto_client.integrations.exchange import batched
from hitherto_client.integrations.kept_items import as_messages
from hitherto_client.transcripts import Defaults, FileTranscript, TranscriptError, read_transcripts
from hitherto_client.wire import build
from tests.refusing import refusing

SARAH = Defaults(user_id="sarah")


def write(folder: Path, text: str | bytes, name: str = "chat.jsonl") -> str:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return str(path)


def record(**changes: Any) -> dict[str, Any]:
    message = {"id": "m1", "role": "USER", "content": "Hi", "created_at": "2026-08-21T18:42:10Z"}
    return {"user_id": "sarah", "conversation_id": "chat-1", "messages": [message], **changes}


def one(folder: Path, value: dict[str, Any], defaults: Defaults | None = None) -> FileTranscript:
    path = write(folder, json.dumps(value, ensure_ascii=False))
    (found,) = read_transcripts(path, defaults or Defaults())
    return found


class TestJsonLines:
    @pytest.mark.parametrize("role", ["user", "USER", "User", "ROLE_USER", "role_user", 1])
    def test_roles_in_any_spelling(self, tmp_path: Path, role: str | int) -> None:
        found = one(tmp_path, record(messages=[{"role": role, "content": "Hi"}]))
        assert found.transcript.messages[0].role == conversation_pb2.ROLE_USER

    def test_every_field_arrives_and_other_keys_are_ignored(self, tmp_path: Path) -> None:
        message = {
            "id": "m1",
            "role": "ASSISTANT",
            "name": "Bot",
            "content": "Xin chào 👋🏽 你好 مرحبا",
            "created_at": "2026-08-21T18:42:10+01:00",
            "context_items": [{"id": "x", "relevance": 0.5}],
            "metadata": {"deep": [1, {"er": None}]},
            "emotion": "glad",
        }
        found = one(tmp_path, record(messages=[message], ended=False, facts=[{"fact": "x"}]))
        assert not found.transcript.ended
        (read,) = found.transcript.messages
        assert (read.role, read.name) == (conversation_pb2.ROLE_ASSISTANT, "Bot")
        assert read.content == "Xin chào 👋🏽 你好 مرحبا"
        assert read.created_at.ToJsonString() == "2026-08-21T17:42:10Z"
        assert read.context_items[0].relevance == 0.5
        assert json_format.MessageToDict(read.metadata) == {"deep": [1, {"er": None}]}
        # Names of proto JSON are read too.
        found = one(tmp_path, {"userId": "a", "conversationId": "b", "messages": []})
        assert (found.transcript.user_id, found.transcript.ended) == ("a", True)

    def test_options_fill_what_is_missing_and_no_more(self, tmp_path: Path) -> None:
        defaults = Defaults("other", "other-chat", "Europe/Paris")
        for value, expected in (
            (record(time_zone="Asia/Tokyo"), ("sarah", "chat-1", "Asia/Tokyo")),
            ({"messages": []}, ("other", "other-chat", "Europe/Paris")),
        ):
            found = one(tmp_path, value, defaults).transcript
            assert (found.user_id, found.conversation_id, found.time_zone) == expected

    def test_blank_lines_marks_and_windows_line_ends(self, tmp_path: Path) -> None:
        lines = [json.dumps(record(conversation_id=f"c{n}")) for n in range(2)]
        path = write(tmp_path, b"\xef\xbb\xbf\r\n" + "\r\n\r\n".join(lines).encode() + b"\r\n")
        assert [item.line for item in read_transcripts(path, Defaults())] == [2, 4]

    def test_a_line_separator_inside_a_text_ends_no_line(self, tmp_path: Path) -> None:
        value = record(messages=[{"role": "user", "content": "one\u2028two\x85three"}])
        assert one(tmp_path, value).transcript.messages[0].content == "one\u2028two\x85three"

    def test_mistakes_name_file_and_line(self, tmp_path: Path) -> None:
        cases: list[tuple[str, str]] = [
            ('{"user_id": "sarah",', "is not JSON"),
            ("[1]", "not a JSON object"),
            ('{"user_id": "a", "conversation_id": "b"}', "`messages` is missing"),
            ('{"conversation_id": "b", "messages": []}', "--user"),
            ('{"user_id": "a", "messages": []}', "--conversation"),
            ('{"user_id": 7, "conversation_id": "b", "messages": []}', "user"),
            (json.dumps(record(time_zone=5)), "`time_zone` should be text"),
            ("[" * 100_000, "nested too deeply"),
        ]
        user: dict[str, Any] = {"role": "user", "content": "a"}
        messages: list[tuple[Any, str]] = [
            ("Hi", r"messages\[0\]: is not a JSON object"),
            ({"content": "Hi"}, "`role` should be one of"),
            (user | {"role": "bot"}, "'bot'"),
            (user | {"role": 9}, "and is 9"),
            ({"role": "user"}, "`content` is missing"),
            (user | {"content": 5}, "`content`"),
            (user | {"content": "\ud800"}, "`content` should be text of valid Unicode"),
            (user | {"created_at": "now"}, r"messages\[0\]: `created_at` should be a time such as"),
            (user | {"name": 5}, r"messages\[0\]: `name` should be text"),
        ]
        cases += [(json.dumps(record(messages=[each])), told) for each, told in messages]
        for line, problem in cases:
            path = write(tmp_path, f"{json.dumps(record())}\n\n{line}\n")
            with pytest.raises(TranscriptError, match=problem) as caught, refusing(line):
                read_transcripts(path, Defaults())
            assert str(caught.value).startswith(f"{path}, line 3: "), line


class TestPlainText:
    def test_messages_and_the_lines_that_belong_to_them(self, tmp_path: Path) -> None:
        text = (
            "user: Chào bạn!\n"
            "Mình tên là Linh.\n"
            "\n"
            "Ghi chú: mình sống ở Huế.\n"
            "Assistant : Hello: nice to meet you\n"
            "  TOOL:{}\n"
            "system\uff1abe brief\n"
        )
        (found,) = read_transcripts(write(tmp_path, text, "chat.txt"), SARAH)
        assert [(m.role, m.content) for m in found.transcript.messages] == [
            (
                conversation_pb2.ROLE_USER,
                "Chào bạn!\nMình tên là Linh.\n\nGhi chú: mình sống ở Huế.",
            ),
            (conversation_pb2.ROLE_ASSISTANT, "Hello: nice to meet you"),
            (conversation_pb2.ROLE_TOOL, "{}"),
            (conversation_pb2.ROLE_SYSTEM, "be brief"),
        ]
        assert found.transcript.user_id == "sarah"
        assert found.transcript.ended

    def test_the_conversation_is_named_by_file_and_content(self, tmp_path: Path) -> None:
        first = write(tmp_path, "user: Hi\n", "chat.txt")
        (once,) = read_transcripts(first, SARAH)
        (again,) = read_transcripts(first, SARAH)
        (other,) = read_transcripts(write(tmp_path, "user: Ho\n", "chat.txt"), SARAH)
        assert once.transcript.conversation_id == again.transcript.conversation_id
        assert once.transcript.conversation_id != other.transcript.conversation_id
        named = Defaults("sarah", "mine", "Asia/Ho_Chi_Minh")
        (given,) = read_transcripts(first, named)
        assert given.transcript.conversation_id == "mine"
        assert given.transcript.time_zone == "Asia/Ho_Chi_Minh"

    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            ("\nLinh: Hi\nuser: Hi\n", "line 2: does not begin a message"),
            ("user: Hi\nassistant:\n \nuser: Ho\n", "line 2: the message is empty"),
            ("user: Hi\nuser:", "line 2: the message is empty"),
        ],
    )
    def test_mistakes_name_the_line(self, tmp_path: Path, text: str, problem: str) -> None:
        with pytest.raises(TranscriptError, match=problem):
            read_transcripts(write(tmp_path, text, "chat.txt"), SARAH)


class TestFiles:
    @pytest.mark.parametrize(
        ("raw", "problem"),
        [
            (b"", "is empty"),
            (b" \n\n", "is empty"),
            (b"user: a\nuser: caf\xe9\n", "line 2: is not UTF-8"),
            ("user: Hi".encode("utf-16"), "line 1: is not UTF-8"),
            (b'[{"user_id": "a"}]', "one transcript per line"),
        ],
    )
    def test_what_is_neither(self, tmp_path: Path, raw: bytes, problem: str) -> None:
        with pytest.raises(TranscriptError, match=problem):
            read_transcripts(write(tmp_path, raw), SARAH)


def transcript(messages: int, *, size: int = 1, number: int = 0) -> FileTranscript:
    return FileTranscript(
        conversation_pb2.Transcript(
            user_id="sarah",
            conversation_id=f"chat-{number}",
            ended=True,
            messages=[
                conversation_pb2.Message(role=conversation_pb2.ROLE_USER, content="x" * size)
                for _ in range(messages)
            ],
        ),
        "chat.jsonl",
        number + 1,
    )


class TestBatches:
    def test_they_hold_as_many_as_allowed_in_order(self) -> None:
        found = list(batches([transcript(1, number=n) for n in range(7)], 3))
        assert [[item.line for item in batch] for batch in found] == [[1, 2, 3], [4, 5, 6], [7]]

    def test_a_long_conversation_becomes_parts_of_itself(self) -> None:
        for shape in [(4_500, 1), (150, 60_000)]:
            whole = transcript(shape[0], size=shape[1])
            parts = [item.transcript for batch in batches([whole]) for item in batch]
            assert len(parts) >= 3, shape
            assert {part.conversation_id for part in parts} == {"chat-0"}, shape
            assert [part.ended for part in parts] == [False] * (len(parts) - 1) + [True], shape
            assert all(len(part.messages) <= batching.MAX_MESSAGES for part in parts), shape
            assert all(part.ByteSize() <= batching.MAX_BYTES for part in parts), shape
            # The service derives those of the first part.
            ids = [message.id for part in parts[1:] for message in part.messages]
            assert len(ids) == len(set(ids)) == shape[0] - len(parts[0].messages)
            assert all(ids)

    def test_none_is_larger_than_a_request(self) -> None:
        found = list(batches([transcript(10, size=60_000, number=n) for n in range(20)]))
        assert [item.line for batch in found for item in batch] == list(range(1, 21))
        for batch in found:
            assert sum(item.transcript.ByteSize() + 8 for item in batch) <= batching.MAX_BYTES

    def test_its_ids_are_the_same_again(self) -> None:
        def ids(messages: int) -> list[str]:
            found = batches([transcript(messages)])
            return [m.id for batch in found for item in batch for m in item.transcript.messages]

        assert ids(2_500) == ids(2_500)
        # A short one is left as it is.
        assert ids(3) == ["", "", ""]

    def test_a_message_larger_than_a_request_is_named(self) -> None:
        with pytest.raises(TranscriptError, match=r"chat.jsonl, line 1: messages\[0\]"):
            list(batches([transcript(1, size=5_000_000)]))

    def test_metadata_of_integrations_fills_a_request(self) -> None:
        item = as_messages("kind", "x" * 3_900_000, role="user", text="", label="item")
        assert len(list(batched(item))) == 1
        # Digits take more in a request than as text.
        digits: MessageInput = {"role": "user", "content": "Hi", "metadata": {"n": [0] * 20_000}}
        size = build(conversation_pb2.Message, **digits).ByteSize() + 8
        for batch in batched([digits] * 20, any_json=True):
            assert len(batch) * size <= batching.MAX_BYTES
