"""Each code block of README.md and docs/ is run or parsed by a test, or a reason says why not."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
import tomllib
from pathlib import Path

import yaml

from hitherto_client.command.run import build_parser
from tests.code_blocks import (
    NOT_RUN,
    PAGES,
    PYTHON_RUN_BY,
    ROOT,
    WALKED_BY,
    blocks,
    start_not_run,
    typed,
)

COMPOSE_FILE = (ROOT / "docker-compose.yml").read_text("utf-8")
DOCKER_COMPOSE = yaml.safe_load(COMPOSE_FILE)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
MAKEFILES = "\n".join((ROOT / name).read_text("utf-8") for name in ("Makefile", "docs.mk"))
SETTINGS = (ROOT / "docs/configuration.md").read_text("utf-8")
SHELL = [block for block in blocks("") if not block.walked]
COMMANDS = [line for block in SHELL for line in block.commands()]
PROGRAMS = {"ts": "typescript", "go": "go", "java": "java"}


def test_every_fence_is_closed_and_has_a_language_that_is_known() -> None:
    fences = sum((ROOT / page).read_text("utf-8").count("```") for page in PAGES)
    assert fences == 2 * len(blocks())
    known = {"", "text", "python", "sh", "json", "yaml", "toml", "sql", "mermaid", *PROGRAMS}
    assert [str(block) for block in blocks() if block.language not in known] == []


def test_programs_are_run_by_a_test() -> None:
    for block in blocks("python"):
        test = PYTHON_RUN_BY[block.page]
        assert Path(block.page).name in (ROOT / test).read_text("utf-8"), test
    snippets = (ROOT / "tests/e2e/test_page_snippets.py").read_text("utf-8")
    for block in blocks("sh", "sql"):
        assert f'blocks("{block.language}")' in snippets, block
    # tests/e2e/test_client_packages.py runs the first program of each package's page.
    for block in blocks(*PROGRAMS):
        package = ROOT / "clients" / PROGRAMS[block.language] / "README.md"
        assert block.text in package.read_text("utf-8"), block


def test_data_can_be_parsed() -> None:
    for block in blocks("json", "yaml", "toml"):
        if block.language == "yaml":
            assert yaml.safe_load(block.text), block
        elif block.language == "toml":
            # The page shows a row of a table of the rules.
            assert tomllib.loads(f"rows = [\n{block.text}]"), block
        else:
            rest = block.text.strip()
            while rest:
                value, end = json.JSONDecoder().raw_decode(rest)
                assert isinstance(value, dict), block
                rest = rest[end:].strip()


def test_what_is_typed_does_not_hide_in_a_drawing() -> None:
    for line in "\n".join(block.text for block in blocks("text")).splitlines():
        if shown := re.fullmatch(r"\$ hitherto (.+)", line):
            words = shlex.split(shown[1])
            build_parser(words[0]).parse_args(words)
        else:
            assert not re.match(r"(\$ )?(hitherto|make|docker|pip|npm|python) \S+$", line)


def test_a_command_is_run_or_a_reason_says_why_not() -> None:
    for line in COMMANDS:
        if re.search(r"(^|\| )hitherto ", typed(line)) or re.fullmatch(r"[A-Z_]+=\S+", line):
            continue  # tests/e2e/test_typed_commands.py runs it, or nothing is run
        assert start_not_run(line) is not None, f"run `{line}` in a test, or say why not"


def test_what_hitherto_is_told_can_be_parsed() -> None:
    parser = build_parser()
    for line in COMMANDS:
        for part in line.replace("<", "|").replace(">", "|").split(" | "):
            words = shlex.split(typed(part), comments=True)
            if words and words[0] == "hitherto":
                parser.parse_args(words[1:])


def test_what_a_command_names_exists() -> None:
    for line in COMMANDS:
        if not line.startswith("hitherto "):
            _names_what_exists(line)


def _names_what_exists(line: str) -> None:
    for name in re.findall(r"(?:^|\s)([A-Z][A-Z_]+)=", line):
        known = name in SETTINGS or f"${{{name}:" in COMPOSE_FILE
        known = known or name in ("EVAL_DIR", "OTEL_EXPORTER_OTLP_ENDPOINT", "PGOPTIONS")
        assert known or re.search(rf"^{name} \?=", MAKEFILES, re.MULTILINE), name
    words = shlex.split(typed(line), comments=True)
    match words:
        case ["make", *names]:
            for name in names:
                assert "=" in name or re.search(rf"^{name}:", MAKEFILES, re.MULTILINE), name
        case ["pip", "install", *_]:
            extras = re.findall(r"hitherto\[([\w,]+)\]", line)
            assert set(",".join(extras).split(",")) <= PROJECT["optional-dependencies"].keys()
        case ["python", "-m", module, *_]:
            assert importlib.util.find_spec(module) is not None
        case ["docker", "compose", *rest]:
            services = DOCKER_COMPOSE["services"]
            profiles = {name for each in services.values() for name in each.get("profiles", [])}
            assert set(re.findall(r"--profile (\S+)", line)) <= profiles
            named = [word for word in rest if word.partition(":")[0] in services]
            assert "up" in rest or named
        case ["docker", "build", *rest]:
            stages = (ROOT / rest[rest.index("-f") + 1]).read_text("utf-8")
            assert f" AS {rest[rest.index('--target') + 1]}\n" in stages
        case [command, *_] if command.startswith("hitherto-"):
            assert command in PROJECT["scripts"]


def test_no_reason_is_left_over() -> None:
    used = {start_not_run(line) for line in COMMANDS}
    assert set(NOT_RUN) - used == set()
    assert {block.page for block in blocks("python")} == set(PYTHON_RUN_BY)
    assert {(block.page, block.heading) for block in blocks("") if block.walked} == set(WALKED_BY)
    for (page, _), test in WALKED_BY.items():
        assert Path(page).name in (ROOT / test).read_text("utf-8"), test
