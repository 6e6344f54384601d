"""`hitherto search`: what is asked, and how results of every kind are shown and explained."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from hitherto.v1 import (
    conversation_pb2,
    document_pb2,
    entity_pb2,
    memory_pb2,
    retrieval_service_pb2,
    search_pb2,
)
from hitherto_client import Hitherto
from hitherto_client.command import main
from hitherto_client.command.result_view import speaker, whole_parts
from tests.unit.client.command_samples import memory
from tests.unit.client.fake_services import Fakes

SPRING = Timestamp(seconds=1_714_567_890)
AUTUMN = Timestamp(seconds=1_790_000_000)


def asked_with(fakes: Fakes, *options: str) -> Any:
    """The request that the command makes of its options."""
    assert main(["search", "sarah", "q", *options]) == 0
    return fakes.calls("SearchMemories")[-1].request


class TestRequest:
    def test_filters(self, fakes: Fakes) -> None:
        options = "--type goal --type Fact --tag a --tag b --status archived --source explicit"
        more = "--limit 3 --min-score 0.25 --min-confidence high --entity Ilse --conversation c1"
        documents = "--source-type gmail --source-type jira"
        asked = asked_with(fakes, *options.split(), *more.split(), *documents.split())
        assert asked.types == [memory_pb2.MEMORY_TYPE_GOAL, memory_pb2.MEMORY_TYPE_FACT]
        assert asked.tags == ["a", "b"]
        assert asked.statuses == [memory_pb2.MEMORY_STATUS_ARCHIVED]
        assert asked.sources == [memory_pb2.MEMORY_SOURCE_EXPLICIT]
        assert asked.source_types == ["gmail", "jira"]
        assert (asked.limit, asked.min_score) == (3, 0.25)
        assert asked.confidence_min == memory_pb2.CONFIDENCE_HIGH
        assert (asked.entity, asked.conversation_id) == ("Ilse", "c1")

    def test_scopes_ranking_and_weights(self, fakes: Fakes) -> None:
        scopes = [f"--scope={name}" for name in ("memories", "Messages", "summaries", "documents")]
        ranking = "--ranking seed003 --weight keyword=2 --weight recency=0 --explain --excerpt 2"
        asked = asked_with(fakes, *scopes, *ranking.split())
        assert list(asked.scopes) == [1, 2, 3, 4]
        assert asked.ranking == "seed003"
        assert dict(asked.weights) == {"keyword": 2.0, "recency": 0.0}
        assert asked.explain
        assert asked.excerpt_messages == 2

    def test_times_metadata_and_token(self, fakes: Fakes) -> None:
        times = (
            "--as-of 2024-05-01 --known-at 2024-06-01T12:00:00+02:00 --reference-time 2024-07-01"
        )
        made = "--created-after 2024-01-01 --created-before 2025-01-01 --consistency-token abc"
        metadata = ["--metadata", '{"team": "data"}']
        asked = asked_with(fakes, *times.split(), *made.split(), *metadata)
        assert asked.as_of.ToJsonString() == "2024-05-01T23:59:59.999999Z"
        assert asked.known_at.ToJsonString() == "2024-06-01T10:00:00Z"
        assert asked.reference_time.ToJsonString() == "2024-07-01T00:00:00Z"
        assert asked.created_after.ToJsonString() == "2024-01-01T00:00:00Z"
        assert asked.created_before.ToJsonString() == "2025-01-01T00:00:00Z"
        assert asked.metadata_filter["team"] == "data"
        assert asked.consistency_token == "abc"

    def test_a_vector_of_ones_own(self, fakes: Fakes, tmp_path: Path) -> None:
        path = tmp_path / "vector.json"
        path.write_text("[0.5, -1, 0]")
        assert list(asked_with(fakes, "--vector", str(path)).query_embedding) == [0.5, -1.0, 0.0]

    def test_every_field_of_the_request_can_be_set(self, fakes: Fakes, tmp_path: Path) -> None:
        path = tmp_path / "vector.json"
        path.write_text("[1]")
        options = (
            "--limit 3 --type goal --tag a --status active --source explicit --source-type gmail "
            "--scope messages --entity e --conversation c --min-confidence low --created-after "
            "2024-01-01 --created-before 2025-01-01 --min-score 0.5 --ranking seed003 --weight "
            "keyword=1 --as-of 2024-01-01 --known-at 2024-01-01 --explain --consistency-token t "
            f"--reference-time 2024-01-01 --excerpt 1 --vector {path} --no-count-access "
            "--min-relevance 0.2 --no-doubtful"
        )
        asked = asked_with(fakes, *options.split(), "--metadata", '{"a": 1}')
        given = {field.name for field, _ in asked.ListFields()}
        assert given == set(asked.DESCRIPTOR.fields_by_name)

    def test_what_is_not_given_stays_unset(self, fakes: Fakes) -> None:
        asked = asked_with(fakes)
        assert {field.name for field, _ in asked.ListFields()} == {"user_id", "query", "limit"}

    @pytest.mark.parametrize(
        "options",
        [
            ["--weight", "keyword"],
            ["--weight", "=2"],
            ["--weight", "keyword=nan"],
            ["--weight", "keyword=two"],
            ["--excerpt", "-1"],
            ["--as-of", "yesterday"],
            ["--metadata", "[1]"],
            ["--scope", "letters"],
            ["--vector", "no-such-file"],
        ],
    )
    def test_wrong_usage(
        self, fakes: Fakes, capsys: pytest.CaptureFixture[str], options: list[str]
    ) -> None:
        assert main(["search", "sarah", "q", *options]) == 2
        assert capsys.readouterr().err
        assert not fakes.calls("SearchMemories")

    @pytest.mark.parametrize("text", ["", "{}", "[]", '["a"]', "[true]", "[" * 100_000, "\xff"])
    def test_a_file_without_a_vector(
        self, fakes: Fakes, capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str
    ) -> None:
        path = tmp_path / "vector.json"
        path.write_bytes(text.encode("latin-1"))
        assert main(["search", "sarah", "q", "--vector", str(path)]) == 2
        assert "a JSON list of numbers" in capsys.readouterr().err
        assert not fakes.calls("SearchMemories")

    def test_the_client_takes_every_field_as_plain_python(self, fakes: Fakes) -> None:
        with Hitherto() as client:
            client.search(
                "sarah",
                "q",
                scopes=["messages"],
                ranking="seed003",
                weights={"keyword": 2},
                metadata_filter={"team": "data"},
                as_of=SPRING.ToDatetime(),
                known_at=AUTUMN.ToDatetime(),
                excerpt_messages=1,
                explain=True,
            )
            client.get_context("sarah", "q", as_of=SPRING.ToDatetime(), max_relevant=0)
        asked = fakes.calls("SearchMemories")[0].request
        assert (asked.as_of, asked.known_at) == (SPRING, AUTUMN)
        assert dict(asked.weights) == {"keyword": 2.0}
        assert asked.metadata_filter["team"] == "data"
        assert fakes.calls("GetContext")[0].request.as_of == SPRING


def a_message(content: str = "I live in Huế 🏮.", **fields: Any) -> conversation_pb2.Message:
    return conversation_pb2.Message(
        **{
            "id": "m1",
            "role": conversation_pb2.ROLE_USER,
            "content": content,
            "created_at": SPRING,
            "conversation_id": "chat-7",
            **fields,
        }
    )


class TestResults:
    def test_each_kind_in_the_table(self, fakes: Fakes, capsys: pytest.CaptureFixture[str]) -> None:
        results = fakes.retrieval.search.results
        results.add(memory=memory("住在東京"), score=0.75, matched_legs=["semantic", "keyword"])
        results.add(message=a_message(), score=0.5, matched_legs=["episodic"])
        results.add(
            summary=conversation_pb2.ConversationSummary(
                conversation_id="chat-8", title="Trip", summary="a plan", updated_at=SPRING
            ),
            score=0.25,
        )
        results.add(
            document_chunk=document_pb2.DocumentChunk(
                source_type="gmail",
                source_id="mail-1",
                content_type="email",
                title="Invoice",
                content="forty units",
                created_at=SPRING,
            ),
            score=0.2,
        )
        results.add(score=0.125)
        assert main(["search", "sarah", "東京"]) == 0
        out = capsys.readouterr().out
        rows = [line for line in out.splitlines() if line.strip()[:1].isdigit()]
        assert len(rows) == 5
        for row, parts in zip(
            rows,
            [
                ("0.7500", "fact", "住在東京", "2026-08-17", "semantic, keyword"),
                ("0.5000", "message", "Huế 🏮", "user, chat-7", "2024-05-01 12:51Z", "episodic"),
                ("0.2500", "summary", "Trip: a plan", "chat-8", "2024-05-01"),
                ("0.2000", "document (email)", "Invoice: forty units", "gmail mail-1"),
                ("0.1250", "does not know"),
            ],
            strict=True,
        ):
            for part in parts:
                assert part in row

    def test_until_when_a_memory_held_and_what_ended_it(
        self, fakes: Fakes, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """A time-travel answer shows the period (D9), and the newer memory by its place or id."""
        sources = [
            memory_pb2.MemorySourceRef(conversation_id=name, message_id="m1")
            for name in ("chat-1", "chat-1", "chat-2", "chat-3")
        ]
        old = memory(
            "Lives in Lisbon.",
            status=memory_pb2.MEMORY_STATUS_CONTRADICTED,
            valid_from=SPRING,
            valid_to=AUTUMN,
            sources=sources,
            superseded_by="new",
        )
        fakes.retrieval.search.results.add(memory=old, score=0.5)
        assert main(["search", "sarah", "where", "--as-of", "2024-06-01"]) == 0
        out = capsys.readouterr().out
        assert "2024-05-01 to 2026-09-21" in out
        assert "fact (contradicted by new)" in out
        assert "chat-1 and 2 more" in out
        fakes.retrieval.search.results.add(memory=memory("Lives in Porto.", id="new"), score=0.4)
        assert main(["search", "sarah", "where"]) == 0
        assert "fact (contradicted by #2)" in capsys.readouterr().out

    def test_long_texts_are_cut_in_the_table_only(
        self, fakes: Fakes, capsys: pytest.CaptureFixture[str]
    ) -> None:
        fakes.retrieval.search.results.add(message=a_message("word " * 5_000), score=0.5)
        assert main(["search", "sarah", "q", "--scope", "messages"]) == 0
        assert len(capsys.readouterr().out) < 2_500
        assert main(["search", "sarah", "q", "--scope", "messages", "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert len(found["results"][0]["message"]["content"]) == 25_000

    def test_the_excerpt(self, fakes: Fakes, capsys: pytest.CaptureFixture[str]) -> None:
        result = fakes.retrieval.search.results.add(memory=memory("x"), score=0.5)
        result.excerpt.append(a_message("Where do you live?", role=conversation_pb2.ROLE_ASSISTANT))
        result.excerpt.append(a_message("In \x1b[31mHuế.", name="Linh"))
        fakes.retrieval.search.results.add(memory=memory("y"), score=0.25)
        fakes.retrieval.search.results.add(message=a_message(), score=0.2, excerpt=result.excerpt)
        assert main(["search", "sarah", "q", "--excerpt", "1"]) == 0
        out = capsys.readouterr().out
        assert out.count("What was said around") == 1
        assert "Around #3 the same was said as around #1." in out
        told = out.partition("What was said around #1:")[2].partition("Around #3")[0]
        question, answer = (line for line in told.splitlines() if "chat-7" in line)
        assert "assistant" in question
        assert "Where do you live?" in question
        assert "Linh (user)" in answer
        assert "In Huế." in answer
        assert "2024-05-01 12:51Z" in answer

    @pytest.mark.parametrize(
        ("fields", "told"),
        [
            ({"name": "Linh"}, "Linh (user)"),
            ({}, "user"),
            ({"role": 0, "name": "Linh"}, "Linh"),
            ({"role": 0}, ""),
        ],
    )
    def test_speakers(self, fields: dict[str, Any], told: str) -> None:
        assert speaker(a_message(**fields)) == told

    def test_nothing_found(self, fakes: Fakes, capsys: pytest.CaptureFixture[str]) -> None:
        fakes.retrieval.search.reason = "MEMORY_DISABLED"
        assert main(["search", "sarah", "q"]) == 0
        out, err = capsys.readouterr()
        assert out == ""
        assert "nothing was found (MEMORY_DISABLED)" in err


class TestDegraded:
    def degrade(self, fakes: Fakes) -> None:
        reply = fakes.retrieval.search
        reply.degraded = True
        reply.results.add(memory=memory("x"), score=0.5, matched_legs=["keyword"])
        reply.legs.add(
            name="semantic", state=search_pb2.LEG_STATE_FAILED, reason="connection refused"
        )
        reply.legs.add(name="documents", state=search_pb2.LEG_STATE_TIMED_OUT)
        reply.legs.add(name="keyword", state=search_pb2.LEG_STATE_RAN, candidates=7)
        reply.legs.add(name="entity", state=search_pb2.LEG_STATE_SKIPPED, reason="no name")

    def test_it_says_which_leg_is_missing_and_why(
        self, fakes: Fakes, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """D10: also without --explain."""
        self.degrade(fakes)
        assert main(["search", "sarah", "q"]) == 0
        out, err = capsys.readouterr()
        assert "0.5000" in out
        (told,) = err.splitlines()
        assert told.endswith(
            "something may be missing: semantic failed (connection refused); documents timed out"
        )

    def test_machines_read_it_in_the_reply(
        self, fakes: Fakes, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self.degrade(fakes)
        assert main(["search", "sarah", "q", "--json"]) == 0
        out, err = capsys.readouterr()
        assert err == ""
        found = json.loads(out)
        assert found["degraded"] is True
        assert found["legs"][0]["reason"] == "connection refused"

    def test_with_an_explanation_every_leg_is_shown(
        self, fakes: Fakes, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self.degrade(fakes)
        fakes.retrieval.search.legs[2].duration.CopyFrom(Duration(nanos=1_500_000))
        fakes.retrieval.search.candidates_total = 9
        fakes.retrieval.search.entities.add(name="Huế", type=entity_pb2.ENTITY_TYPE_PLACE)
        assert main(["search", "sarah", "q", "--explain"]) == 0
        err = capsys.readouterr().err
        for part in ("skipped", "no name", "1.5 ms", "9 candidates", "names Huế (place)"):
            assert part in err


def columns(out: str) -> dict[str, list[float]]:
    """The numbers of the explanation by result: its parts, and the score last."""
    found: dict[str, list[float]] = {}
    blocks = out.split("adds ")[1:]
    for block in blocks:
        heading, *rows = block.splitlines()
        names = heading.split()
        starts = [heading.index(name) + len(name) for name in names]
        offset = len("adds ")
        for row in rows:
            for name, end in zip(names, starts, strict=True):
                cell = row[max(0, end + offset - 8) : end + offset].strip()
                if cell.replace(".", "").replace("-", "").isdigit():
                    found.setdefault(name, []).append(float(cell))
            if row.startswith("score"):
                break
    return found


class TestExplanation:
    def explain(
        self, *breakdowns: dict[str, float]
    ) -> retrieval_service_pb2.SearchMemoriesResponse:
        reply = retrieval_service_pb2.SearchMemoriesResponse()
        for parts in breakdowns:
            reply.results.add(memory=memory("x"), score=sum(parts.values()), breakdown=parts)
        return reply

    def test_the_rows_add_up_to_the_score(
        self, fakes: Fakes, capsys: pytest.CaptureFixture[str]
    ) -> None:
        thirds = {"semantic": 1 / 3, "fulltext": 1 / 3, "recency": 0.1, "entity": 0.0}
        capped = {"keyword": 0.2, "recency": 0.4, "cap": -0.1}
        fakes.retrieval.search.CopyFrom(self.explain(thirds, capped))
        assert main(["search", "sarah", "q", "--explain"]) == 0
        out = capsys.readouterr().out
        assert "entity" not in out
        found = columns(out)
        assert found.keys() == {"#1", "#2"}
        for numbers in found.values():
            *parts, score = numbers
            assert sum(parts) == pytest.approx(score, abs=1e-9)
        assert found["#2"][-1] == pytest.approx(0.5)
        # The same number stands in the table of results.
        assert f"{found['#1'][-1]:.4f}" in out.partition("adds ")[0]
        assert "do not add up" not in out

    def test_many_results_take_several_tables(
        self, fakes: Fakes, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("COLUMNS", "80")
        many = [{"semantic": 0.9 - place / 100, "keyword": 0.05} for place in range(30)]
        fakes.retrieval.search.CopyFrom(self.explain(*many))
        assert main(["search", "sarah", "q", "--explain", "--limit", "30"]) == 0
        out = capsys.readouterr().out
        assert out.count("adds ") > 1
        found = columns(out)
        assert list(found) == [f"#{place}" for place in range(1, 31)]
        for numbers in found.values():
            assert sum(numbers[:-1]) == pytest.approx(numbers[-1], abs=1e-9)

    def test_a_width_of_nothing_is_unknown(
        self, fakes: Fakes, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Some terminals and build servers say so."""
        monkeypatch.setenv("COLUMNS", "0")
        fakes.retrieval.search.CopyFrom(self.explain({"semantic": 0.9}))
        assert main(["search", "sarah", "q", "--explain"]) == 0
        assert "semantic" in capsys.readouterr().out

    def test_parts_that_do_not_make_the_score_show(
        self, fakes: Fakes, capsys: pytest.CaptureFixture[str]
    ) -> None:
        fakes.retrieval.search.results.add(
            memory=memory("x"), score=0.9, breakdown={"semantic": 0.5}
        )
        assert main(["search", "sarah", "q", "--explain"]) == 0
        assert "#1: these do not add up to its score, 0.9000" in capsys.readouterr().out

    @pytest.mark.parametrize(
        "parts",
        [
            [0.00005] * 7,
            [1 / 3, 1 / 3, 1 / 3],
            [0.5, -0.00004, -0.2],
            [-0.00006, -0.00006, 0.00001],
            [1e-12, 0.9],
            [],
        ],
    )
    def test_rounding_keeps_the_sum(self, parts: list[float]) -> None:
        named = {f"p{index}": value for index, value in enumerate(parts)}
        shown = whole_parts(named)
        assert sum(shown.values()) == round(sum(value * 10_000 for value in parts))
        for name, value in shown.items():
            assert abs(value - named[name] * 10_000) < 1
