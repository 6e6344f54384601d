"""docs/command-line.md tells of every command and every option that there is, and of no other."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from hitherto_client.command.run import build_parser

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "command-line.md").read_text("utf-8")
SHARED = {"--retrieval", "--extraction", "--api-key", "--timeout", "--json", "--help", "-h"}
READING = "--consistency-token"


def inner(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def leaves() -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Every command with its name as it is typed."""
    for name, parser in inner(build_parser()).items():
        actions = inner(parser)
        yield from ((f"{name} {action}", found) for action, found in actions.items())
        if not actions:
            yield name, parser


COMMANDS = dict(leaves())


def sections() -> dict[str, str]:
    """The text under each heading about a command, by the first word of the command."""
    found: dict[str, str] = {}
    for part in re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]:
        heading, _, text = part.partition("\n")
        names = re.findall(r"`(?:hitherto )?([a-z]+)", heading)
        for name in names:
            assert name not in found, f"{name} has two sections"
            found[name] = text
    return found


SECTIONS = sections()


def examples() -> list[str]:
    """Every line of the page's code blocks that runs the command."""
    # Fences come in pairs: what stands between them is every second part.
    blocks = re.split(r"^```\w*\n", PAGE, flags=re.MULTILINE)[1::2]
    return [line for block in blocks for line in block.splitlines() if "hitherto " in line]


def test_each_command_has_its_section_and_each_section_its_command() -> None:
    assert set(SECTIONS) == {name.partition(" ")[0] for name in COMMANDS}


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_an_example(name: str) -> None:
    assert any(re.search(rf"\bhitherto {name}\b", line) for line in examples())


@pytest.mark.parametrize("name", COMMANDS)
def test_each_option_is_told_in_the_section(name: str) -> None:
    section = SECTIONS[name.partition(" ")[0]]
    if "as `search`" in section or "as `save`" in section:
        section += SECTIONS["search"] + SECTIONS["save"]
    if "ages as with `memories`" in section:
        section += SECTIONS["memories"]
    told = set(re.findall(r"--[a-z-]+", section))
    options = {flag for action in COMMANDS[name]._actions for flag in action.option_strings}
    assert options - SHARED - {"--no-sensitive", READING} <= told


def test_what_reads_takes_a_consistency_token() -> None:
    """The page says so once, of the group "Read" and three commands more."""
    row = re.search(r"^\| Read \| (.*) \|$", PAGE, flags=re.MULTILINE)
    assert row is not None
    reading = {*re.findall(r"`([a-z]+)`", row[1]), "session", "documents list", "documents show"}
    assert READING in PAGE.partition("\n## `")[0]
    having = {name for name, parser in COMMANDS.items() if READING in parser._option_string_actions}
    assert having == reading


@pytest.mark.parametrize("name", SECTIONS)
def test_no_option_is_told_that_there_is_not(name: str) -> None:
    cells = re.findall(r"^\| (`.*?) \|(?!.*---)", SECTIONS[name], flags=re.MULTILINE)
    told = {flag for cell in cells for flag in re.findall(r"--[a-z-]+", cell)}
    options = {
        flag
        for command, parser in COMMANDS.items()
        if SECTIONS[command.partition(" ")[0]] == SECTIONS[name]
        for action in parser._actions
        for flag in action.option_strings
    }
    assert told <= options


@pytest.mark.parametrize("line", examples())
def test_the_examples_can_be_typed(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    for part in line.replace("<", "|").replace(">", "|").split(" | "):
        words = shlex.split(part, comments=True)
        if words and words[0] == "hitherto":
            build_parser().parse_args(words[1:])


def test_the_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    told = build_parser().format_help()
    for name in inner(build_parser()):
        assert re.search(rf"^  {name} ", told, flags=re.MULTILINE)
