"""`hitherto import`, `preview` and `documents add`: files of every kind, and what is sent."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import grpc
import pytest

from hitherto.v1 import extraction_service_pb2 as extraction
from hitherto.v1 import memory_service_pb2 as memory
from hitherto_client import records
from hitherto_client.command import main
from hitherto_client.records import memory_request, read_records
from tests.refusing import refusing
from tests.unit.client.fake_services import Failure, Fakes, RunCommand


def write(folder: Path, *lines: Any, name: str = "items.jsonl") -> str:
    path = folder / name
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("\n".join(texts) + "\n", "utf-8")
    return str(path)


def talk(conversation: str, **fields: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": "Xin chào"}]
    return {"user_id": "ana", "conversation_id": conversation, "messages": messages, **fields}


def take(
    requests: list[extraction.StreamTranscriptsRequest],
) -> extraction.StreamTranscriptsResponse:
    reply = extraction.StreamTranscriptsResponse(consistency_token="t")
    for index, request in enumerate(requests):
        if request.transcript.time_zone == "Nowhere":
            error = reply.errors.add(index=index, code=3, reason="INVALID_FIELD")
            error.field_violations.add(field="transcript.time_zone", description="is unknown")
            reply.rejected_count += 1
        else:
            reply.accepted_count += 1
    return reply


def save(requests: list[memory.StreamMemoriesRequest]) -> memory.StreamMemoriesResponse:
    return memory.StreamMemoriesResponse(saved_count=len(requests), deduplicated_count=1)


@pytest.fixture
def ready(fakes: Fakes) -> Fakes:
    fakes.others.replies.update(StreamTranscripts=take, StreamMemories=save)
    return fakes


def contents(fakes: Fakes) -> list[str]:
    return [
        request.item.content for asked in fakes.calls("StreamMemories") for request in asked.request
    ]


class TestImport:
    def test_memories_with_words_and_defaults(self, ready: Fakes, tmp_path: Path) -> None:
        path = write(
            tmp_path,
            {"content": "Thích trà", "type": "preference", "status": "x", "id": "y"},
            {"content": "b", "type": "MEMORY_TYPE_GOAL", "user_id": "minh", "origin": "tool"},
        )
        found = json.loads(ready.run(0, ["import", path, "--user", "ana", "--json"]).out)
        assert found["files"][0]["kind"] == "memories"
        assert (found["files"][0]["accepted"], found["files"][0]["deduplicated"]) == (2, 1)
        (asked,) = ready.calls("StreamMemories")
        assert [(r.item.user_id, r.item.type, r.item.origin) for r in asked.request] == [
            ("ana", 1, 0),
            ("minh", 2, 3),
        ]

    def test_progress_counts_what_was_taken(
        self, ready: Fakes, tmp_path: Path, run_command: RunCommand
    ) -> None:
        """Also of a file that is read before anything is sent."""
        path = write(tmp_path, {"content": "Likes tea."})
        assert "100 %  1 taken" in run_command(0, ["import", path, "--user", "ana"]).err

    def test_a_service_that_goes_away_meanwhile_is_named_once(
        self, ready: Fakes, tmp_path: Path
    ) -> None:
        def once(requests: list[extraction.StreamTranscriptsRequest]) -> Any:
            ready.others.replies["StreamTranscripts"] = take
            gone = grpc.StatusCode.UNAVAILABLE
            words = "the database is starting"
            starting = Failure(gone, "DATABASE_UNAVAILABLE", words, retry_after=0.1)
            ready.fail("StreamTranscripts", Failure(gone), Failure(gone), starting)
            return take(requests)

        ready.others.replies["StreamTranscripts"] = once
        path = write(tmp_path, *(talk(f"c{number}") for number in range(150)))
        err = ready.run(0, ["import", path]).err
        assert err.count("waiting: the extraction service at") == 1
        assert err.count("waiting: the database is starting") == 1

    def test_bad_lines_are_named_and_stop_nothing(self, ready: Fakes, tmp_path: Path) -> None:
        """Those found here and those that the service refuses, by the lines of the file."""
        path = write(
            tmp_path,
            talk("c1"),
            "",
            "{not json",
            talk("c2", time_zone="Nowhere"),
            {"messages": []},
            talk("c3"),
            talk("c4", time_zone="Nowhere"),
        )
        err = ready.run(1, ["import", path]).err
        for line, words in ((3, "not JSON"), (4, "is unknown"), (5, "user_id"), (7, "is unknown")):
            (told,) = [text for text in err.splitlines() if f"line {line}:" in text]
            assert words in told
        (found,) = json.loads(ready.run(1, ["import", path, "--json"]).out)["files"]
        assert (found["accepted"], found["rejected"]) == (2, 4)
        assert [error["line"] for error in found["errors"]] == [3, 4, 5, 7]

    @pytest.mark.parametrize(
        ("text", "hinted"), [('[{"title": "Trip",', True), ('{"content": 1}', False)]
    )
    def test_an_export_of_another_product_is_told_of_its_option(
        self, ready: Fakes, tmp_path: Path, text: str, hinted: bool
    ) -> None:
        path = tmp_path / "conversations.json"
        path.write_text(text, "utf-8")
        err = ready.run(1, ["import", str(path), "--user", "ana"]).err
        assert ("--from: chatgpt, claude" in err) == hinted

    def test_an_export_that_is_no_file_is_said_to_be_none(
        self, tmp_path: Path, run_command: RunCommand
    ) -> None:
        missing = tmp_path / "nowhere.zip"
        for given, told in (
            ("-", "hitherto: --from chatgpt reads files and folders, not standard input\n"),
            (str(missing), f"hitherto: {missing} cannot be read (No such file or directory)\n"),
        ):
            for more in ([], ["--dry-run"]):
                arguments = ["import", "--from", "chatgpt", "--user", "ana", given, *more]
                assert run_command(2, arguments).err.endswith(told)

    def test_a_large_conversation_keeps_its_line(self, ready: Fakes, tmp_path: Path) -> None:
        """In parts of its own, so that places in the stream are not lines any more."""
        messages = [{"role": "user", "content": f"m{n}"} for n in range(4_500)]
        path = write(tmp_path, talk("long", messages=messages), talk("bad", time_zone="Nowhere"))
        (found,) = json.loads(ready.run(1, ["import", path, "--json"]).out)["files"]
        assert found["accepted"] == 3
        assert [error["line"] for error in found["errors"]] == [2]

    def test_kinds_are_not_mixed(self, ready: Fakes, tmp_path: Path) -> None:
        mixed = write(tmp_path, {"content": "a"}, talk("c1"), {"content": "b"})
        other = write(tmp_path, talk("c2"), {"content": "c"}, name="other.jsonl")
        err = ready.run(1, ["import", mixed, other, "--user", "ana"]).err
        assert "files of their own" in err
        assert "`messages` is missing" in err
        assert (contents(ready), len(ready.calls("StreamTranscripts"))) == (["a", "b"], 1)

    def test_what_was_taken_is_told_when_it_breaks_off(self, ready: Fakes, tmp_path: Path) -> None:
        def later(requests: Any) -> Any:
            ready.fail(
                "StreamTranscripts", Failure(grpc.StatusCode.PERMISSION_DENIED, "SCOPE_MISSING")
            )
            return take(requests)

        ready.others.replies["StreamTranscripts"] = later
        path = write(tmp_path, *(talk(f"c{n}") for n in range(150)))
        err = ready.run(1, ["import", path]).err
        assert "100 items were taken and stay, and so may some of those just sent" in err
        assert "SCOPE_MISSING" in err

    def test_a_pipe_and_a_packed_file(
        self, ready: Fakes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = write(tmp_path, "\ufeff" + json.dumps({"content": "a"}), {"content": "b"})
        with open(path, encoding="utf-8") as stdin:
            monkeypatch.setattr("sys.stdin", stdin)
            assert "stdin" in ready.run(0, ["import", "-", "--user", "ana"]).out
        assert contents(ready) == ["a", "b"]
        packed = tmp_path / "items.jsonl.gz"
        packed.write_bytes(gzip.compress(Path(path).read_bytes()))
        assert main(["import", str(packed), "--user", "ana"]) == 0
        assert contents(ready) == ["a", "b"] * 2


class TestRecords:
    def test_lines_that_are_too_long_are_passed_over(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(records, "MAX_LINE_BYTES", 32)
        path = tmp_path / "long"
        path.write_bytes(b'{"a": 1}\n{"b": "' + b"x" * 200 + b'"}\n{"c": 3}\n\xff\xfe\n[1]\n')
        with path.open("rb") as stream:
            found = list(read_records(stream))
        assert [record.value for record in found] == [{"a": 1}, None, {"c": 3}, None, None]
        assert [record.line for record in found] == [1, 2, 3, 4, 5]
        assert found[-1].end == path.stat().st_size
        assert "UTF-8" in found[3].problem

    def test_bad_memories(self) -> None:
        cases: list[Any] = [
            ({}, "content"),
            ({"content": 3}, "content"),
            ({"content": "x", "type": "poem"}, "preference, goal"),
            ({"content": "x", "importance": "much"}, "importance"),
            ({"content": "x", "valid_from": "soon"}, "`valid_from` should be a time such as"),
            ({"content": "x", "valid_from": 5}, "`valid_from` should be a time such as"),
            ({"content": "x", "valid_from": "2026-01-01T00:00:00+99:00"}, "should be a time"),
            ({"content": "half of \ud83d"}, "`content` should be text of valid Unicode"),
            ({"content": "x", "type": "\ud800"}, "preference, goal"),
            ({"content": "x", "type": 1.5}, "`type` should be one of"),
            ({"content": "x", "type": True}, "`type` should be one of"),
            ({"content": "x", "importance": True}, "`importance` should be a number"),
            ({"content": "x", "tags": ["a", 3]}, r"`tags\[1\]` should be text of valid Unicode"),
            ({"content": "x", "tags": "a"}, "`tags` should be a list"),
            ({"content": "x", "metadata": [1]}, "`metadata` should be a JSON object"),
            ({"content": "x", "metadata": {"a": "\ud800"}}, "`metadata` should be .* Unicode"),
            ({"content": "x", "userId": "a", "user_id": "b"}, "together with userId"),
        ]
        for record, words in cases:
            with pytest.raises(ValueError, match=words), refusing(record):
                memory_request(record, "ana")

    def test_a_trial_run_counts_what_would_be_refused_and_nothing_of_it(
        self, ready: Fakes, tmp_path: Path
    ) -> None:
        broken = talk("c1") | {"messages": [{"role": "user", "content": "half of \ud83d"}]}
        talks = write(tmp_path, talk("c0"), broken, talk("c2") | {"user_id": 5}, "[1]")
        saved = [{"user_id": "ana", "content": "x", "valid_from": "soon"}, {"content": "y"}]
        memories = write(tmp_path, *saved, talk("c3"), name="memories.jsonl")
        arguments = ["import", "--dry-run", talks, memories]
        plan = json.loads(ready.run(0, [*arguments, "--user", "ana", "--json"]).out)
        assert (plan["conversations"], plan["messages"], plan["memories"]) == (1, 1, 1)
        assert (plan["unreadable_lines"], plan["first"], plan["last"]) == (5, "", "")
        told = ready.run(0, arguments)
        assert "would be refused: 6" in told.out
        assert "memories.jsonl, line 1: " in told.err
        assert "memories.jsonl, line 3: is a transcript among memories" in told.err


class TestDocuments:
    def ingest(self, fakes: Fakes) -> None:
        def take_in(request: extraction.IngestDocumentsRequest) -> Any:
            return extraction.IngestDocumentsResponse(
                job=fakes.extraction.add_job(kind="document-ingestion"),
                new_count=len(request.documents),
                document_ids=[f"id of {document.source_id}" for document in request.documents],
            )

        fakes.others.replies["IngestDocuments"] = take_in

    def test_json_lines_in_batches(self, fakes: Fakes, tmp_path: Path) -> None:
        """The options fill in what a line does not say."""
        self.ingest(fakes)
        lines = [{"source_id": f"d{n}", "title": "x" if n else ""} for n in range(150)]
        path = write(tmp_path, *lines)
        options = ["--source-type", "gmail", "--title", "y", "--created", "2026-01-02"]
        assert main(["documents", "add", "ana", path, *options, "--no-wait"]) == 0
        first, second = fakes.calls("IngestDocuments")
        assert (len(first.request.documents), len(second.request.documents)) == (100, 50)
        assert [document.title for document in first.request.documents[:2]] == ["y", "x"]
        assert {document.source_type for document in first.request.documents} == {"gmail"}
        assert first.request.documents[0].created_at.seconds == 1_767_312_000
        assert not fakes.calls("WatchJob")

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ('{"source_id": 3, "title": []}\n', "line 1"),
            ('{"source_id": "d"}\n{oops\n', "line 2"),
            ("x" * (5 * 2**20), "split it"),
        ],
    )
    def test_mistakes_are_found_first(
        self, fakes: Fakes, tmp_path: Path, text: str, words: str
    ) -> None:
        path = tmp_path / "a.txt"
        path.write_text(text, "utf-8")
        assert words in fakes.run(2, ["documents", "add", "ana", str(path)]).err
        assert not fakes.calls("IngestDocuments")


@pytest.mark.parametrize(
    "options", [[], ["--dry-run"], ["--from", "hitherto", "--dry-run"], ["--from", "hitherto"]]
)
@pytest.mark.parametrize("damage", ["cut off", "overwritten", "not packed"])
def test_a_damaged_packed_file_ends_with_a_sentence(
    ready: Fakes, tmp_path: Path, options: list[str], damage: str
) -> None:
    lines = b"".join(b'{"table": "memories", "content": "%d"}\n' % n for n in range(9))
    whole = gzip.compress(lines)
    packed = tmp_path / "items.jsonl.gz"
    packed.write_bytes(
        {
            "cut off": whole[:-20],
            "overwritten": whole[:10] + b"\xff" * 20 + whole[30:],
            "not packed": lines,
        }[damage]
    )
    captured = ready.run(2, ["import", "--user", "ana", *options, str(packed)])
    assert f"hitherto: {packed} cannot be unpacked" in captured.err
    assert captured.out == ""
