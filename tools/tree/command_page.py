"""docs/command-line.md tells of every command and every option that there is, and of no other."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from hitherto_client.command.run import build_parser

_PAGE = "docs/command-line.md"
_SHARED = {"--retrieval", "--extraction", "--api-key", "--timeout", "--json", "--help", "-h"}
_READING = "--consistency-token"
_TOLD_ONCE = {*_SHARED, "--no-sensitive", _READING}


def _inner(parser: argparse.ArgumentParser) -> Mapping[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def _commands() -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Every command with its name as it is typed."""
    for name, parser in _inner(build_parser()).items():
        actions = _inner(parser)
        yield from ((f"{name} {action}", found) for action, found in actions.items())
        if not actions:
            yield name, parser


def _sections(page: str) -> Iterator[tuple[str, str]]:
    """The text under each heading about a command, by the first word of the command."""
    for part in re.split(r"^## ", page, flags=re.MULTILINE)[1:]:
        heading, _, text = part.partition("\n")
        yield from ((name, text) for name in re.findall(r"`(?:hitherto )?([a-z]+)", heading))


def broken() -> Sequence[str]:
    """The commands and options that the page leaves out, or makes up."""
    page = (Path(__file__).resolve().parents[2] / _PAGE).read_text("utf-8")
    commands, listed = dict(_commands()), [*_sections(page)]
    sections = dict(listed)
    first_words = {name.partition(" ")[0] for name in commands}
    if len(listed) > len(sections) or sections.keys() != first_words:
        return [f"{_PAGE}: one section for each of {sorted(first_words)}, and no other"]
    found = [
        f"{_PAGE}: no example of `hitherto {name}`"
        for name in commands
        # Fences come in pairs: what stands between them is every second part.
        if not any(
            re.search(rf"\bhitherto {name}\b", block)
            for block in re.split(r"^```\w*\n", page, flags=re.MULTILINE)[1::2]
        )
    ]
    of_section: dict[str, set[str]] = {text: set() for text in sections.values()}
    for name, parser in commands.items():
        section = sections[name.partition(" ")[0]]
        options = {flag for action in parser._actions for flag in action.option_strings}
        of_section[section] |= options
        if "as `search`" in section or "as `save`" in section:
            section += sections["search"] + sections["save"]
        if "ages as with `memories`" in section:
            section += sections["memories"]
        left = options - _TOLD_ONCE - set(re.findall(r"--[a-z-]+", section))
        found += [f"{_PAGE}: `{name}` takes {flag}" for flag in sorted(left)]
    for section, options in of_section.items():
        cells = re.findall(r"^\| (`.*?) \|(?!.*---)", section, flags=re.MULTILINE)
        told = {flag for cell in cells for flag in re.findall(r"--[a-z-]+", cell)}
        found += [f"{_PAGE}: there is no {flag}" for flag in sorted(told - options)]
    return [*found, *_readers(page, commands), *_help(first_words)]


def _readers(page: str, commands: Mapping[str, argparse.ArgumentParser]) -> Iterator[str]:
    """The page says once who takes a token: the group "Read", and three commands more."""
    row = re.search(r"^\| Read \| (.*) \|$", page, flags=re.MULTILINE)
    reading = {*re.findall(r"`([a-z]+)`", row[1] if row else "")}
    reading |= {"session", "documents list", "documents show"}
    having = {
        name for name, parser in commands.items() if _READING in parser._option_string_actions
    }
    if having != reading or _READING not in page.partition("\n## `")[0]:
        yield f"{_PAGE}: {_READING} is taken by {sorted(having)}"


def _help(names: set[str]) -> Iterator[str]:
    told = build_parser().format_help()
    for name in sorted(names):
        if not re.search(rf"^  {name} ", told, flags=re.MULTILINE):
            yield f"`hitherto --help` does not name {name}"
