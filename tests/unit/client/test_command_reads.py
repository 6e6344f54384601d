"""`hitherto context`, `memories`, `memory`, `profile` and `conversations`."""

from __future__ import annotations

import json
from pathlib import Path

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.struct_pb2 import Struct

from hitherto.v1 import (
    conversation_pb2,
    memory_pb2,
    profile_pb2,
    retrieval_service_pb2,
    search_pb2,
)
from hitherto_client.command import main
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
        assert "something may be missing: semantic timed out (no time)" in err

    def test_what_else_can_be_asked_for(
        self, fakes: Fakes, capsys: pytest.CaptureFixture[str]
    ) -> None:
        fakes.retrieval.context.previous_items.add(memory=memory("x"), score=0.5)
        limits = "--max-relevant 0 --max-conversations 3 --max-entities 4 --order recent"
        times = (
            "--as-of 2024-05-01 --known-at 2024-06-01T12:00:00+02:00 --reference-time 2024-07-01"
        )
        options = [*limits.split(), *times.split(), "--scope", "messages", "--scope", "documents"]
        assert main(["context", "sarah", "q", *options, "--consistency-token", "abc"]) == 0
        asked = fakes.calls("GetContext")[0].request
        assert asked.scopes == [
            search_pb2.SEARCH_SCOPE_MESSAGES,
            search_pb2.SEARCH_SCOPE_DOCUMENTS,
        ]
        assert asked.HasField("max_relevant")
        assert (asked.max_relevant, asked.max_conversations, asked.max_entities) == (0, 3, 4)
        assert asked.memory_order == search_pb2.MEMORY_ORDER_RECENT
        assert asked.as_of.ToJsonString() == "2024-05-01T23:59:59.999999Z"
        assert asked.known_at.ToJsonString() == "2024-06-01T10:00:00Z"
        assert asked.reference_time.ToJsonString() == "2024-07-01T00:00:00Z"
        assert asked.consistency_token == "abc"
        assert "rested on 1 items" in capsys.readouterr().err

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
        for name in ("max_relevant", "max_conversations", "max_entities", "as_of", "known_at"):
            assert not asked.HasField(name)
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
        assert "1 of 2; continue with --page-token 1, or --all" in err
        asked = fakes.calls("ListMemories")[0].request
        assert asked.sources == [memory_pb2.MEMORY_SOURCE_EXPLICIT]
        assert asked.page_size == 20

    def test_the_past_and_filters_reach_the_request(self, fakes: Fakes) -> None:
        fakes.retrieval.memories = [retrieval_service_pb2.ListMemoriesResponse()]
        times = "--as-of 2024-05-01 --known-at 2024-06-01 --created-after 2024-01-01"
        more = ["--created-before", "2025-01-01", "--metadata", '{"team": "data"}']
        token = ["--consistency-token", "abc"]
        assert main(["memories", "sarah", *times.split(), *more, *token]) == 0
        asked = fakes.calls("ListMemories")[0].request
        assert asked.as_of.ToJsonString() == "2024-05-01T23:59:59.999999Z"
        assert asked.known_at.ToJsonString() == "2024-06-01T23:59:59.999999Z"
        assert asked.created_after.ToJsonString() == "2024-01-01T00:00:00Z"
        assert asked.created_before.ToJsonString() == "2025-01-01T00:00:00Z"
        assert asked.metadata_filter["team"] == "data"
        assert asked.consistency_token == "abc"

    @pytest.mark.parametrize(
        ("method", "arguments"),
        [
            ("GetMemory", ["memory", "sarah", "0198"]),
            ("GetProfile", ["profile", "sarah"]),
            ("ListProfiles", ["profiles"]),
            ("ListConversations", ["conversations", "sarah"]),
            ("GetConversation", ["conversation", "sarah", "c1"]),
            ("GetMemoryHistory", ["history", "sarah", "0198"]),
            ("GetProfileHistory", ["history", "sarah"]),
            ("GetSession", ["session", "sarah", "s1"]),
            ("ListDocuments", ["documents", "list", "sarah"]),
            ("GetDocument", ["documents", "show", "sarah", "d1"]),
        ],
    )
    def test_a_consistency_token_goes_with_every_read(
        self, fakes: Fakes, method: str, arguments: list[str]
    ) -> None:
        assert main([*arguments, "--consistency-token", "abc"]) == 0
        assert fakes.calls(method)[0].request.consistency_token == "abc"

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

    def test_profiles(self, fakes: Fakes, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["profiles"]) == 0
        assert "no profiles" in capsys.readouterr().err
        fakes.retrieval.profiles.profiles.add(
            user_id="sarah", department="Bán hàng", summary="An engineer.", version=3
        )
        fakes.retrieval.profiles.total_size = 12
        fakes.retrieval.profiles.next_page_token = "t"
        assert main(["profiles", "--department", "Bán hàng"]) == 0
        told = "".join(capsys.readouterr())
        for part in ("sarah", "Bán hàng", "An engineer.", "12"):
            assert part in told
        assert fakes.calls("ListProfiles")[-1].request.department == "Bán hàng"

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
