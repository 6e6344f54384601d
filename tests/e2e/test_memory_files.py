"""A person's memory as files, by the commands of Anthropic's memory tool (G8)."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import httpx2
import pytest

from hitherto_client import Hitherto
from hitherto_client.memory_files import MemoryFileError, MemoryFiles
from tests.e2e.assistants import in_thread
from tests.lazily import Lazily
from tests.refusing import refusing

if TYPE_CHECKING:
    import anthropic

    from hitherto_client.integrations import anthropic as memory_tool
else:
    anthropic = Lazily("anthropic")
    memory_tool = Lazily("hitherto_client.integrations.anthropic")


PREFERENCES = "/memories/preferences.md"
FACTS = "/memories/facts.md"
PROFILE = "/memories/profile.md"
INDEXED_SECONDS = 180.0


@pytest.fixture
def memory(blocking: Hitherto) -> Hitherto:
    return blocking


def shown(files: MemoryFiles, path: str) -> list[str]:
    """The lines of a file, without their numbers."""
    _, *lines = files.run({"command": "view", "path": path}).split("\n")
    return [line.partition("\t")[2] for line in lines]


def replaced(files: MemoryFiles, path: str, old: str, new: str) -> str:
    return files.run({"command": "str_replace", "path": path, "old_str": old, "new_str": new})


def active(memory: Hitherto) -> set[str]:
    return {found.content for found in memory.memories("ana", statuses=["active"])}


async def test_an_edited_line_corrects_its_memory(memory: Hitherto) -> None:
    def edit() -> None:
        kept = memory.save_memory("ana", "Ana thích trà sen 🍵.", type="preference").memory
        changed = memory.save_memory("ana", "Ana lives in Porto.", type="preference").memory
        files = MemoryFiles(memory, user="ana")
        assert shown(files, PREFERENCES) == ["- Ana thích trà sen 🍵.", "- Ana lives in Porto."]
        told = replaced(files, PREFERENCES, "lives in Porto", "wohnt in Köln")
        assert told.startswith("The memory file has been edited.")
        assert "- Ana wohnt in Köln." in told
        assert active(memory) == {"Ana thích trà sen 🍵.", "Ana wohnt in Köln."}
        corrected = memory.get_memory("ana", changed.id)
        assert corrected
        assert (corrected.content, corrected.version) == ("Ana wohnt in Köln.", 2)
        *_, created = memory.memory_history("ana", changed.id)
        assert created.after["content"] == "Ana lives in Porto."
        untouched = memory.get_memory("ana", kept.id)
        assert untouched
        assert untouched.version == 1

    await in_thread(edit)


async def test_a_line_that_is_gone_is_forgotten_and_a_new_one_saved(memory: Hitherto) -> None:
    def edit() -> None:
        files = MemoryFiles(memory, user="ana")
        text = "# Ana\n\n- Ana has a cat.\n- 安娜住在上海。\nAna plays the oboe.\n"
        told = files.run({"command": "create", "path": FACTS, "file_text": text})
        assert told == f"File created successfully at: {FACTS}"
        assert shown(files, FACTS) == [
            "- Ana has a cat.",
            "- 安娜住在上海。",
            "- Ana plays the oboe.",
        ]
        assert {found.origin for found in memory.memories("ana")} == {"assistant"}
        replaced(files, FACTS, "- Ana has a cat.\n", "")
        files.run(
            {"command": "insert", "path": FACTS, "insert_line": 1, "insert_text": "Ana is a nurse."}
        )
        assert active(memory) == {"安娜住在上海。", "Ana plays the oboe.", "Ana is a nurse."}
        (gone,) = memory.memories("ana", statuses=["forgotten"])
        memory.restore_memory("ana", gone.id)
        assert "- Ana has a cat." in shown(files, FACTS)
        assert files.run({"command": "delete", "path": FACTS}) == f"Successfully deleted {FACTS}"
        assert active(memory) == set()

    await in_thread(edit)


async def test_a_list_that_is_written_anew_holds_what_it_says(memory: Hitherto) -> None:
    """Claude deletes a file and creates it again; lines move, within a file and to another one."""

    def edit() -> None:
        cat, oboe = "- Ana has a cat.", "- Ana plays the oboe."
        files = MemoryFiles(memory, user="ana")
        files.run({"command": "create", "path": FACTS, "file_text": f"{cat}\n{oboe}\n"})
        first = shown(files, FACTS)
        files.run({"command": "delete", "path": FACTS})
        files.run({"command": "create", "path": FACTS, "file_text": f"{cat}\n- Ana rows.\n"})
        assert shown(files, FACTS) == [cat, "- Ana rows."]
        files.run({"command": "insert", "path": FACTS, "insert_line": 2, "insert_text": oboe})
        assert sorted(shown(files, FACTS)) == sorted([*first, "- Ana rows."])
        replaced(files, FACTS, f"{cat}\n", "")
        replaced(files, FACTS, f"{oboe}\n- Ana rows.\n", f"- Ana rows.\n{oboe}\n")
        assert active(memory) == {"Ana plays the oboe.", "Ana rows."}
        files.run({"command": "create", "path": PREFERENCES, "file_text": cat})
        assert shown(files, PREFERENCES) == [cat]
        # What somebody forgot elsewhere stays forgotten, and the model is told.
        (kept,) = memory.memories("ana", types=["preference"])
        memory.forget_memory("ana", kept.id, reason="wrong")
        with pytest.raises(MemoryFileError, match="says was forgotten"):
            files.run({"command": "create", "path": PREFERENCES, "file_text": cat})

    await in_thread(edit)


async def test_the_profile_is_a_file(memory: Hitherto) -> None:
    def edit() -> None:
        memory.update_profile(
            "ana",
            summary="Ana: a nurse in Porto.",
            current_projects=["Atlas", "Borealis"],
            facts={"personal": {"location": "Porto", "age": 41}},
        )
        files = MemoryFiles(memory, user="ana")
        assert shown(files, PROFILE) == [
            "summary: Ana: a nurse in Porto.",
            "current_projects: Atlas",
            "current_projects: Borealis",
            "facts.personal.age: 41",
            "facts.personal.location: Porto",
        ]
        for old, new in (
            ("location: Porto", "location: Köln"),
            ("current_projects: Atlas\n", ""),
            ("summary: Ana: a nurse in Porto.\n", "preferences.tone: brief\n"),
        ):
            replaced(files, PROFILE, old, new)
        profile = memory.get_profile("ana")
        assert profile
        assert profile.summary == ""
        assert profile.current_projects == ("Borealis",)
        assert profile.preferences == {"tone": "brief"}
        assert profile.facts == {"personal": {"location": "Köln", "age": 41}}
        before = profile.version
        with pytest.raises(MemoryFileError, match="is no line of the profile"):
            files.run(
                {"command": "insert", "path": PROFILE, "insert_line": 0, "insert_text": "Hello!"}
            )
        after = memory.get_profile("ana")
        assert after
        assert after.version == before

    await in_thread(edit)


async def test_a_value_of_the_profile_keeps_its_type(memory: Hitherto) -> None:
    def edit() -> None:
        facts = {"personal": {"age": 41, "car": True, "zip": "04109", "size": [1, 2]}}
        memory.update_profile("ana", facts=facts)
        files = MemoryFiles(memory, user="ana")
        for old, new in (
            ("age: 41", "age: 42"),
            ("true", "false"),
            ("04109", "04103"),
            ("size: 2", "size: 3"),
        ):
            replaced(files, PROFILE, old, new)
        replaced(files, PROFILE, "age: 42", "age: 42\nfacts.personal.house: 7")
        profile = memory.get_profile("ana")
        assert profile
        personal = {"age": 42, "car": False, "zip": "04103", "size": [1, 3], "house": "7"}
        assert profile.facts == {"personal": personal}
        replaced(files, PROFILE, "age: 42", "age: none of your business")
        profile = memory.get_profile("ana")
        assert profile
        assert profile.facts == {"personal": personal | {"age": "none of your business"}}

    await in_thread(edit)


async def test_a_value_of_the_profile_holds_no_other_one(memory: Hitherto) -> None:
    def edit() -> None:
        files = MemoryFiles(memory, user="ana")
        for lines in (
            ["preferences.a: x", "preferences.a.b: y"],
            ["preferences.a.b: y", "preferences.a: x"],
            ["preferences.a.b: y", "preferences.a!: z", "preferences.a: x"],
        ):
            command = {"command": "create", "path": PROFILE, "file_text": "\n".join(lines)}
            with pytest.raises(MemoryFileError, match="is a value, or has values"), refusing(lines):
                files.run(command)
        files.run({"command": "create", "path": PROFILE, "file_text": "preferences.a: x"})
        for new in ("preferences.a.b: y", "preferences.a: x"):
            replaced(files, PROFILE, shown(files, PROFILE)[0], new)
            assert shown(files, PROFILE) == [new]

    await in_thread(edit)


async def test_nothing_is_said_to_be_stored_with_memory_off(memory: Hitherto) -> None:
    def edit() -> None:
        memory.update_user_settings("ana", memory_enabled=False)
        for path in ("/memories/note.md", FACTS):
            command = {"command": "create", "path": path, "file_text": "Ana rows."}
            with pytest.raises(MemoryFileError, match="switched off"), refusing(path):
                MemoryFiles(memory, user="ana").run(command)

    await in_thread(edit)


async def test_other_files_are_the_agent_s_own(memory: Hitherto) -> None:
    note, moved = "/memories/projects/atlas.md", "/memories/archive/atlas.md"
    text = "# Atlas\n\nNgày phát hành: 2026-12-01\n\tindented\n"

    def edit() -> None:
        files = MemoryFiles(memory, user="ana")
        files.run({"command": "create", "path": note, "file_text": text})
        assert shown(files, note) == text.removesuffix("\n").split("\n")
        assert files.run({"command": "view", "path": "/memories"}).split("\n")[1:] == [
            f"{len(text.encode())}B\t/memories",
            f"{len(text.encode())}B\t/memories/projects/",
            f"{len(text.encode())}B\t{note}",
        ]
        files.run(
            {"command": "rename", "old_path": "/memories/projects", "new_path": "/memories/archive"}
        )
        with pytest.raises(MemoryFileError, match=r"The path .* does not exist"):
            files.run({"command": "view", "path": note})
        assert shown(files, moved)[0] == "# Atlas"
        # A search finds them once they are indexed; memories are not made of them.
        until = time.monotonic() + INDEXED_SECONDS
        while not memory.search("ana", "phát hành", scopes=["documents"]).results:
            assert time.monotonic() < until
            time.sleep(0.1)
        assert not active(memory)
        files.run({"command": "delete", "path": "/memories/archive"})
        assert files.run({"command": "view", "path": "/memories"}).endswith("0B\t/memories")

    await in_thread(edit)


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"command": "view", "path": "/etc/passwd"}, "must start with /memories"),
    ({"command": "view", "path": "/memories/../secrets"}, "would escape"),
    ({"command": "view", "path": "/memories/none.md"}, "does not exist"),
    ({"command": "create", "path": FACTS, "file_text": "x"}, "already exists"),
    ({"command": "str_replace", "path": FACTS, "old_str": "no", "new_str": ""}, "verbatim"),
    ({"command": "str_replace", "path": FACTS, "old_str": "Ana", "new_str": ""}, "lines: 1, 2"),
    ({"command": "insert", "path": FACTS, "insert_line": 9, "insert_text": ""}, r"\[0, 2\]"),
    ({"command": "rename", "old_path": FACTS, "new_path": "/memories/x.md"}, "fixed names"),
    ({"command": "delete", "path": "/memories"}, "cannot be deleted"),
    ({"command": "format", "path": "/memories"}, "Unknown command"),
    ({"command": "view"}, "path"),
    ({"command": "view", "path": 5}, "path must be a text"),
    ({"command": "view", "path": FACTS, "view_range": ["1", 2]}, "two whole numbers"),
    ({"command": "insert", "path": FACTS, "insert_line": "1", "insert_text": ""}, "a whole"),
    ({"command": "insert", "path": FACTS, "insert_line": 1, "insert_text": "x" * 9_000}, "8"),
]


async def test_a_command_that_cannot_be_carried_out_changes_nothing(memory: Hitherto) -> None:
    def edit() -> None:
        memory.save_memory("ana", "Ana lives in Porto.")
        memory.save_memory("ana", "Ana plays the oboe.")
        before = active(memory)
        for command, told in REFUSED:
            with pytest.raises(MemoryFileError, match=told), refusing(command):
                MemoryFiles(memory, user="ana").run(command)
            assert active(memory) == before, command

    await in_thread(edit)


async def test_an_edit_that_another_one_overtook_is_refused(memory: Hitherto) -> None:
    def edit() -> None:
        saved = memory.save_memory("ana", "Ana lives in Porto.").memory
        file = MemoryFiles(memory, user="ana")._tree.find(FACTS)
        assert file
        memory.update_memory("ana", saved.id, content="Ana lives in Köln.")
        with pytest.raises(Exception, match="VERSION_MISMATCH"):
            file.rewrite("- Ana lives in Faro.\n- Ana rows.\n")
        # What it adds is not lost.
        assert active(memory) == {"Ana lives in Köln.", "Ana rows."}

    await in_thread(edit)


async def test_the_runner_of_the_anthropic_package_uses_the_files(memory: Hitherto) -> None:
    """The package's own loop: the model calls the tool, is told of its error, and ends."""
    commands: list[dict[str, Any]] = [
        {"command": "view", "path": "/memories/none.md"},
        {"command": "create", "path": FACTS, "file_text": "Ana lives in Porto."},
    ]
    used = [{"type": "tool_use", "id": "t", "name": "memory", "input": one} for one in commands]
    asked: list[dict[str, Any]] = []

    def model(request: httpx2.Request) -> httpx2.Response:
        asked.append(json.loads(request.content))
        number = len(asked) - 1
        ended = number == len(commands)
        content = {"type": "text", "text": "Noted."} if ended else used[number]
        return httpx2.Response(
            200,
            json={
                "id": f"m{number}",
                "type": "message",
                "role": "assistant",
                "model": "claude",
                "content": [content],
                "stop_reason": "end_turn" if ended else "tool_use",
                "stop_sequence": None,
                "usage": {"input_tokens": 1, "output_tokens": 1},
            },
        )

    def converse() -> None:
        http = httpx2.Client(transport=httpx2.MockTransport(model))
        with anthropic.Anthropic(
            api_key="test", base_url="http://model.test", http_client=http
        ) as client:
            runner = client.beta.messages.tool_runner(
                model="claude",
                max_tokens=100,
                messages=[{"role": "user", "content": "I live in Porto."}],
                tools=[memory_tool.HithertoMemoryTool(memory, user="ana")],
            )
            runner.until_done()

    await in_thread(converse)
    assert asked[0]["tools"] == [{"type": "memory_20250818", "name": "memory"}]
    refused, created = (asked[number]["messages"][-1]["content"][0] for number in (1, 2))
    assert refused["is_error"]
    assert "does not exist" in str(refused["content"])
    assert "created successfully" in str(created["content"])
    assert await in_thread(lambda: active(memory)) == {"Ana lives in Porto."}
    tool = memory_tool.AsyncHithertoMemoryTool(memory, user="ana")
    assert "Porto" in str(await tool.call({"command": "view", "path": FACTS}))
