"""How the command treats terminals, pipes and signals, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tomllib
from pathlib import Path
from unicodedata import normalize

import grpc
import pytest

from hitherto_client.command.output import clean
from tests.unit.client.command_samples import hitherto, lines_file
from tests.unit.client.fake_services import Failure, Fakes, RunCommand

ROOT = Path(__file__).parents[3]
RUN = "import sys; from hitherto_client.command import main; sys.exit(main())"
UNBUFFERED = {"PYTHONUNBUFFERED": "1"}
HOSTILE = "\x1b[31mred\x1b[0m \x1b]0;title\x07[bold]not markup[/bold] \x9b2J\u202eevil \x00:smile:"


class TestTerminal:
    def test_texts_cannot_command_it(self, fakes: Fakes) -> None:
        told = {"content": HOSTILE, "detail": HOSTILE}
        fakes.answer("SearchMemories", {"results": [{"memory": told}]})
        fakes.answer("GetMemory", {"memory": told})
        fakes.answer("ListMemories", {"memories": [told]})
        for command in (["search", "sarah"], ["memory", "sarah", "x"], ["memories", "sarah"]):
            out, err = fakes.run(0, command)
            assert "[bold]not markup[/bold]" in out
            assert ":smile:" in out
            for sign in ("\x1b", "\x9b", "\x00", "\x07", "\u202e", "title", "2J"):
                assert sign not in out + err

    def test_nor_can_errors(self, fakes: Fakes) -> None:
        fakes.fail(
            "GetContext",
            Failure(
                grpc.StatusCode.INVALID_ARGUMENT, "X", HOSTILE, violations=(("field", HOSTILE),)
            ),
        )
        err = fakes.run(2, ["context", "sarah"]).err
        assert "\x1b" not in err
        assert "[bold]not markup[/bold]" in err
        assert len(err.splitlines()) == 2

    def test_clean(self) -> None:
        for text, shown in [
            ("a\x1b[2Jb", "ab"),
            ("a\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\b", "alinkb"),
            ("a\x1bPq#0\x1b\\b", "ab"),
            ("a\x9b31mb", "ab"),
            ("a\x1b(Bb", "ab"),
            ("end\x1b", "end"),
            ("line\r\nbreak\u2028here\tand\x85there", "line break here and there"),
            ("👩‍👩‍👧 شكرا नमस्ते", "👩‍👩‍👧 شكرا नमस्ते"),
        ]:
            assert clean(text) == shown


def press_ctrl_c(process: subprocess.Popen[str]) -> tuple[str, str]:
    """Interrupt a command as a person does: again, if the first time went unheard.

    Python loses an interrupt that it raises inside a callback of an extension module.
    """
    for _ in range(5):
        process.send_signal(signal.SIGINT)
        try:
            return process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            continue
    # It is asked where it stands: its stacks are worth more than the failure.
    process.send_signal(signal.SIGABRT)
    _, err = process.communicate(timeout=180)
    pytest.fail(f"the command went on after five interrupts:\n{err}")


@pytest.mark.faults
@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_the_third_interrupt_ends_what_hears_none() -> None:
    program = """
import time
from contextlib import suppress
from hitherto_client.command.run import interruptible
with interruptible():
    while True:
        with suppress(KeyboardInterrupt):
            print("here", flush=True)
            time.sleep(60)
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for _ in range(3):
            assert process.stdout.readline().strip() == "here"
            process.send_signal(signal.SIGINT)
        assert process.wait(180) == -signal.SIGINT


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_an_interrupt_while_the_command_loads_its_modules() -> None:
    program = """
import os, signal, sys
from hitherto_client.command import main

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "hitherto_client.command.importing":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
sys.exit(main(["--help"]))
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=180
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "hitherto: interrupted\n")


class TestEndings:
    def test_an_unknown_command(self, run_command: RunCommand) -> None:
        for word, meant in [("savee", "save"), ("remember", "save")]:
            told = run_command(2, [word, "ana"]).err
            assert f"did you mean `{meant}`?" in told
            assert len(told.splitlines()) == 1, word

    def test_what_was_typed_wrongly_takes_one_line(self, run_command: RunCommand) -> None:
        for typed, told in [
            ("memories", "required: USER; see `hitherto memories --help`"),
            ("memories ana --type facts", "invalid choice: 'facts'"),
            ("memories ana --nope", "no such option: --nope; see `hitherto memories --help`"),
            ("save ana Lives in Porto.", "'in' is one argument too many: put text with spaces"),
            ("", "usage: hitherto COMMAND"),
            ("webhooks", "required: ACTION; see `hitherto webhooks --help`"),
            ("--retrieval 127.0.0.1:9 search ana", "--retrieval comes after a command"),
            ("search ana --retrieval http://127.0.0.1:9/", "HOST:PORT, such as 127.0.0.1:9,"),
            ("search ana --retrieval localhost", "HOST:PORT, such as localhost:50051, and not"),
            ("search ana --retrieval 127.0.0.1:99999", "HOST:PORT, such as 127.0.0.1:50051, and"),
            ("save ana x --extraction :9", "HOST:PORT, such as 127.0.0.1:50052, and not :9"),
            ("save ana x --extraction localhost:http", "HOST:PORT, such as localhost:50052, and"),
        ]:
            (line,) = run_command(2, typed.split()).err.splitlines()
            assert line.startswith("hitherto: "), typed
            assert told in line

    def test_an_argument_that_is_no_text(self, run_command: RunCommand) -> None:
        assert "not valid text" in run_command(2, ["context", "sarah", "\udcff"]).err

    @pytest.mark.faults
    @pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
    def test_ctrl_c(self, fakes: Fakes, tmp_path: Path) -> None:
        fakes.extraction.release.clear()
        with hitherto("submit", lines_file(tmp_path, "chat-1", "chat-2")) as process:
            assert fakes.extraction.running.wait(180)
            out, err = press_ctrl_c(process)
        assert process.returncode in (130, -signal.SIGINT)
        assert out == ""
        assert "2 accepted jobs continue to run" in err
        assert "interrupted" in err
        assert "Traceback" not in err

    @pytest.mark.faults
    @pytest.mark.skipif(sys.platform == "win32", reason="POSIX pipes")
    def test_a_reader_that_leaves(self, fakes: Fakes) -> None:
        found = [{"memory": {"content": f"text {number} " * 20}} for number in range(2_000)]
        fakes.answer("SearchMemories", {"results": found})
        for flags in ([], ["--json"]):
            with hitherto("search", "sarah", *flags) as process:
                assert process.stdout is not None
                process.stdout.close()
                assert process.stderr is not None
                err = process.stderr.read()
                assert process.wait(180) == 141
            assert err == ""

    @pytest.mark.faults
    def test_an_output_that_is_not_utf8(self, fakes: Fakes) -> None:
        fakes.answer("SearchMemories", {"results": [{"memory": {"content": "Huế 東京"}}]})
        environment = {"PYTHONIOENCODING": "ascii"}
        with hitherto("search", "sarah", "--json", environment=environment) as process:
            out, _ = process.communicate(timeout=180)
        assert json.loads(out)["results"][0]["memory"]["content"] == "Huế 東京"
        with hitherto("search", "sarah", environment=environment) as process:
            out, err = process.communicate(timeout=180)
        assert process.returncode == 0, err
        assert "Hu? ??" in out


@pytest.mark.faults
@pytest.mark.skipif(sys.platform == "win32", reason="POSIX shell")
class TestAnOutputThatTakesNothing:
    def ended(self, words: str, redirected: str, **variables: str) -> tuple[int, str, str]:
        """How the command ends with its streams redirected: its code, output and errors."""
        done = subprocess.run(
            ["sh", "-c", f'"$0" -c "$1" {words} {redirected}', sys.executable, RUN],
            env={"PATH": os.environ["PATH"], **variables},
            capture_output=True,
            text=True,
            check=False,
        )
        assert "Traceback" not in done.stderr
        return done.returncode, done.stdout, done.stderr

    @pytest.mark.parametrize("redirected", [">&-", "<&- >&- 2>&-"])
    def test_closed_ones_are_no_fault(self, redirected: str) -> None:
        assert self.ended("tools", redirected) == (0, "", "")

    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux")
    @pytest.mark.parametrize(
        ("words", "variables"),
        # Help is short enough to lie in a buffer until the end.
        [("tools", {}), ("--help", {}), ("--version", UNBUFFERED), ("memories --help", UNBUFFERED)],
    )
    def test_a_full_one_is_a_failure(self, words: str, variables: dict[str, str]) -> None:
        code, out, err = self.ended(words, ">/dev/full", **variables)
        assert (code, out) == (1, "")
        assert (err.count("No space left on device"), len(err.splitlines())) == (1, 1)

    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux")
    def test_so_is_a_full_one_for_errors(self) -> None:
        assert self.ended("nosuch", "2>/dev/full") == (1, "", "")

    @pytest.mark.parametrize(
        ("words", "variables"), [("tools", UNBUFFERED), ("--help", {}), ("memories --help", {})]
    )
    def test_a_reader_that_wants_one_line_is_quietly_obeyed(
        self, words: str, variables: dict[str, str]
    ) -> None:
        code, out, err = self.ended(words, "| head -1", **variables)
        assert (code, len(out.splitlines()), err) == (0, 1, "")


@pytest.mark.faults
class TestInstallation:
    def run(self, missing: str, *words: str, script: str = "hitherto") -> tuple[int, str]:
        """A command where a package is not installed."""
        scripts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["scripts"]
        module, _, function = scripts[script].partition(":")
        blocked = (
            "import sys\n"
            "class Block:\n"
            "    def find_spec(self, name, path=None, target=None):\n"
            f"        if name == {missing!r}:\n"
            "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
            "sys.meta_path.insert(0, Block())\n"
            f"sys.argv = {[script, *words]!r}\n"
            f"from {module} import {function} as main\n"
            "sys.exit(main())\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", blocked],
            capture_output=True,
            text=True,
            check=False,
            timeout=180,
        )
        return done.returncode, done.stderr

    def test_without_the_extra_it_says_which(self) -> None:
        for command, extra in (("health", "cli"), ("demo", "up")):
            code, err = self.run("rich", command)
            assert code == 2
            assert "needs rich: " in err
            assert f"pip install 'hitherto[{extra}]'" in err

    @pytest.mark.parametrize("service", ["retrieval", "extraction"])
    def test_so_do_the_commands_of_the_services(self, service: str) -> None:
        code, err = self.run("pydantic", script=f"hitherto-{service}")
        told = f"hitherto-{service}: this needs pydantic: pip install 'hitherto[{service}]'\n"
        assert (code, err) == (2, told)

    def test_a_module_of_ours_that_is_missing_is_no_extra(self) -> None:
        code, err = self.run("hitherto_shared.startup", script="hitherto-retrieval")
        assert code == 1
        assert "Traceback" in err
        assert "No module named 'hitherto_shared.startup'" in err


# What a table shows where the terminal is too narrow for it.


ID = "0198c0de-7a11-7000-8000-000000000001"
SAID = normalize("NFC", "Người dùng thích uống cà phê sữa đá và không ăn được hải sản 🦐.")


@pytest.mark.parametrize("width", [160, 80, 50])
def test_words_and_ids_stay_whole_at_any_usual_width(
    fakes: Fakes, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    fakes.answer(
        "ListMemories",
        {
            "memories": [
                {
                    "id": ID,
                    "type": "MEMORY_TYPE_PREFERENCE",
                    "status": "MEMORY_STATUS_SUPERSEDED",
                    "content": SAID,
                    "validFrom": "2026-08-17T00:00:00Z",
                }
            ]
        },
    )
    lines = fakes.run(0, ["memories", "ana"]).out.splitlines()
    assert all(len(line) <= width for line in lines)
    words = " ".join(lines).split()
    assert {ID, "preference", "superseded", "importance", "2026-08-17", *SAID.split()} <= set(words)
    # Not a column with a word on each line.
    assert len(lines) <= 6
