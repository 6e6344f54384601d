"""`recollect context`, `search`, `memories`, `memory`, `profile` and `conversations`."""

from __future__ import annotations

import json
from pathlib import Path

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.struct_pb2 import Struct

from recollect.v1 import (
    conversation_pb2,
    memory_pb2,
    profile_pb2,
    retrieval_service_pb2,
    search_pb2,
)
from recollect_client.command import main
from recollect_client.command.reads import explanation
from tests.unit.client.command_samples import memory
from tests.unit.client.fake_services import Failure, Fakes


class TestContext:
    def test_the_block_is_printed_as_it_is(
        self, fakes: Fakes, capsys: pytest.CaptureFixture[str]
    ) -> None:
        block = "[ABOUT THE USER] x1\n\tSống ở Huế 🏮, 東京  [bold]\n[END ABOUT THE USER]\n"
        fakes.retrieval.context.prompt_block = block
        fakes.retrieval.context.prompt_tokens = 17
        fakes.retrieval.context.degraded = True
        fakes.retrieval.context.legs.add(
            name="semantic",
            state=search_pb2.LEG_STATE_TIMED_OUT,
            duration=Duration(nanos=12_500_000),
            reason="no time",
        )
        assert main(["context", "sarah", "where?"]) == 0
        out, err = capsys.readouterr()
        assert out == block
        assert "semantic" in err
        assert "timed-out" in err
        assert "12.5 ms" in err
        assert "17 tokens" in err
        assert "something may be missing" in err

    def test_options_reach_the_request(self, fakes: Fakes, tmp_path: Path) -> None:
        template = tmp_path / "mine.txt"
        template.write_text("{{memories}} ñ", "utf-8")
        options = ["--custom-template", str(template), "--max-tokens", "0", "--max-memories", "0"]
        assert main(["context", "sarah", *options, "--conversation", "c", "--provenance"]) == 0
        asked = fakes.calls("GetContext")[0].request
        assert asked.template == search_pb2.PROMPT_TEMPLATE_CUSTOM
        assert asked.custom_template == "{{memories}} ñ"
        assert asked.HasField("max_tokens")
        assert asked.HasField("max_memories")
        assert asked.conversation_id == "c"
        assert asked.include_provenance

    def test_unset_numbers_stay_unset(self, fakes: Fakes) -> None:
        assert main(["context", "sarah", "--template", "what-you-know"]) == 0
        asked = fakes.calls("GetContext")[0].request
        assert not asked.HasField("max_tokens")
        assert not asked.HasField("max_memories")
        assert asked.template == search_pb2.PROMPT_TEMPLATE_WHAT_YOU_KNOW

    @pytest.mark.parametrize(
        "options",
        [
            ["--template", "custom"],
            ["--template", "markdown", "--custom-template", "x"],
            ["--custom-template", "no-such-file"],
            ["--template", "poem"],
            ["--max-tokens", "-1"],
            ["--max-tokens", "99999999999"],
            ["--timeout", "0"],
            ["--timeout", "nan"],
        ],
    )
    def test_wrong_usage(
        self, fakes: Fakes, capsys: pytest.CaptureFixture[str], options: list[str]
    ) -> None:
        assert main(["context", "sarah", *options]) == 2
        assert capsys.readouterr().err
        assert not fakes.calls("GetContext")

    def test_nothing_known(self, fakes: Fakes, capsys: pytest.CaptureFixture[str]) -> None:
        fakes.retrieval.context.reason = "MEMORY_DISABLED"
        assert main(["context", "sarah"]) == 0
        out, err = capsys.readouterr()
        assert out == ""
        assert "nothing is known about sarah yet (MEMORY_DISABLED)" in err

    def test_machines_get_the_reply(self, fakes: Fakes, capsys: pytest.CaptureFixture[str]) -> None:
        fakes.retrieval.context.prompt_block = "sống\x85\u202e"
        assert main(["context", "sarah", "--json"]) == 0
        out, err = capsys.readouterr()
        assert json.loads(out)["prompt_block"] == "sống\x85\u202e"
        assert json.loads(out)["degraded"] is False
        assert "\x85" not in out
        assert "\u202e" not in out
        assert err == ""


class TestSearch:
    def test_results_in_a_table(self, fakes: Fakes, capsys: pytest.CaptureFixture[str]) -> None:
        results = fakes.retrieval.search.results
        results.add(memory=memory("住在東京"), score=0.75, matched_legs=["semantic", "keyword"])
        results.add(
            summary=conversation_pb2.ConversationSummary(title="Trip", summary="a plan"), score=0.5
        )
        results.add(message=conversation_pb2.Message(content="hello there"), score=0.25)
        results.add(score=0.125)
        assert main(["search", "sarah", "東京"]) == 0
        out = capsys.readouterr().out
        for part in ("0.7500", "住在東京", "semantic, keyword", "Trip: a plan", "hello there"):
            assert part in out
        assert "2026-08-17" in out

    def test_filters_reach_the_request(self, fakes: Fakes) -> None:
        options = "--type goal --type Fact --tag a --tag b --status archived --scope messages"
        more = "--limit 3 --min-score 0.25 --min-confidence high --ranking seed003 --explain"
        assert main(["search", "sarah", "q", *options.split(), *more.split()]) == 0
        asked = fakes.calls("SearchMemories")[0].request
        assert asked.types == [memory_pb2.MEMORY_TYPE_GOAL, memory_pb2.MEMORY_TYPE_FACT]
        assert asked.tags == ["a", "b"]
        assert asked.statuses == [memory_pb2.MEMORY_STATUS_ARCHIVED]
        assert asked.scopes == [search_pb2.SEARCH_SCOPE_MESSAGES]
        assert (asked.limit, asked.min_score, asked.ranking) == (3, 0.25, "seed003")
        assert asked.confidence_min == memory_pb2.CONFIDENCE_HIGH
        assert asked.explain

    def test_the_explanation_adds_up(
        self, fakes: Fakes, capsys: pytest.CaptureFixture[str]
    ) -> None:
        parts = {"semantic": 0.33333, "fulltext": 0.33333, "recency": 0.1, "entity": 0.0}
        fakes.retrieval.search.results.add(
            memory=memory("x"), score=sum(parts.values()), breakdown=parts
        )
        assert main(["search", "sarah", "q", "--explain"]) == 0
        out = capsys.readouterr().out
        (line,) = (line for line in out.splitlines() if line.startswith("#1"))
        assert "entity" not in line
        assert shown_sum(line) == pytest.approx(shown_total(line), abs=1e-9)

    @pytest.mark.parametrize(
        "parts",
        [
            [0.00005] * 7,
            [1 / 3, 1 / 3, 1 / 3],
            [0.5, -0.00004, -0.2],
            [-0.00006, -0.00006, 0.00001],
            [],
        ],
    )
    def test_it_does_for_any_parts(self, parts: list[float]) -> None:
        named = {f"p{index}": value for index, value in enumerate(parts)}
        line = explanation(sum(parts), named)
        assert shown_sum(line) == pytest.approx(shown_total(line), abs=1e-9)
        assert shown_total(line) == pytest.approx(sum(parts), abs=1e-4)
        assert "score" not in line

    def test_parts_that_do_not_make_the_score_show(self) -> None:
        assert explanation(0.9, {"semantic": 0.5}).endswith("= 0.5000 (score 0.9000)")


def shown_sum(line: str) -> float:
    added = line.split("=", maxsplit=1)[0].removeprefix("#1").strip()
    return sum(float(part.split()[1]) for part in added.split(" + ") if part != "no component")


def shown_total(line: str) -> float:
    return float(line.split("=")[1].split(maxsplit=1)[0])


class TestMemories:
    def test_a_page_and_how_to_go_on(
        self, fakes: Fakes, capsys: pytest.CaptureFixture[str]
    ) -> None:
        fakes.retrieval.memories = [
            retrieval_service_pb2.ListMemoriesResponse(
                memories=[memory("first")], next_page_token="1", total_size=2
            )
        ]
        assert main(["memories", "sarah", "--source", "explicit"]) == 0
        out, err = capsys.readouterr()
        assert "first" in out
        assert "1 of 2; go on with --page-token 1, or --all" in err
        asked = fakes.calls("ListMemories")[0].request
        assert asked.sources == [memory_pb2.MEMORY_SOURCE_EXPLICIT]
        assert asked.page_size == 20

    def test_all_pages_are_one_document(
        self, fakes: Fakes, capsys: pytest.CaptureFixture[str]
    ) -> None:
        fakes.retrieval.memories = [
            retrieval_service_pb2.ListMemoriesResponse(
                memories=[memory(f"page {number}")],
                next_page_token=str(number + 1) if number < 2 else "",
                total_size=3,
            )
            for number in range(3)
        ]
        assert main(["memories", "sarah", "--all", "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert [item["content"] for item in found["memories"]] == ["page 0", "page 1", "page 2"]
        assert found["next_page_token"] == ""

    def test_one_memory(self, fakes: Fakes, capsys: pytest.CaptureFixture[str]) -> None:
        metadata = Struct()
        metadata.update({"khóa": ["giá trị"]})
        fakes.retrieval.memory.memory.CopyFrom(
            memory(
                "Sống ở Huế",
                metadata=metadata,
                sources=[memory_pb2.MemorySourceRef(conversation_id="c1", message_id="m1")],
                tags=["home"],
            )
        )
        assert main(["memory", "sarah", "0198"]) == 0
        out = capsys.readouterr().out
        for part in ("Sống ở Huế", "c1: m1", "home", '"giá trị"', "2026-08-17"):
            assert part in out
        assert "valid to" not in out

    def test_profile(self, fakes: Fakes, capsys: pytest.CaptureFixture[str]) -> None:
        profile = profile_pb2.Profile(
            user_id="sarah", summary="An engineer.", current_projects=["Alpha", "Beta"], version=3
        )
        fakes.retrieval.profile.profile.CopyFrom(profile)
        assert main(["profile", "sarah"]) == 0
        out = capsys.readouterr().out
        assert "An engineer." in out
        assert "Beta" in out

    def test_no_profile(self, fakes: Fakes, capsys: pytest.CaptureFixture[str]) -> None:
        fakes.fail(
            "GetProfile",
            Failure(grpc.StatusCode.NOT_FOUND, "PROFILE_NOT_FOUND", "there is no profile yet"),
        )
        assert main(["profile", "sarah", "--json"]) == 1
        out, err = capsys.readouterr()
        assert out == ""
        assert "there is no profile yet" in err

    def test_conversations(self, fakes: Fakes, capsys: pytest.CaptureFixture[str]) -> None:
        fakes.retrieval.conversations.conversations.add(
            conversation_id="chat-1", title="A trip", outcome=conversation_pb2.OUTCOME_RESOLVED
        )
        assert main(["conversations", "sarah", "--outcome", "needs-followup"]) == 0
        out = capsys.readouterr().out
        assert "A trip" in out
        assert "resolved" in out
        asked = fakes.calls("ListConversations")[0].request
        assert asked.outcomes == [conversation_pb2.OUTCOME_NEEDS_FOLLOWUP]
